//! A decision in full: every node, and what one more of them would change.
//!
//! This looks at every node, and is for those who ask.

#[cfg(test)]
mod tests;
mod words;

use machinery::node_affinity::tolerates;
use serde::Serialize;

use crate::decide::{Candidate, Decision, Place, RuledOut, Survey, Verdict};
use crate::index::node::NodeVendor;
use crate::index::{Index, Indexed};
use crate::machine::Machine;
use crate::names::FEATURE_LABEL;
use crate::policy::Policy;
use crate::table::Vendor;

/// More nodes than this would have to come for a model are not counted out.
const FORESEEN: u32 = 100;

/// A decision in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// Nodes that count and support the model that was chosen, sorted.
    pub supporters: Vec<String>,
    /// Nodes that count and do not support it, sorted. All that count, if none was chosen.
    pub others: Vec<String>,
    /// Nodes that do not count, sorted by name.
    pub left_out: Vec<LeftOut>,
    /// Newer models that more nodes would make possible, the best first.
    pub gains: Vec<Gain>,
    /// What would take the model away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<Margin>,
}

/// A node that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// The node.
    pub node: String,
    /// Why.
    pub reason: NodeReason,
}

/// Why a node does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(
    rename_all = "camelCase",
    tag = "reason",
    rename_all_fields = "camelCase"
)]
pub enum NodeReason {
    /// Its architecture is another.
    #[error("its architecture is {architecture}")]
    Architecture {
        /// Which.
        architecture: String,
    },
    /// It lacks a label that is selected.
    #[error("it lacks the label {key}={value}")]
    Selector {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// It lacks a CPU feature.
    #[error("it lacks the CPU feature {feature}")]
    FeatureMissing {
        /// Which.
        feature: String,
    },
    /// It has a CPU feature that is forbidden.
    #[error("it has the CPU feature {feature}")]
    FeatureForbidden {
        /// Which.
        feature: String,
    },
    /// No term of the affinity matches it.
    #[error("the required node affinity does not match")]
    Affinity,
    /// The same, and terms of the affinity make no sense.
    #[error("the required node affinity does not match, and is wrong: {errors}")]
    MalformedAffinity {
        /// What is wrong.
        errors: String,
    },
    /// It is cordoned, or its virt-handler does not answer.
    #[error("it is not schedulable")]
    Unschedulable,
    /// It is not Ready.
    #[error("it is not Ready")]
    NotReady,
    /// It has a taint that is not tolerated.
    #[error("its taint {taint} is not tolerated")]
    Taint {
        /// Which, as kubectl shows it.
        taint: String,
    },
    /// Its vendor is another.
    #[error("its vendor is {vendor}")]
    Vendor {
        /// Which.
        vendor: Vendor,
    },
    /// Its vendor is not known.
    #[error("it does not tell one vendor")]
    VendorUnclear,
}

/// A newer model that more nodes would make possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gain {
    /// The model.
    pub model: String,
    /// When it was launched.
    pub year: i32,
    /// How many eligible nodes that support it have to come.
    pub nodes: u32,
}

/// What would take a model away from machines that start later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Margin {
    /// So many nodes that support it may go at once.
    pub may_go: u32,
    /// With so many more nodes that do not support it, the threshold is higher than their number;
    /// none if that never happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_come: Option<u32>,
}

/// Explains a decision.
pub fn explain(index: &Index, policy: &Policy, machine: &Machine, node: &str) -> Explanation {
    let mut survey = Survey::new(index, policy);
    let decision = survey.decide(machine, node);
    let mut explanation = Explanation {
        decision,
        supporters: Vec::new(),
        others: Vec::new(),
        left_out: Vec::new(),
        gains: Vec::new(),
        margin: None,
    };
    if explanation.decision.verdict == Verdict::HostPassthrough {
        return explanation;
    }
    if let Ok(place) = survey.find_place(&machine.demand, node) {
        explanation.list_nodes(&survey, &place, machine);
        explanation.foresee(&survey, &place);
    }
    explanation
}

impl Explanation {
    fn list_nodes(&mut self, survey: &Survey<'_>, place: &Place<'_>, machine: &Machine) {
        let index = survey.index();
        let pool = survey.pool_at(place.pool);
        let nodes = &pool.of_vendor(place.within).nodes;
        let chosen = match &self.decision.verdict {
            Verdict::Model(name) => index.model_named(name),
            _ => None,
        };
        for (at, node) in index.nodes() {
            let counts = nodes.contains(at as usize) || (at == place.at && place.own == 1);
            let name = node.name.to_string();
            if !counts {
                let reason = left_out(survey, place, machine, at, node);
                self.left_out.push(LeftOut { node: name, reason });
            } else if chosen.is_some_and(|id| node.models.binary_search(&id).is_ok()) {
                self.supporters.push(name);
            } else {
                self.others.push(name);
            }
        }
        self.supporters.sort();
        self.others.sort();
        self.left_out.sort_by(|a, b| a.node.cmp(&b.node));
    }

