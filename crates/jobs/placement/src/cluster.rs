//! The platforms of the nodes of a cluster.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::node;
use k8s_openapi::api::core::v1;
use platform::windows::Version;
use platform::{Matcher, Platform, Rank, Unfit};
use serde_json::{Map, Value, json};

use crate::images::Platforms;
use crate::names;
use crate::settings::RuntimeClass;

/// The node properties that decide which images run, each of which a pod can select by label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodePlatform {
    /// Operating system.
    pub os: String,
    /// Architecture.
    pub architecture: String,
    /// The CPU variant from the node label; most nodes have none.
    pub variant: String,
    /// The Windows build.
    pub build: String,
}

impl NodePlatform {
    /// The platform that images are compared with.
    pub fn platform(&self) -> Platform {
        Platform::new(&self.os, &self.architecture)
            .with_variant(&self.variant)
            .with_os_version(&self.build)
    }
}

impl fmt::Display for NodePlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.platform().fmt(f)
    }
}

/// The container runtime of a node. Runtimes differ in the platforms they accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Runtime {
    /// containerd, and any unknown runtime: also runs 32-bit images on 64-bit nodes, and compares Windows builds.
    #[default]
    Containerd,
    /// CRI-O: matches architectures exactly.
    CriO,
}

impl Runtime {
    /// Parses `status.nodeInfo.containerRuntimeVersion`, such as `cri-o://1.34.0`.
    pub fn parse(version: &str) -> Self {
        // Only CRI-O is known to be stricter: an unknown runtime with the rules of containerd may be given a pod that
        // it cannot run, with those of CRI-O it would be denied pods that it can.
        if version.starts_with("cri-o://") {
            Self::CriO
        } else {
            Self::Containerd
        }
    }
}

/// The parts of a Node that scheduling depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its platform.
    pub place: NodePlatform,
    /// Its container runtime.
    pub runtime: Runtime,
    /// Name and labels, in the shape of an object.
    object: Value,
    /// Scheduling taints, without those of temporary node states.
    taints: Vec<Value>,
    /// Runtime handlers; `None` if the kubelet does not report them.
    handlers: Option<BTreeSet<String>>,
}

impl Node {
    /// Reads a Node. Windows Server reports its full version as the kernel version, and its product name as the OS
    /// image.
    ///
    /// Cordoned nodes and nodes that are not ready count: a pod that fits nowhere else waits for them instead of being
    /// denied.
    pub fn read(node: &v1::Node) -> Self {
        Self::with_labels(node, node.metadata.labels.iter().flatten())
    }

    /// Reads a Node of which only these labels matter: nodes have hundreds.
    pub fn with_labels<'a>(
        node: &v1::Node,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Self {
        let status = node.status.as_ref();
        let info = status.and_then(|it| it.node_info.as_ref());
        let label = |key: &str| node::label(node, key).unwrap_or_default();
        let os = node::os(node).unwrap_or_default();
        let build = if os == "windows" {
            // The label first: it is what a node affinity selects by, even if it is wrong.
            let labelled = Version::parse(label(names::WINDOWS_BUILD));
            let reported = || Version::parse(&info?.kernel_version);
            let named = || Version::of_product(&info?.os_image);
            let version = labelled.or_else(reported).or_else(named);
            // Without the revision, which the label does not have either (`windows-build` is set from
            // CurrentBuildNumber).
            version.map_or_else(String::new, |version| version.release().to_string())
        } else {
            String::new()
        };
        let place = NodePlatform {
            os: os.to_owned(),
            architecture: node::architecture(node).unwrap_or_default().to_owned(),
            variant: label(names::VARIANT).to_owned(),
            build,
        };
        let labels = labels.into_iter();
        let labels = labels.map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        let taints = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten());
        let handlers = status.and_then(|it| it.runtime_handlers.as_ref());
        let runtime = info.map(|it| it.container_runtime_version.as_str());
        Self {
            place,
            runtime: Runtime::parse(runtime.unwrap_or_default()),
            object: json!({
                "metadata": {
                    "name": node.metadata.name.as_deref().unwrap_or_default(),
                    "labels": labels.collect::<Map<String, Value>>(),
                },
            }),
            taints: taints
                .filter(|it| keeps_away(it))
                .map(|it| json!(it))
                .collect(),
            handlers: handlers.map(|all| all.iter().filter_map(|it| it.name.clone()).collect()),
        }
    }

    /// The name of the node.
    pub fn name(&self) -> &str {
        self.object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The runtime handlers, the default one also under an empty name; `None` if the kubelet does not report them, as
    /// before 1.30.
    pub fn handlers(&self) -> Option<&BTreeSet<String>> {
        self.handlers.as_ref()
    }

    /// The Windows build that the node should be labelled with but is not. Kubelets before 1.17 do not set the label,
    /// nor is it set on manually registered nodes.
    pub fn missing_build(&self) -> Option<&str> {
        let labelled = self.object.pointer("/metadata/labels");
        let labelled = labelled.and_then(|labels| labels.get(names::WINDOWS_BUILD));
        let build = self.place.build.as_str();
        (labelled.is_none() && !build.is_empty()).then_some(build)
    }

    /// Name and labels, for selectors.
    pub(crate) fn object(&self) -> &Value {
        &self.object
    }

    /// Taints that repel pods.
    pub(crate) fn taints(&self) -> &[Value] {
        &self.taints
    }
}

/// Whether a taint affects scheduling and is not one of a temporary node state.
fn keeps_away(taint: &v1::Taint) -> bool {
    // `PreferNoSchedule` keeps no pod away.
    matches!(&*taint.effect, "NoSchedule" | "NoExecute")
        && !names::STATE_TAINTS.contains(&&*taint.key)
}

