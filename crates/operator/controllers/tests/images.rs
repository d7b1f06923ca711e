//! The import layer of golden images, on an API server with simulated storage, against registries and web servers that
//! work or misbehave: which disks result, and which statuses and events.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

#[path = "images/addresses.rs"]
mod addresses;
#[path = "images/copies.rs"]
mod copies;
#[path = "images/faults.rs"]
mod faults;
#[path = "images/files.rs"]
mod files;
#[path = "common/genuine.rs"]
mod genuine;
#[path = "images/imports.rs"]
mod imports;
#[path = "common/jobs.rs"]
mod jobs;
#[path = "images/library.rs"]
mod library;
#[path = "images/nodes.rs"]
mod nodes;
#[path = "common/ours.rs"]
mod ours;
#[path = "images/ownership.rs"]
mod ownership;
#[path = "images/pipeline.rs"]
mod pipeline;
#[path = "images/pods.rs"]
mod pods;
#[path = "images/sources.rs"]
mod sources;
#[path = "images/stage.rs"]
mod stage;
#[path = "images/transfers.rs"]
mod transfers;
#[path = "images/verification.rs"]
mod verification;
#[path = "images/web.rs"]
mod web;
