//! Decisions for many machines over the same nodes and policy: what they have in common is worked
//! out once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use api::cpu::{Bias, ForeignVendors};
use fixedbitset::FixedBitSet;

use super::reason::{Fallback, RuledOut};
use super::{Candidate, Decision, Refused, Verdict};
use crate::demand::Demand;
use crate::index::node::NodeVendor;
use crate::index::{Index, Indexed, ModelId, Selection};
use crate::machine::Machine;
use crate::names::MODEL_LABEL;
use crate::policy::{Needed, Policy};
use crate::table::{Model, Vendor};

/// An architecture whose machines always have the CPU of their host.
const ARM64: &str = "arm64";
/// A count that was not made yet.
const UNCOUNTED: u32 = u32::MAX;

/// Decisions over the same nodes and policy.
#[derive(Debug)]
pub struct Survey<'a> {
    index: &'a Index,
    policy: &'a Policy,
    /// By model.
    judged: Vec<Option<Judged>>,
    by_demand: HashMap<Arc<str>, usize>,
    pools: Vec<Pool>,
}

/// What the policy says of a model, whatever the nodes.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) model: Option<Model>,
    ruled_out: Option<RuledOut>,
}

/// The nodes that meet a demand.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) selection: Selection,
    vendors: Vec<(Vendor, VendorPool)>,
}

/// Those of one vendor.
#[derive(Debug)]
pub(crate) struct VendorPool {
    pub(crate) nodes: FixedBitSet,
    pub(crate) len: u32,
    /// How many of them support each model.
    counts: Vec<u32>,
}

/// What makes one model better than another: the larger one is.
type Rank<'n> = (
    bool,
    u32,
    i32,
    bool,
    u32,
    i32,
    bool,
    bool,
    u32,
    bool,
    Reverse<&'n str>,
);

/// The node of a machine, with what follows from it.
pub(crate) struct Place<'a> {
    pub(crate) place: u32,
    pub(crate) node: &'a Indexed,
    pub(crate) vendor: &'a Vendor,
    pub(crate) pool: usize,
    pub(crate) within: usize,
    /// 1 if the node itself does not count for others, but does for the machine that is on it.
    pub(crate) own: u32,
    pub(crate) needed: Needed,
}

impl<'a> Survey<'a> {
    /// Nothing is worked out before it is asked for.
    pub fn new(index: &'a Index, policy: &'a Policy) -> Self {
        Self {
            index,
            policy,
            judged: vec![None; index.model_places()],
            by_demand: HashMap::new(),
            pools: Vec::new(),
        }
    }

