//! Nodes, models and VMs that a user sees, computed in steps: a changed node does not cause all VMs
//! to be parsed again, and most changes do not cause a new review.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cpu::{CpuModelPolicy, NAME};
use api::kubevirt::labels::CREATED_BY;
use api::kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec};
use cpu_models::matrix::{Matrix, matrices};
use cpu_models::running::running;
use cpu_models::{Index, NodeInputs, Review, Running, Settings, Survey};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use crate::derived::Derived;
use crate::viewer::{Shown, Unavailable, Viewer};

impl Shown for KubeVirt {}
impl Shown for CpuModelPolicy {}

impl Shown for VirtualMachineInstance {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        forget(&mut self.spec);
        if let Some(status) = &mut self.status {
            status.rest.clear();
            status.conditions.clear();
            status.active_pods.clear();
            status.migration_state = None;
        }
    }
}

impl Shown for VirtualMachine {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        self.spec.rest.clear();
        self.spec.template.rest.clear();
        self.spec.template.metadata = None;
        forget(&mut self.spec.template.spec);
        if let Some(status) = &mut self.status {
            status.rest.clear();
            status.conditions.clear();
        }
    }
}

/// Drops disks, networks and devices, which do not affect the choice of nodes.
fn forget(spec: &mut VirtualMachineInstanceSpec) {
    spec.rest.clear();
    spec.domain.rest.clear();
    if let Some(cpu) = &mut spec.domain.cpu {
        cpu.rest.clear();
    }
}

/// Nodes and CPU model settings, and VMs if KubeVirt is installed.
pub(super) struct CpuView {
    pub(super) index: Arc<Index>,
    pub(super) settings: Arc<Settings>,
    pub(super) matrices: Arc<Vec<Matrix>>,
    pub(super) machines: Result<Machines, Unavailable>,
}

/// Running VMs, and the review of each.
pub(super) struct Machines {
    pub(super) running: Arc<Vec<Running>>,
    reviews: Arc<Vec<Review>>,
}

impl Machines {
    pub(super) fn reviewed(&self) -> impl Iterator<Item = (&Running, &Review)> + Clone {
        self.running.iter().zip(&*self.reviews)
    }
}

impl CpuView {
    /// Reads everything with the user's permissions. Unreadable kinds count as empty, except nodes
    /// and VMs.
    pub(super) async fn of(viewer: &Viewer) -> Result<Self, Unavailable> {
        let (nodes, policies, kubevirts, instances, pods) = tokio::join!(
            viewer.all::<Node>(),
            viewer.all::<CpuModelPolicy>(),
            viewer.all::<KubeVirt>(),
            viewer.all::<VirtualMachineInstance>(),
            viewer.all::<Pod>(),
        );
        let Nodes(index) = viewer.derived(nodes?).await?;
        let from = (policies.unwrap_or_default(), kubevirts.unwrap_or_default());
        let CpuSettings(settings) = viewer.derived(from).await?;
        let from = (Arc::clone(&index), Arc::clone(&settings));
        let SupportMatrix(matrices) = viewer.derived(from).await?;
        let machines = match instances {
            Ok(instances) => {
                let mut pods = pods.unwrap_or_default();
                pods.retain(|it| it.labels().contains_key(CREATED_BY));
                let from = (instances, pods, Arc::clone(&settings));
                let RunningVms(running) = viewer.derived(from).await?;
                let from = (Arc::clone(&index), Arc::clone(&running), settings.clone());
                let ReviewedVms(reviews) = viewer.derived(from).await?;
                Ok(Machines { running, reviews })
            }
            Err(unavailable) => Err(unavailable),
        };
        Ok(Self {
            index,
            settings,
            matrices,
            machines,
        })
    }
}

/// The nodes.
#[derive(Clone)]
struct Nodes(Arc<Index>);

impl Derived for Nodes {
    type From = Vec<Arc<Node>>;

