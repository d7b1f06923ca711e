//! What other nodes would change for all virtual machines. Nothing is written: it is a question.

use cpu_models::what_if::{Change, Totals, World as Side, what_if};
use cpu_models::{Index, NodeFacts};

use super::World;

/// So many new nodes can be imagined.
const MOST: usize = 1000;
/// So many machines are listed.
const LISTED: usize = 200;
/// So many nodes can be chosen from; of more, names are written.
const CHOICES: usize = 200;

/// The question, and what comes of it.
pub(super) struct WhatIf {
    /// All nodes, to choose from, and whether each is taken away; nothing if there are too many.
    pub(super) nodes: Option<Vec<(String, bool)>>,
    /// What was written of nodes that are taken away.
    pub(super) gone: String,
    /// How many those are.
    pub(super) gone_count: usize,
    /// What new nodes can be like.
    pub(super) makes: Vec<Make>,
    /// How many new ones.
    pub(super) count: usize,
    /// What comes of it, if anything was asked.
    pub(super) outcome: Option<Outcome>,
}

/// Nodes of one make.
pub(super) struct Make {
    /// One of them.
    pub(super) node: String,
    /// What they are.
    pub(super) label: String,
    /// Whether new nodes are like this.
    pub(super) is_chosen: bool,
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
        let asked_gone = all("remove").join(", ");
        let like = all("like").first().copied().unwrap_or_default();
        let count = all("count").first().and_then(|it| it.parse().ok());
        let count = count.unwrap_or(1usize).clamp(1, MOST);
        let names = world.index.names();
        let gone: Vec<&str> = meant(&asked_gone, &names);
        let mut changed = !gone.is_empty();
        let mut index: Index = (*world.index).clone();
        for name in &gone {
            index.remove(name);
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
        let machines = world.machines.as_ref();
        let machines = machines.map_or(&[][..], |it| &it.running[..]);
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
        let choices = names.iter().map(|name| {
            let is_gone = gone.contains(name);
            ((*name).to_owned(), is_gone)
        });
        Self {
            nodes: (names.len() <= CHOICES).then(|| choices.collect()),
            gone_count: gone.len(),
            makes: makes(world, like),
            count,
            outcome,
            gone: asked_gone,
        }
    }
}

/// The nodes that are written: names, or parts of them with `*` for anything, apart by spaces or commas.
fn meant<'n>(written: &str, names: &[&'n str]) -> Vec<&'n str> {
    let patterns = written.split([',', ' ', '\n', '\r', '\t']);
    let patterns: Vec<&str> = patterns.filter(|it| !it.is_empty()).collect();
    if patterns.is_empty() {
        return Vec::new();
    }
    let of = |name: &&&str| patterns.iter().any(|pattern| fits(pattern, name));
    names.iter().filter(of).copied().collect()
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

/// What new nodes can be like: one of every make.
fn makes(world: &World, like: &str) -> Vec<Make> {
    let rows = world
        .matrices
        .iter()
        .flat_map(|matrix| matrix.rows.iter().map(move |row| (matrix, row)));
    rows.filter_map(|(matrix, row)| {
        let architecture = matrix.architecture.as_deref().unwrap_or("unknown");
        let is_chosen = row.nodes.iter().any(|it| it == like);
        let node = if is_chosen { like } else { row.nodes.first()? };
        Some(Make {
            node: node.to_owned(),
            label: match &row.host_model {
                Some(make) => format!("{make}, {architecture}"),
                None => format!("{architecture}, generation not labelled"),
            },
            is_chosen,
        })
    })
    .collect()
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
    fn of(outcome: &cpu_models::what_if::Outcome) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_meant_by_name_or_by_parts_of_it() {
        let names = ["arm-1", "rome-1", "rome-10", "rome-2"];
        for (written, expected) in [
            ("", &[][..]),
            (" , ", &[]),
            ("rome-1", &["rome-1"]),
            ("rome-1,arm-1", &["arm-1", "rome-1"]),
            ("rome-1*", &["rome-1", "rome-10"]),
            ("*-1 nowhere", &["arm-1", "rome-1"]),
            ("r*e*0", &["rome-10"]),
            ("*", &["arm-1", "rome-1", "rome-10", "rome-2"]),
            ("rome-1*1", &[]),
        ] {
            assert_eq!(meant(written, &names), expected, "{written:?}");
        }
    }
}
