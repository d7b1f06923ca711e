//! How a machine fares that runs: how many nodes could take it, whether a restart would give it a
//! newer model, whether too few nodes support the one it has.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;

use crate::decide::{Place, Survey};
use crate::index::{Index, ModelId};
use crate::machine::{Requested, Running};
use crate::names::{HOST_MODEL, HOST_PASSTHROUGH};
use crate::policy::{Needed, Policy};

/// How a machine fares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// The model that it has; none if it is yet to be chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether its node is there.
    pub node_known: bool,
    /// How many nodes it can be on, its own included.
    pub supporters: u32,
    /// How many other nodes could take it now: the migratability of the machine.
    pub targets: u32,
    /// How many nodes have to support its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Needed>,
    /// Whether too few nodes support its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stranded: Option<Stranded>,
    /// Whether it could have a newer model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<Stale>,
}

/// Too few nodes support the model of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "reason")]
pub enum Stranded {
    /// No other node could take it.
    NoTarget,
    /// Some could, but fewer than the policy asks for.
    BelowThreshold,
}

/// A machine that was started now would get a newer model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stale {
    /// The model.
    pub model: String,
    /// Whether it would get it on the node where it is; else it would have to start on another.
    pub here: bool,
}

/// Reviews one machine. For many, one [`Survey`] is faster.
pub fn review(index: &Index, policy: &Policy, running: &Running) -> Review {
    Survey::new(index, policy).review(running)
}

/// What a machine runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held<'r> {
    Named(&'r str),
    HostModel,
    HostPassthrough,
    Undecided,
}

impl<'r> Held<'r> {
    fn of(running: &'r Running) -> Self {
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

/// How a machine fares, without texts of its own. Machines are many, and most do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) node_known: bool,
    pub(crate) supporters: u32,
    pub(crate) targets: u32,
    pub(crate) threshold: Option<Needed>,
    pub(crate) stranded: Option<Stranded>,
    pub(crate) stale: Option<(&'a str, bool)>,
}

impl Standing<'_> {
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
    /// Reviews a machine.
    pub fn review(&mut self, running: &Running) -> Review {
        self.standing(running).owned()
    }

    /// How a machine fares.
    pub(crate) fn standing<'r>(&mut self, running: &'r Running) -> Standing<'r>
    where
        'a: 'r,
    {
        let held = Held::of(running);
        let mut standing = Standing {
            model: held.name(),
            node_known: self.index().contains(&running.node),
            supporters: 0,
            targets: 0,
            threshold: None,
            stranded: None,
            stale: None,
        };
        if matches!(held, Held::HostPassthrough | Held::Undecided) {
            return standing;
        }
        let demand = &running.machine.demand;
        if let Ok(place) = self.find_place(demand, &running.node) {
            let (all, here) = self.holders_at(&place, held, running);
            // The node that it runs on supports it, whether or not others could go there.
            let counts_itself = here && place.eligible;
            standing.targets = all - u32::from(counts_itself);
            standing.supporters = standing.targets + u32::from(here);
            standing.threshold = Some(place.needed);
            standing.stranded = stranded(&standing, place.needed);
            if running.machine.requested == Requested::BestMatch {
                standing.stale = self.stale_at(&place, held);
            }
        } else if let Held::Named(name) = held
            && let Some(vendor) = self.named(name).vendor.clone()
        {
            // Its node is gone, or tells no vendor any more: what its model says has to do.
            let pool = self.pool(demand);
            let within = self.vendor_pool(pool, &vendor);
            let needed = self.policy().threshold;
            let needed = needed.needed(self.pool_at(pool).of_vendor(within).len);
            let id = self.named(name).id;
            standing.targets = id.map_or(0, |id| self.count(pool, within, id));
            standing.supporters = standing.targets;
            standing.threshold = Some(needed);
            standing.stranded = stranded(&standing, needed);
        } else {
            standing.stranded = Some(Stranded::NoTarget);
        }
        standing
    }

    /// How many nodes that a machine can go to support what it has, and whether its own does.
    fn holders_at(&mut self, place: &Place<'a>, held: Held<'_>, running: &Running) -> (u32, bool) {
        let bits = match held {
            Held::Named(name) => {
                let Some(id) = self.named(name).id else {
                    return (0, false);
                };
                let here = place.node.models.binary_search(&id).is_ok();
                return (self.count(place.pool, place.within, id), here);
            }
            Held::HostModel if running.carried.is_empty() => self.host_targets(place.node),
            Held::HostModel => Arc::new(self.index().with_all(&running.carried)),
            Held::HostPassthrough | Held::Undecided => return (0, false),
        };
        let nodes = &self.pool_at(place.pool).of_vendor(place.within).nodes;
        let all = bits.intersection_count(nodes);
        let here = bits.contains(place.at as usize);
        (u32::try_from(all).unwrap_or(u32::MAX), here)
    }

    /// A newer model that a machine would get now.
    fn stale_at(&mut self, place: &Place<'a>, held: Held<'_>) -> Option<(&'a str, bool)> {
        let index = self.index();
        let name = |id| index.model(id).map_or("", |label| label.model_name());
        if let Some(best) = self.best_at(place)
            && self.is_newer(best, held)
        {
            return Some((name(best), true));
        }
        let best = self.best_anywhere(place.pool, place.within, place.vendor)?;
        self.is_newer(best, held).then(|| (name(best), false))
    }

    /// Whether a model is of a later year or generation. Any name is better than `host-model`, which
    /// was the last resort.
    fn is_newer(&mut self, model: ModelId, held: Held<'_>) -> bool {
        let age = self.judged(model).age();
        match held {
            Held::HostModel => true,
            Held::Named(name) => self.named(name).age.is_some_and(|held| age > Some(held)),
            Held::HostPassthrough | Held::Undecided => false,
        }
    }
}

fn stranded(standing: &Standing<'_>, needed: Needed) -> Option<Stranded> {
    if standing.targets == 0 {
        Some(Stranded::NoTarget)
    } else if standing.supporters < needed.nodes {
        Some(Stranded::BelowThreshold)
    } else {
        None
    }
}
