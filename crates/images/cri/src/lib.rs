//! The CRI's image service: the images of a node, by name and runtime handler.
//!
//! ```text
//! kubelet --socket--> server --> service --ours--> pull: importer chooses, oci fetches, disk unpacks
//!                                   |                |
//!                                   |              store: blobs, snapshots, images.json
//!                                   `--theirs--> backend (containerd), as it came
//! ```
//!
//! The same name pulled for two handlers gives two images. No runtime does that, although kubelets ask for
//! it (KEP-4216, after the proposal for RuntimeClasses on Windows): so a node can run images of several
//! builds of Windows, or of several architectures, side by side.
//!
//! | where | what |
//! |---|---|
//! | [`Handlers`] | which handler runs what: containerd's configuration, or a shorter one |
//! | [`Service`] | the calls |
//! | [`Listening`] | the socket |
//! | [`Backend`] | who has the handlers that are not ours, and all other services |
//! | [`api`], [`rpc`] | messages, and how they are passed on without being changed |

pub mod api;
mod backend;
mod error;
#[cfg(feature = "fuzz")]
#[expect(clippy::expect_used, reason = "that is how something is found")]
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
pub use quota::NoRoom;
pub use server::Listening;
pub use service::{Options, Service};
pub use socket::{SocketError, path_of};
pub use store::OpenError;
pub use target::{ARCHITECTURE, HANDLER, OS};
