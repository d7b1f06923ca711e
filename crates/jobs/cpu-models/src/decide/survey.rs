//! Decisions for many VMs over the same nodes and policy; intermediate results are cached.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use api::cpu::ForeignVendors;
use fixedbitset::FixedBitSet;

use super::rank::{ModelAssessment, Rank, assess, rank};
use super::reason::{Fallback, ModelRejection};
use super::{Candidate, Decision, ModelVerdict, RejectedModel};
use crate::demand::Demand;
use crate::groups::GroupModel;
use crate::index::node::NodeVendor;
use crate::index::{Index, Indexed, LabelId, ModelId, Selection};
use crate::machine::Machine;
use crate::names::{MODEL_LABEL, TRUE};
use crate::policy::{Needed, Policy};
use crate::table::Vendor;

/// VMs on arm64 always use host-passthrough.
const ARM64: &str = "arm64";
/// Marks a count that is not computed yet.
///
/// No cluster has so many nodes, and a plain number keeps the table half as large as options would.
const UNCOUNTED: u32 = u32::MAX;

/// Decisions over the same nodes and policy.
#[derive(Debug)]
pub struct Survey<'a> {
    index: &'a Index,
    policy: &'a Policy,
    /// By model.
    assessments: Vec<Option<ModelAssessment>>,
    by_demand: HashMap<Arc<str>, usize>,
    pools: Vec<Pool>,
    /// By the labels of a host model: the nodes that know it.
    host_targets: HashMap<&'a [LabelId], Arc<FixedBitSet>>,
    /// By name: the models recorded for VMs. They need not be known to any node.
    recorded: HashMap<String, RecordedModel>,
    /// The best model, by node class.
    best: HashMap<NodeClassKey<'a>, Option<ModelId>>,
}

/// Nodes of one class, where the same VM gets the same model: pool, vendor, `own` of the node,
/// models.
type NodeClassKey<'a> = (usize, usize, u32, &'a [ModelId]);

/// A model recorded for a VM.
#[derive(Debug)]
pub(crate) struct RecordedModel {
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

/// The result of a search that runs once.
#[derive(Debug, Clone, Copy)]
enum BestModel {
    NotComputed,
    Computed(Option<ModelId>),
}

/// The nodes of a pool that have one vendor.
#[derive(Debug)]
pub(crate) struct VendorPool {
    pub(crate) nodes: FixedBitSet,
    pub(crate) len: u32,
    /// How many of them support each model.
    counts: Vec<u32>,
    /// The best model that a VM could get on any of them.
    best: BestModel,
}

/// The node of a VM with its pool and threshold.
pub(crate) struct NodeContext<'a> {
    pub(crate) at: u32,
    pub(crate) node: &'a Indexed,
    pub(crate) vendor: &'a Vendor,
    pub(crate) pool: usize,
    pub(crate) within: usize,
    /// 1 if the node is not eligible for other VMs but counts for the VM that runs on it.
    pub(crate) own: u32,
    /// Whether the node is eligible for every VM.
    pub(crate) eligible: bool,
    pub(crate) needed: Needed,
}

impl<'a> Survey<'a> {
    /// An empty cache; every result is computed on first use.
    pub fn new(index: &'a Index, policy: &'a Policy) -> Self {
        Self {
            index,
            policy,
            assessments: vec![None; index.model_places()],
            by_demand: HashMap::new(),
            pools: Vec::new(),
            host_targets: HashMap::new(),
            recorded: HashMap::new(),
            best: HashMap::new(),
        }
    }

