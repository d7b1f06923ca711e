//! What every controller stands on.
//!
//! ```text
//! watch --> Cache --on_change--> Queue --> Reconcile --writes--> API server
//!             ^                                |                     |
//!             `-------- saw(&written) ---------'<------ watch -------'
//! ```
//!
//! A [`Manager`] owns the client, one [`Cache`] a kind and the tasks. A controller subscribes to
//! caches, puts names into a [`Queue`], and is asked about each name by a worker. Before it says that
//! it is done, it waits until the caches have seen its own writes: the next round then never acts on
//! an old picture.

pub mod access;
mod cache;
mod error;
mod events;
mod foreign;
mod key;
pub mod leader;
mod manager;
pub mod metrics;
mod queue;
mod reconcile;
mod served;
mod turn;

/// The target of spans that are worth telling to whoever gathers traces; libraries have many of their own.
pub const TRACED: &str = "medley::traced";

pub use cache::{Cache, Change, Index, Kind};
pub use error::{Absent, Error};
pub use events::Events;
pub use foreign::{Foreign, ForeignChange, Installed, kind_of};
pub use key::Key;
pub use manager::Manager;
pub use queue::Queue;
pub use reconcile::{Next, Reconcile};
pub use served::{is_established, until_served};
pub use turn::{NotOurTurn, Turn};
