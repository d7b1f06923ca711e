//! Whether nodes of another architecture can join: the final proof that a migration is complete.
//!
//! A node counts if it joined after the release was complete. It has to be ready, and the machine-config-daemon has to
//! run on it: its image comes from the release, and could not start there before.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::node;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, PodCondition};
use kube_core::ResourceExt as _;
use serde::Serialize;

/// The inputs of the verification.
#[derive(Debug, Clone, Copy)]
pub struct VerifyInputs<'a> {
    /// When the release was complete.
    pub completed: Timestamp,
    /// The required architecture; any that was not present before, if `None`.
    pub architecture: Option<&'a str>,
    /// All nodes.
    pub nodes: &'a [Node],
    /// The pods of the machine-config-daemon; `None` if it is not installed.
    pub daemons: Option<&'a [Pod]>,
}

/// A node that joined after the release was complete, and counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinedNode {
    /// Its name.
    pub node: String,
    /// Its architecture.
    pub architecture: String,
    /// When it joined.
    pub joined: Timestamp,
    /// When it became ready, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Timestamp>,
    /// The pod of the machine-config-daemon on it, if ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Daemon>,
    /// What is missing; `None` if it is the proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// The machine-config-daemon on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Daemon {
    /// The pod.
    pub pod: String,
    /// Its image.
    pub image: String,
    /// When it became ready.
    pub ready: Timestamp,
}

/// The result of the verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// The architectures present before the release was complete.
    pub before: Vec<String>,
    /// Nodes that count, proving ones first.
    pub joined: Vec<JoinedNode>,
}

impl JoinedNode {
    /// Whether it proves that such nodes can join.
    pub fn is_proof(&self) -> bool {
        self.missing.is_none()
    }

    /// The time from joining until all requirements were met.
    pub fn took(&self) -> Option<SignedDuration> {
        let daemon = self.daemon.as_ref().map(|it| it.ready);
        let last = self.ready.into_iter().chain(daemon).max()?;
        Some(last.duration_since(self.joined))
    }
}

impl Proof {
    /// The node that proves it.
    pub fn proven(&self) -> Option<&JoinedNode> {
        self.joined.iter().find(|it| it.is_proof())
    }
}

/// Searches for a node that proves it.
pub fn verify(facts: &VerifyInputs<'_>) -> Proof {
    let came = |node: &Node| node.creation_timestamp().map(|it| it.0);
    // A node that joined before may run images of its architecture from its cache, and proves nothing.
    let is_new = |node: &&Node| came(node).is_some_and(|came| came >= facts.completed);
    let before: BTreeSet<String> = facts
        .nodes
        .iter()
        .filter(|node| !is_new(node))
        .filter_map(|node| node::architecture(node).map(str::to_owned))
        .collect();
    let mut joined: Vec<JoinedNode> = facts
        .nodes
        .iter()
        .filter(is_new)
        .filter_map(|node| {
            let architecture = node::architecture(node)?.to_owned();
            let counts = match facts.architecture {
                Some(wanted) => architecture == wanted,
                None => !before.contains(&architecture),
            };
            counts.then(|| evaluate_node(node, architecture, came(node).unwrap_or_default(), facts))
        })
        .collect();
    joined.sort_by_key(|it| (!it.is_proof(), it.joined, it.node.clone()));
    Proof {
        before: before.into_iter().collect(),
        joined,
    }
}

fn evaluate_node(
    node: &Node,
    architecture: String,
    joined: Timestamp,
    facts: &VerifyInputs<'_>,
) -> JoinedNode {
    let name = node.name_any();
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    let holds = |it: &&NodeCondition| it.type_ == "Ready" && it.status == "True";
    let ready = conditions.into_iter().flatten().find(holds);
    // A condition without a transition time counts from the time the node joined.
    let ready = ready.map(|it| it.last_transition_time.as_ref().map_or(joined, |it| it.0));
    let daemon = facts.daemons.unwrap_or_default().iter().find_map(|pod| {
        let spec = pod.spec.as_ref()?;
        if spec.node_name.as_ref() != Some(&name) {
            return None;
        }
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        let holds = |it: &&PodCondition| it.type_ == "Ready" && it.status == "True";
        let ready = conditions.iter().find(holds)?.last_transition_time.as_ref();
        Some(Daemon {
            pod: pod.name_any(),
            image: spec.containers.first()?.image.clone().unwrap_or_default(),
            ready: ready.map_or(joined, |it| it.0),
        })
    });
    let missing = if ready.is_none() {
        Some("it is not ready".to_owned())
    } else if facts.daemons.is_some() && daemon.is_none() {
        Some("the machine-config-daemon does not run there".to_owned())
    } else {
        None
    };
    JoinedNode {
        node: name,
        architecture,
        joined,
        // The timestamp of a condition may come from another clock.
        ready: ready.map(|it| it.max(joined)),
        daemon,
        missing,
    }
}
