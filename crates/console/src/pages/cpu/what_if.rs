//! What other nodes would change for all virtual machines. Nothing is written: it is a question.

use cpumodel::NodeFacts;
use cpumodel::what_if::{Change, Totals, World as Side, what_if};

use super::World;

/// So many new nodes can be imagined.
const MOST: usize = 1000;
/// So many machines are listed.
const LISTED: usize = 200;

/// The question, and what comes of it.
pub(super) struct WhatIf {
    /// All nodes, to choose from, and whether each is taken away.
    pub(super) nodes: Vec<(String, bool)>,
    /// The node that new ones are like.
    pub(super) like: String,
    /// How many new ones.
    pub(super) count: usize,
    /// What comes of it, if anything was asked.
    pub(super) outcome: Option<Outcome>,
}

/// What comes of it.
pub(super) struct Outcome {
    /// What is counted, before and after.
    pub(super) totals: Vec<(&'static str, u32, u32)>,
    pub(super) lines: Vec<Line>,
    /// How many are not listed.
    pub(super) more: usize,
}

/// A machine for which something would change.
pub(super) struct Line {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: String,
    pub(super) targets: (u32, u32),
    pub(super) effects: String,
}

impl WhatIf {
    /// What was asked with the fields of the form; names of nodes that are gone since do not count.
    pub(super) fn of(world: &World, asked: &[(String, String)]) -> Self {
        let all = |name: &str| -> Vec<&str> {
            let found = asked
                .iter()
                .filter(|(known, value)| known == name && !value.is_empty());
            found.map(|(_, value)| value.as_str()).collect()
        };
        let gone = all("remove");
        let like = all("like").first().copied().unwrap_or_default();
        let count = all("count").first().and_then(|it| it.parse().ok());
        let count = count.unwrap_or(1usize).clamp(1, MOST);
        let mut names: Vec<String> = world.index.names().into_iter().map(str::to_owned).collect();
        names.sort();
        let mut index = world.index.clone();
        let mut changed = false;
        for name in &gone {
            changed |= index.remove(name);
        }
        if let Some(facts) = copied(world, like) {
            changed = true;
            for at in 0..count {
                index.upsert(&NodeFacts {
                    name: format!("{like} (new {at})"),
                    ..facts.clone()
                });
            }
        }
        let policy = &world.settings.policy;
        let machines = world.machines.as_deref().unwrap_or_default();
        let outcome = changed.then(|| {
            let now = Side {
                index: &world.index,
                policy,
            };
            let then = Side {
                index: &index,
                policy,
            };
            Outcome::of(&what_if(now, then, machines))
        });
        Self {
            nodes: names
                .into_iter()
                .map(|name| {
                    let is_gone = gone.contains(&name.as_str());
                    (name, is_gone)
                })
                .collect(),
            like: like.to_owned(),
            count,
            outcome,
        }
    }
}

/// What a new node like this one would be.
fn copied(world: &World, name: &str) -> Option<NodeFacts> {
    let labels = world.index.labels_of(name)?;
    let labels = labels.into_iter();
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let labels: std::collections::BTreeMap<String, String> = labels.collect();
    Some(NodeFacts {
        name: name.to_owned(),
        architecture: labels.get("kubernetes.io/arch").cloned(),
        labels,
        unschedulable: false,
        ready: true,
        taints: Vec::new(),
    })
}

impl Outcome {
    fn of(outcome: &cpumodel::what_if::Outcome) -> Self {
        let (before, after) = (&outcome.before, &outcome.after);
        let pair = |name, of: fn(&Totals) -> u32| (name, of(before), of(after));
        let totals = vec![
            pair("Stranded", |it| it.stranded),
            pair("Without a node to migrate to", |it| it.without_target),
            pair("Whose node is gone", |it| it.without_node),
            pair("Stale", |it| it.stale),
        ];
        let more = outcome.changes.len().saturating_sub(LISTED);
        let lines = outcome.changes.iter().take(LISTED).map(line);
        Self {
            totals,
            lines: lines.collect(),
            more,
        }
    }
}

fn line(change: &Change) -> Line {
    let effects: Vec<String> = change.effects.iter().map(ToString::to_string).collect();
    Line {
        namespace: change.namespace.clone(),
        name: change.name.clone(),
        node: change.node.clone(),
        targets: (change.before.targets, change.after.targets),
        effects: effects.join("; "),
    }
}
