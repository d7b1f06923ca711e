//! Decisions for many machines over the same nodes and policy: what they have in common is worked
//! out once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use api::cpu::ForeignVendors;
use fixedbitset::FixedBitSet;

use super::rank::{Judged, Rank, judge, rank};
use super::reason::{Fallback, RuledOut};
use super::{Candidate, Decision, Refused, Verdict};
use crate::demand::Demand;
use crate::groups::GroupModel;
use crate::index::node::NodeVendor;
use crate::index::{Index, Indexed, LabelId, ModelId, Selection};
use crate::machine::Machine;
use crate::names::{MODEL_LABEL, TRUE};
use crate::policy::{Needed, Policy};
use crate::table::Vendor;

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
    /// By the labels that tell a host model: the nodes that know it.
    host_targets: HashMap<&'a [LabelId], Arc<FixedBitSet>>,
    /// By name: models that machines have.
    named: HashMap<String, Named>,
    /// The best model of nodes that are alike.
    best: HashMap<Alike<'a>, Option<ModelId>>,
}

/// Nodes where the same machines get the same model: pool, vendor, whether the node counts for
/// itself alone, models.
type Alike<'a> = (usize, usize, u32, &'a [ModelId]);

/// A model that a machine has. It need not be one that a node supports.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) id: Option<ModelId>,
    pub(crate) age: Option<(i32, i32)>,
    pub(crate) vendor: Option<Vendor>,
}

/// The nodes that meet a demand.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) selection: Selection,
    vendors: Vec<(Vendor, VendorPool)>,
}

/// A model that is looked for once.
#[derive(Debug, Clone, Copy)]
enum Sought {
    NotYet,
    Done(Option<ModelId>),
}

/// Those of one vendor.
#[derive(Debug)]
pub(crate) struct VendorPool {
    pub(crate) nodes: FixedBitSet,
    pub(crate) len: u32,
    /// How many of them support each model.
    counts: Vec<u32>,
    /// The best model that a machine could get on any of them, once it was looked for.
    best: Sought,
}

