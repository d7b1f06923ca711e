//! The CDI kinds: from DataImportCrons to imports, and from imports to cloneable sources.
//!
//! ```text
//! registry, web server --poll--> digest per platform
//!   --cron--> DataVolume, snapshot, DataSource, garbage collection
//! DataVolume --data_volume--> importer to run, phase, time of the next try
//!   --origin--> source to fetch  --claim--> PVC  --pod--> importer pod  --outcome--> its report
//!   --life_cycle--> what CDI reads on the PVC, so that either can resume the work of the other
//!   --copy--> PVC cloned from what a DataSource refers to
//! DataSource --data_source--> cloneable source, through at most one pointer
//! ```

pub mod access;
pub mod admission;
pub mod claim;
pub mod clone;
pub mod cron;
pub mod data_source;
pub mod data_volume;
pub mod failure;
pub mod life_cycle;
pub mod origin;
pub mod outcome;
pub mod pod;
pub mod poll;
pub mod poller;
pub mod proxy;
pub mod roles;
pub mod size;
pub mod triage;
