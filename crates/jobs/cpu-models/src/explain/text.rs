//! Explanations as text.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::{Explanation, Gain, Margin};
use crate::decide::{ModelRejection, ModelVerdict};

/// Longer lists of names end in `and N more`.
const MAX_LISTED_NAMES: usize = 8;
/// At most this many candidates and gains are listed.
const MAX_LISTED_MODELS: usize = 6;

impl Explanation {
    /// The facts that the decision follows from, one sentence each.
    pub fn because(&self) -> Vec<String> {
        let decision = &self.decision;
        let mut lines = Vec::new();
        let node = &decision.node;
        match (&decision.vendor, &decision.host_model) {
            (Some(vendor), Some(model)) => {
                lines.push(format!("node {node}: vendor {vendor}, host model {model}"));
            }
            (Some(vendor), None) => lines.push(format!("node {node}: vendor {vendor}")),
            (None, _) => {}
        }
        if let Some(needed) = &decision.threshold {
            lines.push(format!("supporting nodes required: {needed}"));
        }
        match &decision.verdict {
            ModelVerdict::HostModel(fallback) => lines.push(fallback.to_string()),
            ModelVerdict::HostPassthrough => {
                lines.push("VMs on arm64 always use host-passthrough".to_owned());
            }
            ModelVerdict::Model(_) => {}
        }
        let candidates = decision.candidates.iter().enumerate();
        for (place, it) in candidates.take(MAX_LISTED_MODELS) {
            let (model, year, nodes) = (&it.model, it.year, plural(it.supporters, "node"));
            lines.push(if place == 0 {
                let names = join_names(&self.supporters);
                format!("{model} ({year}) is supported by {nodes}: {names}")
            } else {
                format!("{model} ({year}) is the next candidate: {nodes}")
            });
        }
        let more = decision.candidates.len().saturating_sub(MAX_LISTED_MODELS);
        if more > 0 {
            lines.push(format!("{} not listed", plural(more, "more candidate")));
        }
        lines
    }

    /// The models ruled out. Those below the threshold come first, one per line, with their counts;
    /// the others are grouped by reason.
    pub fn models_ruled_out(&self) -> Vec<String> {
        let mut few: Vec<&_> = Vec::new();
        let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for refused in &self.decision.ruled_out {
            if matches!(refused.reason, ModelRejection::TooFewSupporters { .. }) {
                few.push(refused);
            } else {
                let reason = others.entry(refused.reason.to_string()).or_default();
                reason.push(&refused.model);
            }
        }
        let few = few
            .into_iter()
            .map(|refused| format!("{}: {}", refused.model, refused.reason));
        let others = others
            .into_iter()
            .map(|(reason, models)| format!("{}: {reason}", join_names(&models)));
        few.chain(others).collect()
    }

    /// The nodes that are not eligible, grouped by reason.
    pub fn nodes_left_out(&self) -> Vec<String> {
        let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for out in &self.left_out {
            let nodes = reasons.entry(out.reason.to_string()).or_default();
            nodes.push(&out.node);
        }
        let lines = reasons.into_iter();
        lines
            .map(|(reason, nodes)| format!("{}: {reason}", join_names(&nodes)))
            .collect()
    }

    /// What would change the decision.
    pub fn next(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .gains
            .iter()
            .take(MAX_LISTED_MODELS)
            .map(|Gain { model, year, nodes }| {
                format!("{model} ({year}) needs {}", plural(*nodes, "more node"))
            })
            .collect();
        if let (Some(Margin { may_go, may_come }), ModelVerdict::Model(model)) =
            (self.margin, &self.decision.verdict)
        {
            lines.push(match may_go {
                0 => format!("{model} can spare none of its nodes"),
                _ => format!("{model} can spare {}", plural(may_go, "node")),
            });
            if let Some(nodes) = may_come {
                let nodes = plural(nodes, "more node");
                lines.push(format!(
                    "with {nodes} that do not support it, {model} falls below the threshold"
                ));
            }
        }
        lines
    }
}

fn plural(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {what}{end}")
}

/// The first names of a list.
fn join_names<S: AsRef<str>>(names: &[S]) -> String {
    let listed: Vec<&str> = names
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(AsRef::as_ref)
        .collect();
    let listed = listed.join(", ");
    match names.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}
