//! The graph of owner references, by UID.
//!
//! An owner that has not been observed has no node, only dependents: its existence is then checked
//! with the API server. kube-controller-manager keeps "virtual" nodes for this, which it has to
//! correct.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use runtime::Change;

use super::node::{Meta, Node, Uid, is_blocking};
use crate::discovery::Served;

/// All objects and their dependents.
#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<Uid, Node>,
    dependents: HashMap<Uid, HashSet<Uid>>,
}

/// Consequences of a change in the graph.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Objects to process.
    pub(super) enqueue: Vec<Uid>,
    /// Dependents with an owner reference into another namespace.
    pub(super) misplaced: Vec<(Node, OwnerReference)>,
    /// A deleted object with dependents.
    pub(super) gone: Option<Node>,
}

/// The next action for an object, as far as the graph determines it.
#[derive(Debug)]
pub(super) enum GraphAction {
    /// No action.
    Rest,
    /// Remove it after the owner references of its dependents.
    Orphan(Node, Vec<Node>),
    /// Remove its finalizer: no dependent blocks it.
    Release(Node),
    /// Remove it after these dependents.
    Await(Vec<Uid>),
    /// Decide by its owners.
    Owners(Node),
}

impl Graph {
    /// Applies a watch event.
    pub(super) fn change(&mut self, kind: &Arc<Served>, change: &Change<Meta>) -> Effects {
        let mut effects = Effects::default();
        let uid = |object: &Option<Arc<Meta>>| {
            let uid = object.as_ref().and_then(|o| o.metadata.uid.as_deref())?;
            Some(Uid::from(uid))
        };
        let (old, new) = (uid(&change.old), uid(&change.new));
        // A relist may show a successor of the same name without the deletion of the first.
        if let Some(old) = old.filter(|old| Some(old) != new.as_ref()) {
            self.remove(&old, &mut effects);
        }
        if let (Some(uid), Some(object)) = (new, &change.new) {
            let node = Node {
                kind: Arc::clone(kind),
                object: Arc::clone(object),
            };
            self.put(&uid, &node, &mut effects);
        }
        effects
    }

    fn put(&mut self, uid: &Uid, node: &Node, effects: &mut Effects) {
        let old = self.nodes.insert(Uid::clone(uid), node.clone());
        let before = old.as_ref().map(Node::owners).unwrap_or_default();
        for reference in node.owners() {
            match before.iter().find(|known| known.uid == reference.uid) {
                Some(known) if known == reference => continue,
                Some(known) if is_blocking(known) && !is_blocking(reference) => {
                    effects.enqueue.push(reference.uid.as_str().into());
                }
                _ => {}
            }
            self.add_dependent(uid, node, reference, effects);
        }
        for reference in before {
            let kept = node.owners().iter().any(|now| now.uid == reference.uid);
            if !kept {
                self.remove_dependent(&reference.uid, uid);
                if is_blocking(reference) {
                    effects.enqueue.push(reference.uid.as_str().into());
                }
            }
        }
        if old.is_none() {
            self.check_dependents(uid, node, effects);
        }
        let waited = old.as_ref().is_some_and(Node::deletes_dependents);
        if node.deletes_dependents() && !waited {
            let dependents = self.dependents.get(uid).into_iter().flatten();
            effects.enqueue.extend(dependents.cloned());
        }
        if node.deletes_dependents() || node.orphans_dependents() {
            effects.enqueue.push(Uid::clone(uid));
        }
    }

    fn add_dependent(
        &mut self,
        uid: &Uid,
        node: &Node,
        reference: &OwnerReference,
        effects: &mut Effects,
    ) {
        let owner_uid = Uid::from(reference.uid.as_str());
        let doubtful = match self.nodes.get(&owner_uid) {
            None => true,
            Some(owner) => {
                if !owner.reaches(node.namespace()) {
                    effects.misplaced.push((node.clone(), reference.clone()));
                }
                owner.deletes_dependents() || !owner.is_meant_by(reference, node.namespace())
            }
        };
        if doubtful {
            effects.enqueue.push(Uid::clone(uid));
        }
        self.dependents
            .entry(owner_uid)
            .or_default()
            .insert(Uid::clone(uid));
    }

    fn remove_dependent(&mut self, owner: &str, uid: &Uid) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(uid);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Verifies dependents that were observed before their owner: their reference may not match it.
    fn check_dependents(&self, uid: &Uid, node: &Node, effects: &mut Effects) {
        for dependent in self.dependents_of(uid) {
            let references = dependent.owners().iter();
            for reference in references.filter(|reference| *reference.uid == **uid) {
                if node.is_meant_by(reference, dependent.namespace()) {
                    continue;
                }
                effects.enqueue.push(dependent.uid().into());
                if !node.reaches(dependent.namespace()) {
                    effects
                        .misplaced
                        .push((dependent.clone(), reference.clone()));
                }
            }
        }
    }

    fn remove(&mut self, uid: &Uid, effects: &mut Effects) {
        let Some(node) = self.nodes.remove(uid) else {
            return;
        };
        for reference in node.owners() {
            self.remove_dependent(&reference.uid, uid);
            let owner = self.nodes.get(reference.uid.as_str());
            if owner.is_some_and(Node::deletes_dependents) {
                effects.enqueue.push(reference.uid.as_str().into());
            }
        }
        if let Some(dependents) = self.dependents.get(uid) {
            effects.enqueue.extend(dependents.iter().cloned());
            // Remembered only if it has dependents: they would each ask the API server for the same
            // absent owner.
            effects.gone = Some(node);
        }
    }

    /// Drops the objects of a kind that is no longer served. They may still exist, so their
    /// dependents are unaffected.
    pub(super) fn forget_kind(&mut self, kind: &Served) {
        let gone: Vec<Uid> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.kind.resource == kind.resource)
            .map(|(uid, _)| Uid::clone(uid))
            .collect();
        for uid in gone {
            self.remove(&uid, &mut Effects::default());
        }
    }

    pub(super) fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The dependents of an owner.
    pub(super) fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Node> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.filter_map(|dependent| self.nodes.get(dependent))
    }

    /// The next action for an object.
    pub(super) fn next_action(&self, uid: &str) -> GraphAction {
        let Some(node) = self.nodes.get(uid) else {
            return GraphAction::Rest;
        };
        if node.orphans_dependents() {
            return GraphAction::Orphan(node.clone(), self.dependents_of(uid).cloned().collect());
        }
        if node.deletes_dependents() {
            let mut blocked = false;
            let mut next = Vec::new();
            for dependent in self.dependents_of(uid) {
                if dependent.blocks(uid) {
                    blocked = true;
                    if !dependent.is_deleting() {
                        next.push(dependent.uid().into());
                    }
                }
            }
            return if blocked {
                GraphAction::Await(next)
            } else {
                GraphAction::Release(node.clone())
            };
        }
        // Deletion cannot be undone: its dependents follow once it is gone.
        if node.is_deleting() || node.owners().is_empty() {
            return GraphAction::Rest;
        }
        let stay = node.owners().iter().all(|reference| {
            self.nodes.get(reference.uid.as_str()).is_some_and(|owner| {
                owner.is_meant_by(reference, node.namespace()) && !owner.deletes_dependents()
            })
        });
        if stay {
            GraphAction::Rest
        } else {
            GraphAction::Owners(node.clone())
        }
    }
}

#[cfg(test)]
mod tests;
