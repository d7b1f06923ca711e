//! From the layers of a container disk to a raw disk.

mod canvas;
mod content;
mod digest;
mod error;
mod overlay;
mod qcow2;
mod sink;
mod tar;
mod unpack;

pub use content::ContentHash;
pub use error::Error;
pub use overlay::OverlayError;
pub use qcow2::{Compression, Header, Qcow2Error};
pub use sink::{FileSink, MemorySink, Sink};
pub use tar::TarError;
pub use unpack::{Limits, Packing, UnpackError};
