//! What is known of the watched objects, from all their watch events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::{DynamicObject, ListParams, ObjectMeta, WatchEvent, WatchParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;

use super::compare::leaves;
use super::normal::{Names, timeless};
use super::owned::{owned_by_others, parts};
use super::{Step, Subject};

/// Kind, namespace and name.
pub(super) type Key = (String, String, String);

/// Time until a kind that is not served, or a watch that ended, is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn key(kind: &ApiResource, meta: &ObjectMeta) -> Key {
    (
        kind.kind.clone(),
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// An object that exists.
#[derive(Default)]
struct Entry {
    version: String,
    /// The fields of the program.
    owned: Option<Value>,
}

/// The distinct values of a followed field.
#[derive(Default)]
struct Sequence {
    last: Option<Value>,
    in_step: Vec<Value>,
}

/// All objects of the watched kinds.
pub(super) struct State {
    story: Vec<String>,
    only: BTreeMap<String, Vec<String>>,
    followed: Vec<(String, String)>,
    names: Names,
    objects: BTreeMap<Key, Entry>,
    /// How often the program wrote.
    writes: u64,
    latest: Option<Key>,
    /// The first write to each object in this step, with its resource version.
    first_writes: BTreeMap<Key, u64>,
    sequences: BTreeMap<(Key, String), Sequence>,
    /// The objects at the end of the last step.
    settled: BTreeMap<String, Value>,
    paths_ever: BTreeMap<Key, BTreeSet<String>>,
    paths_settled: BTreeMap<String, BTreeSet<String>>,
}

impl State {
    pub(super) fn new(subject: &Subject) -> Self {
        Self {
            story: subject.story.clone(),
            only: subject.only.clone(),
            followed: subject.sequences.clone(),
            names: Names::new(subject),
            objects: BTreeMap::new(),
            writes: 0,
            latest: None,
            first_writes: BTreeMap::new(),
            sequences: BTreeMap::new(),
            settled: BTreeMap::new(),
            paths_ever: BTreeMap::new(),
            paths_settled: BTreeMap::new(),
        }
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    pub(super) fn latest(&self) -> Option<&Key> {
        self.latest.as_ref()
    }

    /// An object whose listed version has not been seen by its watch yet, or whose deletion has not.
    pub(super) fn behind(&self, listed: &BTreeMap<Key, String>) -> Option<Key> {
        let changed = listed.iter().find(|(key, version)| {
            self.objects
                .get(key)
                .is_none_or(|entry| entry.version != **version)
        });
        let gone = || self.objects.keys().find(|key| !listed.contains_key(*key));
        changed.map(|(key, _)| key).or_else(gone).cloned()
    }

    fn observe(&mut self, kind: &ApiResource, object: &DynamicObject) {
        let key = key(kind, &object.metadata);
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        self.names.learn(&key, &object.metadata);
        let whole = serde_json::to_value(object).unwrap_or_default();
        let mut owned = owned_by_others(&whole, &self.story).map(timeless);
        if let Some(fields) = self.only.get(&key.0) {
            owned = owned.map(|owned| parts(&owned, fields));
        }
        let entry = self.objects.entry(key.clone()).or_default();
        entry.version.clone_from(&version);
        let has_changed = entry.owned != owned;
        entry.owned.clone_from(&owned);
        let Some(owned) = owned.filter(|_| has_changed) else {
            return;
        };
        self.writes += 1;
        self.latest = Some(key.clone());
        let number = version.parse().unwrap_or_default();
        self.first_writes.entry(key.clone()).or_insert(number);
        for (kind, pointer) in &self.followed {
            let value = owned.pointer(pointer).filter(|_| *kind == key.0);
            if let Some(value) = value {
                let at = (key.clone(), pointer.clone());
                let sequence = self.sequences.entry(at).or_default();
                if sequence.last.as_ref() != Some(value) {
                    sequence.in_step.push(value.clone());
                    sequence.last = Some(value.clone());
                }
            }
        }
        let ever = self.paths_ever.entry(key).or_default();
        ever.extend(leaves(&owned).into_keys());
    }

    fn forget(&mut self, key: &Key) {
        if let Some(entry) = self.objects.remove(key)
            && entry.owned.is_some()
        {
            self.writes += 1;
            self.latest = Some(key.clone());
        }
    }

    pub(super) fn end_step(&mut self, name: &str, subject: &Subject) -> Step {
        let now: BTreeMap<String, Value> = self
            .objects
            .iter()
            .filter_map(|(key, entry)| {
                let owned = entry.owned.as_ref()?;
                Some((self.names.label(key), self.names.normal(owned)))
            })
            .collect();
        for (label, owned) in &now {
            let paths = self.paths_settled.entry(label.clone()).or_default();
            paths.extend(leaves(owned).into_keys());
        }
        let mut order: Vec<(u64, Key)> = std::mem::take(&mut self.first_writes)
            .into_iter()
            .map(|(key, version)| (version, key))
            .collect();
        order.sort();
        let is_new = |(label, owned): &(&String, &Value)| self.settled.get(*label) != Some(*owned);
        let owned = |(label, owned): (&String, &Value)| (label.clone(), owned.clone());
        let step = Step {
            step: name.to_owned(),
            order: order
                .iter()
                .filter(|_| subject.is_ordered)
                .map(|(_, key)| self.names.label(key))
                .collect(),
            objects: now.iter().filter(is_new).map(owned).collect(),
            deleted: self
                .settled
                .keys()
                .filter(|label| !now.contains_key(*label))
                .cloned()
                .collect(),
            sequences: self.take_sequences(),
        };
        self.settled = now;
        step
    }

    fn take_sequences(&mut self) -> BTreeMap<String, Vec<Value>> {
        let mut taken = BTreeMap::new();
        for ((key, pointer), sequence) in &mut self.sequences {
            let values = std::mem::take(&mut sequence.in_step);
            if !values.is_empty() {
                let values = values.iter().map(|value| self.names.normal(value));
                let label = self.names.label(key);
                taken.insert(format!("{label} {pointer}"), values.collect());
            }
        }
        taken
    }

    /// The fields that were written and that no step ended with, by object.
    pub(super) fn passing(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut passing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (key, ever) in &self.paths_ever {
            let label = self.names.label(key);
            let settled = self.paths_settled.get(&label);
            // Keys of maps may be uids.
            let mut ever: BTreeSet<String> = ever.iter().map(|it| self.names.text(it)).collect();
            ever.retain(|path| settled.is_none_or(|settled| !settled.contains(path)));
            if !ever.is_empty() {
                passing.entry(label).or_default().extend(ever);
            }
        }
        passing
    }
}

/// The watch of one kind.
pub(super) struct Watched {
    api: Api<DynamicObject>,
    kind: ApiResource,
    state: Arc<Mutex<State>>,
}

impl Watched {
    pub(super) fn new(client: Client, kind: ApiResource, state: Arc<Mutex<State>>) -> Self {
        Self {
            api: Api::all_with(client, &kind),
            kind,
            state,
        }
    }

    /// Lists and watches until it is aborted. An error means that the kind is not served yet, or that the watch is
    /// too old: both begin again. If it lasts, the step does not settle.
    pub(super) async fn run(self) {
        loop {
            // The step that does not settle names the object that was not seen.
            let _ = self.follow().await;
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn follow(&self) -> Result<(), kube::Error> {
        let listed = self.api.list(&ListParams::default()).await?;
        let mut version = listed.metadata.resource_version.unwrap_or_default();
        {
            let mut state = self.state.lock();
            let known: Vec<Key> = state.objects.keys().cloned().collect();
            let is_listed = |it: &Key| {
                listed
                    .items
                    .iter()
                    .any(|o| key(&self.kind, &o.metadata) == *it)
            };
            for gone in known {
                if gone.0 == self.kind.kind && !is_listed(&gone) {
                    state.forget(&gone);
                }
            }
            for object in &listed.items {
                state.observe(&self.kind, object);
            }
        }
        loop {
            let params = WatchParams::default();
            let mut events = Box::pin(self.api.watch(&params, &version).await?);
            while let Some(event) = events.try_next().await? {
                let mut state = self.state.lock();
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        version = object.metadata.resource_version.clone().unwrap_or_default();
                        state.observe(&self.kind, &object);
                    }
                    WatchEvent::Deleted(object) => {
                        version = object.metadata.resource_version.clone().unwrap_or_default();
                        state.forget(&key(&self.kind, &object.metadata));
                    }
                    WatchEvent::Bookmark(bookmark) => {
                        version = bookmark.metadata.resource_version;
                    }
                    WatchEvent::Error(_) => return Ok(()),
                }
            }
        }
    }
}
