//! Unhealthy nodes per zone, and the resulting eviction rate.
//!
//! When all nodes are unhealthy, the controller's own connection is the more likely cause: no pods
//! are evicted. When most of a zone is unhealthy, evictions slow down, and stop in a small zone.
//! These are kube-controller-manager's rules and numbers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;

use crate::object::label;

const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// Zones with more nodes keep evicting at the secondary rate when most nodes are unhealthy
/// (`--large-cluster-size-threshold`).
const LARGE_ZONE_SIZE: usize = 50;
/// Share of unhealthy nodes that makes a zone unhealthy, in percent (`--unhealthy-zone-threshold`).
const UNHEALTHY_PERCENT: usize = 55;
/// Minimum number of unhealthy nodes for that.
const MIN_UNHEALTHY_NODES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Normal,
    Partial,
    Full,
}

#[derive(Debug, Default)]
struct Zone {
    total: usize,
    down: usize,
    last: Option<Instant>,
}

impl Zone {
    fn state(&self) -> State {
        if self.down > 0 && self.down == self.total {
            State::Full
        } else if self.down >= MIN_UNHEALTHY_NODES
            && self.down * 100 >= self.total * UNHEALTHY_PERCENT
        {
            State::Partial
        } else {
            State::Normal
        }
    }
}

/// All zones.
#[derive(Debug, Default)]
pub(super) struct Zones {
    nodes: HashMap<String, (String, bool)>,
    zones: HashMap<String, Zone>,
}

/// Intervals between evictions in one zone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) normal: Duration,
    pub(super) in_trouble: Duration,
}

impl Zones {
    /// Records the state of a node, or its deletion.
    pub(super) fn observe(&mut self, name: &str, node: Option<&Node>) {
        if let Some((zone, ready)) = self.nodes.remove(name)
            && let Some(counts) = self.zones.get_mut(&zone)
        {
            counts.total -= 1;
            counts.down -= usize::from(!ready);
            if counts.total == 0 {
                self.zones.remove(&zone);
            }
        }
        let Some(node) = node.filter(|node| label(&node.metadata, EXCLUDED).is_none()) else {
            return;
        };
        let (zone, ready) = (zone_of(node), super::readiness(node) == Some("True"));
        let counts = self.zones.entry(zone.clone()).or_default();
        counts.total += 1;
        counts.down += usize::from(!ready);
        self.nodes.insert(name.to_owned(), (zone, ready));
    }

    /// Whether no node in any zone is ready.
    pub(super) fn all_down(&self) -> bool {
        !self.zones.is_empty() && self.zones.values().all(|zone| zone.state() == State::Full)
    }

    /// Takes an eviction slot for a node of a zone, or returns how long to wait.
    pub(super) fn take_turn(
        &mut self,
        zone: &str,
        pace: Pace,
        now: Instant,
    ) -> Result<(), Duration> {
        let zone = self.zones.entry(zone.to_owned()).or_default();
        let interval = match zone.state() {
            State::Normal | State::Full => pace.normal,
            State::Partial if zone.total > LARGE_ZONE_SIZE => pace.in_trouble,
            // In a small zone half of the nodes may be behind one switch; evicting would overload
            // the other half. Asked again after the normal interval, when the state may have
            // changed.
            State::Partial => return Err(pace.normal),
        };
        let due = zone.last.map_or(now, |last| last + interval);
        if due > now {
            return Err(due - now);
        }
        zone.last = Some(now);
        Ok(())
    }
}

/// The failure domain of a node.
pub(super) fn zone_of(node: &Node) -> String {
    let part = |key| label(&node.metadata, key).unwrap_or_default();
    format!("{}:{}", part(REGION), part(ZONE))
}

#[cfg(test)]
mod tests;
