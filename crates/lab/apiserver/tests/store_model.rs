//! The store against a model: a list of all events, from which everything else is derived.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apiserver::store::{
    Entry, Event, EventKind, Expect, Options, Page, Store, StoreError, Watch, Write,
};
use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

const KEYS: [&str; 7] = [
    "/registry/configmaps/a/x",
    "/registry/example.com/widgets/x",
    "/registry/pods/a/x",
    "/registry/pods/a/y",
    "/registry/pods/ab/x",
    "/registry/pods/b/x",
    "odd",
];
const PREFIXES: [&str; 9] = [
    "",
    "/registry/",
    "/registry/configmaps/",
    "/registry/example.com/",
    "/registry/example.com/widgets/",
    "/registry/pods/",
    "/registry/pods/a",
    "/registry/pods/a/",
    "o",
];

#[derive(Debug, Clone)]
enum Precondition {
    Absent,
    Current,
    Stale,
    Any,
}

#[derive(Debug, Clone)]
struct Change {
    key: Index,
    delete: bool,
    precondition: Precondition,
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<Change>),
    List {
        prefix: Index,
        start: Option<(Index, bool)>,
        limit: usize,
        at: Option<Index>,
    },
    Compact(Index),
    Watch {
        prefix: Index,
        from: Index,
    },
    Poll {
        watch: Index,
        events: usize,
    },
    Reopen,
}

