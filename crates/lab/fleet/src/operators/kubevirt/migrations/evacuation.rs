//! Evacuation of nodes that are being drained.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, PostParams};
use runtime::{Error, Index, Key, Manager, Next, Queue, Reconcile};
use serde_json::json;

use crate::operators::kubevirt::context::Context;
use crate::operators::kubevirt::labels::EVACUATION;
use crate::operators::kubevirt::object::{is_final, is_leaving, phase, text};

/// First delay after a failed evacuation; it doubles with each further failure.
const BACKOFF: Duration = Duration::from_secs(20);
/// Maximum number of doublings.
const MAX_DOUBLINGS: usize = 6;

struct Evacuation {
    context: Context,
    by_instance: Index<DynamicObject>,
}

/// Starts the evacuation controller.
pub(super) fn start(manager: &Manager, context: &Context, by_instance: &Index<DynamicObject>) {
    let queue: Queue<Key> = Queue::new();
    let by_node = context.instances.index(|instance| {
        let node = text(instance, "/status/nodeName");
        vec![node.to_owned()]
    });
    let to = queue.clone();
    context.instances.on_change(move |change| {
        if let Some(instance) = &change.new {
            to.add(Key::of(&instance.metadata));
        }
    });
    let to = queue.clone();
    context.nodes.on_change(move |change| {
        let taints = |node: &Arc<Node>| node.spec.as_ref().and_then(|spec| spec.taints.clone());
        let Some(node) = &change.new else {
            return;
        };
        if change.old.as_ref().and_then(taints) != taints(node) {
            for instance in by_node.find(node.metadata.name.as_deref().unwrap_or_default()) {
                to.add(Key::of(&instance.metadata));
            }
        }
    });
    let to = queue.clone();
    context.migrations.on_change(move |change| {
        if let Some(migration) = change.object() {
            let namespace = migration.metadata.namespace.as_deref();
            let of = text(migration, "/spec/vmiName");
            to.add(Key::new(namespace.unwrap_or_default(), of));
        }
    });
    let evacuation = Evacuation {
        context: context.clone(),
        by_instance: by_instance.clone(),
    };
    manager.start(evacuation, &queue, 1);
}

impl Reconcile for Evacuation {
    fn name(&self) -> &'static str {
        "virt-controller-evacuation"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let context = &self.context;
        let Some(instance) = context.instances.find(key) else {
            return Ok(Next::Wait);
        };
        let name = text(&instance, "/status/nodeName");
        let node = context.nodes.get("", name);
        let config = context.config();
        if !is_to_leave(&instance, node.as_deref(), config.drain_taint()) {
            return Ok(Next::Wait);
        }
        let migrations = self.by_instance.find(&key.to_string());
        if migrations.iter().any(|migration| !is_final(migration)) {
            return Ok(Next::Wait);
        }
        if let Some((last, wait)) = failures(&migrations) {
            let what = format!("evacuation after {last}");
            if let Some(left) = context.pace.left(&what, wait) {
                return Ok(Next::After(left));
            }
        }
        let migration = serde_json::from_value(json!({
            "apiVersion": context.migration_kind.api_version,
            "kind": context.migration_kind.kind,
            "metadata": {
                "generateName": "kubevirt-evacuation-",
                "annotations": { EVACUATION: name },
            },
            "spec": { "vmiName": key.name },
        }))
        .map_err(|error| Error::Invalid(format!("evacuate instance {key}: {error}")))?;
        let made = context
            .api(&context.migration_kind, &key.namespace)
            .create(&PostParams::default(), &migration)
            .await
            .map_err(Error::api(format!("evacuate instance {key}")))?;
        context.migrations.saw(&made).await;
        Ok(Next::Wait)
    }
}

/// Whether an instance has to leave its node: the node has the drain taint, or an eviction was
/// requested.
fn is_to_leave(instance: &DynamicObject, node: Option<&Node>, taint: &str) -> bool {
    let moves = matches!(
        text(instance, "/spec/evictionStrategy"),
        "LiveMigrate" | "LiveMigrateIfPossible"
    );
    let taints = node.and_then(|node| node.spec.as_ref()?.taints.as_deref());
    let mut taints = taints.unwrap_or_default().iter();
    let drained = taints.any(|one| one.key == taint && one.effect == "NoSchedule");
    let asked = text(instance, "/status/evacuationNodeName");
    let asked = !asked.is_empty() && asked == text(instance, "/status/nodeName");
    moves && phase(instance) == "Running" && !is_leaving(instance) && (drained || asked)
}

/// The last of the consecutive failed evacuations, and the delay after it.
fn failures(migrations: &[Arc<DynamicObject>]) -> Option<(String, Duration)> {
    let mut evacuations: Vec<&Arc<DynamicObject>> = migrations
        .iter()
        .filter(|migration| {
            let annotations = migration.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(EVACUATION))
        })
        .collect();
    evacuations.sort_by_key(|it| it.metadata.creation_timestamp.as_ref().map(|at| at.0));
    let row = evacuations.iter().rev();
    let row: Vec<_> = row.take_while(|it| phase(it) == "Failed").collect();
    let last = row.first()?.metadata.uid.clone()?;
    let doublings = u32::try_from((row.len() - 1).min(MAX_DOUBLINGS)).unwrap_or_default();
    Some((last, BACKOFF * 2_u32.pow(doublings)))
}

#[cfg(test)]
mod tests;
