//! Creation and deletion of a DaemonSet's pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus, RollingUpdateDaemonSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::places::{NodeVerdict, Verdicts};
use super::template::{HASH, is_current, target};
use crate::object::label;
use crate::pod::{node_name, phase};
use crate::workloads::pods::{is_available, is_ready, is_terminal, portion, unless_zero};

/// Maximum number of pods created or deleted in one reconcile (kube-controller-manager's burst for
/// DaemonSets).
const BURST: usize = 250;

/// Inputs of the decision.
pub(super) struct DaemonSetInputs<'a> {
    pub(super) set: &'a DaemonSet,
    /// Hash of the current template.
    pub(super) hash: &'a str,
    pub(super) nodes: &'a Verdicts,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) now: Timestamp,
}

/// The changes to make.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Nodes that get a pod.
    pub(super) create: Vec<Arc<str>>,
    /// Pods to delete.
    pub(super) delete: Vec<Arc<Pod>>,
    /// Nodes with terminated pods, which are among those to delete.
    pub(super) ended: Vec<(Arc<str>, Arc<Pod>)>,
    /// When a failed pod may be replaced.
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

/// The pods of a set by their current or target node. Terminated pods in deletion do not count.
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

/// First every node gets the pod it should have; once all have one, pods of old templates are
/// replaced. `waits` returns the remaining backoff of a failed pod on a node.
pub(super) fn decide(
    inputs: &DaemonSetInputs<'_>,
    waits: impl Fn(&str) -> Option<Duration>,
) -> Plan {
    let pods = by_node(inputs.pods);
    let plan = cover(inputs, &pods, waits);
    // Coverage before updates: a node without its daemon is worse than one with an old one.
    if !plan.is_idle() || !rolls(inputs.set) {
        return plan.cut();
    }
    let roll = Plan {
        next_look: plan.next_look,
        ..roll(inputs, pods)
    };
    roll.cut()
}

/// One pod on every node that should have one, none elsewhere.
fn cover(
    inputs: &DaemonSetInputs<'_>,
    pods: &ByNode<'_>,
    waits: impl Fn(&str) -> Option<Duration>,
) -> Plan {
    let mut plan = Plan::default();
    let surges = limits(inputs.set, 1).surge > 0;
    for (node, verdict) in inputs.nodes {
        let here = pods.get(&**node).map(Vec::as_slice).unwrap_or_default();
        match verdict {
            NodeVerdict::Run if here.is_empty() => plan.create.push(Arc::clone(node)),
            NodeVerdict::Leave => plan.delete.extend(staying(here).cloned()),
            NodeVerdict::Run | NodeVerdict::Stay => {
                let mut running = Vec::new();
                for pod in staying(here) {
                    if !is_terminal(pod) {
                        running.push(pod);
                        continue;
                    }
                    let wait = waits(node).filter(|_| failed(pod));
                    if wait.is_some() {
                        // The failed pod stays meanwhile, for its logs and so that the node counts
                        // as occupied.
                        plan.next_look = soonest(plan.next_look, wait);
                        continue;
                    }
                    plan.ended.push((Arc::clone(node), Arc::clone(pod)));
                    plan.delete.push(Arc::clone(pod));
                }
                if surges && running.is_empty() && *verdict == NodeVerdict::Run {
                    plan.create.push(Arc::clone(node));
                }
                plan.delete.extend(surplus(inputs, running, surges));
            }
        }
    }
    // Unscheduled pods for a deleted node will never be scheduled.
    let unassigned = |pod: &&&Arc<Pod>| node_name(pod).is_none();
    for (_, stranded) in pods
        .iter()
        .filter(|(node, _)| !inputs.nodes.contains_key(**node))
    {
        plan.delete
            .extend(staying(stranded).filter(|pod| unassigned(&pod)).cloned());
    }
    plan
}

/// Of several pods on a node the oldest stays; with surge, one old and one new pod, until the new
/// one is available.
fn surplus(
    inputs: &DaemonSetInputs<'_>,
    mut running: Vec<&Arc<Pod>>,
    surges: bool,
) -> Vec<Arc<Pod>> {
    sort(&mut running);
    if !surges {
        return running.into_iter().skip(1).cloned().collect();
    }
    if running.len() < 2 {
        return Vec::new();
    }
    let current = |pod: &&&Arc<Pod>| label(&pod.metadata, HASH) == Some(inputs.hash);
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
        && (!is_ready(old) || inputs.available(new))
    {
        gone.push(Arc::clone(old));
    }
    gone
}

/// Replaces pods of old templates, as fast as the update strategy allows.
fn roll<'a>(inputs: &DaemonSetInputs<'a>, mut pods: ByNode<'a>) -> Plan {
    let run = inputs
        .nodes
        .iter()
        .filter(|(_, it)| **it == NodeVerdict::Run);
    let mut desired = 0;
    for (node, _) in run {
        desired += 1;
        pods.entry(node).or_default();
    }
    let limits = limits(inputs.set, desired);
    if limits.surge == 0 {
        replace(inputs, &pods, limits.unavailable)
    } else {
        surge(inputs, &pods, limits.surge, desired)
    }
}

