//! Which RuntimeClasses should exist, given the builds and handlers of the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use platform::windows::{Isolation, Version};
use serde_json::{Value, json};

use super::{API_VERSION, KIND};
use crate::cluster::{Cluster, Node};
use crate::handler::Handler;
use crate::names;

/// A class that should exist.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// Its base name.
    pub(super) base: String,
    pub(super) handler: String,
    pub(super) nodes: usize,
    runs: Handler,
    /// The build of the images it runs.
    image: Version,
    /// The build of its nodes.
    host: Version,
    architecture: String,
    tolerations: Vec<Value>,
}

/// A class that is not created: only some nodes of the build have the handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingHandler {
    /// The name it would have.
    pub class: String,
    /// The handler that it needs.
    pub handler: String,
    /// Nodes that lack it.
    pub nodes: Vec<String>,
}

impl fmt::Display for MissingHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, handler, .. } = self;
        write!(
            f,
            "runtime class {class} is not created: the container runtime of the node has no handler {handler}; `medley node-config containerd` prints its configuration"
        )
    }
}

/// Nodes of one architecture, by build.
type Builds<'c> = BTreeMap<Version, Vec<&'c Node>>;

/// The builds of Windows that nodes have, by architecture.
pub fn windows_builds(cluster: &Cluster) -> BTreeMap<String, BTreeSet<Version>> {
    let builds = by_architecture(cluster).into_iter();
    builds
        .map(|(architecture, nodes)| (architecture.to_owned(), nodes.into_keys().collect()))
        .collect()
}

fn by_architecture(cluster: &Cluster) -> BTreeMap<&str, Builds<'_>> {
    let mut all: BTreeMap<&str, Builds<'_>> = BTreeMap::new();
    for node in cluster.nodes().filter(|node| node.place.os == "windows") {
        if let Some(version) = Version::parse(&node.place.build) {
            let builds = all.entry(node.place.architecture.as_str()).or_default();
            builds.entry(version).or_default().push(node);
        }
    }
    all
}

/// Classes that should exist, and those that nodes are not ready for.
pub(super) fn wanted(cluster: &Cluster) -> (Vec<Wanted>, Vec<MissingHandler>) {
    let (mut wanted, mut withheld) = (Vec::new(), Vec::new());
    for (architecture, builds) in by_architecture(cluster) {
        let mut add = |name: String, image: Version, found: HandlerSupport<'_>| match found {
            HandlerSupport::NoNode => {}
            HandlerSupport::On(host, nodes, handler) => wanted.push(Wanted {
                base: name,
                handler: handler.to_string(),
                nodes: nodes.len(),
                runs: handler,
                image,
                host,
                architecture: architecture.to_owned(),
                tolerations: tolerations(nodes),
            }),
            HandlerSupport::Partly(nodes, handler) => withheld.push(MissingHandler {
                class: name,
                handler: handler.to_string(),
                nodes,
            }),
        };
        for image in images(&builds) {
            let hyper_v = Handler::hyper_v(image.build);
            let isolated = hosts(&builds, image, hyper_v);
            let own = match builds.get(&image) {
                Some(nodes) => on(image, nodes, Handler::PROCESS),
                // No nodes of this build are left: its images run on newer ones, under the same name.
                None => isolated.clone(),
            };
            add(class_name(image, architecture, ""), image, own);
            add(class_name(image, architecture, "-hyperv"), image, isolated);
        }
    }
    (wanted, withheld)
}

/// Builds of images: those of the nodes, and those of Hyper-V handlers.
fn images(builds: &Builds<'_>) -> BTreeSet<Version> {
    let nodes = builds.values().flatten();
    let handlers = nodes.filter_map(|node| node.handlers()).flatten();
    let handled = handlers.filter_map(|name| Handler::parse(name)?.build);
    let handled = handled.map(Version::of_build);
    builds.keys().copied().chain(handled).collect()
}

