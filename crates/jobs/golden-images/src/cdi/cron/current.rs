//! The state of an import.

use api::cdi::DataVolume;

use super::Draft;
use crate::cdi::failure::{Failure, Reason, RetryState};
use crate::conditions;

/// The state of an import.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ImportState {
    /// No object exists.
    Missing,
    /// It is in progress; the phase of the DataVolume.
    Running(String),
    /// It fails, with its retry state.
    Failing(Failure, Option<RetryState>),
    /// The PVC is complete.
    Imported,
    /// The snapshot exists; whether it is ready to use.
    Snapshot(bool),
}

impl Draft<'_> {
    /// The state of the import with this name.
    pub(super) fn state(&self, name: &str) -> ImportState {
        // The snapshot first: once it is ready, the PVC is deleted.
        if let Some(snapshot) = self.snapshot_of(name) {
            let status = snapshot.status.as_ref();
            let ready = status.and_then(|status| status.ready_to_use) == Some(true);
            return ImportState::Snapshot(ready);
        }
        if let Some(import) = self.import_of(name) {
            return self.of_import(import);
        }
        match self.claim_of(name) {
            Some(claim) if claim.bound => ImportState::Imported,
            Some(_) => ImportState::Running("Pending".to_owned()),
            None => ImportState::Missing,
        }
    }

    fn of_import(&self, import: &DataVolume) -> ImportState {
        let status = import.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let phase = phase.filter(|phase| !phase.is_empty()).unwrap_or("Pending");
        if phase == "Succeeded" {
            return ImportState::Imported;
        }
        let trouble = RetryState::read(&import.metadata);
        let running = status.and_then(|status| conditions::get(&status.conditions, "Running"));
        let message = running
            .and_then(|it| it.message.as_deref())
            .unwrap_or_default();
        let failing = running.is_some_and(|running| {
            running.status == "False"
                && match running.reason.as_deref() {
                    // Reasons of CDI's own importer, where Medley runs beside it.
                    Some("Error" | "ImagePullFailed" | "Unschedulable" | "ChecksumError") => true,
                    Some(reason) => Reason::parse(reason).is_some(),
                    None => false,
                }
        });
        if !failing && phase != "Failed" && trouble.is_none() {
            return ImportState::Running(phase.to_owned());
        }
        let named = running
            .and_then(|it| it.reason.as_deref())
            .and_then(Reason::parse);
        let reason = named
            .or_else(|| trouble.map(|it| it.reason))
            .unwrap_or_else(|| Reason::of_message(message));
        // During a retry, the last failure is still the reason that there is no image.
        let message = if failing || phase == "Failed" {
            Some(message).filter(|message| !message.is_empty())
        } else {
            self.previous_message(reason)
        };
        let message = message.unwrap_or("import failed");
        ImportState::Failing(Failure::new(reason, message), trouble)
    }
}
