//! A decision in full: the part of every node, and the effect of adding or removing nodes.
//!
//! Its cost grows with the number of nodes, so it is only computed on request (`medley cpu
//! explain`).

#[cfg(test)]
mod tests;
mod text;

use machinery::node_affinity::tolerates;
use serde::Serialize;

use crate::decide::{Candidate, Decision, ModelRejection, ModelVerdict, NodeContext, Survey};
use crate::index::node::NodeVendor;
use crate::index::{Index, Indexed};
use crate::machine::Machine;
use crate::names::{FEATURE_LABEL, TRUE};
use crate::policy::Policy;
use crate::resources::printed;
use crate::table::Vendor;

/// Forecasts stop at this many additional nodes; a model that needs more is not listed as a gain.
const MAX_FORECAST_NODES: u32 = 100;

/// A decision in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The decision that is explained.
    pub decision: Decision,
    /// Eligible nodes that support the chosen model, sorted.
    pub supporters: Vec<String>,
    /// Eligible nodes that do not support it, sorted; all eligible nodes if none was chosen.
    pub others: Vec<String>,
    /// Nodes that are not eligible, sorted by name.
    pub left_out: Vec<IneligibleNode>,
    /// Newer models that additional nodes would make available, best first.
    pub gains: Vec<Gain>,
    /// How far the chosen model is from its threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<Margin>,
}

/// A node that is not eligible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IneligibleNode {
    /// Its name.
    pub node: String,
    /// The first rule that it fails.
    pub reason: NodeReason,
}

/// Why a node is not eligible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(
    rename_all = "camelCase",
    tag = "reason",
    rename_all_fields = "camelCase"
)]
pub enum NodeReason {
    /// Its architecture differs from the requested one.
    #[error("its architecture is {architecture}")]
    Architecture {
        /// Its architecture.
        architecture: String,
    },
    /// It lacks a label of the node selector.
    #[error("it lacks the label {key}={value}")]
    Selector {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// It lacks a required CPU feature.
    #[error("it lacks the CPU feature {feature}")]
    FeatureMissing {
        /// The feature.
        feature: String,
    },
    /// It offers less of a resource than the launcher pod requests.
    #[error("it has {allocatable} of {resource} allocatable, and {requested} is requested")]
    Resource {
        /// The name of the resource.
        resource: String,
        /// What the pod requests.
        requested: String,
        /// What the node has.
        allocatable: String,
    },
    /// It has a forbidden CPU feature.
    #[error("it has the CPU feature {feature}")]
    FeatureForbidden {
        /// The feature.
        feature: String,
    },
    /// No term of the required affinity matches it.
    #[error("the required node affinity does not match")]
    Affinity,
    /// No term matches it, and some terms are invalid.
    #[error("the required node affinity does not match, and is invalid: {errors}")]
    MalformedAffinity {
        /// The validation errors.
        errors: String,
    },
    /// It is cordoned, or its virt-handler sends no heartbeat.
    #[error("it is not schedulable")]
    Unschedulable,
    /// It is not Ready.
    #[error("it is not Ready")]
    NotReady,
    /// It has a taint that the VM does not tolerate.
    #[error("its taint {taint} is not tolerated")]
    Taint {
        /// The taint, as kubectl prints it.
        taint: String,
    },
    /// Its CPU vendor differs from that of the VM's node.
    #[error("its vendor is {vendor}")]
    Vendor {
        /// Its vendor.
        vendor: Vendor,
    },
    /// It has no `cpu-vendor` label, or several that contradict each other.
    #[error("its CPU vendor is missing or ambiguous")]
    VendorUnclear,
}

/// A newer model that additional nodes would make available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gain {
    /// The model.
    pub model: String,
    /// Its launch year.
    pub year: i32,
    /// How many eligible nodes that support it have to be added.
    pub nodes: u32,
}

/// How far a model is from its threshold, for VMs that start later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Margin {
    /// How many supporting nodes may be removed at once.
    pub may_go: u32,
    /// How many additional nodes without the model raise the threshold above the number of its
    /// supporters; `None` if no number up to the forecast limit does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_come: Option<u32>,
}

/// Explains a decision over all nodes.
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
    if explanation.decision.verdict == ModelVerdict::HostPassthrough {
        return explanation;
    }
    if let Ok(place) = survey.locate_node(&machine.demand, node) {
        explanation.list_nodes(&survey, &place, machine);
        explanation.forecast(&survey, &place);
    }
    explanation
}

impl Explanation {
    fn list_nodes(&mut self, survey: &Survey<'_>, place: &NodeContext<'_>, machine: &Machine) {
        let index = survey.index();
        let pool = survey.pool_at(place.pool);
        let nodes = &pool.of_vendor(place.within).nodes;
        let chosen = match &self.decision.verdict {
            ModelVerdict::Model(name) => index.model_named(name),
            _ => None,
        };
        for (at, node) in index.nodes() {
            let counts = nodes.contains(at as usize) || (at == place.at && place.own == 1);
            let name = node.name.to_string();
            if !counts {
                let reason = left_out(survey, place, machine, at, node);
                self.left_out.push(IneligibleNode { node: name, reason });
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

    /// Computes the gains and the margin.
    fn forecast(&mut self, survey: &Survey<'_>, place: &NodeContext<'_>) {
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
            let ModelRejection::TooFewSupporters { supporters, .. } = refused.reason else {
                continue;
            };
            let better = age(&refused.model);
            if better <= chosen_age {
                continue;
            }
            let more = (1..=MAX_FORECAST_NODES)
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
                may_come: (1..=MAX_FORECAST_NODES).find(falls),
            }
        });
    }
}

/// Why a node is not eligible: the first rule that it fails.
fn left_out(
    survey: &Survey<'_>,
    place: &NodeContext<'_>,
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
    let lacks = |key: &&String| index.with_key(key).is_some() && !has(key, TRUE);
    if let Some(key) = demand.if_reported.iter().find(lacks) {
        return NodeReason::Selector {
            key: key.clone(),
            value: TRUE.to_owned(),
        };
    }
    let has_key = |key: &&String| index.with_key(key).is_some_and(|set| set.contains(at));
    if let Some(key) = demand.absent.iter().find(has_key) {
        let feature = key.strip_prefix(FEATURE_LABEL).unwrap_or(key).to_owned();
        return NodeReason::FeatureForbidden { feature };
    }
    let mut requests = demand.resources.iter();
    let short = requests.find(|(name, amount)| {
        let offered = node.offers(name);
        offered.is_some_and(|offered| offered < **amount)
    });
    if let Some((name, amount)) = short {
        return NodeReason::Resource {
            resource: name.clone(),
            requested: printed(name, *amount),
            allocatable: printed(name, node.offers(name).unwrap_or_default()),
        };
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
