//! What the nodes of a cluster offer.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use platform::windows::Version;
use platform::{Matcher, Platform, Rank, Unfit};
use serde_json::{Value, json};

use crate::images::Platforms;
use crate::memory::Memory;
use crate::names;
use crate::settings::RuntimeClass;

/// All that tells nodes apart for images, and that a pod can ask for: labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Place {
    /// Operating system.
    pub os: String,
    /// Architecture.
    pub architecture: String,
    /// The variant that the node is labelled with; most are not.
    pub variant: String,
    /// The build of Windows.
    pub build: String,
}

impl Place {
    /// What images are compared with.
    pub fn platform(&self) -> Platform {
        Platform::new(&self.os, &self.architecture)
            .with_variant(&self.variant)
            .with_os_version(&self.build)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.platform().fmt(f)
    }
}

/// Who pulls images on a node. Runtimes do not agree on what may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Runtime {
    /// containerd, and whatever is unknown: also runs 32 bits on 64, and cares for builds of Windows.
    #[default]
    Containerd,
    /// CRI-O: takes architectures literally.
    CriO,
}

impl Runtime {
    /// Reads what a node says in `status.nodeInfo.containerRuntimeVersion`: `cri-o://1.34.0`.
    pub fn parse(version: &str) -> Self {
        if version.starts_with("cri-o://") {
            Self::CriO
        } else {
            Self::Containerd
        }
    }
}

/// A node, as far as pods choose by it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it offers.
    pub place: Place,
    /// Who pulls its images.
    pub runtime: Runtime,
    /// Name and labels, in the shape of an object.
    object: Value,
    /// Taints that keep pods away, without those that tell of a passing state.
    taints: Vec<Value>,
    /// Handlers of its runtime; none if it does not tell.
    handlers: Option<BTreeSet<String>>,
}

