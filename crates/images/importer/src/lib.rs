//! Imports the raw disk of one architecture from an image in a registry, an archive or a folder, from
//! an image mounted by a node, or from a file on a web server.
//!
//! ```text
//! Source --oci--> index --platform--> manifest, config --oci--> layers --disk--> NAME.part --rename--> NAME
//! ```
//!
//! [`inspect`] and [`platforms`] list the platforms of an image, [`seek`] finds the one a node pulls,
//! [`import`] writes its disk, and [`folder`] reads the files of one of its folders. `oci` fetches,
//! `platform` chooses, `disk` decodes; this crate connects them and owns the files. The target name
//! never refers to a partial disk: an unfinished one is `NAME.part`, and `NAME.part.json` holds the
//! checkpoint to resume it from.

mod choose;
mod error;
mod folder;
mod import;
mod inspect;
mod knowledge;
mod mounted;
mod pipeline;
mod target;
#[cfg(test)]
mod tests;
mod web;

pub use choose::{Chosen, SearchResult, choose, choose_by, seek};
pub use disk::Progress;
pub use error::{Error, Reason};
pub use folder::folder;
pub use import::{Imported, Request, Unfinished, Watch, import};
pub use inspect::{Details, Entry, Inspection, inspect, platforms, platforms_within};
pub use knowledge::knowledge;
pub use mounted::Mounted;
pub use pipeline::{boots_on, own_architecture, told, usual_architecture};
pub use web::{Found, WebOptions, look};
