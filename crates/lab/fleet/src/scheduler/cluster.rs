//! The nodes and their pods as the scheduler sees them: its own decisions count at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::pod::{HostPort, Labels, Namespaces, PodInfo, Term};
use super::resources::Resources;
use super::volumes::Volumes;

/// A node and the pods on it.
#[derive(Debug)]
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    /// Its index among the nodes.
    pub(crate) slot: usize,
    pub(crate) labels: Labels,
    /// The JSON that node selectors are matched against.
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
            slot: 0,
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

/// A pod and its node, bound or assumed.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) pod: Arc<PodInfo>,
    pub(crate) node: String,
}

/// The pods of a namespace.
#[derive(Debug, Default)]
struct NamespacePods {
    all: HashSet<String>,
    by_label: HashMap<(String, String), HashSet<String>>,
}

/// An anti-affinity term, and the number of pods with it per node.
#[derive(Debug)]
struct AntiAffinity {
    term: Arc<Term>,
    nodes: HashMap<String, i64>,
}

/// Number of node requirements whose matching nodes are cached.
// An entry has one byte per node, so that a full cache of 5,000 nodes takes 2.5 MB. Workloads with
// requirements of their own are far fewer.
const SUITABLE_CACHE_SIZE: usize = 512;

/// All nodes, their pods, and the other state decisions depend on.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    slots: Vec<Option<NodeInfo>>,
    by_name: HashMap<String, usize>,
    free: Vec<usize>,
    placed: HashMap<String, Placed>,
    /// UIDs of pods by node name, also for nodes not seen yet.
    on_node: HashMap<String, HashSet<String>>,
    by_namespace: HashMap<String, NamespacePods>,
    /// Anti-affinity terms of placed pods, by their text.
    apart: HashMap<String, AntiAffinity>,
    /// Number of pods per owner and node.
    by_owner: HashMap<String, HashMap<String, i64>>,
    pub(crate) namespaces: Namespaces,
    pub(crate) volumes: Volumes,
    /// Matching nodes by node requirements; invalidated when nodes change.
    suitable: Mutex<HashMap<String, Arc<Vec<bool>>>>,
    /// Start of the next search, so that all nodes are considered in turn.
    pub(super) next_start: usize,
}

impl Cluster {
    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All nodes in round-robin order from an index.
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

