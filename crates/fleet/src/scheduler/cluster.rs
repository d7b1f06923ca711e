//! The nodes and what is on them, as the scheduler keeps it: what it has decided counts at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::pod::{HostPort, Labels, Namespaces, PodInfo};
use super::resources::Resources;
use super::volumes::Volumes;

/// A node and what is on it.
#[derive(Debug)]
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    /// What node selectors are compared with.
    pub(crate) view: Value,
    pub(crate) taints: Vec<Value>,
    pub(crate) unschedulable: bool,
    pub(crate) has: Resources,
    pub(crate) used: Resources,
    pub(crate) usual: (i64, i64),
    pub(crate) ports: Vec<(String, HostPort)>,
    pub(crate) pods: HashMap<String, Arc<PodInfo>>,
}

impl NodeInfo {
    pub(crate) fn new(node: &Node) -> Self {
        let name = node.metadata.name.clone().unwrap_or_default();
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|spec| spec.taints.as_ref());
        Self {
            view: json!({ "metadata": { "name": name, "labels": labels } }),
            taints: taints
                .into_iter()
                .flatten()
                .filter_map(|taint| serde_json::to_value(taint).ok())
                .collect(),
            unschedulable: spec.and_then(|spec| spec.unschedulable) == Some(true),
            has: Resources::of(
                node.status
                    .as_ref()
                    .and_then(|status| status.allocatable.as_ref()),
            ),
            used: Resources::default(),
            usual: (0, 0),
            ports: Vec::new(),
            pods: HashMap::new(),
            name,
            labels,
        }
    }

    pub(crate) fn add(&mut self, pod: &Arc<PodInfo>) {
        self.used.add(&pod.requests);
        self.usual.0 += pod.usual.0;
        self.usual.1 += pod.usual.1;
        let ports = pod.ports.iter().cloned();
        self.ports.extend(ports.map(|port| (pod.uid.clone(), port)));
        self.pods.insert(pod.uid.clone(), Arc::clone(pod));
    }

    fn remove(&mut self, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else {
            return;
        };
        self.used.subtract(&pod.requests);
        self.usual.0 -= pod.usual.0;
        self.usual.1 -= pod.usual.1;
        self.ports.retain(|(owner, _)| owner != uid);
    }
}

/// A pod and the node it is on, or is to be on.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) pod: Arc<PodInfo>,
    pub(crate) node: String,
}

/// All nodes, all pods on them, and what else a decision looks at.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    slots: Vec<Option<NodeInfo>>,
    by_name: HashMap<String, usize>,
    free: Vec<usize>,
    placed: HashMap<String, Placed>,
    /// Pods on nodes, by the name of the node: also of nodes not seen yet.
    on_node: HashMap<String, HashSet<String>>,
    by_namespace: HashMap<String, HashSet<String>>,
    /// Pods that want to be apart from others.
    apart: HashSet<String>,
    /// How many pods of an owner are on a node.
    by_owner: HashMap<String, HashMap<String, i64>>,
    pub(crate) namespaces: Namespaces,
    pub(crate) volumes: Volumes,
    /// Where the next search begins, so that all nodes get their turn.
    pub(super) next_start: usize,
}

