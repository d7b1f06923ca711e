//! From the layers of a container disk to a raw disk.

mod canvas;
mod content;
mod digest;
mod error;
mod qcow2;
mod sink;

pub use content::ContentHash;
pub use error::Error;
pub use qcow2::{Compression, Header, Qcow2Error};
pub use sink::{FileSink, MemorySink, Sink};