fn change() -> impl Strategy<Value = Change> {
    let precondition = prop_oneof![
        2 => Just(Precondition::Absent),
        3 => Just(Precondition::Current),
        1 => Just(Precondition::Stale),
        5 => Just(Precondition::Any),
    ];
    (any::<Index>(), prop::bool::weighted(0.3), precondition).prop_map(
        |(key, delete, precondition)| Change {
            key,
            delete,
            precondition,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let list = (
        any::<Index>(),
        prop::option::of((any::<Index>(), any::<bool>())),
        0_usize..4,
        prop::option::of(any::<Index>()),
    );
    prop_oneof![
        10 => prop::collection::vec(change(), 1..4).prop_map(Step::Write),
        5 => list.prop_map(|(prefix, start, limit, at)| Step::List { prefix, start, limit, at }),
        1 => any::<Index>().prop_map(Step::Compact),
        2 => (any::<Index>(), any::<Index>())
            .prop_map(|(prefix, from)| Step::Watch { prefix, from }),
        5 => (any::<Index>(), 1_usize..6)
            .prop_map(|(watch, events)| Step::Poll { watch, events }),
        1 => Just(Step::Reopen),
    ]
}

/// All events; revision 2 is the first.
#[derive(Default)]
struct Model {
    events: Vec<Arc<Event>>,
    compacted: u64,
}

impl Model {
    fn revision(&self) -> u64 {
        self.events.len() as u64 + 1
    }

    fn at(&self, revision: u64) -> BTreeMap<&str, &Arc<Entry>> {
        let mut state = BTreeMap::new();
        for event in self
            .events
            .iter()
            .take_while(|event| event.revision <= revision)
        {
            if event.kind == EventKind::Delete {
                state.remove(&*event.entry.key);
            } else {
                state.insert(&*event.entry.key, &event.entry);
            }
        }
        state
    }

    fn current(&self, key: &str) -> Option<Arc<Entry>> {
        self.at(u64::MAX).get(key).map(|entry| Arc::clone(entry))
    }

    fn list(&self, prefix: &str, start: Bound<&str>, limit: usize, at: u64) -> Page {
        let state = self.at(at);
        let mut entries: Vec<_> = state
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| match start {
                Bound::Unbounded => true,
                Bound::Included(start) => *key >= start,
                Bound::Excluded(start) => *key > start,
            })
            .map(|(_, entry)| Arc::clone(entry))
            .collect();
        let total = entries.len();
        if limit > 0 {
            entries.truncate(limit);
        }
        let remaining = total - entries.len();
        Page {
            entries,
            revision: at,
            more: remaining > 0,
            remaining,
        }
    }

    /// The next event for a watch that has seen everything up to `position`.
    fn next(&self, prefix: &str, position: u64) -> Option<&Arc<Event>> {
        self.events
            .iter()
            .find(|event| event.revision > position && event.entry.key.starts_with(prefix))
    }
}

struct Watcher {
    watch: Watch,
    prefix: &'static str,
    /// The last event delivered.
    position: u64,
}

struct Run {
    store: Store,
    path: Option<PathBuf>,
    model: Model,
    watchers: Vec<Watcher>,
    written: u64,
}

impl Run {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Write(changes) => self.write(changes).await,
            Step::List {
                prefix,
                start,
                limit,
                at,
            } => {
                let prefix = PREFIXES[prefix.index(PREFIXES.len())];
                let start = match start {
                    None => Bound::Unbounded,
                    Some((key, true)) => Bound::Included(KEYS[key.index(KEYS.len())]),
                    Some((key, false)) => Bound::Excluded(KEYS[key.index(KEYS.len())]),
                };
                self.list(prefix, start, limit, at.map(|at| self.any_revision(at) + 1));
            }
            Step::Compact(at) => {
                let revision = self.any_revision(at);
                self.store.compact(revision).await.unwrap();
                self.model.compacted = self.model.compacted.max(revision);
                assert_eq!(self.store.compacted_revision(), self.model.compacted);
            }
            Step::Watch { prefix, from } => {
                let prefix = PREFIXES[prefix.index(PREFIXES.len())];
                let from = self.any_revision(from);
                match self.store.watch(prefix, from) {
                    Ok(watch) => {
                        assert!(from >= self.model.compacted);
                        self.watchers.push(Watcher {
                            watch,
                            prefix,
                            position: from,
                        });
                    }
                    Err(StoreError::Compacted {
                        requested,
                        compacted,
                    }) => {
                        assert_eq!((requested, compacted), (from, self.model.compacted));
                        assert!(from < compacted);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            Step::Poll { watch, events } => {
                if !self.watchers.is_empty() {
                    let at = watch.index(self.watchers.len());
                    if !self.poll(at, events) {
                        self.watchers.remove(at);
                    }
                }
            }
            Step::Reopen => self.reopen().await,
        }
        assert_eq!(self.store.revision(), self.model.revision());
    }

    fn any_revision(&self, index: Index) -> u64 {
        index.index(usize::try_from(self.model.revision()).unwrap() + 1) as u64
    }

    async fn write(&mut self, changes: Vec<Change>) {
        let mut writes = Vec::new();
        let mut expected = Vec::new();
        let mut failure = None;
        for (change, revision) in changes.into_iter().zip(self.model.revision() + 1..) {
            let key = KEYS[change.key.index(KEYS.len())];
            let current = self.model.current(key);
            let newest = current.as_ref().map(|entry| entry.mod_revision);
            let (expect, holds) = match change.precondition {
                Precondition::Absent => (Expect::Absent, current.is_none()),
                Precondition::Current => (Expect::Revision(newest.unwrap_or(1)), newest.is_some()),
                Precondition::Stale => (Expect::Revision(newest.map_or(1, |r| r - 1)), false),
                Precondition::Any => (Expect::Any, true),
            };
            if failure.is_none() {
                if writes.iter().any(|write: &Write| &*write.key == key) {
                    failure = Some(None);
                } else if !holds || change.delete && current.is_none() {
                    failure = Some(Some((key, current.clone())));
                }
            }
            self.written += 1;
            let serial = self.written;
            let content = move |revision: u64| {
                Bytes::from(format!(r#"{{"serial":{serial},"revision":{revision}}}"#))
            };
            let value = content(revision);
            expected.push((key, change.delete, revision, value, current));
            writes.push(if change.delete {
                Write::delete(key, expect, content)
            } else {
                Write::put(key, expect, content)
            });
        }
        match (self.store.transact(writes).await, failure) {
            (Ok(events), None) => {
                assert_eq!(events.len(), expected.len());
                for (event, (key, delete, revision, value, previous)) in
                    events.into_iter().zip(expected)
                {
                    let kind = if delete {
                        EventKind::Delete
                    } else {
                        EventKind::Put {
                            created: previous.is_none(),
                        }
                    };
                    let created = previous
                        .as_ref()
                        .map_or(revision, |entry| entry.create_revision);
                    assert_eq!((event.revision, event.kind), (revision, kind));
                    assert_eq!((&*event.entry.key, &event.entry.value), (key, &value));
                    assert_eq!(event.entry.create_revision, created);
                    assert_eq!(
                        (event.entry.mod_revision, &event.previous),
                        (revision, &previous)
                    );
                    self.model.events.push(event);
                }
            }
            (Err(StoreError::DuplicateKey { .. }), Some(None)) => {}
            (Err(StoreError::Conflict { key, current }), Some(Some((expected, model)))) => {
                assert_eq!((&*key, current), (expected, model));
            }
            (result, failure) => panic!("{result:?} where {failure:?} was expected"),
        }
    }

    fn list(&self, prefix: &str, start: Bound<&str>, limit: usize, at: Option<u64>) {
        let page = self.store.list(prefix, start, limit, at);
        let revision = at.unwrap_or_else(|| self.model.revision());
        match page {
            Ok(page) => {
                assert!(revision >= self.model.compacted && revision <= self.model.revision());
                assert_eq!(page, self.model.list(prefix, start, limit, revision));
            }
            Err(StoreError::Compacted { .. }) => assert!(revision < self.model.compacted),
            Err(StoreError::FutureRevision { .. }) => assert!(revision > self.model.revision()),
            Err(other) => panic!("{other:?}"),
        }
        let all = self
            .model
            .list(prefix, Bound::Unbounded, 0, self.model.revision());
        assert_eq!(self.store.count(prefix), all.entries.len());
    }

    /// Takes events; returns whether the watch is still open.
    fn poll(&mut self, at: usize, events: usize) -> bool {
        let watcher = &mut self.watchers[at];
        for _ in 0..events {
            let expected = self.model.next(watcher.prefix, watcher.position);
            match watcher.watch.try_next() {
                Ok(Some(event)) => {
                    assert_eq!(Some(&event), expected);
                    watcher.position = event.revision;
                }
                Ok(None) => {
                    assert_eq!(expected, None);
                    break;
                }
                Err(StoreError::Compacted { .. }) => {
                    // It may end only if compaction overtook it.
                    assert!(watcher.position < self.model.compacted);
                    return false;
                }
                Err(other) => panic!("{other:?}"),
            }
            let progress = watcher.watch.progress();
            assert!(progress >= watcher.position);
            let next = self.model.next(watcher.prefix, watcher.position);
            assert!(next.is_none_or(|event| event.revision > progress));
        }
        true
    }

    async fn reopen(&mut self) {
        let Some(path) = &self.path else { return };
        self.store.close().await;
        self.watchers.clear();
        self.store = Store::open(path, Options::default()).unwrap();
        assert_eq!(self.store.compacted_revision(), self.model.compacted);
    }
}

fn run(steps: Vec<Step>, durable: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = durable.then(|| folder.path().join("store"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = match &path {
            Some(path) => Store::open(path, Options::default()).unwrap(),
            None => Store::memory(),
        };
        let model = Model::default();
        let mut run = Run {
            store,
            path,
            model,
            watchers: Vec::new(),
            written: 0,
        };
        for step in steps {
            run.step(step).await;
        }
        for at in 0..run.watchers.len() {
            run.poll(at, usize::MAX);
        }
        for revision in run.model.compacted..=run.model.revision() {
            run.list("", Bound::Unbounded, 0, Some(revision));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_store_in_memory_follows_the_model(steps in prop::collection::vec(step(), 1..80)) {
        run(steps, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_store_on_disk_follows_the_model(steps in prop::collection::vec(step(), 1..60)) {
        run(steps, true);
    }
}

/// Concurrent writers, lists and watches; the event log must explain all they observed.
async fn concurrent(store: Store) {
    const WRITERS: u64 = 8;
    const WRITES: u64 = 60;
    let done = Arc::new(AtomicBool::new(false));
    let watchers: Vec<_> = PREFIXES
        .into_iter()
        .map(|prefix| {
            let mut watch = store.watch(prefix, 1).unwrap();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while let Ok(event) = watch.next().await {
                    seen.push(event);
                }
                (prefix, seen)
            })
        })
        .collect();
    let lister = {
        let (store, done) = (store.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let mut pages = Vec::new();
            while !done.load(Ordering::SeqCst) {
                pages.push(store.list("", Bound::Unbounded, 0, None).unwrap());
                tokio::task::yield_now().await;
            }
            pages
        })
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move { writer_task(&store, writer, WRITES).await })
        })
        .collect();
    let mut acknowledged = BTreeMap::new();
    for writer in writers {
        for event in writer.await.unwrap() {
            assert_eq!(
                acknowledged.insert(event.revision, event),
                None,
                "a revision came twice"
            );
        }
    }
    done.store(true, Ordering::SeqCst);
    let pages = lister.await.unwrap();
    store.close().await;

    let model = Model {
        events: acknowledged.into_values().collect(),
        compacted: 0,
    };
    // No revision is missing, and every event is consistent with the previous one on its key.
    for (event, revision) in model.events.iter().zip(2..) {
        assert_eq!(event.revision, revision);
        let before = model
            .at(revision - 1)
            .get(&*event.entry.key)
            .map(|entry| Arc::clone(entry));
        assert_eq!(event.previous, before);
    }
    for page in pages {
        assert_eq!(page, model.list("", Bound::Unbounded, 0, page.revision));
    }
    for watcher in watchers {
        let (prefix, seen) = watcher.await.unwrap();
        let expected: Vec<_> = model
            .events
            .iter()
            .filter(|event| event.entry.key.starts_with(prefix))
            .collect();
        assert_eq!(
            seen.iter().collect::<Vec<_>>(),
            expected,
            "watch of {prefix:?}"
        );
    }
}

async fn writer_task(store: &Store, writer: u64, writes: u64) -> Vec<Arc<Event>> {
    let mut acknowledged = Vec::new();
    for step in 0..writes {
        let key = KEYS[usize::try_from((writer * 31 + step * 17) % 7).unwrap()];
        let current = store.get(key);
        let expect = current
            .as_ref()
            .map_or(Expect::Absent, |entry| Expect::Revision(entry.mod_revision));
        let content = move |revision| Bytes::from(format!("[{writer},{step},{revision}]"));
        let write = if step % 4 == 3 && current.is_some() {
            Write::delete(key, expect, content)
        } else {
            Write::put(key, expect, content)
        };
        match store.write(write).await {
            Ok(event) => acknowledged.push(event),
            // Another writer was faster, with a version we had not seen.
            Err(StoreError::Conflict { current: now, .. }) => assert_ne!(now, current),
            Err(other) => panic!("{other:?}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_use_in_memory_is_consistent() {
    concurrent(Store::memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_use_on_disk_is_consistent() {
    let folder = tempfile::tempdir().unwrap();
    concurrent(Store::open(folder.path().join("store"), Options::default()).unwrap()).await;
}
