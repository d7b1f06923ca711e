//! What a user sees of nodes, models and machines, worked out in steps: a node that changes does not have all
//! machines read again, and none of what most changes are about has anything reviewed again.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cpu::{CpuModelPolicy, NAME};
use api::kubevirt::labels::CREATED_BY;
use api::kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec};
use cpu_models::matrix::{Matrix, matrices};
use cpu_models::running::running;
use cpu_models::{Index, NodeFacts, Review, Running, Settings, Survey};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use crate::viewer::{Shown, Unseen, Viewer};
use crate::worked::Worked;

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

/// Disks, networks and devices: nothing that tells where a machine runs.
fn forget(spec: &mut VirtualMachineInstanceSpec) {
    spec.rest.clear();
    spec.domain.rest.clear();
    if let Some(cpu) = &mut spec.domain.cpu {
        cpu.rest.clear();
    }
}

/// Nodes and what counts for them, and machines if there are any.
pub(super) struct World {
    pub(super) index: Arc<Index>,
    pub(super) settings: Arc<Settings>,
    pub(super) matrices: Arc<Vec<Matrix>>,
    pub(super) machines: Result<Machines, Unseen>,
}

/// Machines that run, and how each fares.
pub(super) struct Machines {
    pub(super) running: Arc<Vec<Running>>,
    reviews: Arc<Vec<Review>>,
}

impl Machines {
    pub(super) fn reviewed(&self) -> impl Iterator<Item = (&Running, &Review)> + Clone {
        self.running.iter().zip(&*self.reviews)
    }
}

impl World {
    /// What a user sees of it. What they may not see is as if it were not there, but nodes and machines.
    pub(super) async fn of(viewer: &Viewer) -> Result<Self, Unseen> {
        let (nodes, policies, kubevirts, instances, pods) = tokio::join!(
            viewer.all::<Node>(),
            viewer.all::<CpuModelPolicy>(),
            viewer.all::<KubeVirt>(),
            viewer.all::<VirtualMachineInstance>(),
            viewer.all::<Pod>(),
        );
        let Nodes(index) = viewer.worked(nodes?).await?;
        let from = (policies.unwrap_or_default(), kubevirts.unwrap_or_default());
        let Said(settings) = viewer.worked(from).await?;
        let from = (Arc::clone(&index), Arc::clone(&settings));
        let Drawn(matrices) = viewer.worked(from).await?;
        let machines = match instances {
            Ok(instances) => {
                let mut pods = pods.unwrap_or_default();
                pods.retain(|it| it.labels().contains_key(CREATED_BY));
                let from = (instances, pods, Arc::clone(&settings));
                let Placed(running) = viewer.worked(from).await?;
                let from = (Arc::clone(&index), Arc::clone(&running), settings.clone());
                let Reviewed(reviews) = viewer.worked(from).await?;
                Ok(Machines { running, reviews })
            }
            Err(unseen) => Err(unseen),
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

impl Worked for Nodes {
    type From = Vec<Arc<Node>>;

    fn work(from: &Self::From, before: Option<(Self::From, Self)>) -> Self {
        let Some((known, Self(mut index))) = before else {
            let facts = from.iter().map(|it| NodeFacts::from_node(it));
            return Self(Arc::new(Index::new(facts)));
        };
        let mut known: BTreeMap<String, Arc<Node>> =
            known.into_iter().map(|it| (it.name_any(), it)).collect();
        let mut changed: Vec<NodeFacts> = Vec::new();
        for node in from {
            let old = known.remove(&node.name_any());
            if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, node)) {
                continue;
            }
            let facts = NodeFacts::from_node(node);
            // Nodes tell all the time that they are alive.
            if old.is_none_or(|old| NodeFacts::from_node(&old) != facts) {
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

/// What KubeVirt and the policy say.
#[derive(Clone)]
struct Said(Arc<Settings>);

impl Worked for Said {
    type From = (Vec<Arc<CpuModelPolicy>>, Vec<Arc<KubeVirt>>);

    fn work((policies, kubevirts): &Self::From, before: Option<(Self::From, Self)>) -> Self {
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
struct Drawn(Arc<Vec<Matrix>>);

impl Worked for Drawn {
    type From = (Arc<Index>, Arc<Settings>);

    fn work((index, settings): &Self::From, _: Option<(Self::From, Self)>) -> Self {
        Self(Arc::new(matrices(index, &settings.policy)))
    }
}

/// Machines on their nodes.
#[derive(Clone)]
struct Placed(Arc<Vec<Running>>);

impl Worked for Placed {
    type From = (
        Vec<Arc<VirtualMachineInstance>>,
        Vec<Arc<Pod>>,
        Arc<Settings>,
    );

    fn work((instances, pods, settings): &Self::From, before: Option<(Self::From, Self)>) -> Self {
        let instances = instances.iter().map(|it| &**it);
        let running = running(instances, pods, settings);
        match before {
            // Conditions and the like change far more often.
            Some((_, before)) if *before.0 == running => before,
            _ => Self(Arc::new(running)),
        }
    }
}

/// How machines fare, in their order.
#[derive(Clone)]
struct Reviewed(Arc<Vec<Review>>);

impl Worked for Reviewed {
    type From = (Arc<Index>, Arc<Vec<Running>>, Arc<Settings>);

    fn work((index, running, settings): &Self::From, _: Option<(Self::From, Self)>) -> Self {
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
    fn nodes_that_come_change_and_go_are_followed_one_by_one() {
        let first = vec![
            node("a", &["EPYC"], "2026-01-01T00:00:00Z"),
            node("b", &["EPYC"], "2026-01-01T00:00:00Z"),
        ];
        let one = Nodes::work(&first, None);
        // Still alive: nobody who has the index need look again.
        let alive = vec![
            node("a", &["EPYC"], "2026-01-01T00:00:10Z"),
            first[1].clone(),
        ];
        let two = Nodes::work(&alive, Some((first, one.clone())));
        assert!(Arc::ptr_eq(&one.0, &two.0));
        let others = vec![
            alive[0].clone(),
            node("c", &["EPYC", "EPYC-Rome"], "2026-01-01T00:00:10Z"),
        ];
        let three = Nodes::work(&others, Some((alive, two)));
        let fresh = Nodes::work(&others, None);
        assert_eq!(three.0.names(), ["a", "c"]);
        assert_eq!(three.0.models(), fresh.0.models());
        assert_eq!(one.0.names(), ["a", "b"], "what a page has stays as it is");
    }
}