    /// The nodes.
    pub fn index(&self) -> &'a Index {
        self.index
    }

    /// The policy.
    pub fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// What a machine gets that starts on a node.
    pub fn choose(&mut self, machine: &Machine, node: &str) -> Verdict {
        if machine.demand.architecture() == Some(ARM64) {
            return Verdict::HostPassthrough;
        }
        match self.find_place(&machine.demand, node) {
            Ok(place) => self.choose_at(&place),
            Err(fallback) => Verdict::HostModel(fallback),
        }
    }

    /// The same with everything that led to it.
    pub fn decide(&mut self, machine: &Machine, node: &str) -> Decision {
        let index = self.index;
        let indexed = index.place_of(node).and_then(|place| index.node(place));
        let mut decision = Decision {
            node: node.to_owned(),
            vendor: indexed.and_then(|node| node.vendor.one()).cloned(),
            host_model: indexed
                .and_then(|node| index.host_model_of(node))
                .map(str::to_owned),
            verdict: Verdict::HostPassthrough,
            threshold: None,
            candidates: Vec::new(),
            ruled_out: Vec::new(),
        };
        if machine.demand.architecture() == Some(ARM64) {
            return decision;
        }
        let place = match self.find_place(&machine.demand, node) {
            Ok(place) => place,
            Err(fallback) => {
                decision.verdict = Verdict::HostModel(fallback);
                return decision;
            }
        };
        decision.verdict = self.choose_at(&place);
        decision.threshold = Some(place.needed);
        self.list_models(&place, &mut decision);
        decision
    }

    /// Fills in the models that would do, and those that would not.
    fn list_models(&mut self, place: &Place<'a>, decision: &mut Decision) {
        let index = self.index;
        let mut candidates = Vec::new();
        for &id in &*place.node.models {
            let Some(label) = index.model(id) else {
                continue;
            };
            match self.judge_at(place, id) {
                Ok(supporters) => candidates.push((label.model_name(), id, supporters)),
                Err(reason) => decision.ruled_out.push(Refused {
                    model: label.model_name().to_owned(),
                    reason,
                }),
            }
        }
        for (key, value) in index.labels_in(place.node) {
            if let Some(model) = key.strip_prefix(MODEL_LABEL)
                && value != crate::names::TRUE
            {
                decision.ruled_out.push(Refused {
                    model: model.to_owned(),
                    reason: RuledOut::NotTrue {
                        value: value.to_owned(),
                    },
                });
            }
        }
        decision.ruled_out.sort_by(|a, b| a.model.cmp(&b.model));
        let bias = self.policy.bias;
        candidates.sort_by_key(|(name, id, supporters)| {
            let model = self.judged[*id as usize]
                .as_ref()
                .and_then(|judged| judged.model.as_ref());
            Reverse(rank(bias, place.vendor, model, *supporters, name))
        });
        for (name, id, supporters) in candidates {
            let model = self.judged(id).model.as_ref();
            decision.candidates.push(Candidate {
                model: name.to_owned(),
                year: model.and_then(|model| model.year).unwrap_or_default(),
                vendor: model.and_then(|model| model.vendor.clone()),
                supporters,
            });
        }
    }

    /// The best model of a place, or why there is none.
    fn choose_at(&mut self, place: &Place<'a>) -> Verdict {
        let index = self.index;
        let bias = self.policy.bias;
        let mut best: Option<(ModelId, &str, u32)> = None;
        let mut widest: Option<(u32, Reverse<&str>)> = None;
        for &id in &*place.node.models {
            let Some(label) = index.model(id) else {
                continue;
            };
            let name = label.model_name();
            match self.judge_at(place, id) {
                Ok(supporters) => {
                    let better = best.is_none_or(|(other, other_name, other_supporters)| {
                        let known = |id: ModelId| self.judged[id as usize].as_ref();
                        let model = |id| known(id).and_then(|judged| judged.model.as_ref());
                        rank(bias, place.vendor, model(id), supporters, name)
                            > rank(
                                bias,
                                place.vendor,
                                model(other),
                                other_supporters,
                                other_name,
                            )
                    });
                    if better {
                        best = Some((id, name, supporters));
                    }
                }
                Err(RuledOut::TooFewSupporters { supporters, .. }) => {
                    widest = widest.max(Some((supporters, Reverse(name))));
                }
                Err(_) => {}
            }
        }
        if let Some((_, name, _)) = best {
            return Verdict::Model(name.to_owned());
        }
        let node = place.node.name.to_string();
        Verdict::HostModel(match widest {
            Some((supporters, Reverse(model))) => Fallback::TooFewSupporters {
                model: model.to_owned(),
                supporters,
                needed: place.needed.nodes,
            },
            None if place.node.models.is_empty() => Fallback::NoModels { node },
            None => Fallback::NoCandidates {
                node,
                models: u32::try_from(place.node.models.len()).unwrap_or(u32::MAX),
            },
        })
    }

    /// The node of a machine and its like; or why no model can be chosen there.
    pub(crate) fn find_place(
        &mut self,
        demand: &Demand,
        node: &str,
    ) -> Result<Place<'a>, Fallback> {
        let index = self.index;
        let found = index
            .place_of(node)
            .and_then(|place| Some((place, index.node(place)?)));
        let Some((place, indexed)) = found else {
            return Err(Fallback::NodeUnknown {
                node: node.to_owned(),
            });
        };
        let vendor = match &indexed.vendor {
            NodeVendor::One(vendor) => vendor,
            NodeVendor::Missing => {
                return Err(Fallback::VendorUnknown {
                    node: node.to_owned(),
                });
            }
            NodeVendor::Several(vendors) => {
                return Err(Fallback::VendorAmbiguous {
                    node: node.to_owned(),
                    vendors: vendors.clone(),
                });
            }
        };
        let pool = self.pool(demand);
        let selection = &self.pools[pool].selection;
        if let Some(errors) = &selection.malformed
            && selection.matching.is_clear()
        {
            return Err(Fallback::MalformedAffinity {
                errors: errors.to_string(),
            });
        }
        let bit = place as usize;
        let own = u32::from(selection.matching.contains(bit) && !selection.eligible.contains(bit));
        let within = self.vendor_pool(pool, vendor);
        let len = self.pools[pool].vendors[within].1.len + own;
        Ok(Place {
            place,
            node: indexed,
            vendor,
            pool,
            within,
            own,
            needed: self.policy.threshold.needed(len),
        })
    }

    /// How many nodes support a model that may be chosen; or why it may not.
    fn judge_at(&mut self, place: &Place<'a>, id: ModelId) -> Result<u32, RuledOut> {
        let policy = self.policy;
        let judged = self.judged(id);
        if let Some(reason) = &judged.ruled_out {
            return Err(reason.clone());
        }
        let vendor = judged
            .model
            .as_ref()
            .and_then(|model| model.vendor.as_ref());
        if let Some(vendor) = vendor.filter(|vendor| *vendor != place.vendor)
            && policy.foreign == ForeignVendors::Exclude
        {
            return Err(RuledOut::ForeignVendor {
                vendor: vendor.clone(),
            });
        }
        let supporters = self.supporters(place, id);
        if supporters < place.needed.nodes {
            return Err(RuledOut::TooFewSupporters {
                supporters,
                needed: place.needed.nodes,
            });
        }
        Ok(supporters)
    }

    /// How many nodes that a machine can go to support a model of its node, its own included.
    pub(crate) fn supporters(&mut self, place: &Place<'a>, id: ModelId) -> u32 {
        let index = self.index;
        let pool = &mut self.pools[place.pool].vendors[place.within].1;
        let count = &mut pool.counts[id as usize];
        if *count == UNCOUNTED {
            let nodes = index
                .model(id)
                .map(|label| label.nodes.count_in(&pool.nodes));
            *count = nodes.map_or(0, |nodes| u32::try_from(nodes).unwrap_or(UNCOUNTED - 1));
        }
        *count + place.own
    }

    pub(crate) fn judged(&mut self, id: ModelId) -> &Judged {
        let (index, policy) = (self.index, self.policy);
        self.judged[id as usize].get_or_insert_with(|| {
            let name = index.model(id).map_or("", |label| label.model_name());
            judge(policy, name)
        })
    }

    /// The nodes that meet a demand.
    pub(crate) fn pool(&mut self, demand: &Demand) -> usize {
        if let Some(place) = self.by_demand.get(demand.key()) {
            return *place;
        }
        let place = self.pools.len();
        self.pools.push(Pool {
            selection: self.index.select(demand, self.policy.scope),
            vendors: Vec::new(),
        });
        self.by_demand.insert(demand.key().clone(), place);
        place
    }

    pub(crate) fn pool_at(&self, pool: usize) -> &Pool {
        &self.pools[pool]
    }

    /// Those of one vendor.
    fn vendor_pool(&mut self, pool: usize, vendor: &Vendor) -> usize {
        let pool = &mut self.pools[pool];
        let known = pool.vendors.iter().position(|(known, _)| known == vendor);
        if let Some(place) = known {
            return place;
        }
        let mut nodes = pool.selection.eligible.clone();
        match self.index.vendor_nodes(vendor) {
            Some(of_vendor) => of_vendor.narrow(&mut nodes),
            None => nodes.clear(),
        }
        let len = u32::try_from(nodes.count_ones(..)).unwrap_or(u32::MAX);
        let counts = vec![UNCOUNTED; self.index.model_places()];
        let inner = VendorPool { nodes, len, counts };
        pool.vendors.push((vendor.clone(), inner));
        pool.vendors.len() - 1
    }
}

