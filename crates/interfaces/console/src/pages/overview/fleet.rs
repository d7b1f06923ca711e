//! The fleet as a picture: a square per node, by architecture, CPU generation and operating system.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::node;
use cpu_models::host_model_of;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use placement::names::WINDOWS_BUILD;

/// Beyond this, each square stands for several nodes.
const MAX_SQUARES: usize = 400;
/// Squares per row.
const COLUMNS: usize = 10;
/// Pixels of a square with its margin.
const SIDE: usize = 16;
const STEP: usize = 20;

/// The whole fleet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// Number of nodes that are not ready.
    pub(crate) not_ready: usize,
    /// Nodes per square.
    pub(crate) scale: usize,
    /// By architecture.
    pub(crate) architectures: Vec<Architecture>,
    /// The operating systems.
    pub(crate) systems: Vec<String>,
}

/// The nodes of one architecture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Architecture {
    pub(crate) name: String,
    pub(crate) nodes: usize,
    pub(crate) groups: Vec<Group>,
}

/// Nodes with the same CPU and operating system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The CPU generation, or the build of the operating system.
    pub(crate) label: String,
    pub(crate) system: String,
    pub(crate) nodes: usize,
    pub(crate) not_ready: usize,
    pub(crate) cordoned: usize,
    pub(crate) squares: Vec<Square>,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One square.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Square {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) side: usize,
    pub(crate) class: String,
    pub(crate) title: String,
}

/// Properties of a node that are shown.
struct Shown {
    name: String,
    ready: bool,
    cordoned: bool,
}

impl Picture {
    /// The picture of these nodes.
    pub(crate) fn of(nodes: &[Arc<Node>]) -> Self {
        // By architecture, then operating system, then CPU model.
        let mut all: BTreeMap<String, BTreeMap<(String, String), Vec<Shown>>> = BTreeMap::new();
        for node in nodes {
            let architecture = node::architecture(node).unwrap_or("unknown").to_owned();
            let system = node::os(node).unwrap_or("unknown").to_owned();
            let generation = match (host_model_of(node), node::label(node, WINDOWS_BUILD)) {
                (Some(model), _) => model.to_owned(),
                (None, Some(build)) => format!("build {build}"),
                (None, None) => String::new(),
            };
            let shown = Shown {
                name: node.name_any(),
                ready: node::ready(node) == Some(true),
                cordoned: node::is_cordoned(node),
            };
            let groups = all.entry(architecture);
            let group = groups.or_default().entry((system, generation));
            group.or_default().push(shown);
        }
        let scale = nodes.len().div_ceil(MAX_SQUARES).max(1);
        let architectures = all.into_iter().map(|(name, groups)| {
            let groups: Vec<Group> = groups
                .into_iter()
                .map(|((system, label), nodes)| Group::of(system, label, nodes, scale))
                .collect();
            Architecture {
                name,
                nodes: groups.iter().map(|group| group.nodes).sum(),
                groups,
            }
        });
        let architectures: Vec<Architecture> = architectures.collect();
        let groups = || architectures.iter().flat_map(|it| &it.groups);
        let systems: BTreeSet<&String> = groups().map(|group| &group.system).collect();
        Self {
            nodes: nodes.len(),
            not_ready: groups().map(|group| group.not_ready).sum(),
            scale,
            systems: systems.into_iter().cloned().collect(),
            architectures,
        }
    }
}

