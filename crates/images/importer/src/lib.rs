//! Imports the raw disk of one architecture from an image in a registry, an archive or a folder, from
//! an image mounted by a node, or from a file on a web server.
//!
//! ```text
//! Source --oci--> manifest, config --oci--> layers --disk--> NAME.part --rename--> NAME
//! ```
//!
//! [`import`] writes the disk of an image, and [`folder`] reads the files of one of its folders. `oci`
//! resolves and fetches, `disk` decodes; this crate connects them and owns the files. The target name
//! never refers to a partial disk: an unfinished one is `NAME.part`, and `NAME.part.json` holds the
//! checkpoint to resume it from.

mod error;
mod folder;
mod import;
mod mounted;
mod pipeline;
mod target;
#[cfg(test)]
mod tests;
pub mod verify;
mod web;

pub use disk::Progress;
pub use error::{Error, Reason};
pub use folder::folder;
pub use import::{Imported, Request, Unfinished, Watch, import};
pub use mounted::Mounted;
pub use pipeline::{boots_on, volume_labels};
pub use web::{Found, WebOptions, look};
