//! From the layers of a container disk to a raw disk: in one pass, in bounded memory, verified.
//!
//! [`import`] is the whole way. It reads layers through a [`Source`], takes the one file of `/disk` as it
//! streams by, decodes it and writes it to a [`Sink`]. Nothing is opened, asked for the time or
//! waited for that the caller did not give; there is no scratch space. Everything that comes from
//! outside may be hostile: sizes are bounded, errors are types ([`Error`]).
//!
//! [`Folder`] is for what is small: the files of one folder of an image, in memory.
//!
//! [`extract`] is for all files of a layer: it hands entries to whoever makes files of them.
//!
//! Each step is a part that is fed bytes and can be tested and fuzzed alone: `tar`, `overlay`, `unpack`, `qcow2`.

mod canvas;
mod content;
mod error;
mod folder;
#[cfg(feature = "fuzz")]
#[expect(
    clippy::expect_used,
    clippy::panic,
    reason = "that is how something is found"
)]
pub mod fuzz;
mod image;
mod import;
mod overlay;
mod progress;
mod qcow2;
mod sink;
mod sniff;
mod tar;
mod unpack;

pub use content::ContentHash;
pub use error::Error;
pub use folder::{Folder, FolderLimits};
pub use image::{Format, check_size};
pub use import::{
    Checkpoint, Contents, Extract, Imported, Layer, Options, Source, Watch, extract, import,
};
pub use overlay::{OPAQUE, OverlayError, WHITEOUT, components};
pub use progress::Progress;
pub use qcow2::{Compression, Header, Qcow2Error};
pub use sink::{FileSink, MemorySink, Sink};
pub use sniff::{Finding, Sniffed, Weight, sniff};
pub use tar::{Attributes, Entry, Kind, TarError};
pub use unpack::{Limits, Packing, UnpackError};
