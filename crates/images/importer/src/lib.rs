//! From an image in a registry, an archive or a folder, one that a node has mounted, or a file on a web
//! server, to a raw disk of one architecture.
//!
//! ```text
//! Source --oci--> index --platform--> manifest, config --oci--> layers --disk--> NAME.part --rename--> NAME
//! ```
//!
//! [`inspect`] and [`platforms`] tell what an image is there for, [`seek`] which one a node pulls, [`import`] writes its disk, and [`folder`]
//! reads the files of a folder in it. `oci` fetches, `platform` chooses, `disk` decodes; this is where
//! they meet, and where files are. Under the name that was asked for
//! there is never half a disk: what is not finished is `NAME.part`, and beside it `NAME.part.json`
//! knows where to go on.

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

pub use choose::{Chosen, Sought, choose, choose_by, seek};
pub use disk::Progress;
pub use error::{Error, Reason};
pub use folder::folder;
pub use import::{Imported, Request, Unfinished, Watch, import};
pub use inspect::{Details, Entry, Inspection, inspect, platforms, platforms_within};
pub use knowledge::knowledge;
pub use mounted::Mounted;
pub use pipeline::{boots_on, own_architecture, told, usual_architecture};
pub use web::{Found, WebOptions, look};
