//! Which pods of a DaemonSet come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus, RollingUpdateDaemonSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::places::{Verdict, Verdicts};
use super::template::{HASH, is_current, target};
use crate::workloads::pods::{is_available, is_ready, is_terminal, portion, unless_zero};

/// The most pods made or taken away at once (kube-controller-manager's burst for DaemonSets).
const BURST: usize = 250;

/// Everything that decides.
pub(super) struct Facts<'a> {
    pub(super) set: &'a DaemonSet,
    /// What the present template is called.
    pub(super) hash: &'a str,
    pub(super) nodes: &'a Verdicts,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) now: Timestamp,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Nodes that get a pod.
    pub(super) create: Vec<Arc<str>>,
    /// Pods that go.
    pub(super) delete: Vec<Arc<Pod>>,
    /// Nodes with pods that ended by themselves, which are among those that go.
    pub(super) ended: Vec<(Arc<str>, Arc<Pod>)>,
    /// When a pod that failed may be replaced.
    pub(super) next_look: Option<Duration>,
}

impl Plan {
    fn is_idle(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    fn cut(mut self) -> Self {
        self.create.truncate(BURST);
        self.delete.truncate(BURST);
        self
    }
}

/// The pods of a set by the node they are on or for. What has ended and is to go does not count.
type ByNode<'a> = BTreeMap<&'a str, Vec<&'a Arc<Pod>>>;

fn by_node(pods: &[Arc<Pod>]) -> ByNode<'_> {
    let mut nodes = ByNode::new();
    let gone = |pod: &Pod| is_terminal(pod) && pod.metadata.deletion_timestamp.is_some();
    for pod in pods.iter().filter(|pod| !gone(pod)) {
        if let Some(node) = target(pod) {
            nodes.entry(node).or_default().push(pod);
        }
    }
    nodes
}

/// First sees to it that every node has what it should have; when all do, pods of old templates give
/// way. `waits` says how long a pod that failed on a node has to be left there.
pub(super) fn decide(facts: &Facts<'_>, waits: impl Fn(&str) -> Option<Duration>) -> Plan {
    let pods = by_node(facts.pods);
    let plan = cover(facts, &pods, waits);
    if !plan.is_idle() || !rolls(facts.set) {
        return plan.cut();
    }
    let roll = Plan {
        next_look: plan.next_look,
        ..roll(facts, pods)
    };
    roll.cut()
}

/// One pod on every node that should have one, none elsewhere.
fn cover(facts: &Facts<'_>, pods: &ByNode<'_>, waits: impl Fn(&str) -> Option<Duration>) -> Plan {
    let mut plan = Plan::default();
    let surges = limits(facts.set, 1).surge > 0;
    for (node, verdict) in facts.nodes {
        let here = pods.get(&**node).map(Vec::as_slice).unwrap_or_default();
        match verdict {
            Verdict::Run if here.is_empty() => plan.create.push(Arc::clone(node)),
            Verdict::Leave => plan.delete.extend(staying(here).cloned()),
            Verdict::Run | Verdict::Stay => {
                let mut running = Vec::new();
                for pod in staying(here) {
                    if !is_terminal(pod) {
                        running.push(pod);
                        continue;
                    }
                    let wait = waits(node).filter(|_| failed(pod));
                    if wait.is_some() {
                        plan.next_look = soonest(plan.next_look, wait);
                        continue;
                    }
                    plan.ended.push((Arc::clone(node), Arc::clone(pod)));
                    plan.delete.push(Arc::clone(pod));
                }
                if surges && running.is_empty() && *verdict == Verdict::Run {
                    plan.create.push(Arc::clone(node));
                }
                plan.delete.extend(surplus(facts, running, surges));
            }
        }
    }
    // Pods that wait for a node that is gone wait in vain.
    let unassigned = |pod: &&&Arc<Pod>| !is_assigned(pod);
    for (_, stranded) in pods
        .iter()
        .filter(|(node, _)| !facts.nodes.contains_key(**node))
    {
        plan.delete
            .extend(staying(stranded).filter(|pod| unassigned(&pod)).cloned());
    }
    plan
}