/// Deletes old pods; unavailable ones do not count against the limit.
fn replace(inputs: &DaemonSetInputs<'_>, pods: &ByNode<'_>, most: i32) -> Plan {
    let mut unavailable = 0;
    let (mut broken, mut candidates) = (Vec::new(), Vec::new());
    for here in pods.values() {
        match Pair::of(inputs, here) {
            Pair::New(new) => unavailable += i32::from(!inputs.available(new)),
            Pair::Old(old) if inputs.available(old) => candidates.push(Arc::clone(old)),
            Pair::Old(old) => {
                unavailable += 1;
                // Already unavailable: replacing it takes nothing away, and it may be the update
                // that repairs it.
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

/// Creates new pods next to old ones; the old ones are deleted once the new ones are available.
fn surge(inputs: &DaemonSetInputs<'_>, pods: &ByNode<'_>, most: i32, desired: i32) -> Plan {
    let mut plan = Plan::default();
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
    for (node, here) in pods {
        let pair = Pair::of(inputs, here);
        match pair {
            Pair::Old(pod) | Pair::New(pod) | Pair::Both(_, pod) => {
                available += i32::from(inputs.available(pod));
            }
            Pair::None | Pair::Crowd => {}
        }
        match pair {
            Pair::Crowd => surging += 1,
            Pair::None | Pair::New(_) => {}
            Pair::Both(new, _) if !inputs.available(new) => surging += 1,
            Pair::Both(_, old) => plan.delete.push(Arc::clone(old)),
            Pair::Old(old) => match (inputs.nodes.get_key_value(*node), inputs.available(old)) {
                (Some((node, NodeVerdict::Run)), true) => candidates.push(Arc::clone(node)),
                (Some((node, NodeVerdict::Run)), false) => plan.create.push(Arc::clone(node)),
                (_, true) => unwanted.push(Arc::clone(old)),
                (_, false) => plan.delete.push(Arc::clone(old)),
            },
        }
    }
    // Pods on nodes that would get none any more are deleted when enough others are available.
    unwanted.truncate(usize::try_from(available - desired).unwrap_or_default());
    plan.delete.extend(unwanted);
    candidates.truncate(usize::try_from(most - surging).unwrap_or_default());
    plan.create.extend(candidates);
    plan
}

/// The pods of a node by template, without those in deletion.
#[derive(Clone, Copy)]
enum Pair<'a> {
    None,
    New(&'a Arc<Pod>),
    Old(&'a Arc<Pod>),
    /// A new and an old one.
    Both(&'a Arc<Pod>, &'a Arc<Pod>),
    /// Several of one template.
    Crowd,
}

impl<'a> Pair<'a> {
    fn of(inputs: &DaemonSetInputs<'_>, here: &[&'a Arc<Pod>]) -> Self {
        let mut pair = Self::None;
        for pod in here
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        {
            let current = is_current(pod, inputs.set, inputs.hash);
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

impl DaemonSetInputs<'_> {
    fn available(&self, pod: &Pod) -> bool {
        is_available(pod, min_ready_seconds(self.set), self.now)
    }
}

/// How long pods have to be ready to be available, in seconds.
pub(super) fn min_ready_seconds(set: &DaemonSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.min_ready_seconds)
        .unwrap_or_default()
}

/// The status of the set.
pub(super) fn status(inputs: &DaemonSetInputs<'_>) -> DaemonSetStatus {
    let pods = by_node(inputs.pods);
    let before = inputs.set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus {
        collision_count: before.collision_count,
        conditions: before.conditions,
        observed_generation: inputs.set.metadata.generation,
        ..DaemonSetStatus::default()
    };
    let (mut updated, mut available) = (0, 0);
    for (node, verdict) in inputs.nodes {
        let mut here = pods.get(&**node).cloned().unwrap_or_default();
        sort(&mut here);
        let first = here.first();
        if *verdict != NodeVerdict::Run {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(is_ready(pod));
        available += i32::from(inputs.available(pod));
        updated += i32::from(is_current(pod, inputs.set, inputs.hash));
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

/// The numbers of surge and unavailable pods. One of them is at least 1, or the rollout would never
/// proceed.
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

/// Whether the update strategy is `RollingUpdate`.
fn rolls(set: &DaemonSet) -> bool {
    let spec = set.spec.as_ref();
    let strategy = spec.and_then(|spec| spec.update_strategy.as_ref());
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

/// Whether a pod failed.
pub(super) fn failed(pod: &Pod) -> bool {
    phase(pod) == "Failed"
}

/// Scheduled pods first, then older ones.
fn sort(pods: &mut [&Arc<Pod>]) {
    pods.sort_by_cached_key(|pod| {
        let meta = &pod.metadata;
        let created = meta.creation_timestamp.as_ref().map(|at| at.0);
        (node_name(pod).is_none(), created, meta.name.clone())
    });
}

/// The earlier of two delays.
pub(super) fn soonest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
