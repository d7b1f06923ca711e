//! Review of a running VM: the number of its migration targets, whether a restart would give it a
//! newer model, and whether too few nodes support the one it has.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;

use crate::decide::{NodeContext, Survey};
use crate::index::{Index, ModelId};
use crate::machine::{Requested, RunningVm};
use crate::names::{HOST_MODEL, HOST_PASSTHROUGH, OBSOLETE_HOST_MODEL_LABEL};
use crate::policy::{Needed, Policy};

/// The state of a running VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// Its model; `None` if it is not chosen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether its node is in the index.
    pub node_known: bool,
    /// How many nodes support its model, its own included.
    pub supporters: u32,
    /// How many other nodes it could migrate to now.
    pub targets: u32,
    /// How many nodes have to support its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Needed>,
    /// Set if too few nodes support its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stranded: Option<Stranded>,
    /// Set if a restart would give it a newer model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<Stale>,
}

/// Too few nodes support the model of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "reason")]
pub enum Stranded {
    /// It has no migration target.
    NoTarget,
    /// It has targets, but fewer nodes support its model than the policy requires.
    BelowThreshold,
}

/// A restart would give the VM a newer model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stale {
    /// The newer model.
    pub model: String,
    /// Whether its own node offers the model; else it has to start on another.
    pub here: bool,
}

/// Reviews one VM. For many, reuse one [`Survey`].
pub fn review(index: &Index, policy: &Policy, running: &RunningVm) -> Review {
    Survey::new(index, policy).review(running)
}

/// The model that a VM runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CurrentModel<'r> {
    Named(&'r str),
    HostModel,
    HostPassthrough,
    Undecided,
}

impl<'r> CurrentModel<'r> {
    fn of(running: &'r RunningVm) -> Self {
        match (running.recorded.as_deref(), &running.machine.requested) {
            (Some(HOST_MODEL), _) | (None, Requested::HostModel) => Self::HostModel,
            (Some(HOST_PASSTHROUGH), _) | (None, Requested::HostPassthrough) => {
                Self::HostPassthrough
            }
            (Some(name), _) => Self::Named(name),
            (None, Requested::Named(name)) => Self::Named(name),
            (None, Requested::BestMatch) => Self::Undecided,
        }
    }

    fn name(self) -> Option<&'r str> {
        match self {
            Self::Named(name) => Some(name),
            Self::HostModel => Some(HOST_MODEL),
            Self::HostPassthrough => Some(HOST_PASSTHROUGH),
            Self::Undecided => None,
        }
    }
}

/// A review that borrows its strings: a scan over all VMs allocates only for those that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReviewRef<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) node_known: bool,
    pub(crate) supporters: u32,
    pub(crate) targets: u32,
    pub(crate) threshold: Option<Needed>,
    pub(crate) stranded: Option<Stranded>,
    pub(crate) stale: Option<(&'a str, bool)>,
}

impl ReviewRef<'_> {
    pub(crate) fn has_no_target(&self) -> bool {
        self.stranded == Some(Stranded::NoTarget)
    }

    pub(crate) fn owned(&self) -> Review {
        Review {
            model: self.model.map(str::to_owned),
            node_known: self.node_known,
            supporters: self.supporters,
            targets: self.targets,
            threshold: self.threshold,
            stranded: self.stranded,
            stale: self.stale.map(|(model, here)| Stale {
                model: model.to_owned(),
                here,
            }),
        }
    }
}

impl<'a> Survey<'a> {
    /// Reviews a running VM.
    pub fn review(&mut self, running: &RunningVm) -> Review {
        self.review_ref(running).owned()
    }

