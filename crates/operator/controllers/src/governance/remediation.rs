//! Has NodeHealthChecks pause while nodes restart for a configuration; see [`governance::remediation`].

use std::sync::Arc;

use api::advisor::{TargetRef, VirtPlatformConfig};
use governance::remediation::{CHECKS, Change, changes};
use governance::snapshot::Snapshot;
use kube::Client;
use kube::api::{Patch, PatchParams};
use runtime::{Cache, Error, Events, Foreign, Key, Manager, Next, Queue, Reconcile};

use super::cluster::{self, Written};

/// What the controller is called, and in whose name it writes.
const NAME: &str = "medley-remediation";

/// Declares interest in the kind: it may be installed later.
pub(super) fn follow(foreign: &Foreign) {
    cluster::follow(foreign, &[CHECKS]);
}

/// Starts to look after the requests: also those that were left when the operator was stopped.
pub(super) fn start(manager: &Manager, configs: &Cache<VirtPlatformConfig>) {
    let queue: Queue<Key> = Queue::new();
    // All checks are looked at together.
    let all = Key::new("", "all");
    let controller = Remediation {
        client: manager.client(),
        configs: configs.clone(),
        foreign: manager.foreign().clone(),
        events: crate::words::events(manager, super::COMPONENT),
    };
    let (told, key) = (queue.clone(), all.clone());
    configs.on_change(move |_| told.add(key.clone()));
    let (told, key) = (queue.clone(), all.clone());
    controller.foreign.on_change(move |change| {
        let kind = change.kind();
        if kind.group == CHECKS.of.group && kind.kind == CHECKS.of.kind {
            told.add(key.clone());
        }
    });
    queue.add(all);
    manager.start(controller, &queue, 1);
}

struct Remediation {
    client: Client,
    configs: Cache<VirtPlatformConfig>,
    foreign: Foreign,
    events: Events,
}

impl Reconcile for Remediation {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn reconcile(&self, _all: &Key) -> Result<Next, Error> {
        let snapshot = cluster::gather(&self.foreign, &[CHECKS]).await?;
        let configs = self.configs.list();
        let checks = snapshot.list(CHECKS.of).map(Arc::as_ref);
        for change in changes(configs.iter().map(Arc::as_ref), checks) {
            if self.write(&snapshot, &change).await? {
                self.tell(&change);
            }
        }
        Ok(Next::Wait)
    }
}

impl Remediation {
    /// Writes the requests; whether the check is still the one that was read.
    async fn write(&self, snapshot: &Snapshot, change: &Change) -> Result<bool, Error> {
        let Some(version) = snapshot.kind(CHECKS.of).map(|kind| &kind.version) else {
            return Ok(false);
        };
        let target = TargetRef {
            api_version: format!("{}/{version}", CHECKS.of.group),
            kind: CHECKS.of.kind.to_owned(),
            name: change.check.clone(),
            namespace: None,
        };
        let (api, kind) = cluster::target(&self.client, snapshot, &target)?;
        let params = PatchParams {
            field_manager: Some(NAME.to_owned()),
            ..PatchParams::default()
        };
        match api
            .patch(&change.check, &params, &Patch::Merge(&change.patch))
            .await
        {
            Ok(object) => {
                let meta = object.metadata.clone();
                let object = Some(object);
                cluster::saw(&self.foreign, &Written { kind, meta, object }).await;
                Ok(true)
            }
            // It has changed or is gone: that is told, and looked at then.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(Error::api(format!(
                "writing spec.pauseRequests of {target}"
            ))(error)),
        }
    }

    /// Tells at the configurations that are still there.
    fn tell(&self, change: &Change) {
        let check = &change.check;
        for config in change
            .paused
            .iter()
            .filter_map(|name| self.configs.get("", name))
        {
            let message = format!(
                "NodeHealthCheck {check} is paused: nodes restart for a MachineConfig, and are not remediated for it"
            );
            self.events.normal(&*config, "RemediationPaused", message);
        }
        for config in change
            .resumed
            .iter()
            .filter_map(|name| self.configs.get("", name))
        {
            let message = format!(
                "NodeHealthCheck {check} is not paused by us any more: the rollout is over"
            );
            self.events.normal(&*config, "RemediationResumed", message);
        }
    }
}