/// The node of a machine, with what follows from it.
pub(crate) struct Place<'a> {
    pub(crate) at: u32,
    pub(crate) node: &'a Indexed,
    pub(crate) vendor: &'a Vendor,
    pub(crate) pool: usize,
    pub(crate) within: usize,
    /// 1 if the node itself does not count for others, but does for the machine that is on it.
    pub(crate) own: u32,
    /// Whether the node counts for all.
    pub(crate) eligible: bool,
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
            host_targets: HashMap::new(),
            named: HashMap::new(),
            best: HashMap::new(),
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

    /// The first of these nodes that a machine could start on now, and how many of them there are.
    pub fn first_eligible(
        &mut self,
        machine: &Machine,
        nodes: &[String],
    ) -> Option<(String, usize)> {
        let pool = self.pool(&machine.demand);
        let eligible = &self.pools[pool].selection.eligible;
        let index = self.index;
        let mut fit = nodes.iter().filter(|name| {
            let place = index.place_of(name);
            place.is_some_and(|place| eligible.contains(place as usize))
        });
        let first = fit.next()?.clone();
        Some((first, fit.count() + 1))
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
                && value != TRUE
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
        candidates
            .sort_by_key(|(_, id, supporters)| Reverse(self.rank(place.vendor, *id, *supporters)));
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
        let best = self.best_at(place).and_then(|id| self.index.model(id));
        if let Some(label) = best {
            return Verdict::Model(label.model_name().to_owned());
        }
        let mut widest: Option<(u32, Reverse<&str>)> = None;
        for &id in &*place.node.models {
            if let Some(label) = self.index.model(id)
                && let Err(RuledOut::TooFewSupporters { supporters, .. }) = self.judge_at(place, id)
            {
                widest = widest.max(Some((supporters, Reverse(label.model_name()))));
            }
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

    /// The best model of a place.
    pub(crate) fn best_at(&mut self, place: &Place<'a>) -> Option<ModelId> {
        let alike = (place.pool, place.within, place.own, &*place.node.models);
        if let Some(known) = self.best.get(&alike) {
            return *known;
        }
        let mut fit = Vec::new();
        for &id in &*place.node.models {
            if let Ok(supporters) = self.judge_at(place, id) {
                fit.push((id, supporters));
            }
        }
        let best = fit
            .into_iter()
            .max_by_key(|(id, supporters)| self.rank(place.vendor, *id, *supporters));
        let best = best.map(|(id, _)| id);
        self.best.insert(alike, best);
        best
    }

    /// What makes a model that was judged before better than another.
    fn rank(&self, vendor: &Vendor, id: ModelId, supporters: u32) -> Rank<'a> {
        let name = self.index.model(id).map_or("", |label| label.model_name());
        let judged = self.judged[id as usize].as_ref();
        let model = judged.and_then(|judged| judged.model.as_ref());
        rank(self.policy.bias, vendor, model, supporters, name)
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
        // As for the scheduler, errors matter only if no other term matches the node.
        if let Some(errors) = &selection.malformed
            && !selection.matching.contains(place as usize)
        {
            return Err(Fallback::MalformedAffinity {
                errors: errors.to_string(),
            });
        }
        let bit = place as usize;
        let eligible = selection.eligible.contains(bit);
        let own = u32::from(selection.matching.contains(bit) && !eligible);
        let within = self.vendor_pool(pool, vendor);
        let len = self.pools[pool].vendors[within].1.len + own;
        Ok(Place {
            at: place,
            node: indexed,
            vendor,
            pool,
            within,
            own,
            eligible,
            needed: self.policy.threshold.needed(len),
        })
    }

    /// Whether a model may be chosen on nodes of a vendor, however many support it.
    fn admits(&mut self, vendor: &Vendor, id: ModelId) -> Result<(), RuledOut> {
        let policy = self.policy;
        let judged = self.judged(id);
        if let Some(reason) = &judged.ruled_out {
            return Err(reason.clone());
        }
        let whose = judged
            .model
            .as_ref()
            .and_then(|model| model.vendor.as_ref());
        match whose.filter(|whose| *whose != vendor) {
            Some(whose) if policy.foreign == ForeignVendors::Exclude => {
                Err(RuledOut::ForeignVendor {
                    vendor: whose.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// How many nodes support a model that may be chosen; or why it may not.
    fn judge_at(&mut self, place: &Place<'a>, id: ModelId) -> Result<u32, RuledOut> {
        self.admits(place.vendor, id)?;
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
        self.count(place.pool, place.within, id) + place.own
    }

    /// How many nodes of one vendor support a model.
    pub(crate) fn count(&mut self, pool: usize, within: usize, id: ModelId) -> u32 {
        let index = self.index;
        let pool = &mut self.pools[pool].vendors[within].1;
        let count = &mut pool.counts[id as usize];
        if *count == UNCOUNTED {
            let label = index.model(id);
            let nodes = label.map_or(0, |label| label.nodes.count_in(&pool.nodes));
            *count = u32::try_from(nodes).unwrap_or(UNCOUNTED - 1);
        }
        *count
    }

    /// The best model that a machine could get on any node of one vendor.
    pub(crate) fn best_anywhere(
        &mut self,
        pool: usize,
        within: usize,
        vendor: &Vendor,
    ) -> Option<ModelId> {
        let inner = &self.pools[pool].vendors[within].1;
        if let Sought::Done(known) = inner.best {
            return known;
        }
        // A model that nobody has is nobody's.
        let needed = self.policy.threshold.needed(inner.len).nodes.max(1);
        let mut fit = Vec::new();
        for (id, _) in self.index.all_models() {
            if self.admits(vendor, id).is_ok() {
                let supporters = self.count(pool, within, id);
                if supporters >= needed {
                    fit.push((id, supporters));
                }
            }
        }
        let best = fit
            .into_iter()
            .max_by_key(|(id, supporters)| self.rank(vendor, *id, *supporters));
        let best = best.map(|(id, _)| id);
        self.pools[pool].vendors[within].1.best = Sought::Done(best);
        best
    }

    /// Those of the models that may be chosen on nodes of a vendor, the best first.
    pub(crate) fn order(&mut self, vendor: &Vendor, models: &[ModelId]) -> Vec<GroupModel> {
        let pool = self.pool(&Demand::default());
        let within = self.vendor_pool(pool, vendor);
        let mut fit = Vec::new();
        for id in models {
            if self.admits(vendor, *id).is_ok() {
                fit.push((*id, self.count(pool, within, *id)));
            }
        }
        fit.sort_by_key(|(id, nodes)| Reverse(self.rank(vendor, *id, *nodes)));
        let told = fit.into_iter().map(|(id, nodes)| GroupModel {
            model: self
                .index
                .model(id)
                .map_or("", |label| label.model_name())
                .to_owned(),
            year: self.judged(id).age().map_or(0, |(year, _)| year),
            nodes,
        });
        told.collect()
    }

    /// The nodes that know the host model of a node.
    pub(crate) fn host_targets(&mut self, node: &'a Indexed) -> Arc<FixedBitSet> {
        let index = self.index;
        self.host_targets
            .entry(&node.host)
            .or_insert_with(|| Arc::new(index.host_model_targets(&node.host)))
            .clone()
    }

    /// A model by the name that a machine has recorded.
    pub(crate) fn named(&mut self, name: &str) -> &Named {
        if !self.named.contains_key(name) {
            let judged = judge(self.policy, name);
            let named = Named {
                id: self.index.model_named(name),
                age: judged.age(),
                vendor: judged.model.and_then(|model| model.vendor),
            };
            self.named.insert(name.to_owned(), named);
        }
        // It was put there if it was not.
        &self.named[name]
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
    pub(crate) fn vendor_pool(&mut self, pool: usize, vendor: &Vendor) -> usize {
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
        let inner = VendorPool {
            nodes,
            len,
            counts,
            best: Sought::NotYet,
        };
        pool.vendors.push((vendor.clone(), inner));
        pool.vendors.len() - 1
    }
}

impl Pool {
    pub(crate) fn of_vendor(&self, within: usize) -> &VendorPool {
        &self.vendors[within].1
    }
}
