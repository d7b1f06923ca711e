//! An explanation as people read it.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::{Explanation, Gain, Margin};
use crate::decide::{RuledOut, Verdict};

/// So many names are told of those that are alike.
const NAMED: usize = 8;
/// So many models are told of each sort.
const MODELS: usize = 6;

impl Explanation {
    /// What the decision follows from, one sentence each.
    pub fn because(&self) -> Vec<String> {
        let decision = &self.decision;
        let mut lines = Vec::new();
        let node = &decision.node;
        match (&decision.vendor, &decision.host_model) {
            (Some(vendor), Some(model)) => {
                lines.push(format!(
                    "node {node} is by {vendor}, its own model is {model}"
                ));
            }
            (Some(vendor), None) => lines.push(format!("node {node} is by {vendor}")),
            (None, _) => {}
        }
        if let Some(needed) = &decision.threshold {
            lines.push(format!("nodes that have to support a model: {needed}"));
        }
        match &decision.verdict {
            Verdict::HostModel(fallback) => lines.push(fallback.to_string()),
            Verdict::HostPassthrough => {
                lines.push("machines of arm64 have the CPU of their host".to_owned());
            }
            Verdict::Model(_) => {}
        }
        let candidates = decision.candidates.iter().enumerate();
        for (place, it) in candidates.take(MODELS) {
            let (model, year, nodes) = (&it.model, it.year, plural(it.supporters, "node"));
            lines.push(if place == 0 {
                let names = named(&self.supporters);
                format!("{model}, of {year}, is supported by {nodes}: {names}")
            } else {
                format!("{model}, of {year}, would come next: {nodes}")
            });
        }
        let more = decision.candidates.len().saturating_sub(MODELS);
        if more > 0 {
            lines.push(format!("{} would do as well", plural(more, "more model")));
        }
        lines
    }

    /// The models that will not do, those together that share their reason.
    pub fn models_ruled_out(&self) -> Vec<String> {
        let mut few: Vec<&_> = Vec::new();
        let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for refused in &self.decision.ruled_out {
            if matches!(refused.reason, RuledOut::TooFewSupporters { .. }) {
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
            .map(|(reason, models)| format!("{}: {reason}", named(&models)));
        few.chain(others).collect()
    }

    /// The nodes that do not count, those together that share their reason.
    pub fn nodes_left_out(&self) -> Vec<String> {
        let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for out in &self.left_out {
            let nodes = reasons.entry(out.reason.to_string()).or_default();
            nodes.push(&out.node);
        }
        let lines = reasons.into_iter();
        lines
            .map(|(reason, nodes)| format!("{}: {reason}", named(&nodes)))
            .collect()
    }

    /// What would change it.
    pub fn next(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .gains
            .iter()
            .take(MODELS)
            .map(|Gain { model, year, nodes }| {
                format!("{model}, of {year}, needs {}", plural(*nodes, "more node"))
            })
            .collect();
        if let (Some(Margin { may_go, may_come }), Verdict::Model(model)) =
            (self.margin, &self.decision.verdict)
        {
            lines.push(match may_go {
                0 => format!("{model} can spare none of its nodes"),
                _ => format!("{model} can spare {}", plural(may_go, "node")),
            });
            if let Some(nodes) = may_come {
                let nodes = plural(nodes, "more node");
                lines.push(format!(
                    "with {nodes} without it, {model} is not possible any more"
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

/// The first of many names.
fn named<S: AsRef<str>>(names: &[S]) -> String {
    let told: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let told = told.join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}
