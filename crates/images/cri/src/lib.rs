//! The CRI image service: the images of a node, by name and runtime handler.
//!
//! ```text
//! kubelet --socket--> server --> service --ours--> pull: importer chooses, oci fetches, disk unpacks
//!                                   |                |
//!                                   |              store: blobs, snapshots, images.json
//!                                   `--others--> backend (containerd), unchanged
//! ```
//!
//! The same name pulled for two handlers gives two images. No runtime does that, although the kubelet
//! requests it (KEP-4216, RuntimeClass in the image pull API): with it, a node can run images of
//! several Windows builds or of several architectures side by side.
//!
//! | where | what |
//! |---|---|
//! | [`Handlers`] | the platform of each handler: containerd's configuration, or a shorter one |
//! | [`Service`] | the calls |
//! | [`Listening`] | the socket |
//! | [`Backend`] | the runtime that serves all other handlers and services |
//! | [`api`], [`rpc`] | messages, and how they are forwarded unchanged |

pub mod api;
mod backend;
mod error;
#[cfg(feature = "fuzz")]
#[expect(
    clippy::expect_used,
    reason = "a panic is how the fuzzer reports a finding"
)]
pub mod fuzz;
mod handlers;
mod pull;
mod quota;
mod records;
pub mod rpc;
mod server;
mod service;
mod snapshot;
mod socket;
mod store;
mod target;

pub use backend::Backend;
pub use error::Error;
pub use handlers::{ConfigError, Handler, Handlers};
pub use quota::QuotaExceeded;
pub use server::Listening;
pub use service::{Options, Service};
pub use socket::{SocketError, path_of};
pub use store::OpenError;
pub use target::{ARCHITECTURE, HANDLER, OS};
