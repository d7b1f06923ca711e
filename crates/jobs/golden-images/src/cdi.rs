//! From DataImportCrons to imports, and from imports to what can be cloned.
//!
//! ```text
//! registry, web server --poll--> digest for every platform --cron--> DataVolume, snapshot, DataSource, what is kept
//! DataVolume --data_volume--> whether to run an importer, phase, when to try again
//!   --origin--> what to fetch  --claim--> its volume  --pod--> its importer, and the --outcome--> that it leaves behind
//!   --copy--> a volume that is a copy of what a DataSource stands for
//! DataSource --data_source--> what can be cloned, through at most one pointer
//! ```

pub mod access;
pub mod admission;
pub mod claim;
pub mod copy;
pub mod cron;
pub mod data_source;
pub mod data_volume;
pub mod failure;
pub mod origin;
pub mod outcome;
pub mod pod;
pub mod poll;
pub mod poller;
pub mod roles;
pub mod size;