/// Which nodes have a handler.
#[derive(Clone)]
enum HandlerSupport<'c> {
    /// All nodes of a build.
    On(Version, &'c [&'c Node], Handler),
    /// Some nodes of a build; these lack it.
    Partly(Vec<String>, Handler),
    NoNode,
}

/// The newest nodes that run images of a build with a handler.
fn hosts<'c>(builds: &'c Builds<'c>, image: Version, handler: Handler) -> HandlerSupport<'c> {
    let mut partly = HandlerSupport::NoNode;
    let able = builds.iter().rev();
    // Newest first: these nodes stay longest, and a class cannot move its pods.
    for (host, nodes) in able.filter(|(host, _)| host.runs(image, handler.isolation)) {
        match on(*host, nodes, handler) {
            HandlerSupport::NoNode => {}
            found @ HandlerSupport::On(..) => return found,
            found @ HandlerSupport::Partly(..) => partly = found,
        }
    }
    partly
}

/// Whether the nodes of a build have a handler. Nodes that report none have containerd's defaults.
fn on<'c>(host: Version, nodes: &'c [&'c Node], handler: Handler) -> HandlerSupport<'c> {
    let name = handler.to_string();
    let has = |node: &&&Node| match node.handlers() {
        Some(handlers) => handlers.contains(&name),
        None => handler == Handler::PROCESS,
    };
    let lacking: Vec<String> = nodes
        .iter()
        .filter(|node| !has(node))
        .map(|node| node.name().to_owned())
        .collect();
    if lacking.is_empty() {
        HandlerSupport::On(host, nodes, handler)
    // Some nodes with a handler are not enough: the class selects by build, and the pod would fail on the others.
    // Process isolation is reported in any case, since every Windows node should have it.
    } else if lacking.len() < nodes.len() || handler == Handler::PROCESS {
        HandlerSupport::Partly(lacking, handler)
    } else {
        HandlerSupport::NoNode
    }
}

/// `windows-17763`; architectures other than amd64 are part of the name.
fn class_name(image: Version, architecture: &str, suffix: &str) -> String {
    let build = image.build;
    match architecture {
        "amd64" => format!("windows-{build}{suffix}"),
        other => format!("windows-{build}-{other}{suffix}"),
    }
}

/// Tolerations of the platform taints of these nodes.
fn tolerations(nodes: &[&Node]) -> Vec<Value> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for taint in nodes.iter().flat_map(|node| node.taints()) {
        let key = taint["key"].as_str().unwrap_or_default();
        if names::PLATFORM_TAINTS.contains(&key) {
            let mut toleration = json!({
                "key": key,
                "operator": "Equal",
                "effect": taint["effect"],
            });
            // The API server drops empty fields; writing them would cause a permanent diff.
            if let Some(value) = taint["value"].as_str().filter(|it| !it.is_empty()) {
                toleration["value"] = value.into();
            }
            all.insert(toleration.to_string(), toleration);
        }
    }
    all.into_values().collect()
}

impl Wanted {
    /// The RuntimeClass, under this name.
    pub(super) fn object(&self, name: &str) -> Value {
        let isolation = match self.runs.isolation {
            Isolation::Process => names::PROCESS,
            Isolation::HyperV => names::HYPER_V,
        };
        let mut annotations = json!({ names::ISOLATION: isolation });
        if let Some(platform) = self.runs.platform(&self.architecture) {
            annotations[names::PLATFORM] = platform.to_string().into();
        }
        if let Some(product) = self.image.product() {
            annotations[names::PRODUCT] = product.into();
        }
        let mut scheduling = json!({
            "nodeSelector": {
                names::OS: "windows",
                names::ARCHITECTURE: self.architecture,
                names::WINDOWS_BUILD: self.host.to_string(),
            },
        });
        if !self.tolerations.is_empty() {
            scheduling["tolerations"] = json!(self.tolerations);
        }
        json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": name,
                "labels": { names::MANAGED_BY: names::MEDLEY },
                "annotations": annotations,
            },
            "handler": self.handler,
            "scheduling": scheduling,
        })
    }
}
