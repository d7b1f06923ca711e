//! Whether machines of another architecture can join: the last proof that a migration is complete.
//!
//! A machine counts that came after the release was complete. It has to say that it is ready, and the
//! daemon that looks after machines has to run on it: that one comes from the release, and could not start
//! there before.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, PodCondition};
use kube_core::ResourceExt as _;
use serde::Serialize;

/// The label with the architecture of a machine.
const ARCHITECTURE: &str = "kubernetes.io/arch";

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// When the release was complete.
    pub completed: Timestamp,
    /// The architecture that is wanted; any that was not there before, if none.
    pub architecture: Option<&'a str>,
    /// All machines.
    pub nodes: &'a [Node],
    /// The pods of the daemon that looks after machines; none if there is no such daemon.
    pub daemons: Option<&'a [Pod]>,
}

/// A machine that came after the release was complete, and counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Joined {
    /// What it is called.
    pub node: String,
    /// Its architecture.
    pub architecture: String,
    /// When it came.
    pub joined: Timestamp,
    /// When it became ready, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Timestamp>,
    /// The pod of the daemon that runs there, if one is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Daemon>,
    /// What is missing; nothing if it is the proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// The daemon on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Daemon {
    /// The pod.
    pub pod: String,
    /// What it runs.
    pub image: String,
    /// When it became ready.
    pub ready: Timestamp,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// The architectures that were there before the release was complete.
    pub before: Vec<String>,
    /// Machines that count, those that prove it first.
    pub joined: Vec<Joined>,
}

impl Joined {
    /// Whether it proves that such machines can join.
    pub fn is_proof(&self) -> bool {
        self.missing.is_none()
    }

    /// How long it took from its coming to all that is wanted of it.
    pub fn took(&self) -> Option<SignedDuration> {
        let daemon = self.daemon.as_ref().map(|it| it.ready);
        let last = self.ready.into_iter().chain(daemon).max()?;
        Some(last.duration_since(self.joined))
    }
}

impl Proof {
    /// The machine that proves it.
    pub fn proven(&self) -> Option<&Joined> {
        self.joined.iter().find(|it| it.is_proof())
    }
}

/// Looks for a machine that proves it.
pub fn verify(facts: &Facts<'_>) -> Proof {
    let came = |node: &Node| node.creation_timestamp().map(|it| it.0);
    let is_new = |node: &&Node| came(node).is_some_and(|came| came >= facts.completed);
    let before: BTreeSet<String> = facts
        .nodes
        .iter()
        .filter(|node| !is_new(node))
        .filter_map(architecture)
        .collect();
    let mut joined: Vec<Joined> = facts
        .nodes
        .iter()
        .filter(is_new)
        .filter_map(|node| {
            let architecture = architecture(node)?;
            let counts = match facts.architecture {
                Some(wanted) => architecture == wanted,
                None => !before.contains(&architecture),
            };
            counts.then(|| look(node, architecture, came(node).unwrap_or_default(), facts))
        })
        .collect();
    joined.sort_by_key(|it| (!it.is_proof(), it.joined, it.node.clone()));
    Proof {
        before: before.into_iter().collect(),
        joined,
    }
}

fn architecture(node: &Node) -> Option<String> {
    let said = node.labels().get(ARCHITECTURE).cloned();
    said.or_else(|| {
        Some(
            node.status
                .as_ref()?
                .node_info
                .as_ref()?
                .architecture
                .clone(),
        )
    })
}

fn look(node: &Node, architecture: String, joined: Timestamp, facts: &Facts<'_>) -> Joined {
    let name = node.name_any();
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    let holds = |it: &&NodeCondition| it.type_ == "Ready" && it.status == "True";
    let ready = conditions.into_iter().flatten().find(holds);
    // A condition that does not say since when holds since the machine came, as far as anybody knows.
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
        Some("the daemon that looks after machines does not run there".to_owned())
    } else {
        None
    };
    Joined {
        node: name,
        architecture,
        joined,
        // The clock of a condition may be that of another machine.
        ready: ready.map(|it| it.max(joined)),
        daemon,
        missing,
    }
}
