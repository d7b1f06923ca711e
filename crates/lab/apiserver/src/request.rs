//! Reading a request before anything is done: what it is about, and with which options.

mod info;
mod options;

pub(crate) use info::{RequestInfo, ResourcePath, Verb};
pub(crate) use options::{
    DeleteOptions, FieldValidation, ListOptions, Preconditions, Propagation, Query, VersionMatch,
    WriteKind, WriteOptions,
};
