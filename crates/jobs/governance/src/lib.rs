//! Plans changes to operators that others own, and decides what becomes of the plans.
//!
//! ```text
//! options + Snapshot --Profile--> Intents --previews--> plan (items, digest)
//!                                                        |
//! VirtPlatformConfig + Snapshot + time ---- decide ------+--> status, what to do, events, when to look again
//! ```
//!
//! Nothing here reads or writes a cluster: what there is comes as a [`Snapshot`], what a server would
//! make of an intent comes as a preview, and what is to be done goes out as data.

pub mod admission;
pub mod alerts;
pub mod answer;
pub mod approval;
pub mod conditions;
pub mod dashboard;
pub mod decide;
pub mod diff;
pub mod enforcement;
pub mod explain;
pub mod hash;
pub mod health;
pub mod intent;
pub mod ownership;
pub mod plan;
pub mod profile;
pub mod record;
pub mod recorder;
pub mod remediation;
pub mod restore;
pub mod roles;
mod rollback;
pub mod snapshot;
mod status_patch;
pub mod timeout;
pub mod values;
pub mod window;
pub mod words;

#[cfg(test)]
mod test_values;

pub use intent::{Intent, Intents};
pub use profile::{Profile, Registry};
pub use snapshot::Snapshot;
pub use status_patch::status_patch;
