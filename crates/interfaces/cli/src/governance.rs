//! `medley plan`, `diff`, `approve`, `reject`, `rollback`, `history`, `adopt`, `explain` and `eject`: the
//! tuning of other people's operators, from the command line.
//!
//! Everything goes through the API. Plans are made here as the operator makes them, by the same
//! engine; what is decided goes into the specification, where `kubectl` and Git could put it as well.

pub(crate) mod adopt;
pub(crate) mod approve;
pub(crate) mod configs;
pub(crate) mod diff;
pub(crate) mod eject;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod output;
pub(crate) mod plan;
mod planning;
pub(crate) mod reject;
pub(crate) mod render;
pub(crate) mod rollback;
mod selection;
mod source;
