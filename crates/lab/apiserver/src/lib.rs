//! An embedded API server that behaves like kube-apiserver on the wire.
//!
//! ```text
//! socket (serve) --> ApiServer --> authenticate --> authorize --> dispatch
//!                                                                   |-- health, discovery, openapi
//!                                                                   |-- virtual kinds (reviews, tokens, bindings)
//!                                                                   `-- rest (create, get, list, watch, ...)
//!                                                                         |       |
//!                                                      Strategy (built-in | custom)   store
//! ```
//!
//! It has no dependency on its users: no controllers, no nodes.

pub mod auth;
pub mod kubeconfig;
pub mod pki;
pub mod serve;
pub mod store;

mod admission;
mod allocate;
mod bootstrap;
mod builtin;
mod custom;
mod discovery;
mod dispatch;
mod errors;
mod expiry;
mod health;
mod kind;
mod negotiate;
mod openapi;
mod private;
mod registry;
mod request;
mod resource;
mod respond;
mod rest;
mod restore;
mod server;
mod start;
mod subresources;
mod types;
mod virtual_kinds;

pub use health::GIT_VERSION;
pub use restore::RestoreError;
pub use server::{ApiServer, State};
pub use start::{Options, StartError};