impl Group {
    fn of(system: String, label: String, mut nodes: Vec<Shown>, scale: usize) -> Self {
        // Nodes that are not ready are adjacent.
        nodes.sort_by(|one, other| {
            (one.ready, !one.cordoned, &one.name).cmp(&(other.ready, !other.cordoned, &other.name))
        });
        let squares: Vec<Square> = nodes
            .chunks(scale)
            .enumerate()
            .map(|(index, nodes)| Square {
                x: index % COLUMNS * STEP,
                y: index / COLUMNS * STEP,
                side: SIDE,
                class: class(&system, nodes),
                title: title(nodes),
            })
            .collect();
        let columns = squares.len().min(COLUMNS);
        let rows = squares.len().div_ceil(COLUMNS);
        Self {
            label: if label.is_empty() {
                "generation not labelled".to_owned()
            } else {
                label
            },
            nodes: nodes.len(),
            not_ready: nodes.iter().filter(|node| !node.ready).count(),
            cordoned: nodes.iter().filter(|node| node.cordoned).count(),
            width: columns * STEP,
            height: rows * STEP,
            squares,
            system,
        }
    }
}

fn class(system: &str, nodes: &[Shown]) -> String {
    let system = if matches!(system, "linux" | "windows") {
        system
    } else {
        "other"
    };
    let state = if nodes.iter().any(|node| !node.ready) {
        " not-ready"
    } else if nodes.iter().any(|node| node.cordoned) {
        " cordoned"
    } else {
        ""
    };
    format!("node {system}{state}")
}

fn title(nodes: &[Shown]) -> String {
    let [node] = nodes else {
        let first = nodes.first().map_or("", |node| &node.name);
        return format!("{first} and {} more", nodes.len().saturating_sub(1));
    };
    let state = match (node.ready, node.cordoned) {
        (false, _) => ", not ready",
        (true, true) => ", cordoned",
        (true, false) => "",
    };
    format!("{}{state}", node.name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeSpec;
    use serde_json::json;

    use super::*;

    fn node(name: &str, architecture: &str, model: Option<&str>, ready: bool) -> Arc<Node> {
        let mut labels = json!({ "kubernetes.io/arch": architecture, "kubernetes.io/os": "linux" });
        if let Some(model) = model {
            labels[format!("host-model-cpu.node.kubevirt.io/{model}")] = json!("true");
        }
        let status = if ready { "True" } else { "False" };
        let node = json!({
            "metadata": { "name": name, "labels": labels },
            "status": { "conditions": [{ "type": "Ready", "status": status }] },
        });
        let mut node: Node = serde_json::from_value(node).unwrap();
        node.spec = Some(NodeSpec::default());
        Arc::new(node)
    }

    #[test]
    fn nodes_are_grouped_by_class() {
        let picture = Picture::of(&[
            node("a", "amd64", Some("EPYC-Rome"), true),
            node("b", "amd64", Some("Skylake-Server"), false),
            node("c", "arm64", None, true),
            node("d", "amd64", Some("EPYC-Rome"), true),
        ]);
        assert_eq!((picture.nodes, picture.not_ready, picture.scale), (4, 1, 1));
        let seen: Vec<(&str, &str, usize)> = picture
            .architectures
            .iter()
            .flat_map(|it| it.groups.iter().map(|group| (it.name.as_str(), group)))
            .map(|(name, group)| (name, group.label.as_str(), group.squares.len()))
            .collect();
        let expected = [
            ("amd64", "EPYC-Rome", 2),
            ("amd64", "Skylake-Server", 1),
            ("arm64", "generation not labelled", 1),
        ];
        assert_eq!(seen, expected);
        let troubled = &picture.architectures[0].groups[1].squares[0];
        assert_eq!(
            (troubled.class.as_str(), troubled.title.as_str()),
            ("node linux not-ready", "b, not ready")
        );
    }

    #[test]
    fn large_fleet_is_scaled_down() {
        let nodes: Vec<Arc<Node>> = (0..5000)
            .map(|index| node(&format!("n{index:04}"), "amd64", None, true))
            .collect();
        let picture = Picture::of(&nodes);
        assert_eq!(picture.scale, 13);
        let squares = picture.architectures[0].groups[0].squares.len();
        assert!(squares <= MAX_SQUARES, "{squares}");
        assert_eq!(
            picture.architectures[0].groups[0].squares[0].title,
            "n0000 and 12 more"
        );
    }
}