/// Of several pods on a node the one that was there first stays; if a new one may run beside an old
/// one, one of each, until the new one has taken over.
fn surplus(facts: &Facts<'_>, mut running: Vec<&Arc<Pod>>, surges: bool) -> Vec<Arc<Pod>> {
    sort(&mut running);
    if !surges {
        return running.into_iter().skip(1).cloned().collect();
    }
    if running.len() < 2 {
        return Vec::new();
    }
    let current = |pod: &&&Arc<Pod>| {
        let labels = pod.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(HASH))
            .map(String::as_str)
            == Some(facts.hash)
    };
    let new = running.iter().find(current).copied();
    let old = running.iter().find(|pod| !current(pod)).copied();
    let kept =
        |pod: &Arc<Pod>, keep: Option<&Arc<Pod>>| keep.is_some_and(|it| Arc::ptr_eq(it, pod));
    let mut gone: Vec<Arc<Pod>> = running
        .iter()
        .filter(|pod| !kept(pod, new) && !kept(pod, old))
        .map(|pod| Arc::clone(pod))
        .collect();
    if let (Some(new), Some(old)) = (new, old)
        && (!is_ready(old) || facts.available(new))
    {
        gone.push(Arc::clone(old));
    }
    gone
}

/// Lets pods of the present template take the place of others, as fast as the set allows.
fn roll<'a>(facts: &Facts<'a>, mut pods: ByNode<'a>) -> Plan {
    let run = facts.nodes.iter().filter(|(_, it)| **it == Verdict::Run);
    let mut desired = 0;
    for (node, _) in run {
        desired += 1;
        pods.entry(node).or_default();
    }
    let limits = limits(facts.set, desired);
    if limits.surge == 0 {
        replace(facts, &pods, limits.unavailable)
    } else {
        surge(facts, &pods, limits.surge, desired)
    }
}

/// Takes old pods away; those that are not available anyway do not count.
fn replace(facts: &Facts<'_>, pods: &ByNode<'_>, most: i32) -> Plan {
    let mut unavailable = 0;
    let (mut broken, mut candidates) = (Vec::new(), Vec::new());
    for here in pods.values() {
        match Pair::of(facts, here) {
            Pair::New(new) => unavailable += i32::from(!facts.available(new)),
            Pair::Old(old) if facts.available(old) => candidates.push(Arc::clone(old)),
            Pair::Old(old) => {
                unavailable += 1;
                broken.push(Arc::clone(old));
            }
            Pair::None | Pair::Both(..) | Pair::Crowd => unavailable += 1,
        }
    }
    candidates.truncate(usize::try_from(most - unavailable).unwrap_or_default());
    broken.extend(candidates);
    Plan {
        delete: broken,
        ..Plan::default()
    }
}

/// Puts new pods beside old ones; the old ones go when the new ones are available.
fn surge(facts: &Facts<'_>, pods: &ByNode<'_>, most: i32, desired: i32) -> Plan {
    let mut plan = Plan::default();
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
    for (node, here) in pods {
        let pair = Pair::of(facts, here);
        match pair {
            Pair::Old(pod) | Pair::New(pod) | Pair::Both(_, pod) => {
                available += i32::from(facts.available(pod));
            }
            Pair::None | Pair::Crowd => {}
        }
        match pair {
            Pair::Crowd => surging += 1,
            Pair::None | Pair::New(_) => {}
            Pair::Both(new, _) if !facts.available(new) => surging += 1,
            Pair::Both(_, old) => plan.delete.push(Arc::clone(old)),
            Pair::Old(old) => match (facts.nodes.get_key_value(*node), facts.available(old)) {
                (Some((node, Verdict::Run)), true) => candidates.push(Arc::clone(node)),
                (Some((node, Verdict::Run)), false) => plan.create.push(Arc::clone(node)),
                (_, true) => unwanted.push(Arc::clone(old)),
                (_, false) => plan.delete.push(Arc::clone(old)),
            },
        }
    }
    // Pods that may stay where none would be put go when there are enough without them.
    unwanted.truncate(usize::try_from(available - desired).unwrap_or_default());
    plan.delete.extend(unwanted);
    candidates.truncate(usize::try_from(most - surging).unwrap_or_default());
    plan.create.extend(candidates);
    plan
}

