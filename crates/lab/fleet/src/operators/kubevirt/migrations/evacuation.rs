//! Evacuation of nodes that are being drained.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use runtime::{Error, Index, Key, Manager, Next, Queue, Reconcile};
use serde_json::json;

use crate::names::{annotation, name_of, namespace_of};
use crate::operators::kubevirt::context::Context;
use crate::operators::kubevirt::labels::EVACUATION;
use crate::operators::kubevirt::object::{is_final, is_leaving, phase, text};

/// First delay after a failed evacuation; it doubles with each further failure.
// As `handleMigrationBackoff` in KubeVirt's `pkg/virt-controller/watch/migration/migration.go`:
// without it a guest that cannot move would create migrations for as long as its node is drained.
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
    let by_node = context.instances.cache.index(|instance| {
        let node = text(instance, "/status/nodeName");
        vec![node.to_owned()]
    });
    queue.enqueue_objects(&context.instances.cache);
    queue.enqueue_mapped(&context.nodes, move |change| {
        let taints = |node: &Arc<Node>| node.spec.as_ref().and_then(|spec| spec.taints.clone());
        let tainted = |node: &&Arc<Node>| change.old.as_ref().and_then(taints) != taints(node);
        let node = change.new.as_ref().filter(tainted);
        let there = node.map(|node| by_node.find(name_of(&node.metadata)));
        super::keys(&there.unwrap_or_default())
    });
    queue.enqueue_mapped(&context.migrations.cache, |change| {
        let migration = change.object()?;
        let namespace = namespace_of(&migration.metadata);
        Some(Key::new(namespace, text(migration, "/spec/vmiName")))
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
        let Some(instance) = context.instances.cache.find(key) else {
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
            "apiVersion": context.migrations.kind.api_version,
            "kind": context.migrations.kind.kind,
            "metadata": {
                "generateName": "kubevirt-evacuation-",
                "namespace": key.namespace,
                "annotations": { EVACUATION: name },
            },
            "spec": { "vmiName": key.name },
        }))
        .map_err(|error| Error::Invalid(format!("evacuate instance {key}: {error}")))?;
        context.migrations.writer.create(&migration).await?;
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
        .filter(|migration| annotation(&migration.metadata, EVACUATION).is_some())
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