    /// The index of nodes.
    pub fn index(&self) -> &'a Index {
        self.index
    }

    /// The policy in force.
    pub fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// The model that a VM gets on the node that it starts on.
    pub fn choose(&mut self, machine: &Machine, node: &str) -> ModelVerdict {
        if machine.demand.architecture() == Some(ARM64) {
            return ModelVerdict::HostPassthrough;
        }
        match self.locate_node(&machine.demand, node) {
            Ok(place) => self.choose_at(&place),
            // Never an error: without a model the VM could not start, and with host-model it can,
            // on this node.
            Err(fallback) => ModelVerdict::HostModel(fallback),
        }
    }

    /// The first of these nodes that is eligible for a VM, and how many of them are.
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

    /// Like [`Self::choose`], with the candidates and the models ruled out.
    pub fn decide(&mut self, machine: &Machine, node: &str) -> Decision {
        let index = self.index;
        let indexed = index.place_of(node).and_then(|place| index.node(place));
        let mut decision = Decision {
            node: node.to_owned(),
            vendor: indexed.and_then(|node| node.vendor.one()).cloned(),
            host_model: indexed
                .and_then(|node| index.host_model_of(node))
                .map(str::to_owned),
            verdict: ModelVerdict::HostPassthrough,
            threshold: None,
            candidates: Vec::new(),
            ruled_out: Vec::new(),
        };
        if machine.demand.architecture() == Some(ARM64) {
            return decision;
        }
        let place = match self.locate_node(&machine.demand, node) {
            Ok(place) => place,
            Err(fallback) => {
                decision.verdict = ModelVerdict::HostModel(fallback);
                return decision;
            }
        };
        decision.verdict = self.choose_at(&place);
        decision.threshold = Some(place.needed);
        self.list_models(&place, &mut decision);
        decision
    }

    /// Fills in the candidates and the models ruled out.
    fn list_models(&mut self, place: &NodeContext<'a>, decision: &mut Decision) {
        let index = self.index;
        let mut candidates = Vec::new();
        for &id in &*place.node.models {
            let Some(label) = index.model(id) else {
                continue;
            };
            match self.assess_at(place, id) {
                Ok(supporters) => candidates.push((label.model_name(), id, supporters)),
                Err(reason) => decision.ruled_out.push(RejectedModel {
                    model: label.model_name().to_owned(),
                    reason,
                }),
            }
        }
        for (key, value) in index.labels_in(place.node) {
            if let Some(model) = key.strip_prefix(MODEL_LABEL)
                && value != TRUE
            {
                decision.ruled_out.push(RejectedModel {
                    model: model.to_owned(),
                    reason: ModelRejection::NotTrue {
                        value: value.to_owned(),
                    },
                });
            }
        }
        decision.ruled_out.sort_by(|a, b| a.model.cmp(&b.model));
        candidates
            .sort_by_key(|(_, id, supporters)| Reverse(self.rank(place.vendor, *id, *supporters)));
        for (name, id, supporters) in candidates {
            let model = self.assessment(id).model.as_ref();
            decision.candidates.push(Candidate {
                model: name.to_owned(),
                year: model.and_then(|model| model.year).unwrap_or_default(),
                vendor: model.and_then(|model| model.vendor.clone()),
                supporters,
            });
        }
    }

    /// The best model of a node, or the reason for the fallback.
    fn choose_at(&mut self, place: &NodeContext<'a>) -> ModelVerdict {
        let best = self.best_at(place).and_then(|id| self.index.model(id));
        if let Some(label) = best {
            return ModelVerdict::Model(label.model_name().to_owned());
        }
        // Of models with too few nodes, the one closest to the threshold makes the most useful
        // message.
        let mut widest: Option<(u32, Reverse<&str>)> = None;
        for &id in &*place.node.models {
            if let Some(label) = self.index.model(id)
                && let Err(ModelRejection::TooFewSupporters { supporters, .. }) =
                    self.assess_at(place, id)
            {
                widest = widest.max(Some((supporters, Reverse(label.model_name()))));
            }
        }
        let node = place.node.name.to_string();
        ModelVerdict::HostModel(match widest {
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

    /// The best model of a node, from the cache if a node of the same class was asked for before.
    pub(crate) fn best_at(&mut self, place: &NodeContext<'a>) -> Option<ModelId> {
        // Not by node: a cluster of thousands has a few classes, and the choice depends on nothing
        // else of the node.
        let class = (place.pool, place.within, place.own, &*place.node.models);
        if let Some(known) = self.best.get(&class) {
            return *known;
        }
        let mut fit = Vec::new();
        for &id in &*place.node.models {
            if let Ok(supporters) = self.assess_at(place, id) {
                fit.push((id, supporters));
            }
        }
        let best = fit
            .into_iter()
            .max_by_key(|(id, supporters)| self.rank(place.vendor, *id, *supporters));
        let best = best.map(|(id, _)| id);
        self.best.insert(class, best);
        best
    }

    /// The sort key of a model that was assessed before.
    fn rank(&self, vendor: &Vendor, id: ModelId, supporters: u32) -> Rank<'a> {
        let name = self.index.model(id).map_or("", |label| label.model_name());
        let assessment = self.assessments[id as usize].as_ref();
        let model = assessment.and_then(|assessment| assessment.model.as_ref());
        rank(self.policy.bias, vendor, model, supporters, name)
    }

    /// The node of a VM with its pool and threshold; or why no model can be chosen there.
    pub(crate) fn locate_node(
        &mut self,
        demand: &Demand,
        node: &str,
    ) -> Result<NodeContext<'a>, Fallback> {
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
            // Without a vendor, models of all vendors would count, and KubeVirt adds the vendor
            // label to every migration target: a VM could get a model that no target supports.
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
        // As in the scheduler, errors count only if no other term matches the node.
        if let Some(errors) = &selection.malformed
            && !selection.matching.contains(place as usize)
        {
            return Err(Fallback::MalformedAffinity {
                errors: errors.to_string(),
            });
        }
        let bit = place as usize;
        let eligible = selection.eligible.contains(bit);
        // The VM runs on its node even if that is cordoned by now, so the node supports the model;
        // for other VMs it is no target.
        let own = u32::from(selection.matching.contains(bit) && !eligible);
        let within = self.vendor_pool(pool, vendor);
        let len = self.pools[pool].vendors[within].1.len + own;
        Ok(NodeContext {
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

    /// Whether the policy admits a model on nodes of a vendor, whatever the number of supporters.
    fn admits(&mut self, vendor: &Vendor, id: ModelId) -> Result<(), ModelRejection> {
        let policy = self.policy;
        let assessment = self.assessment(id);
        if let Some(reason) = &assessment.ruled_out {
            return Err(reason.clone());
        }
        let model_vendor = assessment
            .model
            .as_ref()
            .and_then(|model| model.vendor.as_ref());
        match model_vendor.filter(|model_vendor| *model_vendor != vendor) {
            // QEMU reports models of other vendors as usable when their features are there. The
            // proof of concept checks only the vendor of the node, and would give Intel models to
            // AMD hosts.
            Some(model_vendor) if policy.foreign == ForeignVendors::Exclude => {
                Err(ModelRejection::ForeignVendor {
                    vendor: model_vendor.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// How many nodes support a model that may be chosen; or the rule that it fails.
    fn assess_at(&mut self, place: &NodeContext<'a>, id: ModelId) -> Result<u32, ModelRejection> {
        // Before counting: the reason that holds for all nodes is more useful than a number.
        self.admits(place.vendor, id)?;
        let supporters = self.supporters(place, id);
        if supporters < place.needed.nodes {
            return Err(ModelRejection::TooFewSupporters {
                supporters,
                needed: place.needed.nodes,
            });
        }
        Ok(supporters)
    }

    /// How many nodes that a VM can migrate to support a model of its node, its own included.
    pub(crate) fn supporters(&mut self, place: &NodeContext<'a>, id: ModelId) -> u32 {
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

    /// The best model that a VM could get on any node of one vendor.
    pub(crate) fn best_anywhere(
        &mut self,
        pool: usize,
        within: usize,
        vendor: &Vendor,
    ) -> Option<ModelId> {
        let inner = &self.pools[pool].vendors[within].1;
        if let BestModel::Computed(known) = inner.best {
            return known;
        }
        // At least one supporter, whatever the threshold: a model without supporters cannot be
        // chosen.
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
        self.pools[pool].vendors[within].1.best = BestModel::Computed(best);
        best
    }

    /// Those of the models that the policy admits on nodes of a vendor, best first.
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
        let listed = fit.into_iter().map(|(id, nodes)| GroupModel {
            model: self
                .index
                .model(id)
                .map_or("", |label| label.model_name())
                .to_owned(),
            year: self.assessment(id).age().map_or(0, |(year, _)| year),
            nodes,
        });
        listed.collect()
    }

    /// The nodes that know the host model of a node.
    pub(crate) fn host_targets(&mut self, node: &'a Indexed) -> Arc<FixedBitSet> {
        let index = self.index;
        self.host_targets
            .entry(&node.host)
            .or_insert_with(|| Arc::new(index.host_model_targets(&node.host)))
            .clone()
    }

    /// A model by its recorded name.
    pub(crate) fn recorded_model(&mut self, name: &str) -> &RecordedModel {
        if !self.recorded.contains_key(name) {
            let assessment = assess(self.policy, name);
            let model = RecordedModel {
                id: self.index.model_named(name),
                age: assessment.age(),
                vendor: assessment.model.and_then(|model| model.vendor),
            };
            self.recorded.insert(name.to_owned(), model);
        }
        // Inserted above if it was missing.
        &self.recorded[name]
    }

    pub(crate) fn assessment(&mut self, id: ModelId) -> &ModelAssessment {
        let (index, policy) = (self.index, self.policy);
        self.assessments[id as usize].get_or_insert_with(|| {
            let name = index.model(id).map_or("", |label| label.model_name());
            assess(policy, name)
        })
    }

    /// The pool of a demand, created on first use.
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

    /// The nodes of a pool that have one vendor.
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
            best: BestModel::NotComputed,
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
