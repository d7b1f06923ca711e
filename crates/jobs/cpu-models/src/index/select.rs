//! Queries over the index.

use api::cpu::{Counted, NodeScope};
use fixedbitset::FixedBitSet;
use machinery::node_affinity::{AffinityErrors, Term, tolerates};
use machinery::selector::{Operator, Requirement};

use super::Index;
use super::set::NodeSet;
use crate::demand::Demand;
use crate::names::TRUE;

/// The nodes that meet a demand.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// Those that match selector, affinity, features and architecture.
    pub(crate) matching: FixedBitSet,
    /// Those of them that are eligible: a VM could migrate there now.
    pub(crate) eligible: FixedBitSet,
    /// Errors of the affinity. As in the scheduler, its valid terms still match.
    pub(crate) malformed: Option<AffinityErrors>,
}

impl Index {
    /// The nodes that meet a demand.
    pub(crate) fn select(&self, demand: &Demand, scope: NodeScope) -> Selection {
        let mut matching = self.all.clone();
        for (key, value) in &demand.labels {
            keep(&mut matching, self.labels.with(key, value));
        }
        for key in &demand.absent {
            if let Some(nodes) = self.labels.with_key(key) {
                nodes.take_from(&mut matching);
            }
        }
        // No launcher selects these labels in releases of KubeVirt whose nodes do not have them.
        for key in &demand.if_reported {
            if self.labels.with_key(key).is_some() {
                keep(&mut matching, self.labels.with(key, TRUE));
            }
        }
        self.capacity.keep(&mut matching, &demand.resources);
        if let Some(wanted) = &demand.architecture {
            // A node that reports no architecture may have any.
            for (name, nodes) in &self.architectures {
                if name != wanted {
                    nodes.take_from(&mut matching);
                }
            }
        }
        let mut malformed = None;
        if let Some(affinity) = &demand.affinity {
            let mut any = FixedBitSet::with_capacity(self.all.len());
            for term in affinity.terms() {
                // Terms are ORed, and an affinity without terms matches no node: the empty union.
                any.union_with(&self.term(term));
            }
            matching.intersect_with(&any);
            let errors = affinity.errors();
            malformed = (!errors.is_empty()).then_some(AffinityErrors(errors));
        }
        let mut eligible = matching.clone();
        // Kept apart from `matching`: the node that a VM runs on counts even while it is cordoned.
        self.leave_out(&mut eligible, demand, scope);
        Selection {
            matching,
            eligible,
            malformed,
        }
    }

    /// Removes the nodes that the scheduler would not bind such a pod to now.
    fn leave_out(&self, nodes: &mut FixedBitSet, demand: &Demand, scope: NodeScope) {
        if scope.unschedulable == Counted::Ignore {
            self.unschedulable.take_from(nodes);
        }
        if scope.not_ready == Counted::Ignore {
            self.not_ready.take_from(nodes);
        }
        if scope.tainted == Counted::Ignore {
            for (taint, tainted) in &self.taints {
                if !tolerates(&demand.tolerations, taint) {
                    tainted.take_from(nodes);
                }
            }
        }
    }

    fn term(&self, term: &Term) -> FixedBitSet {
        let mut nodes = self.all.clone();
        for requirement in term.labels().requirements() {
            self.require(&mut nodes, requirement);
        }
        for field in term.fields() {
            match field.name() {
                Some((name, true)) => {
                    let one = self.place_of(name).map(|place| NodeSet::Few(vec![place]));
                    keep(&mut nodes, one.as_ref());
                }
                Some((name, false)) => {
                    if let Some(place) = self.place_of(name) {
                        nodes.remove(place as usize);
                    }
                }
                None if field.matches("") => {}
                None => nodes.clear(),
            }
        }
        nodes
    }

    fn require(&self, nodes: &mut FixedBitSet, requirement: &Requirement) {
        let key = requirement.key();
        match requirement.operator() {
            Operator::Exists => keep(nodes, self.labels.with_key(key)),
            Operator::DoesNotExist => {
                if let Some(with) = self.labels.with_key(key) {
                    with.take_from(nodes);
                }
            }
            Operator::NotIn | Operator::NotEquals => {
                for value in requirement.values() {
                    if let Some(with) = self.labels.with(key, value) {
                        with.take_from(nodes);
                    }
                }
            }
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                let sets = requirement.values().iter();
                let sets = sets.filter_map(|value| self.labels.with(key, value));
                self.keep_any(nodes, sets);
            }
            // By value and not by node: a key has few values, and each is parsed once.
            Operator::GreaterThan | Operator::LessThan => {
                let values = self.labels.values(key);
                let sets = values.filter(|(value, _)| requirement.matches(Some(value)));
                self.keep_any(nodes, sets.map(|(_, with)| with));
            }
        }
    }

    fn keep_any<'a>(&self, nodes: &mut FixedBitSet, sets: impl Iterator<Item = &'a NodeSet>) {
        let mut any = FixedBitSet::with_capacity(self.all.len());
        sets.for_each(|set| set.add_to(&mut any));
        nodes.intersect_with(&any);
    }
}

/// Intersects with a set; `None` is the empty set.
pub(super) fn keep(nodes: &mut FixedBitSet, set: Option<&NodeSet>) {
    match set {
        Some(set) => set.narrow(nodes),
        None => nodes.clear(),
    }
}
