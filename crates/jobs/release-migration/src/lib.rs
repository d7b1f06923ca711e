//! Payloads of a release, and whether a cluster has truly arrived at one.
//!
//! ```text
//! operators' folders + images --build--> files --mirror--> files --lint--> findings
//! files --payload--> Payload --evaluate--> Evaluation --conditions--> what a ClusterVersion says
//!                                 ^             `--report--> status, explain
//!                        ClusterOperators
//! images + what registries said --preflight--> whether a migration may start
//! history --history--> what each change was
//! pods --evidence--> who has arrived without saying so, and who has said so without having arrived
//! all of it, and what was said before --control--> what is said now: of a ReleasePolicy and, where nobody
//!                                                  else does, of the ClusterVersion
//! ```
//!
//! A cluster that becomes multi-arch is updated to the same version with other images. Whoever looks at
//! versions alone takes it for done at once. Operators therefore report their images beside their versions,
//! and have arrived when both are to the letter what the release wants. The rules, words and limits are
//! those of OpenShift's cluster-version operator, so that what is decided here can be compared with it.
//!
//! Nothing here reads a file, a cluster, a registry or a clock.

pub mod adoption;
pub mod alerts;
pub mod build;
pub mod conditions;
pub mod control;
pub mod dashboard;
pub mod diagnose;
pub mod eta;
pub mod evaluate;
pub mod evidence;
pub mod explain;
pub mod failure;
pub mod history;
pub mod lint;
pub mod migrate;
pub mod mirror;
pub mod payload;
pub mod preflight;
pub mod replace;
pub mod report;
pub mod roles;
pub mod target;
pub mod verify;
pub mod words;
