//! Boot images that are present and current for every architecture of a cluster, behind one name.
//!
//! ```text
//! nodes --architectures--> which architectures there are, and the default
//!                               |
//! HyperConverged + built-in --hco--> SSP, status          what is wanted
//! SSP + what there is ------------ssp--> DataImportCrons, DataSources, pointers, templates
//! DataImportCron + registry ------cdi--> imports, and what can be cloned
//! virtual machine ----------------vm---> its architecture
//! ```
//!
//! Every layer is one `decide`: facts in, what to do and why out. Nothing here reads a cluster, a
//! registry or a clock. A decision that was carried out is followed by one that has nothing to do.

pub mod action;
pub mod alerts;
pub mod architectures;
pub mod cdi;
pub mod conditions;
pub mod dashboard;
pub mod hco;
pub mod history;
pub mod list;
pub mod names;
pub mod overview;
pub mod pins;
pub mod policy;
pub mod roles;
pub mod ssp;
pub mod vm;
pub mod words;

#[cfg(test)]
mod test_values;
