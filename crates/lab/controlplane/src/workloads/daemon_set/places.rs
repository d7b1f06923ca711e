//! Which nodes the pods of a DaemonSet are for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Taint};
use machinery::node_affinity::{RequiredNodeAffinity, untolerated_taint};
use runtime::{Change, Key};
use serde_json::{Value, json};

use super::template::with_tolerations;

/// What a node is to the pods of a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// One belongs here.
    Run,
    /// None would be put here, one that is here may stay.
    Stay,
    /// None belongs here.
    Leave,
}

/// Verdicts by node.
pub(super) type Verdicts = BTreeMap<Arc<str>, Verdict>;

/// What of a node matters. Heartbeats change none of it.
#[derive(Debug, PartialEq)]
struct Place {
    object: Value,
    taints: Vec<Value>,
}

impl Place {
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

/// What the pods of a DaemonSet demand of a node.
#[derive(Debug)]
pub(super) struct Demands {
    node_name: Option<String>,
    affinity: RequiredNodeAffinity,
    tolerations: Vec<Value>,
}

impl Demands {
    /// The demands of the template, and what the pods get on top of it.
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

    fn judge(&self, name: &str, place: &Place) -> Verdict {
        let untolerated =
            |effects: &[&str]| untolerated_taint(&place.taints, &self.tolerations, effects);
        let elsewhere = self.node_name.as_deref().is_some_and(|it| it != name);
        // Terms that make no sense match nothing.
        let suits = !elsewhere && self.affinity.matches(&place.object).unwrap_or(false);
        if !suits || untolerated(&["NoExecute"]).is_some() {
            Verdict::Leave
        } else if untolerated(&["NoSchedule"]).is_some() {
            Verdict::Stay
        } else {
            Verdict::Run
        }
    }

    /// What this node is to the pods.
    #[cfg(test)]
    pub(super) fn judge_node(&self, node: &Node) -> Verdict {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.judge(name, &Place::of(node))
    }
}

/// All nodes and what they are to all DaemonSets, kept so that thousands of nodes are not judged again
/// when one pod or one node changes.
#[derive(Debug, Default)]
pub(super) struct Atlas {
    places: HashMap<Arc<str>, Place>,
    sets: HashMap<Key, Judged>,
}

#[derive(Debug)]
struct Judged {
    /// The object and the form of it that the demands are those of.
    uid: Option<String>,
    generation: Option<i64>,
    demands: Demands,
    verdicts: Arc<Verdicts>,
}

impl Atlas {
    /// Takes note of a change of a node; the sets to which the node is something else now.
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
        let place = change.new.as_ref().map(|node| Place::of(node));
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

    /// What all nodes are to a set.
    pub(super) fn verdicts(&mut self, set: &DaemonSet) -> Arc<Verdicts> {
        let meta = &set.metadata;
        let key = Key::of(meta);
        if let Some(known) = self.sets.get(&key)
            && known.uid == meta.uid
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

    /// Forgets a set that is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        self.sets.remove(key);
    }
}
