//! Who owns whom, by uid.
//!
//! An owner that has not been seen has no node, only dependents: whether it is there is then asked
//! of the server. kube-controller-manager keeps "virtual" nodes for this, and has to correct them.

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

/// What a change of the graph means for others.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Objects to look at.
    pub(super) look_at: Vec<Uid>,
    /// Dependents that name an owner of another namespace.
    pub(super) misplaced: Vec<(Node, OwnerReference)>,
    /// An object that is gone and has dependents.
    pub(super) gone: Option<Node>,
}

/// What there is to do about an object, as far as the graph tells.
#[derive(Debug)]
pub(super) enum Look {
    /// Nothing.
    Rest,
    /// It goes and leaves its dependents without owner.
    Orphan(Node, Vec<Node>),
    /// It goes, and no dependent keeps it.
    Release(Node),
    /// It goes after these dependents.
    Await(Vec<Uid>),
    /// Its owners decide.
    Owners(Node),
}

impl Graph {
    /// Takes over what a watch told.
    pub(super) fn change(&mut self, kind: &Arc<Served>, change: &Change<Meta>) -> Effects {
        let mut effects = Effects::default();
        let uid = |object: &Option<Arc<Meta>>| {
            let uid = object.as_ref().and_then(|o| o.metadata.uid.as_deref())?;
            Some(Uid::from(uid))
        };
        let (old, new) = (uid(&change.old), uid(&change.new));
        // A list may show a successor of the same name without having shown the end of the first.
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
                    effects.look_at.push(reference.uid.as_str().into());
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
                    effects.look_at.push(reference.uid.as_str().into());
                }
            }
        }
        if old.is_none() {
            self.check_dependents(uid, node, effects);
        }
        let waited = old.as_ref().is_some_and(Node::deletes_dependents);
        if node.deletes_dependents() && !waited {
            let dependents = self.dependents.get(uid).into_iter().flatten();
            effects.look_at.extend(dependents.cloned());
        }
        if node.deletes_dependents() || node.orphans_dependents() {
            effects.look_at.push(Uid::clone(uid));
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
            effects.look_at.push(Uid::clone(uid));
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

    /// Dependents that were there before their owner was seen: do they mean it?
    fn check_dependents(&self, uid: &Uid, node: &Node, effects: &mut Effects) {
        for dependent in self.dependents_of(uid) {
            let references = dependent.owners().iter();
            for reference in references.filter(|reference| *reference.uid == **uid) {
                if node.is_meant_by(reference, dependent.namespace()) {
                    continue;
                }
                effects.look_at.push(dependent.uid().into());
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
                effects.look_at.push(reference.uid.as_str().into());
            }
        }
        if let Some(dependents) = self.dependents.get(uid) {
            effects.look_at.extend(dependents.iter().cloned());
            effects.gone = Some(node);
        }
    }

    /// Forgets the objects of a kind that is not served any more. That they cannot be seen does not
    /// mean that they are gone: nothing follows for their dependents.
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

    /// What calls this its owner.
    pub(super) fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Node> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.filter_map(|dependent| self.nodes.get(dependent))
    }

    /// What there is to do about an object.
    pub(super) fn look(&self, uid: &str) -> Look {
        let Some(node) = self.nodes.get(uid) else {
            return Look::Rest;
        };
        if node.orphans_dependents() {
            return Look::Orphan(node.clone(), self.dependents_of(uid).cloned().collect());
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
                Look::Await(next)
            } else {
                Look::Release(node.clone())
            };
        }
        // Being deleted is a way of no return: its dependents follow when it is gone.
        if node.is_deleting() || node.owners().is_empty() {
            return Look::Rest;
        }
        let stay = node.owners().iter().all(|reference| {
            self.nodes.get(reference.uid.as_str()).is_some_and(|owner| {
                owner.is_meant_by(reference, node.namespace()) && !owner.deletes_dependents()
            })
        });
        if stay {
            Look::Rest
        } else {
            Look::Owners(node.clone())
        }
    }
}

#[cfg(test)]
mod tests;