/// The nodes of a cluster, grouped by platform.
///
/// Every pod admission queries it, and clusters have many nodes: runtimes and taints of each group are aggregated, so
/// that only selectors have to be matched node by node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// The group of each node.
    nodes: BTreeMap<String, NodePlatform>,
    places: BTreeMap<NodePlatform, NodeGroup>,
}

/// The nodes of one platform.
#[derive(Debug, Clone, PartialEq, Default)]
struct NodeGroup {
    nodes: BTreeMap<String, Node>,
    /// Number of nodes per runtime.
    runtimes: BTreeMap<Runtime, usize>,
    /// Distinct taints by their JSON, and the number of nodes with each.
    taints: BTreeMap<String, (Value, usize)>,
}

impl NodeGroup {
    fn add(&mut self, node: Node) {
        *self.runtimes.entry(node.runtime).or_default() += 1;
        for taint in &node.taints {
            let there = self.taints.entry(taint.to_string());
            there.or_insert_with(|| (taint.clone(), 0)).1 += 1;
        }
        self.nodes.insert(node.name().to_owned(), node);
    }

    fn remove(&mut self, name: &str) {
        let Some(gone) = self.nodes.remove(name) else {
            return;
        };
        if let Some(left) = self.runtimes.get_mut(&gone.runtime) {
            *left -= 1;
        }
        self.runtimes.retain(|_, left| *left > 0);
        for taint in &gone.taints {
            if let Some((_, left)) = self.taints.get_mut(&taint.to_string()) {
                *left -= 1;
            }
        }
        self.taints.retain(|_, (_, left)| *left > 0);
    }
}

impl Cluster {
    /// Adds or replaces a node.
    pub fn upsert(&mut self, node: Node) {
        self.remove(node.name());
        self.nodes
            .insert(node.name().to_owned(), node.place.clone());
        self.places.entry(node.place.clone()).or_default().add(node);
    }

    /// Removes a node.
    pub fn remove(&mut self, name: &str) {
        let Some(place) = self.nodes.remove(name) else {
            return;
        };
        if let Some(group) = self.places.get_mut(&place) {
            group.remove(name);
            if group.nodes.is_empty() {
                self.places.remove(&place);
            }
        }
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the cluster has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The platforms in the cluster, and the number of nodes of each.
    pub fn places(&self) -> impl Iterator<Item = (&NodePlatform, usize)> {
        self.places
            .iter()
            .map(|(place, group)| (place, group.nodes.len()))
    }

    /// The nodes of a place.
    pub fn nodes_of(&self, place: &NodePlatform) -> impl Iterator<Item = &Node> {
        let group = self.places.get(place).into_iter();
        group.flat_map(|group| group.nodes.values())
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.places.get(self.nodes.get(name)?)?.nodes.get(name)
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        let places = self.nodes.iter();
        places.filter_map(|(name, place)| self.places.get(place)?.nodes.get(name))
    }

    /// The runtimes of the nodes of a place.
    pub(crate) fn runtimes_of(&self, place: &NodePlatform) -> BTreeSet<Runtime> {
        let group = self.places.get(place).into_iter();
        group
            .flat_map(|group| group.runtimes.keys().copied())
            .collect()
    }

    /// The taints of the nodes of a place, each once.
    pub(crate) fn taints_of(&self, place: &NodePlatform) -> impl Iterator<Item = &Value> {
        let group = self.places.get(place).into_iter();
        group.flat_map(|group| group.taints.values().map(|(taint, _)| taint))
    }
}

impl FromIterator<Node> for Cluster {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> Self {
        let mut cluster = Self::default();
        for node in nodes {
            cluster.upsert(node);
        }
        cluster
    }
}

/// Ranks how well a node platform runs images.
pub(crate) struct PlatformMatcher {
    matcher: Matcher,
    /// CRI-O neither falls back to 32-bit images nor compares Windows builds, which it does not run.
    exact_architecture: bool,
}

impl PlatformMatcher {
    pub(crate) fn new(
        place: &NodePlatform,
        runtime: Runtime,
        class: Option<&RuntimeClass>,
    ) -> Self {
        let isolation = class.map(|class| class.isolation).unwrap_or_default();
        let matcher = match class.and_then(|class| class.platform.as_ref()) {
            Some(platform) => Matcher::isolated(platform, isolation),
            None => Matcher::isolated(&place.platform(), isolation),
        };
        Self {
            matcher,
            exact_architecture: runtime == Runtime::CriO,
        }
    }

    /// The rank of the best of these platforms, or why the closest of them does not run.
    pub(crate) fn rank(&self, platforms: &Platforms) -> Result<Rank, Unfit> {
        let wanted = &self.matcher.wanted().architecture;
        let judged = platforms.meant().iter().map(|image| {
            // containers/image compares architectures literally; containerd falls back from amd64 to 386 and from arm64
            // to arm (platforms/compare.go).
            if self.exact_architecture && image.platform().architecture != *wanted {
                Err(Unfit::Architecture)
            } else {
                self.matcher.judge_normalised(image)
            }
        });
        judged
            .reduce(|best, next| match (best, next) {
                (Ok(a), Ok(b)) => Ok(a.min(b)),
                // The closest miss makes the best message: a wrong build is more to the point than a wrong operating
                // system.
                (Err(a), Err(b)) => Err(a.max(b)),
                (Ok(fit), Err(_)) | (Err(_), Ok(fit)) => Ok(fit),
            })
            // An index without a usable entry runs nowhere.
            .unwrap_or(Err(Unfit::Os))
    }
}
