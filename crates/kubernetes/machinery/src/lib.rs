//! Kubernetes API semantics as pure functions.
//!
//! Nothing in this crate reads a clock, a file, a socket or a random source: time, randomness and
//! settings are arguments. The embedded API server is a thin layer around it, and so is every
//! controller.
//!
//! ```text
//! bytes --json--> Value --schema--> pruned, defaulted, validated --cel--> rules hold
//!                   |                                                        |
//!                   +--patch (json, merge, strategic) / apply (managed) -----+--> stored object
//! ```

pub mod apply;
pub mod cel;
pub mod cron;
pub mod field;
pub mod gvk;
pub mod json;
pub mod jsonpath;
pub mod meta;
pub mod names;
pub mod node_affinity;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
pub mod time;