    /// Works out what more nodes, or fewer, would change.
    fn foresee(&mut self, survey: &Survey<'_>, place: &Place<'_>) {
        let policy = survey.policy();
        let eligible = place.needed.eligible;
        let needed = |eligible| policy.threshold.needed(eligible).nodes;
        let age = |name: &str| {
            let model = policy.model(name)?;
            Some((model.year?, model.generation))
        };
        let chosen: Option<&Candidate> = self.decision.candidates.first();
        let chosen_age = chosen.and_then(|chosen| age(&chosen.model));
        for refused in &self.decision.ruled_out {
            let RuledOut::TooFewSupporters { supporters, .. } = refused.reason else {
                continue;
            };
            let better = age(&refused.model);
            if better <= chosen_age {
                continue;
            }
            let more = (1..=FORESEEN)
                .find(|more| supporters + more >= needed(eligible.saturating_add(*more)));
            if let Some(nodes) = more {
                self.gains.push(Gain {
                    model: refused.model.clone(),
                    year: better.map_or(0, |(year, _)| year),
                    nodes,
                });
            }
        }
        self.gains.sort_by(|a, b| {
            age(&b.model)
                .cmp(&age(&a.model))
                .then_with(|| a.nodes.cmp(&b.nodes))
                .then_with(|| a.model.cmp(&b.model))
        });
        self.margin = chosen.map(|chosen| {
            let supporters = chosen.supporters;
            let stays = |gone: &u32| supporters - gone >= needed(eligible - gone);
            let falls = |more: &u32| supporters < needed(eligible.saturating_add(*more));
            Margin {
                may_go: (1..=supporters)
                    .take_while(stays)
                    .count()
                    .try_into()
                    .unwrap_or(0),
                may_come: (1..=FORESEEN).find(falls),
            }
        });
    }
}

/// Why a node does not count: the first of its shortcomings.
fn left_out(
    survey: &Survey<'_>,
    place: &Place<'_>,
    machine: &Machine,
    at: u32,
    node: &Indexed,
) -> NodeReason {
    let index = survey.index();
    let demand = &machine.demand;
    let selection = &survey.pool_at(place.pool).selection;
    if let (Some(wanted), Some(found)) = (&demand.architecture, &node.architecture)
        && wanted != found
    {
        return NodeReason::Architecture {
            architecture: found.clone(),
        };
    }
    let has = |key: &str, value: &str| index.with(key, value).is_some_and(|set| set.contains(at));
    if let Some((key, value)) = demand.labels.iter().find(|(key, value)| !has(key, value)) {
        return match key.strip_prefix(FEATURE_LABEL) {
            Some(feature) => NodeReason::FeatureMissing {
                feature: feature.to_owned(),
            },
            None => NodeReason::Selector {
                key: key.clone(),
                value: value.clone(),
            },
        };
    }
    let has_key = |key: &&String| index.with_key(key).is_some_and(|set| set.contains(at));
    if let Some(key) = demand.absent.iter().find(has_key) {
        let feature = key.strip_prefix(FEATURE_LABEL).unwrap_or(key).to_owned();
        return NodeReason::FeatureForbidden { feature };
    }
    if !selection.matching.contains(at as usize) {
        return match &selection.malformed {
            Some(errors) => NodeReason::MalformedAffinity {
                errors: errors.to_string(),
            },
            None => NodeReason::Affinity,
        };
    }
    match &node.vendor {
        NodeVendor::One(vendor) if vendor != place.vendor => {
            return NodeReason::Vendor {
                vendor: vendor.clone(),
            };
        }
        NodeVendor::One(_) => {}
        NodeVendor::Missing | NodeVendor::Several(_) => return NodeReason::VendorUnclear,
    }
    if index.is_unschedulable(at) {
        return NodeReason::Unschedulable;
    }
    if index.is_not_ready(at) {
        return NodeReason::NotReady;
    }
    let taint = index
        .taints_of(at)
        .find(|taint| !tolerates(&demand.tolerations, taint));
    let taint = taint.map(|taint| {
        let text = |name: &str| taint[name].as_str().unwrap_or_default();
        let equals = if text("value").is_empty() { "" } else { "=" };
        format!(
            "{}{equals}{}:{}",
            text("key"),
            text("value"),
            text("effect")
        )
    });
    NodeReason::Taint {
        taint: taint.unwrap_or_default(),
    }
}
