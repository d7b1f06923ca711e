//! Metrics, and which warnings have been emitted.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use placement::Cluster;
use placement::runtime_classes::{ClassPlan, MissingHandler};
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

/// Metrics of the controller, and the warnings it has emitted.
pub(crate) struct Report {
    classes: Gauges<State>,
    nodes: Gauges<Build>,
    /// Nodes and the missing handlers they have a warning for.
    reported: Mutex<BTreeSet<(String, String)>>,
}

impl Report {
    pub(crate) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            classes: metrics.gauges(
                "placement_runtime_classes",
                "RuntimeClasses for Windows builds: served by nodes, kept for pods that use them, or withheld because nodes lack the handler",
            ),
            nodes: metrics.gauges(
                "placement_windows_nodes",
                "Windows nodes, by build",
            ),
            reported: Mutex::default(),
        }
    }

    /// Withheld classes without a warning yet, each with the node to emit it on.
    pub(super) fn unreported<'a>(
        &self,
        withheld: &'a [MissingHandler],
    ) -> Vec<(String, &'a MissingHandler)> {
        let mut reported = self.reported.lock();
        let mut now = BTreeSet::new();
        let mut unreported = Vec::new();
        for class in withheld {
            for node in &class.nodes {
                let lacks = (node.clone(), class.handler.clone());
                if now.insert(lacks.clone()) && !reported.contains(&lacks) {
                    unreported.push((node.clone(), class));
                }
            }
        }
        // Replaced, not extended: a handler that disappears again after it was installed deserves a new warning.
        *reported = now;
        unreported
    }

    /// Updates the metrics.
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

// A cluster has far fewer than 2^53 nodes.
#[expect(clippy::cast_precision_loss, reason = "a count of nodes or classes")]
fn number(count: usize) -> f64 {
    count as f64
}
