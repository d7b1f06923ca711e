//! The core group.

pub(crate) mod config;
pub(crate) mod endpoints;
pub(crate) mod event;
pub(crate) mod limits;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod pod_template;
pub(crate) mod replication_controller;
pub(crate) mod service;
pub(crate) mod service_account;
#[cfg(test)]
mod tests;
pub(crate) mod volumes;

use crate::builtin::entry::Entry;

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[
    config::CONFIG_MAP,
    endpoints::ENTRY,
    event::ENTRY,
    limits::LIMIT_RANGE,
    namespace::ENTRY,
    node::ENTRY,
    volumes::CLAIM,
    volumes::VOLUME,
    pod::ENTRY,
    pod_template::ENTRY,
    replication_controller::ENTRY,
    limits::QUOTA,
    config::SECRET,
    service_account::ENTRY,
    service::ENTRY,
];
