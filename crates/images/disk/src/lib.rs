//! From the layers of a container disk to a raw disk: in one pass, with bounded memory, verified.
//!
//! [`import`] does it all. It reads layers through a [`Source`], extracts the only file of `/disk` as
//! it streams by, decodes it and writes it to a [`Sink`]. Files, clocks and network access are provided
//! by the caller; there is no scratch space. All input is untrusted: sizes are bounded, errors are
//! typed ([`Error`]).
//!
//! [`Folder`] reads the small files of one folder of an image into memory.
//!
//! [`extract`] passes all entries of a layer to an implementation of [`Extract`].
//!
//! Each step is a push parser that can be tested and fuzzed alone: `tar`, `overlay`, `unpack`, `qcow2`.

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
pub use image::Format;
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
