//! Status of an SSP and of the policy, and events.

use api::golden::GoldenImagePolicy;
use api::ssp::SSP;
use golden_images::action::Action;
use golden_images::policy;
use golden_images::ssp::{Decision, status};
use jiff::Timestamp;
use runtime::{Error, Events, Key, Manager, kind_of};

use super::gather::GatheredSsp;
use super::{COMPONENT, SspController};
use crate::images::cluster::ssp_kind;
use crate::images::layer::{LayerMode, SteppedBack, UPSTREAM_RUNS};
use crate::status::write;

/// Events of SSPs.
pub(crate) struct Report {
    events: Events,
    stepped_back: SteppedBack,
}

impl Report {
    pub(crate) fn new(manager: &Manager) -> Self {
        Self {
            events: crate::reasons::events(manager, COMPONENT),
            stepped_back: SteppedBack::default(),
        }
    }

    /// Emits an event when the genuine operator starts.
    pub(super) fn report_mode(&self, ssp: &SSP, mode: &LayerMode) {
        let key = Key::of(&ssp.metadata);
        if let Some(message) = self.stepped_back.changed(&key, mode) {
            self.events.warning(ssp, UPSTREAM_RUNS, message);
        }
    }

    /// Emits events for created and deleted objects; corrected labels and annotations are not worth one.
    pub(super) fn emit_action_events(&self, ssp: &SSP, actions: &[Action]) {
        for action in actions {
            let of = action.of();
            let named = |kind: &golden_images::action::Kind| {
                format!("{} {}/{}", kind.type_of().1, of.namespace, of.name)
            };
            match action {
                Action::Create { kind, .. } => {
                    let message = format!("created {}", named(kind));
                    self.events.normal(ssp, "Created", message);
                }
                Action::Delete { kind, why, .. } => {
                    let message = format!("deleted {}: {why}", named(kind));
                    self.events.normal(ssp, "Deleted", message);
                }
                Action::Patch { kind, patch, .. } if patch.get("spec").is_some() => {
                    let source = &patch["spec"]["source"];
                    let to = source["dataSource"]["name"].as_str();
                    let what = to.map_or_else(String::new, |to| format!(" to {to}"));
                    let message = format!("moved {}{what}", named(kind));
                    self.events.normal(ssp, "Moved", message);
                }
                Action::Patch { .. } => {}
            }
        }
    }

    /// Emits events for new problems.
    fn emit_new_problems(&self, ssp: &SSP, decided: &api::ssp::SspStatus) {
        let before = status::degraded(ssp.status.as_ref()).and_then(|it| it.message);
        let Some(wrong) = status::degraded(Some(decided)) else {
            return;
        };
        if wrong.message != before {
            let reason = wrong.reason.unwrap_or_default();
            let message = wrong.message.unwrap_or_default();
            self.events.warning(ssp, &reason, message);
        }
    }
}

impl SspController {
    /// Writes the status of an SSP if it changed, and emits events for new problems.
    pub(super) async fn report_status(&self, ssp: &SSP, decision: &Decision) -> Result<(), Error> {
        let wanted = status::status(ssp, decision, Timestamp::now());
        if ssp.status.as_ref() == Some(&wanted) {
            return Ok(());
        }
        write(
            &self.foreign,
            &ssp_kind(),
            &ssp.metadata,
            &wanted,
            COMPONENT,
        )
        .await?;
        self.report.emit_new_problems(ssp, &wanted);
        Ok(())
    }

    /// Writes the inventory into the status of the policy, if there is one.
    pub(super) async fn report_policy(
        &self,
        inputs: &GatheredSsp,
        decision: &Decision,
    ) -> Result<(), Error> {
        let Some(object) = &inputs.kept.object else {
            return Ok(());
        };
        let wanted = policy::status::status(
            object,
            &inputs.kept.complaints,
            &inputs.architectures,
            decision.images.clone(),
            &inputs.coverage(),
            Timestamp::now(),
        );
        if object.status.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let kind = kind_of::<GoldenImagePolicy>();
        write(&self.foreign, &kind, &object.metadata, &wanted, COMPONENT).await
    }
}
