//! Selection of nodes for the pods of a DaemonSet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Taint};
use machinery::node_affinity::{RequiredNodeAffinity, untolerated_taint};
use runtime::{Change, Key};
use serde_json::{Value, json};

use super::template::with_tolerations;

/// The verdict on a node for a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeVerdict {
    /// A pod should run here.
    Run,
    /// No pod would be created here, an existing one may stay.
    Stay,
    /// No pod may run here.
    Leave,
}

/// Verdicts by node.
pub(super) type Verdicts = BTreeMap<Arc<str>, NodeVerdict>;

/// The fields of a node that matter. Heartbeats change none of them.
#[derive(Debug, PartialEq)]
struct NodeTraits {
    object: Value,
    taints: Vec<Value>,
}

impl NodeTraits {
    fn of(node: &Node) -> Self {
        let meta = &node.metadata;
        Self {
            object: json!({ "metadata": { "name": meta.name, "labels": meta.labels } }),
            taints: taints(node)
                .iter()
                .filter_map(|taint| serde_json::to_value(taint).ok())
                .collect(),
        }
    }
}

/// Whether a change of a node may change a verdict.
pub(super) fn matters(old: &Node, new: &Node) -> bool {
    old.metadata.labels != new.metadata.labels || taints(old) != taints(new)
}

fn taints(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

/// Node requirements of a DaemonSet's pods.
#[derive(Debug)]
pub(super) struct Demands {
    node_name: Option<String>,
    affinity: RequiredNodeAffinity,
    tolerations: Vec<Value>,
}

impl Demands {
    /// The requirements of the template, including the default tolerations.
    pub(super) fn of(set: &DaemonSet) -> Self {
        let template = set.spec.as_ref().map(|spec| spec.template.clone());
        let mut spec = template
            .and_then(|template| template.spec)
            .unwrap_or_default();
        with_tolerations(&mut spec);
        let tolerations = spec.tolerations.iter().flatten();
        Self {
            node_name: spec.node_name.clone().filter(|name| !name.is_empty()),
            affinity: RequiredNodeAffinity::of_pod_spec(
                &serde_json::to_value(&spec).unwrap_or_default(),
            ),
            tolerations: tolerations
                .filter_map(|toleration| serde_json::to_value(toleration).ok())
                .collect(),
        }
    }

    fn judge(&self, name: &str, place: &NodeTraits) -> NodeVerdict {
        let untolerated =
            |effects: &[&str]| untolerated_taint(&place.taints, &self.tolerations, effects);
        let elsewhere = self.node_name.as_deref().is_some_and(|it| it != name);
        // Invalid terms match nothing.
        let suits = !elsewhere && self.affinity.matches(&place.object).unwrap_or(false);
        // As `NodeShouldRunDaemonPod` in `pkg/controller/daemon/daemon_controller.go`: a taint
        // NoSchedule keeps new pods away, and does not remove running ones.
        if !suits || untolerated(&["NoExecute"]).is_some() {
            NodeVerdict::Leave
        } else if untolerated(&["NoSchedule"]).is_some() {
            NodeVerdict::Stay
        } else {
            NodeVerdict::Run
        }
    }

    /// The verdict on this node.
    #[cfg(test)]
    pub(super) fn judge_node(&self, node: &Node) -> NodeVerdict {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.judge(name, &NodeTraits::of(node))
    }
}

/// Cached verdicts of all DaemonSets on all nodes, so that thousands of nodes are not evaluated
/// again when one pod or one node changes.
#[derive(Debug, Default)]
pub(super) struct Atlas {
    places: HashMap<Arc<str>, NodeTraits>,
    sets: HashMap<Key, Judged>,
}

#[derive(Debug)]
struct Judged {
    /// UID and generation of the set that the requirements are from.
    uid: Option<String>,
    generation: Option<i64>,
    demands: Demands,
    verdicts: Arc<Verdicts>,
}

impl Atlas {
    /// Records a change of a node; returns the sets whose verdict on it changed.
    pub(super) fn note(&mut self, change: &Change<Node>) -> Vec<Key> {
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && !matters(old, new)
        {
            return Vec::new();
        }
        let Some(name) = change.object().and_then(|it| it.metadata.name.as_deref()) else {
            return Vec::new();
        };
        let name: Arc<str> = Arc::from(name);
        let place = change.new.as_ref().map(|node| NodeTraits::of(node));
        let mut concerned = Vec::new();
        for (key, judged) in &mut self.sets {
            let verdict = place.as_ref().map(|it| judged.demands.judge(&name, it));
            if judged.verdicts.get(&name).copied() == verdict {
                continue;
            }
            let verdicts = Arc::make_mut(&mut judged.verdicts);
            match verdict {
                Some(verdict) => verdicts.insert(Arc::clone(&name), verdict),
                None => verdicts.remove(&name),
            };
            concerned.push(key.clone());
        }
        match place {
            Some(place) => self.places.insert(name, place),
            None => self.places.remove(&name),
        };
        concerned
    }

    /// The verdicts of a set on all nodes.
    pub(super) fn verdicts(&mut self, set: &DaemonSet) -> Arc<Verdicts> {
        let meta = &set.metadata;
        let key = Key::of(meta);
        if let Some(known) = self.sets.get(&key)
            && known.uid == meta.uid
            // Writes of the status do not change the generation, and must not judge all nodes
            // again.
            && known.generation == meta.generation
        {
            return Arc::clone(&known.verdicts);
        }
        let demands = Demands::of(set);
        let places = self.places.iter();
        let verdicts = places.map(|(name, place)| (Arc::clone(name), demands.judge(name, place)));
        let verdicts = Arc::new(verdicts.collect::<Verdicts>());
        let judged = Judged {
            uid: meta.uid.clone(),
            generation: meta.generation,
            demands,
            verdicts: Arc::clone(&verdicts),
        };
        self.sets.insert(key, judged);
        verdicts
    }

    /// Drops a deleted set.
    pub(super) fn forget(&mut self, key: &Key) {
        self.sets.remove(key);
    }
}
