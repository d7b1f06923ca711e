//! Numbers, and what has been told.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use placement::Cluster;
use placement::runtime_classes::{ClassPlan, Withheld};
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::Gauges;
use runtime::{Key, Manager};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    build: String,
}

/// Counts, and remembers what was told.
pub(super) struct Report {
    classes: Gauges<State>,
    nodes: Gauges<Build>,
    /// Nodes, and the handlers that they were told to lack.
    told: Mutex<BTreeSet<(String, String)>>,
}

impl Report {
    pub(super) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            classes: metrics.gauges(
                "placement_runtime_classes",
                "RuntimeClasses for builds of Windows: served by nodes, kept for pods, or withheld because nodes lack a handler",
            ),
            nodes: metrics.gauges(
                "placement_windows_nodes",
                "Nodes that run Windows, by build",
            ),
            told: Mutex::default(),
        }
    }

    /// What is withheld for a reason that was not told yet, and to which node it is to be told.
    pub(super) fn news<'a>(&self, withheld: &'a [Withheld]) -> Vec<(String, &'a Withheld)> {
        let mut told = self.told.lock();
        let mut now = BTreeSet::new();
        let mut news = Vec::new();
        for class in withheld {
            for node in &class.nodes {
                let lacks = (node.clone(), class.handler.clone());
                if now.insert(lacks.clone()) && !told.contains(&lacks) {
                    news.push((node.clone(), class));
                }
            }
        }
        *told = now;
        news
    }

    /// Counts nodes and classes.
    pub(super) fn count(&self, cluster: &Cluster, plan: &ClassPlan) {
        let all = Key::new("", "all");
        let states = [
            ("served", plan.serve.len()),
            ("kept", plan.keep.len()),
            ("withheld", plan.withheld.len()),
        ];
        let states = states.map(|(state, count)| (State { state }, number(count)));
        self.classes.set(&all, states);
        let mut builds = BTreeMap::<&str, usize>::new();
        for (place, nodes) in cluster.places() {
            *builds.entry(place.build.as_str()).or_default() += nodes;
        }
        let builds = builds.into_iter().map(|(build, nodes)| {
            let build = build.to_owned();
            (Build { build }, number(nodes))
        });
        self.nodes.set(&all, builds);
    }
}

// Nobody has so many nodes that a float cannot count them.
#[expect(clippy::cast_precision_loss, reason = "a count of nodes or classes")]
fn number(count: usize) -> f64 {
    count as f64
}
