//! Which classes there should be, by what nodes are and have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use platform::windows::{Isolation, Version};
use serde_json::{Value, json};

use super::{API_VERSION, KIND};
use crate::cluster::{Cluster, Node};
use crate::handler::Handler;
use crate::names;

/// A class that there should be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// Its name, unless that is taken.
    pub(super) base: String,
    pub(super) handler: String,
    pub(super) nodes: usize,
    runs: Handler,
    /// The build of images that it is for.
    image: Version,
    /// The nodes that it is on.
    host: Version,
    architecture: String,
    tolerations: Vec<Value>,
}

/// A class that there is not: a build has the handler on some nodes only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// What it would be called.
    pub class: String,
    /// The handler that it takes.
    pub handler: String,
    /// Nodes that lack it.
    pub nodes: Vec<String>,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, handler, .. } = self;
        write!(
            f,
            "runtime class {class} is not made: the runtime of the node has no handler {handler}; `medley node-config containerd` prints its configuration"
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

/// Classes that there should be, and those that nodes are not ready for.
pub(super) fn wanted(cluster: &Cluster) -> (Vec<Wanted>, Vec<Withheld>) {
    let (mut wanted, mut withheld) = (Vec::new(), Vec::new());
    for (architecture, builds) in by_architecture(cluster) {
        let mut add = |name: String, image: Version, found: Found<'_>| match found {
            Found::Nobody => {}
            Found::On(host, nodes, handler) => wanted.push(Wanted {
                base: name,
                handler: handler.to_string(),
                nodes: nodes.len(),
                runs: handler,
                image,
                host,
                architecture: architecture.to_owned(),
                tolerations: tolerations(nodes),
            }),
            Found::Partly(nodes, handler) => withheld.push(Withheld {
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
                // The nodes of this build are gone: its images run on newer ones, under the same name.
                None => isolated.clone(),
            };
            add(class_name(image, architecture, ""), image, own);
            add(class_name(image, architecture, "-hyperv"), image, isolated);
        }
    }
    (wanted, withheld)
}

/// Builds that images can be of: those of nodes, and those that handlers are for.
fn images(builds: &Builds<'_>) -> BTreeSet<Version> {
    let nodes = builds.values().flatten();
    let handlers = nodes.filter_map(|node| node.handlers()).flatten();
    let handled = handlers.filter_map(|name| Handler::parse(name)?.build);
    let handled = handled.map(Version::of_build);
    builds.keys().copied().chain(handled).collect()
}

/// Who has a handler.
#[derive(Clone)]
enum Found<'c> {
    /// All nodes of a build.
    On(Version, &'c [&'c Node], Handler),
    /// Some nodes of a build; these have not.
    Partly(Vec<String>, Handler),
    Nobody,
}

/// The newest nodes that run images of a build with a handler.
fn hosts<'c>(builds: &'c Builds<'c>, image: Version, handler: Handler) -> Found<'c> {
    let mut partly = Found::Nobody;
    let able = builds.iter().rev();
    for (host, nodes) in able.filter(|(host, _)| host.runs(image, handler.isolation)) {
        match on(*host, nodes, handler) {
            Found::Nobody => {}
            found @ Found::On(..) => return found,
            found @ Found::Partly(..) => partly = found,
        }
    }
    partly
}

/// Whether nodes of a build have a handler. Those that tell of none have what containerd has by itself.
fn on<'c>(host: Version, nodes: &'c [&'c Node], handler: Handler) -> Found<'c> {
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
        Found::On(host, nodes, handler)
    } else if lacking.len() < nodes.len() || handler == Handler::PROCESS {
        Found::Partly(lacking, handler)
    } else {
        Found::Nobody
    }
}

/// `windows-17763`; another architecture than the usual one is said.
fn class_name(image: Version, architecture: &str, suffix: &str) -> String {
    let build = image.build;
    match architecture {
        "amd64" => format!("windows-{build}{suffix}"),
        other => format!("windows-{build}-{other}{suffix}"),
    }
}

/// Tolerations of the taints that say what these nodes are.
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
            // The API server keeps nothing that is empty.
            if let Some(value) = taint["value"].as_str().filter(|it| !it.is_empty()) {
                toleration["value"] = value.into();
            }
            all.insert(toleration.to_string(), toleration);
        }
    }
    all.into_values().collect()
}

impl Wanted {
    /// The class, by this name.
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
