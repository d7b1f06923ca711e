//! Pauses NodeHealthChecks while nodes restart for a configuration; see [`governance::remediation`].

use std::sync::Arc;

use api::advisor::VirtPlatformConfig;
use governance::profile::KindUse;
use governance::remediation::{CHECKS, Change, POOLS, changes};
use governance::snapshot::Snapshot;
use kube::core::GroupVersionKind;
use runtime::{Cache, Error, Events, Key, Manager, Next, OptionalKinds, Queue, Reconcile};

use super::cluster::{self, NamedObjects};

/// Name of the controller, and its field manager.
const NAME: &str = "medley-remediation";

/// NodeHealthChecks, and the kinds that show whether nodes still restart.
const KINDS: [KindUse; 3] = [CHECKS, POOLS[0], POOLS[1]];

/// Starts watching NodeHealthChecks; the CRD may be installed later.
pub(super) fn follow(foreign: &OptionalKinds) {
    cluster::follow(foreign, &KINDS);
}

/// Starts the controller. It also removes pause requests that an earlier process left behind.
pub(super) fn start(manager: &Manager, configs: &Cache<VirtPlatformConfig>) {
    let queue: Queue<Key> = Queue::new();
    // One reconcile covers all checks: a rollout concerns all of them.
    let all = Key::new("", "all");
    let controller = RemediationController {
        configs: configs.clone(),
        foreign: manager.optional_kinds().clone(),
        events: crate::reasons::events(manager, super::COMPONENT),
    };
    let (enqueue, key) = (queue.clone(), all.clone());
    configs.on_change(move |_| enqueue.add(key.clone()));
    let (enqueue, key) = (queue.clone(), all.clone());
    controller.foreign.on_change(move |change| {
        let kind = change.kind();
        let mut kinds = KINDS.iter();
        if kinds.any(|uses| kind.group == uses.of.group && kind.kind == uses.of.kind) {
            enqueue.add(key.clone());
        }
    });
    // At start too: a process that died in a rollout leaves NodeHealthChecks paused, and
    // nothing else would change until a node fails.
    queue.add(all);
    manager.start(controller, &queue, 1);
}

struct RemediationController {
    configs: Cache<VirtPlatformConfig>,
    foreign: OptionalKinds,
    events: Events,
}

impl Reconcile for RemediationController {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn reconcile(&self, _all: &Key) -> Result<Next, Error> {
        let named = NamedObjects::default();
        let snapshot = cluster::gather(&self.foreign, &named, &KINDS).await?;
        let configs = self.configs.list();
        for change in changes(configs.iter().map(Arc::as_ref), &snapshot) {
            if self.write(&snapshot, &change).await? {
                self.emit_events(&change);
            }
        }
        Ok(Next::Wait)
    }
}

impl RemediationController {
    /// Writes the pause requests; returns false if the check changed since it was read.
    async fn write(&self, snapshot: &Snapshot, change: &Change) -> Result<bool, Error> {
        let Some(version) = snapshot.kind(CHECKS.of).map(|kind| &kind.version) else {
            return Ok(false);
        };
        let kind = GroupVersionKind::gvk(CHECKS.of.group, version, CHECKS.of.kind);
        let Some(writer) = self.foreign.writer(&kind, None, NAME) else {
            return Ok(false);
        };
        let key = Key::new("", &change.check);
        // The patch carries the resource version that was read: `pauseRequests` is a list that users write as well,
        // and a merge patch replaces it whole.
        match writer.merge(&key, &change.patch).await {
            Ok(_) => Ok(true),
            // The check changed or is gone; the watch event requeues it.
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Emits an event on each configuration that still exists.
    fn emit_events(&self, change: &Change) {
        let check = &change.check;
        for config in change
            .paused
            .iter()
            .filter_map(|name| self.configs.get("", name))
        {
            let message = format!(
                "NodeHealthCheck {check} is paused: nodes restart for a MachineConfig and must not be remediated"
            );
            self.events.normal(&*config, "RemediationPaused", message);
        }
        for config in change
            .resumed
            .iter()
            .filter_map(|name| self.configs.get("", name))
        {
            let message =
                format!("NodeHealthCheck {check} is no longer paused: the rollout is complete");
            self.events.normal(&*config, "RemediationResumed", message);
        }
    }
}