    /// Reviews a running VM without allocating.
    pub(crate) fn review_ref<'r>(&mut self, running: &'r RunningVm) -> ReviewRef<'r>
    where
        'a: 'r,
    {
        let current = CurrentModel::of(running);
        let mut review = ReviewRef {
            model: current.name(),
            node_known: self.index().contains(&running.node),
            supporters: 0,
            targets: 0,
            threshold: None,
            stranded: None,
            stale: None,
        };
        if matches!(
            current,
            CurrentModel::HostPassthrough | CurrentModel::Undecided
        ) {
            return review;
        }
        let demand = &running.machine.demand;
        if let Ok(place) = self.locate_node(demand, &running.node) {
            let (all, here) = self.holders_at(&place, current, running);
            // The node that it runs on supports it, whether or not it is eligible for other VMs.
            let counts_itself = here && place.eligible;
            review.targets = all - u32::from(counts_itself);
            review.supporters = review.targets + u32::from(here);
            review.threshold = Some(place.needed);
            review.stranded = stranded(&review, place.needed);
            // A VM that names its model would get the same one on restart.
            if running.machine.requested == Requested::BestMatch {
                review.stale = self.stale_at(&place, current);
            }
        } else if let CurrentModel::Named(name) = current
            && let Some(vendor) = self.recorded_model(name).vendor.clone()
        {
            // Its node is gone, or has no unambiguous vendor: use the vendor of the model.
            let pool = self.pool(demand);
            let within = self.vendor_pool(pool, &vendor);
            let needed = self.policy().threshold;
            let needed = needed.needed(self.pool_at(pool).of_vendor(within).len);
            let id = self.recorded_model(name).id;
            review.targets = id.map_or(0, |id| self.count(pool, within, id));
            review.supporters = review.targets;
            review.threshold = Some(needed);
            review.stranded = stranded(&review, needed);
        } else {
            review.stranded = Some(Stranded::NoTarget);
        }
        review
    }

    /// How many nodes that a VM can migrate to support its model, and whether its own does.
    fn holders_at(
        &mut self,
        place: &NodeContext<'a>,
        current: CurrentModel<'_>,
        running: &RunningVm,
    ) -> (u32, bool) {
        let mut bits = match current {
            CurrentModel::Named(name) => {
                let Some(id) = self.recorded_model(name).id else {
                    return (0, false);
                };
                let here = place.node.models.binary_search(&id).is_ok();
                return (self.count(place.pool, place.within, id), here);
            }
            CurrentModel::HostModel if running.carried.is_empty() => self.host_targets(place.node),
            // A VM that migrated before keeps the labels of its first node, so those decide where
            // it can go.
            CurrentModel::HostModel => Arc::new(self.index().with_all(&running.carried)),
            CurrentModel::HostPassthrough | CurrentModel::Undecided => return (0, false),
        };
        // As in the target pods of `launcher::target`.
        let obsolete = self.index().with_key(OBSOLETE_HOST_MODEL_LABEL);
        if let Some(obsolete) = obsolete.filter(|nodes| !nodes.contains(place.at)) {
            obsolete.take_from(Arc::make_mut(&mut bits));
        }
        let nodes = &self.pool_at(place.pool).of_vendor(place.within).nodes;
        let all = bits.intersection_count(nodes);
        let here = bits.contains(place.at as usize);
        (u32::try_from(all).unwrap_or(u32::MAX), here)
    }

    /// The newer model that a VM would get on restart: on its own node if possible, else on
    /// another.
    fn stale_at(
        &mut self,
        place: &NodeContext<'a>,
        current: CurrentModel<'_>,
    ) -> Option<(&'a str, bool)> {
        let index = self.index();
        let name = |id| index.model(id).map_or("", |label| label.model_name());
        if let Some(best) = self.best_at(place)
            && self.is_newer(best, current)
        {
            return Some((name(best), true));
        }
        let best = self.best_anywhere(place.pool, place.within, place.vendor)?;
        self.is_newer(best, current).then(|| (name(best), false))
    }

    /// Whether a model has a later year or generation. Any named model is better than `host-model`,
    /// which is the fallback.
    fn is_newer(&mut self, model: ModelId, current: CurrentModel<'_>) -> bool {
        let age = self.assessment(model).age();
        match current {
            CurrentModel::HostModel => true,
            CurrentModel::Named(name) => self
                .recorded_model(name)
                .age
                // A recorded model of unknown age is not reported: whether another one is newer
                // cannot be known.
                .is_some_and(|current| age > Some(current)),
            CurrentModel::HostPassthrough | CurrentModel::Undecided => false,
        }
    }
}

fn stranded(review: &ReviewRef<'_>, needed: Needed) -> Option<Stranded> {
    if review.targets == 0 {
        Some(Stranded::NoTarget)
    } else if review.supporters < needed.nodes {
        Some(Stranded::BelowThreshold)
    } else {
        None
    }
}
