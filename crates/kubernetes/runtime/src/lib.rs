//! The controller runtime: caches, work queues, reconcilers, events, metrics and leader election.
//!
//! ```text
//! watch --> Cache --on_change--> Queue --> Reconcile --writes--> API server
//!             ^                                |                     |
//!             `-------- saw(&written) ---------'<------ watch -------'
//! ```
//!
//! A [`Manager`] owns the client, one [`Cache`] per kind and the tasks. A controller subscribes to
//! caches and adds object keys to a [`Queue`]; workers call [`Reconcile::reconcile`] for each key.
//! Before a reconcile returns, it waits until the caches have observed its own writes, so the next
//! reconcile never acts on a stale view.

pub mod access;
mod cache;
pub mod client;
mod error;
mod events;
mod key;
pub mod leader;
mod leadership;
mod manager;
pub mod metrics;
mod optional_kinds;
mod queue;
mod reconcile;
mod served;
mod write;

/// The target of spans exported as traces; spans of libraries have other targets and are not exported.
pub const TRACE_TARGET: &str = "medley::traced";

pub use cache::{Cache, Change, Index, Kind, Undecodable};
pub use error::{Absent, Error};
pub use events::Events;
pub use key::Key;
pub use leadership::{FenceError, WriteFence};
pub use manager::{COMPONENT, Manager, UNDECODABLE};
pub use optional_kinds::{Installed, OptionalKindChange, OptionalKinds, kind_of};
pub use queue::{Backoff, Queue};
pub use reconcile::{Next, Reconcile};
pub use served::{is_established, wait_until_served};
pub use write::{Writer, decode};