impl Cluster {
    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All nodes, beginning at a place of the circle.
    pub(crate) fn nodes_from(&self, start: usize) -> impl Iterator<Item = &NodeInfo> {
        let start = start.min(self.slots.len());
        let (before, after) = self.slots.split_at(start);
        after.iter().chain(before).flatten()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.slots.iter().flatten()
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn slot_of(&self, name: &str) -> usize {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.slots.get(*self.by_name.get(name)?)?.as_ref()
    }

    fn node_mut(&mut self, name: &str) -> Option<&mut NodeInfo> {
        self.slots.get_mut(*self.by_name.get(name)?)?.as_mut()
    }

    /// Takes note of a node; says whether it is another than before for the eyes of the scheduler.
    pub(crate) fn set_node(&mut self, node: &Node) -> bool {
        let mut info = NodeInfo::new(node);
        if let Some(known) = self.node(&info.name)
            && known.labels == info.labels
            && known.taints == info.taints
            && known.unschedulable == info.unschedulable
            && known.has == info.has
        {
            return false;
        }
        for uid in self.on_node.get(&info.name).into_iter().flatten() {
            if let Some(placed) = self.placed.get(uid) {
                info.add(&placed.pod);
            }
        }
        let name = info.name.clone();
        match self.by_name.get(&name) {
            Some(slot) => {
                if let Some(place) = self.slots.get_mut(*slot) {
                    *place = Some(info);
                }
            }
            None => {
                let slot = match self.free.pop() {
                    Some(slot) => {
                        if let Some(place) = self.slots.get_mut(slot) {
                            *place = Some(info);
                        }
                        slot
                    }
                    None => {
                        self.slots.push(Some(info));
                        self.slots.len() - 1
                    }
                };
                self.by_name.insert(name, slot);
            }
        }
        true
    }

    pub(crate) fn remove_node(&mut self, name: &str) {
        if let Some(slot) = self.by_name.remove(name) {
            if let Some(place) = self.slots.get_mut(slot) {
                *place = None;
            }
            self.free.push(slot);
        }
    }

    /// Where a pod is, or is to be.
    pub(crate) fn placed(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    /// Puts a pod on a node.
    pub(crate) fn place(&mut self, pod: &Arc<PodInfo>, node: &str) {
        self.remove(&pod.uid);
        let uid = pod.uid.clone();
        if let Some(info) = self.node_mut(node) {
            info.add(pod);
        }
        let on_node = self.on_node.entry(node.to_owned()).or_default();
        on_node.insert(uid.clone());
        let neighbours = self.by_namespace.entry(pod.key.namespace.clone());
        neighbours.or_default().insert(uid.clone());
        if !pod.apart.is_empty() {
            self.apart.insert(uid.clone());
        }
        if let Some(owner) = &pod.owner {
            let counts = self.by_owner.entry(owner.clone()).or_default();
            *counts.entry(node.to_owned()).or_default() += 1;
        }
        let placed = Placed {
            pod: Arc::clone(pod),
            node: node.to_owned(),
        };
        self.placed.insert(uid, placed);
    }

    /// Takes a pod away.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Placed> {
        let placed = self.placed.remove(uid)?;
        if let Some(info) = self.node_mut(&placed.node) {
            info.remove(uid);
        }
        forget(&mut self.on_node, &placed.node, uid);
        forget(&mut self.by_namespace, &placed.pod.key.namespace, uid);
        self.apart.remove(uid);
        if let Some(owner) = &placed.pod.owner
            && let Some(counts) = self.by_owner.get_mut(owner)
        {
            if let Some(count) = counts.get_mut(&placed.node) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&placed.node);
                }
            }
            if counts.is_empty() {
                self.by_owner.remove(owner);
            }
        }
        Some(placed)
    }

    /// The pods of a namespace that have a node.
    pub(crate) fn in_namespace(&self, name: &str) -> impl Iterator<Item = &Placed> {
        let uids = self.by_namespace.get(name).into_iter().flatten();
        uids.filter_map(|uid| self.placed.get(uid))
    }

    /// The pods of all namespaces a test accepts.
    pub(crate) fn in_namespaces(
        &self,
        accepts: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &Placed> {
        self.by_namespace
            .iter()
            .filter(move |(name, _)| accepts(name))
            .flat_map(|(_, uids)| uids)
            .filter_map(|uid| self.placed.get(uid))
    }

    /// Pods with a node that want to be apart from others.
    pub(crate) fn wanting_apart(&self) -> impl Iterator<Item = &Placed> {
        self.apart.iter().filter_map(|uid| self.placed.get(uid))
    }

    /// How many pods of an owner each node has.
    pub(crate) fn of_owner(&self, owner: Option<&str>) -> Option<&HashMap<String, i64>> {
        self.by_owner.get(owner?)
    }
}

fn forget(index: &mut HashMap<String, HashSet<String>>, term: &str, uid: &str) {
    if let Some(uids) = index.get_mut(term) {
        uids.remove(uid);
        if uids.is_empty() {
            index.remove(term);
        }
    }
}
