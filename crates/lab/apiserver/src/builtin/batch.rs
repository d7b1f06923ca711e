//! The `batch` group (rules: `pkg/apis/batch/validation`).

pub(crate) mod cron_job;
pub(crate) mod job;
#[cfg(test)]
mod tests;

use crate::builtin::entry::Entry;

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[cron_job::ENTRY, job::ENTRY];