/// The pods of a node by template, those that are to go left out.
#[derive(Clone, Copy)]
enum Pair<'a> {
    None,
    New(&'a Arc<Pod>),
    Old(&'a Arc<Pod>),
    /// New and old.
    Both(&'a Arc<Pod>, &'a Arc<Pod>),
    /// More than one of a kind.
    Crowd,
}

impl<'a> Pair<'a> {
    fn of(facts: &Facts<'_>, here: &[&'a Arc<Pod>]) -> Self {
        let mut pair = Self::None;
        for pod in here
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        {
            let current = is_current(pod, facts.set, facts.hash);
            pair = match (pair, current) {
                (Self::None, true) => Self::New(pod),
                (Self::None, false) => Self::Old(pod),
                (Self::New(new), false) => Self::Both(new, pod),
                (Self::Old(old), true) => Self::Both(pod, old),
                _ => return Self::Crowd,
            };
        }
        pair
    }
}

impl Facts<'_> {
    fn available(&self, pod: &Pod) -> bool {
        is_available(pod, min_ready_seconds(self.set), self.now)
    }
}

/// How long pods have to be ready to be available.
pub(super) fn min_ready_seconds(set: &DaemonSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.min_ready_seconds)
        .unwrap_or_default()
}

/// Counts.
pub(super) fn status(facts: &Facts<'_>) -> DaemonSetStatus {
    let pods = by_node(facts.pods);
    let before = facts.set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus {
        collision_count: before.collision_count,
        conditions: before.conditions,
        observed_generation: facts.set.metadata.generation,
        ..DaemonSetStatus::default()
    };
    let (mut updated, mut available) = (0, 0);
    for (node, verdict) in facts.nodes {
        let mut here = pods.get(&**node).cloned().unwrap_or_default();
        sort(&mut here);
        let first = here.first();
        if *verdict != Verdict::Run {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(is_ready(pod));
        available += i32::from(facts.available(pod));
        updated += i32::from(is_current(pod, facts.set, facts.hash));
    }
    status.updated_number_scheduled = unless_zero(updated);
    status.number_available = unless_zero(available);
    status.number_unavailable = unless_zero(status.desired_number_scheduled - available);
    status
}

struct Limits {
    surge: i32,
    unavailable: i32,
}

/// How many pods may come or be missing at once. Something has to be allowed, or nothing would move.
fn limits(set: &DaemonSet, desired: i32) -> Limits {
    let rolling = rolling_update(set);
    let resolve = |value: Option<&IntOrString>| {
        value
            .and_then(|value| portion(value, desired, true))
            .unwrap_or_default()
    };
    let surge = resolve(rolling.and_then(|rolling| rolling.max_surge.as_ref()));
    let unavailable = resolve(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()));
    let stuck = desired > 0 && surge == 0 && unavailable == 0;
    Limits {
        surge,
        unavailable: if stuck { 1 } else { unavailable },
    }
}

/// Whether pods of old templates are replaced without anybody deleting them.
fn rolls(set: &DaemonSet) -> bool {
    let strategy = set
        .spec
        .as_ref()
        .and_then(|spec| spec.update_strategy.as_ref());
    strategy.is_none_or(|strategy| strategy.type_.as_deref() != Some("OnDelete"))
}

fn rolling_update(set: &DaemonSet) -> Option<&RollingUpdateDaemonSet> {
    if !rolls(set) {
        return None;
    }
    let strategy = set.spec.as_ref()?.update_strategy.as_ref()?;
    strategy.rolling_update.as_ref()
}

fn staying<'a>(pods: &'a [&'a Arc<Pod>]) -> impl Iterator<Item = &'a Arc<Pod>> {
    let pods = pods.iter().copied();
    pods.filter(|pod| pod.metadata.deletion_timestamp.is_none())
}

/// Whether a pod ended badly.
pub(super) fn failed(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.is_some_and(|status| status.phase.as_deref() == Some("Failed"))
}

fn is_assigned(pod: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.is_some_and(|name| !name.is_empty())
}

/// Pods that have a node first, then older ones.
fn sort(pods: &mut [&Arc<Pod>]) {
    pods.sort_by_cached_key(|pod| {
        let meta = &pod.metadata;
        let created = meta.creation_timestamp.as_ref().map(|at| at.0);
        (!is_assigned(pod), created, meta.name.clone())
    });
}

/// The earlier of two waits.
pub(super) fn soonest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
