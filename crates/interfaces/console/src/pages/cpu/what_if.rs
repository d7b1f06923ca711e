//! What-if: how other nodes would change the CPU models of all virtual machines. Nothing is
//! written.

use cpu_models::what_if::{Change, Scenario as Side, Totals, what_if};
use cpu_models::{Index, NodeInputs};

use super::CpuView;

/// Limit of hypothetical nodes.
const MAX_NEW_NODES: usize = 1000;
/// VMs listed.
const MAX_LISTED: usize = 200;
/// Up to this many nodes are offered as checkboxes; beyond, names are typed in.
const MAX_CHECKBOXES: usize = 200;

/// The form and its result.
pub(super) struct WhatIf {
    /// All nodes, and whether each is removed; `None` if there are more than [`MAX_CHECKBOXES`].
    pub(super) nodes: Option<Vec<(String, bool)>>,
    /// The typed-in names of removed nodes.
    pub(super) gone: String,
    /// Number of removed nodes.
    pub(super) gone_count: usize,
    /// Node classes that new nodes can have.
    pub(super) node_classes: Vec<NodeClass>,
    /// Number of new nodes.
    pub(super) count: usize,
    /// The result, if the form was submitted.
    pub(super) outcome: Option<Outcome>,
}

/// Nodes of one class.
pub(super) struct NodeClass {
    /// An example node.
    pub(super) node: String,
    /// Description of the class.
    pub(super) label: String,
    /// Whether new nodes are of this class.
    pub(super) is_chosen: bool,
}

/// Result of the evaluation.
pub(super) struct Outcome {
    /// Counts before and after.
    pub(super) totals: Vec<(&'static str, u32, u32)>,
    pub(super) lines: Vec<Line>,
    /// Number of VMs that are not listed.
    pub(super) more: usize,
}

/// A VM whose model would change.
pub(super) struct Line {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: String,
    pub(super) targets: (u32, u32),
    pub(super) effects: String,
}

impl WhatIf {
    /// Evaluates the fields of the form; names of nodes that no longer exist are ignored.
    pub(super) fn of(view: &CpuView, asked: &[(String, String)]) -> Self {
        let all = |name: &str| -> Vec<&str> {
            let found = asked
                .iter()
                .filter(|(known, value)| known == name && !value.is_empty());
            found.map(|(_, value)| value.as_str()).collect()
        };
        let asked_gone = all("remove").join(", ");
        let like = all("like").first().copied().unwrap_or_default();
        let count = all("count").first().and_then(|it| it.parse().ok());
        let count = count.unwrap_or(1usize).clamp(1, MAX_NEW_NODES);
        let names = view.index.names();
        let gone: Vec<&str> = meant(&asked_gone, &names);
        let mut changed = !gone.is_empty();
        let mut index: Index = (*view.index).clone();
        for name in &gone {
            index.remove(name);
        }
        if let Some(facts) = view.index.node_like(like) {
            changed = true;
            for at in 0..count {
                index.upsert(&NodeInputs {
                    name: format!("{like} (new {at})"),
                    ..facts.clone()
                });
            }
        }
        let policy = &view.settings.policy;
        let machines = view.machines.as_ref();
        let machines = machines.map_or(&[][..], |it| &it.running[..]);
        let outcome = changed.then(|| {
            let now = Side {
                index: &view.index,
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
            nodes: (names.len() <= MAX_CHECKBOXES).then(|| choices.collect()),
            gone_count: gone.len(),
            node_classes: node_classes(view, like),
            count,
            outcome,
            gone: asked_gone,
        }
    }
}

/// The nodes that match the input: names or patterns with `*`, separated by spaces or commas.
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

/// The node classes to choose from, with an example node each.
fn node_classes(view: &CpuView, like: &str) -> Vec<NodeClass> {
    let rows = view
        .matrices
        .iter()
        .flat_map(|matrix| matrix.rows.iter().map(move |row| (matrix, row)));
    rows.filter_map(|(matrix, row)| {
        let architecture = matrix.architecture.as_deref().unwrap_or("unknown");
        let is_chosen = row.nodes.iter().any(|it| it == like);
        let node = if is_chosen { like } else { row.nodes.first()? };
        Some(NodeClass {
            node: node.to_owned(),
            label: match &row.host_model {
                Some(node_class) => format!("{node_class}, {architecture}"),
                None => format!("{architecture}, generation not labelled"),
            },
            is_chosen,
        })
    })
    .collect()
}

impl Outcome {
    fn of(outcome: &cpu_models::what_if::Outcome) -> Self {
        let (before, after) = (&outcome.before, &outcome.after);
        let pair = |name, of: fn(&Totals) -> u32| (name, of(before), of(after));
        let totals = vec![
            pair("Stranded", |it| it.stranded),
            pair("Without a node to migrate to", |it| it.without_target),
            pair("On a removed node", |it| it.without_node),
            pair("Stale", |it| it.stale),
        ];
        let more = outcome.changes.len().saturating_sub(MAX_LISTED);
        let lines = outcome.changes.iter().take(MAX_LISTED).map(line);
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
    fn nodes_match_by_name_or_pattern() {
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
