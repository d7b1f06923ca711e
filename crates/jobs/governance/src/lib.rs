//! Plans changes to the configuration of other operators, and decides about their execution.
//!
//! ```text
//! options + Snapshot --Profile--> Intents --previews--> plan (items, digest)
//!                                                        |
//! VirtPlatformConfig + Snapshot + time ---- decide ------+--> status, next step, events, requeue time
//! ```
//!
//! Nothing here reads or writes a cluster: the live objects come as a [`Snapshot`], dry-run results come as a
//! [`plan::Preview`], and steps are returned as data.

pub mod admission;
pub mod advertised;
pub mod alerts;
pub mod approval;
pub mod audit;
pub mod collisions;
pub mod conditions;
pub mod dashboard;
pub mod decide;
pub mod deviation;
pub mod diff;
pub mod enforcement;
pub mod exchange;
pub mod explain;
pub mod hash;
pub mod health;
pub mod in_flight;
pub mod intent;
pub mod mutators;
pub mod notifications;
pub mod ownership;
pub mod plan;
pub mod profile;
pub mod prototype;
pub mod reasons;
pub mod record;
pub mod recorder;
pub mod remediation;
mod restore;
pub mod retry;
pub mod roles;
mod rollback;
pub mod served;
pub mod snapshot;
mod status_patch;
pub mod timeout;
pub mod user_patches;
pub mod values;
pub mod window;

#[cfg(test)]
mod test_values;

pub use intent::{Intent, Intents};
pub use profile::{Profile, Registry};
pub use snapshot::Snapshot;
pub use status_patch::status_patch;