    pub(crate) fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.slots.get(*self.by_name.get(name)?)?.as_ref()
    }

    fn node_mut(&mut self, name: &str) -> Option<&mut NodeInfo> {
        self.slots.get_mut(*self.by_name.get(name)?)?.as_mut()
    }

    /// Adds or updates a node; returns whether it changed for the scheduler.
    pub(crate) fn set_node(&mut self, node: &Node) -> bool {
        let mut info = NodeInfo::new(node);
        // Most changes of a node are reports of its kubelet. They must neither clear the cache nor
        // retry pods that fit nowhere.
        if let Some(known) = self.node(&info.name)
            && known.labels == info.labels
            && known.taints == info.taints
            && known.unschedulable == info.unschedulable
            && known.has == info.has
        {
            return false;
        }
        // A pod may be known before its node, since the two watches are independent.
        for uid in self.on_node.get(&info.name).into_iter().flatten() {
            if let Some(placed) = self.placed.get(uid) {
                info.add(&placed.pod);
            }
        }
        self.suitable.get_mut().clear();
        let slot = match self.by_name.get(&info.name) {
            Some(slot) => *slot,
            // Reused and never shifted: `next_start` and the cached answers refer to slots.
            None => self.free.pop().unwrap_or(self.slots.len()),
        };
        info.slot = slot;
        self.by_name.insert(info.name.clone(), slot);
        match self.slots.get_mut(slot) {
            Some(place) => *place = Some(info),
            None => self.slots.push(Some(info)),
        }
        true
    }

    pub(crate) fn remove_node(&mut self, name: &str) {
        if let Some(slot) = self.by_name.remove(name) {
            self.suitable.get_mut().clear();
            if let Some(place) = self.slots.get_mut(slot) {
                *place = None;
            }
            self.free.push(slot);
        }
    }

    /// The node of a pod, bound or assumed.
    pub(crate) fn placed(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    /// Assigns a pod to a node.
    pub(crate) fn place(&mut self, pod: &Arc<PodInfo>, node: &str) {
        // It may be assumed on another node, and must not be counted on both.
        self.remove(&pod.uid);
        let uid = pod.uid.clone();
        if let Some(info) = self.node_mut(node) {
            info.add(pod);
        }
        let on_node = self.on_node.entry(node.to_owned()).or_default();
        on_node.insert(uid.clone());
        let neighbours = self.by_namespace.entry(pod.key.namespace.clone());
        neighbours.or_default().add(pod);
        for term in &pod.apart {
            let apart = self.apart.entry(term.says.clone());
            let apart = apart.or_insert_with(|| AntiAffinity {
                term: Arc::clone(term),
                nodes: HashMap::new(),
            });
            *apart.nodes.entry(node.to_owned()).or_default() += 1;
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

    /// Removes a pod.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Placed> {
        let placed = self.placed.remove(uid)?;
        if let Some(info) = self.node_mut(&placed.node) {
            info.remove(uid);
        }
        if let Some(uids) = self.on_node.get_mut(&placed.node) {
            uids.remove(uid);
            if uids.is_empty() {
                self.on_node.remove(&placed.node);
            }
        }
        if let Some(neighbours) = self.by_namespace.get_mut(&placed.pod.key.namespace) {
            neighbours.remove(&placed.pod);
            if neighbours.all.is_empty() {
                self.by_namespace.remove(&placed.pod.key.namespace);
            }
        }
        for term in &placed.pod.apart {
            if let Some(apart) = self.apart.get_mut(&term.says) {
                count_down(&mut apart.nodes, &placed.node);
                if apart.nodes.is_empty() {
                    self.apart.remove(&term.says);
                }
            }
        }
        if let Some(owner) = &placed.pod.owner
            && let Some(counts) = self.by_owner.get_mut(owner)
        {
            count_down(counts, &placed.node);
            if counts.is_empty() {
                self.by_owner.remove(owner);
            }
        }
        Some(placed)
    }

    /// Placed pods in a namespace; with a label, only those that have it.
    pub(crate) fn in_namespace(
        &self,
        name: &str,
        label: Option<&(String, String)>,
    ) -> impl Iterator<Item = &Placed> {
        let neighbours = self.by_namespace.get(name);
        let uids = neighbours.and_then(|neighbours| match label {
            Some(label) => neighbours.by_label.get(label),
            None => Some(&neighbours.all),
        });
        uids.into_iter()
            .flatten()
            .filter_map(|uid| self.placed.get(uid))
    }

    /// The namespaces with placed pods.
    pub(crate) fn used_namespaces(&self) -> impl Iterator<Item = &str> {
        self.by_namespace.keys().map(String::as_str)
    }

    /// Anti-affinity terms of placed pods, and their nodes.
    pub(crate) fn wanting_apart(
        &self,
    ) -> impl Iterator<Item = (&Term, impl Iterator<Item = &str>)> {
        self.apart
            .values()
            .map(|apart| (&*apart.term, apart.nodes.keys().map(String::as_str)))
    }

    /// Which nodes, by index, match a pod's node requirements; `None` if it has none. Pods of one
    /// owner have the same requirements, so the result is cached.
    pub(crate) fn suitable(&self, pod: &PodInfo) -> Option<Arc<Vec<bool>>> {
        let required = pod.required.as_ref()?;
        let mut known = self.suitable.lock();
        if let Some(answer) = known.get(&pod.asks) {
            return Some(Arc::clone(answer));
        }
        if known.len() >= SUITABLE_CACHE_SIZE {
            known.clear();
        }
        let fits = |node: &Option<NodeInfo>| {
            let node = node.as_ref();
            node.is_some_and(|node| required.matches(&node.view).unwrap_or(false))
        };
        let answer: Arc<Vec<bool>> = Arc::new(self.slots.iter().map(fits).collect());
        known.insert(pod.asks.clone(), Arc::clone(&answer));
        Some(answer)
    }

    /// Number of an owner's pods per node.
    pub(crate) fn of_owner(&self, owner: Option<&str>) -> Option<&HashMap<String, i64>> {
        self.by_owner.get(owner?)
    }
}

impl NamespacePods {
    fn add(&mut self, pod: &PodInfo) {
        self.all.insert(pod.uid.clone());
        for (key, value) in &pod.labels {
            let having = self.by_label.entry((key.clone(), value.clone()));
            having.or_default().insert(pod.uid.clone());
        }
    }

    fn remove(&mut self, pod: &PodInfo) {
        self.all.remove(&pod.uid);
        for (key, value) in &pod.labels {
            let label = (key.clone(), value.clone());
            if let Some(having) = self.by_label.get_mut(&label) {
                having.remove(&pod.uid);
                if having.is_empty() {
                    self.by_label.remove(&label);
                }
            }
        }
    }
}

/// Decrements a count; zero counts are removed.
fn count_down(counts: &mut HashMap<String, i64>, of: &str) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}