impl Pool {
    pub(crate) fn of_vendor(&self, within: usize) -> &VendorPool {
        &self.vendors[within].1
    }
}

/// What a policy says of a model by its name.
fn judge(policy: &Policy, name: &str) -> Judged {
    let model = policy.model(name);
    let ruled_out = if policy.excludes(name) {
        Some(RuledOut::Excluded)
    } else if policy.obsolete.contains(name) {
        Some(RuledOut::Obsolete)
    } else {
        match &model {
            None => Some(RuledOut::Unknown),
            Some(Model { year: None, .. }) => Some(RuledOut::Generic),
            Some(Model {
                year: Some(year), ..
            }) => (*year < policy.minimal_launch_year).then_some(RuledOut::TooOld {
                year: *year,
                minimum: policy.minimal_launch_year,
            }),
        }
    };
    Judged { model, ruled_out }
}

/// The order of choice: own vendor or nobody's before another's, then the year, the vendor's own,
/// the number of nodes, the generation, mitigations, no TSX (microcode takes it away), the higher
/// version, the base of a mainframe, the name. Names differ, so the order is total.
fn rank<'n>(
    bias: Bias,
    vendor: &Vendor,
    model: Option<&Model>,
    supporters: u32,
    name: &'n str,
) -> Rank<'n> {
    let whose = model.and_then(|model| model.vendor.as_ref());
    let own = whose == Some(vendor);
    let variant = model.map(|model| model.variant).unwrap_or_default();
    (
        own || whose.is_none(),
        if bias == Bias::Widest { supporters } else { 0 },
        model.and_then(|model| model.year).unwrap_or_default(),
        own,
        supporters,
        model.map_or(0, |model| model.generation),
        variant.mitigated,
        !variant.tsx,
        variant.version,
        variant.base,
        Reverse(name),
    )
}
