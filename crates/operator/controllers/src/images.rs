//! Golden images: boot images that are present and current for every architecture of the cluster,
//! behind one name.
//!
//! ```text
//! nodes, HyperConverged --hco--> SSP                          desired images
//! SSP -------------------ssp--> DataImportCron, DataSource    one per architecture, and pointers
//! DataImportCron --------cdi--> DataVolume, DataSource        polls, imports, garbage collection
//!   DataVolume ----------cdi--> claim, importer               a disk
//!   DataSource ----------cdi--> status.source                 the volume or snapshot to clone
//! VirtualMachine ---------vm--> its architecture
//! ```
//!
//! Every layer is a [`Job`](crate::Job) of its own, so that it can run beside upstream operators for the other layers:
//! a layer reads the objects above it and writes those below it, whichever operator created them. Decisions are in the
//! crate `golden_images`; these modules gather the inputs, apply the decisions and report.

pub mod actions;
pub mod cdi;
mod cluster;
pub mod hco;
mod layer;
mod layer_queue;
pub mod ssp;
pub mod vm;
