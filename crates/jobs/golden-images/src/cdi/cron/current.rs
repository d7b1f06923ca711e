//! How it is with an import.

use api::cdi::DataVolume;

use super::Draft;
use crate::cdi::failure::{Failure, Reason, Trouble};
use crate::conditions;

/// How it is with an import.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// There is nothing.
    Missing,
    /// It goes on; the phase of the DataVolume.
    Running(String),
    /// It does not get on.
    Failing(Failure, Option<Trouble>),
    /// The volume is there.
    Imported,
    /// The snapshot is there; whether it can be used.
    Snapshot(bool),
}

impl Draft<'_> {
    /// How it is with the import of a name.
    pub(super) fn state(&self, name: &str) -> State {
        if let Some(snapshot) = self.snapshot_of(name) {
            let status = snapshot.status.as_ref();
            let ready = status.and_then(|status| status.ready_to_use) == Some(true);
            return State::Snapshot(ready);
        }
        if let Some(import) = self.import_of(name) {
            return self.of_import(import);
        }
        match self.claim_of(name) {
            Some(claim) if claim.bound => State::Imported,
            Some(_) => State::Running("Pending".to_owned()),
            None => State::Missing,
        }
    }

    fn of_import(&self, import: &DataVolume) -> State {
        let status = import.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let phase = phase.filter(|phase| !phase.is_empty()).unwrap_or("Pending");
        if phase == "Succeeded" {
            return State::Imported;
        }
        let trouble = Trouble::read(&import.metadata);
        let running = status.and_then(|status| conditions::get(&status.conditions, "Running"));
        let message = running
            .and_then(|it| it.message.as_deref())
            .unwrap_or_default();
        let failing = running.is_some_and(|running| {
            running.status == "False"
                && match running.reason.as_deref() {
                    Some("Error" | "ImagePullFailed" | "Unschedulable" | "ChecksumError") => true,
                    Some(reason) => Reason::parse(reason).is_some(),
                    None => false,
                }
        });
        if !failing && phase != "Failed" && trouble.is_none() {
            return State::Running(phase.to_owned());
        }
        let named = running
            .and_then(|it| it.reason.as_deref())
            .and_then(Reason::parse);
        let reason = named
            .or_else(|| trouble.map(|it| it.reason))
            .unwrap_or_else(|| Reason::of_message(message));
        // While it is tried again, what went wrong the last time is still why there is no image.
        let message = if failing || phase == "Failed" {
            Some(message).filter(|message| !message.is_empty())
        } else {
            self.said_of(reason)
        };
        let message = message.unwrap_or("the import failed");
        State::Failing(Failure::new(reason, message), trouble)
    }
}