impl Node {
    /// Reads a Node. Where a kubelet set no labels, what it reports counts; Windows Server reports its
    /// whole version as the kernel's, and its name as the image's.
    pub fn read(node: &Value) -> Self {
        let text = |pointer: &str| {
            let found = node.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
        let label = |key: &str| {
            let found = labels
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let or = |label: String, pointer: &str| {
            if label.is_empty() {
                text(pointer)
            } else {
                label
            }
        };
        let os = or(label(names::OS), "/status/nodeInfo/operatingSystem");
        let build = if os == "windows" {
            let labelled = Version::parse(&label(names::WINDOWS_BUILD));
            let reported = || Version::parse(&text("/status/nodeInfo/kernelVersion"));
            let named = || Version::of_product(&text("/status/nodeInfo/osImage"));
            let version = labelled.or_else(reported).or_else(named);
            version.map_or_else(String::new, |version| version.release().to_string())
        } else {
            String::new()
        };
        let place = Place {
            os,
            architecture: or(label(names::ARCHITECTURE), "/status/nodeInfo/architecture"),
            variant: label(names::VARIANT),
            build,
        };
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        let handlers = node.pointer("/status/runtimeHandlers");
        let handlers = handlers.and_then(Value::as_array).map(|handlers| {
            let names = handlers.iter().filter_map(|it| it.get("name"));
            let names = names.filter_map(Value::as_str);
            names.map(ToOwned::to_owned).collect()
        });
        Self {
            place,
            runtime: Runtime::parse(&text("/status/nodeInfo/containerRuntimeVersion")),
            object: json!({
                "metadata": { "name": text("/metadata/name"), "labels": labels },
            }),
            taints: taints
                .into_iter()
                .flatten()
                .filter(|taint| keeps_away(taint))
                .cloned()
                .collect(),
            handlers,
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        self.object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The handlers of its runtime, the default one by an empty name as well; none if it does not tell,
    /// as kubelets before 1.30 do not.
    pub fn handlers(&self) -> Option<&BTreeSet<String>> {
        self.handlers.as_ref()
    }

    /// The build of Windows that it should be labelled with and is not. Kubelets before 1.17 set no such
    /// label, and none is set on nodes that somebody registers by hand.
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

    /// Taints that keep pods away.
    pub(crate) fn taints(&self) -> &[Value] {
        &self.taints
    }
}

/// A taint with an effect on scheduling that does not go away by itself.
fn keeps_away(taint: &Value) -> bool {
    let text = |name: &str| taint.get(name).and_then(Value::as_str).unwrap_or_default();
    matches!(text("effect"), "NoSchedule" | "NoExecute")
        && !names::STATE_TAINTS.contains(&text("key"))
}

/// The nodes of a cluster, by what they offer.
///
/// Everything is asked of it for every pod that is made, and nodes are many: what nodes of a place have in
/// common is kept beside them, so that only selectors have to look at one node after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// Where each node is.
    nodes: BTreeMap<String, Place>,
    places: BTreeMap<Place, Kin>,
    /// Where images run, for those that were asked about since nodes changed.
    memory: Memory,
}

/// The nodes of a place.
#[derive(Debug, Clone, PartialEq, Default)]
struct Kin {
    nodes: BTreeMap<String, Node>,
    /// How many have each runtime.
    runtimes: BTreeMap<Runtime, usize>,
    /// The taints there are, by how they are written, and how many nodes have each.
    taints: BTreeMap<String, (Value, usize)>,
}

impl Kin {
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
    /// Takes in a node, or what became of it.
    pub fn upsert(&mut self, node: Node) {
        self.remove(node.name());
        self.nodes
            .insert(node.name().to_owned(), node.place.clone());
        self.places.entry(node.place.clone()).or_default().add(node);
    }

    /// Forgets a node.
    pub fn remove(&mut self, name: &str) {
        self.memory.forget();
        let Some(place) = self.nodes.remove(name) else {
            return;
        };
        if let Some(kin) = self.places.get_mut(&place) {
            kin.remove(name);
            if kin.nodes.is_empty() {
                self.places.remove(&place);
            }
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Says whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What there is, and how many nodes have it.
    pub fn places(&self) -> impl Iterator<Item = (&Place, usize)> {
        self.places
            .iter()
            .map(|(place, kin)| (place, kin.nodes.len()))
    }

    /// The nodes of a place.
    pub fn nodes_of(&self, place: &Place) -> impl Iterator<Item = &Node> {
        let kin = self.places.get(place).into_iter();
        kin.flat_map(|kin| kin.nodes.values())
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.places.get(self.nodes.get(name)?)?.nodes.get(name)
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        let places = self.nodes.iter();
        places.filter_map(|(name, place)| self.places.get(place)?.nodes.get(name))
    }

    /// What was found about images before.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The runtimes of the nodes of a place.
    pub(crate) fn runtimes_of(&self, place: &Place) -> BTreeSet<Runtime> {
        let kin = self.places.get(place).into_iter();
        kin.flat_map(|kin| kin.runtimes.keys().copied()).collect()
    }

    /// The taints of the nodes of a place, each once.
    pub(crate) fn taints_of(&self, place: &Place) -> impl Iterator<Item = &Value> {
        let kin = self.places.get(place).into_iter();
        kin.flat_map(|kin| kin.taints.values().map(|(taint, _)| taint))
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

/// Says how well a place runs images.
pub(crate) struct Judge {
    matcher: Matcher,
    /// CRI-O neither falls back to 32 bits nor looks at builds of Windows, which it does not run.
    literally: bool,
}

impl Judge {
    pub(crate) fn new(place: &Place, runtime: Runtime, class: Option<&RuntimeClass>) -> Self {
        let isolation = class.map(|class| class.isolation).unwrap_or_default();
        let matcher = match class.and_then(|class| class.platform.as_ref()) {
            Some(platform) => Matcher::isolated(platform, isolation),
            None => Matcher::isolated(&place.platform(), isolation),
        };
        Self {
            matcher,
            literally: runtime == Runtime::CriO,
        }
    }

    /// How well an image of these platforms runs, or what is wrong with the nearest of them.
    pub(crate) fn rank(&self, platforms: &Platforms) -> Result<Rank, Unfit> {
        let wanted = &self.matcher.wanted().architecture;
        let judged = platforms.meant().iter().map(|image| {
            if self.literally && image.platform().architecture != *wanted {
                Err(Unfit::Architecture)
            } else {
                self.matcher.judge_meant(image)
            }
        });
        judged
            .reduce(|best, next| match (best, next) {
                (Ok(a), Ok(b)) => Ok(a.min(b)),
                (Err(a), Err(b)) => Err(a.max(b)),
                (Ok(fit), Err(_)) | (Err(_), Ok(fit)) => Ok(fit),
            })
            .unwrap_or(Err(Unfit::Os))
    }
}
