//! Parsing of a request: its target and options.

mod info;
mod options;

pub(crate) use info::{RequestInfo, ResourcePath, Verb};
pub(crate) use options::{
    DeleteOptions, FieldValidation, ListOptions, Preconditions, Propagation, Query, VersionMatch,
    WriteKind, WriteOptions,
};
