//! From DataImportCrons to imports, and from imports to what can be cloned.
//!
//! ```text
//! registry --poll--> digest for every platform --cron--> DataVolume, snapshot, DataSource, what is kept
//! DataVolume --data_volume--> whether to run an importer, phase, when to try again
//! DataSource --data_source--> what can be cloned, through at most one pointer
//! ```

pub mod admission;
pub mod cron;
pub mod data_source;
pub mod data_volume;
pub mod failure;
pub mod poll;
pub mod size;
