//! Golden images: boot images that are present and current for every architecture of the cluster,
//! behind one name.
//!
//! ```text
//! nodes, HyperConverged --hco--> SSP                          what is wanted
//! SSP -------------------ssp--> DataImportCron, DataSource    one for every architecture, and pointers
//! DataImportCron --------cdi--> DataVolume, DataSource        polls, imports, what is kept
//!   DataVolume ----------cdi--> claim, importer               a disk
//!   DataSource ----------cdi--> status.source                 what can be cloned
//! VirtualMachine ---------vm--> its architecture
//! ```
//!
//! Every layer is a [`Job`](crate::Job) of its own, so that it can stand beside the upstream operators
//! that do the others: a layer reads what is above it and writes what is below it, whoever made it.
//! What it decides is in the crate `golden`; here it is gathered, carried out and told.

pub mod actions;
mod agenda;
pub mod cdi;
mod cluster;
pub mod hco;
pub mod ssp;
pub mod vm;
