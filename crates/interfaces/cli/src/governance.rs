//! `medley plan`, `diff`, `approve`, `reject`, `rollback`, `history`, `adopt`, `explain` and
//! `eject`: governance of third-party operators from the command line.
//!
//! Everything goes through the API. Plans are computed here by the operator's engine; decisions are
//! written to the spec, where `kubectl` and Git can write them as well.

pub(crate) mod adopt;
pub(crate) mod approve;
pub(crate) mod audit;
pub(crate) mod configs;
pub(crate) mod diff;
pub(crate) mod eject;
pub(crate) mod explain;
pub(crate) mod history;
mod markdown;
pub(crate) mod plan;
mod planning;
pub(crate) mod reject;
pub(crate) mod render;
pub(crate) mod rollback;
mod selection;
mod source;
