//! The verbs on resources.
//!
//! Every write follows the order of kube-apiserver, because it is observable:
//!
//! ```text
//! body -> decode (field validation) -> default -> ownership -> admission -> prepare -> validate -> store
//! ```

mod apply;
mod body;
mod context;
mod create;
mod delete;
mod get;
mod list;
mod ownership;
mod patch;
mod represent;
mod scale;
mod selection;
mod update;
mod watch;

pub(crate) use body::{Content, drain, read_limited};
pub(crate) use context::Context;
pub(crate) use create::{create, create_internal};
pub(crate) use delete::{Requested, delete, delete_collection, delete_object};
pub(crate) use get::get;
pub(crate) use list::list;
pub(crate) use ownership::record_update;
pub(crate) use patch::patch;

pub(crate) use scale::scale;
pub(crate) use update::{Changed, UpdateJob, put, update_object};
pub(crate) use watch::watch;
