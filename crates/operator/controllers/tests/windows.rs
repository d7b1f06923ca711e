//! Windows and RuntimeClasses end to end: an API server, a simulated fleet with two Windows builds and two Linux
//! architectures, its registry, and our controller with the RBAC that is shipped and no more.
//!
//! These are stories 1 to 3 of the proposal "RuntimeClass Support for Windows".

#[path = "common/jobs.rs"]
mod jobs;
#[path = "common/ours.rs"]
mod ours;
#[path = "windows/stage.rs"]
mod stage;

#[path = "windows/classes.rs"]
mod classes;
#[path = "windows/pulls.rs"]
mod pulls;
#[path = "windows/stories.rs"]
mod stories;
