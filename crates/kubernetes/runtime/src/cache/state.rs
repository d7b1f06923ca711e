//! The contents of a cache: objects, indices and listeners.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::{Change, Kind, Undecodable, revision};
use crate::Key;

/// The terms an object is indexed by.
type TermsOf<K> = fn(&K) -> Vec<String>;

type Listener<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;
type UndecodableListener = Arc<dyn Fn(&Undecodable) + Send + Sync>;

/// Objects, their indices and the listeners.
pub(super) struct State<K> {
    // Ordered by namespace and name: a namespace is then one range, and every list, status and event that is derived
    // from the cache has the same order each time. A hash map would make equal states compare as different.
    pub(super) objects: BTreeMap<Key, Arc<K>>,
    pub(super) listeners: Vec<Listener<K>>,
    /// Objects whose current state cannot be decoded. `objects` keeps the last state that could: dropping
    /// it would look like a deletion, on which controllers act.
    pub(super) undecodable: BTreeMap<Key, Undecodable>,
    pub(super) undecodable_listeners: Vec<UndecodableListener>,
    /// Objects by the uid of their controller.
    controlled: Terms,
    indices: Vec<(TermsOf<K>, Terms)>,
}

/// Object keys by index term.
#[derive(Default)]
struct Terms(HashMap<String, BTreeSet<Key>>);

impl Terms {
    fn add(&mut self, term: String, key: &Key) {
        self.0.entry(term).or_default().insert(key.clone());
    }

    fn remove(&mut self, term: &str, key: &Key) {
        if let Some(keys) = self.0.get_mut(term) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(term);
            }
        }
    }
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listeners: Vec::new(),
            undecodable: BTreeMap::new(),
            undecodable_listeners: Vec::new(),
            controlled: Terms::default(),
            indices: Vec::new(),
        }
    }
}

impl<K: Kind> State<K> {
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let first = Key::new(namespace, "");
        self.objects
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    pub(super) fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.resolve(&self.controlled, uid)
    }

    pub(super) fn indexed(&self, slot: usize, term: &str) -> Vec<Arc<K>> {
        self.indices
            .get(slot)
            .map(|(_, terms)| self.resolve(terms, term))
            .unwrap_or_default()
    }

    fn resolve(&self, terms: &Terms, term: &str) -> Vec<Arc<K>> {
        terms
            .0
            .get(term)
            .into_iter()
            .flatten()
            .filter_map(|key| self.objects.get(key).cloned())
            .collect()
    }

    pub(super) fn add_index(&mut self, of: TermsOf<K>) -> usize {
        let mut terms = Terms::default();
        for (key, object) in &self.objects {
            for term in of(object) {
                terms.add(term, key);
            }
        }
        self.indices.push((of, terms));
        self.indices.len() - 1
    }

    /// Replaces or removes one object and updates the indices.
    pub(super) fn set(&mut self, key: &Key, new: Option<Arc<K>>) -> Option<Change<K>> {
        self.undecodable.remove(key);
        let old = match &new {
            Some(object) => self.objects.insert(key.clone(), Arc::clone(object)),
            None => self.objects.remove(key),
        };
        if old.is_none() && new.is_none() {
            return None;
        }
        if let Some(old) = &old {
            if let Some(uid) = controller::<K>(old) {
                self.controlled.remove(uid, key);
            }
            for (of, terms) in &mut self.indices {
                for term in of(old) {
                    terms.remove(&term, key);
                }
            }
        }
        if let Some(new) = &new {
            if let Some(uid) = controller::<K>(new) {
                self.controlled.add(uid.to_owned(), key);
            }
            for (of, terms) in &mut self.indices {
                for term in of(new) {
                    terms.add(term, key);
                }
            }
        }
        Some(Change { old, new })
    }

    /// Replaces all objects by those of a list and returns the changes. An object newer than the list
    /// stays: a watch or a write may have delivered it after the list was taken. So does the last state of
    /// an object that the list has, but that cannot be decoded.
    pub(super) fn replace(
        &mut self,
        listed: Vec<Arc<K>>,
        undecodable: BTreeMap<Key, Undecodable>,
        at: u64,
    ) -> Vec<Change<K>> {
        let mut changes = Vec::new();
        let mut gone: BTreeSet<Key> = self
            .objects
            .iter()
            .filter(|(key, object)| {
                !undecodable.contains_key(*key)
                    && revision(object.meta()).is_none_or(|revision| revision <= at)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for object in listed {
            let key = Key::of(object.meta());
            gone.remove(&key);
            let known = self.objects.get(&key).and_then(|old| revision(old.meta()));
            // An unchanged object is not replaced and not notified: after a 410, a list of all objects would
            // otherwise requeue every one of them, as client-go's resync does.
            if known.is_none() || known < revision(object.meta()) {
                changes.extend(self.set(&key, Some(object)));
            }
        }
        for key in gone {
            changes.extend(self.set(&key, None));
        }
        self.undecodable = undecodable;
        changes
    }
}

/// The uid of the controller owner reference of an object.
fn controller<K: Kind>(object: &K) -> Option<&str> {
    let owners = object.meta().owner_references.as_deref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(&owner.uid)
}