    fn compute(from: &Self::From, before: Option<(Self::From, Self)>) -> Self {
        let Some((known, Self(mut index))) = before else {
            let facts = from.iter().map(|it| NodeInputs::from_node(it));
            return Self(Arc::new(Index::new(facts)));
        };
        let mut known: BTreeMap<String, Arc<Node>> =
            known.into_iter().map(|it| (it.name_any(), it)).collect();
        let mut changed: Vec<NodeInputs> = Vec::new();
        for node in from {
            let old = known.remove(&node.name_any());
            if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, node)) {
                continue;
            }
            let facts = NodeInputs::from_node(node);
            // Kubelets update the node status continuously (heartbeats).
            if old.is_none_or(|old| NodeInputs::from_node(&old) != facts) {
                changed.push(facts);
            }
        }
        if changed.is_empty() && known.is_empty() {
            return Self(index);
        }
        let now = Arc::make_mut(&mut index);
        for gone in known.keys() {
            now.remove(gone);
        }
        for facts in &changed {
            now.upsert(facts);
        }
        Self(index)
    }
}

/// Settings of KubeVirt and the policy.
#[derive(Clone)]
struct CpuSettings(Arc<Settings>);

impl Derived for CpuSettings {
    type From = (Vec<Arc<CpuModelPolicy>>, Vec<Arc<KubeVirt>>);

    fn compute((policies, kubevirts): &Self::From, before: Option<(Self::From, Self)>) -> Self {
        let policy = policies.iter().find(|it| it.name_any() == NAME);
        let settings = Settings::new(policy.map(|it| &it.spec), kubevirts.first().map(|it| &**it));
        match before {
            Some((_, before)) if *before.0 == settings => before,
            _ => Self(Arc::new(settings)),
        }
    }
}

/// Which nodes support which models.
#[derive(Clone)]
struct SupportMatrix(Arc<Vec<Matrix>>);

impl Derived for SupportMatrix {
    type From = (Arc<Index>, Arc<Settings>);

    fn compute((index, settings): &Self::From, _: Option<(Self::From, Self)>) -> Self {
        Self(Arc::new(matrices(index, &settings.policy)))
    }
}

/// VMs on their nodes.
#[derive(Clone)]
struct RunningVms(Arc<Vec<Running>>);

impl Derived for RunningVms {
    type From = (
        Vec<Arc<VirtualMachineInstance>>,
        Vec<Arc<Pod>>,
        Arc<Settings>,
    );

    fn compute(
        (instances, pods, settings): &Self::From,
        before: Option<(Self::From, Self)>,
    ) -> Self {
        let instances = instances.iter().map(|it| &**it);
        let running = running(instances, pods, settings);
        match before {
            // Status conditions change far more often.
            Some((_, before)) if *before.0 == running => before,
            _ => Self(Arc::new(running)),
        }
    }
}

/// Reviews of VMs, in their order.
#[derive(Clone)]
struct ReviewedVms(Arc<Vec<Review>>);

impl Derived for ReviewedVms {
    type From = (Arc<Index>, Arc<Vec<Running>>, Arc<Settings>);

    fn compute((index, running, settings): &Self::From, _: Option<(Self::From, Self)>) -> Self {
        let mut survey = Survey::new(index, &settings.policy);
        let reviews = running.iter().map(|running| survey.review(running));
        Self(Arc::new(reviews.collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, models: &[&str], heartbeat: &str) -> Arc<Node> {
        let labels = models
            .iter()
            .map(|model| format!("cpu-model.node.kubevirt.io/{model}"));
        let labels: BTreeMap<String, &str> = labels.map(|key| (key, "true")).collect();
        let node = json!({
            "metadata": { "name": name, "labels": labels },
            "status": { "conditions": [
                { "type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat },
            ] },
        });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    #[test]
    fn node_changes_update_the_index_incrementally() {
        let first = vec![
            node("a", &["EPYC"], "2026-01-01T00:00:00Z"),
            node("b", &["EPYC"], "2026-01-01T00:00:00Z"),
        ];
        let one = Nodes::compute(&first, None);
        // Heartbeats do not replace the index, so later steps are not recomputed.
        let alive = vec![
            node("a", &["EPYC"], "2026-01-01T00:00:10Z"),
            first[1].clone(),
        ];
        let two = Nodes::compute(&alive, Some((first, one.clone())));
        assert!(Arc::ptr_eq(&one.0, &two.0));
        let others = vec![
            alive[0].clone(),
            node("c", &["EPYC", "EPYC-Rome"], "2026-01-01T00:00:10Z"),
        ];
        let three = Nodes::compute(&others, Some((alive, two)));
        let fresh = Nodes::compute(&others, None);
        assert_eq!(three.0.names(), ["a", "c"]);
        assert_eq!(three.0.models(), fresh.0.models());
        assert_eq!(one.0.names(), ["a", "b"], "what a page has stays as it is");
    }
}
