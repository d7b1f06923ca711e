//! Disks that fail: errors instead of damage, and recovery when the disk works again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use apiserver::store::{Event, Expect, Opener, Options, Store, StoreError, Write};
use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// Failure mode of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Writes and growth fail, nothing is written.
    Full,
    /// As `Full`, but half of the first refused write is done.
    Torn,
    /// Everything is written, only the sync fails.
    SyncFails,
}

/// Lets a number of operations pass and then fails until it is repaired.
#[derive(Debug)]
struct Faults {
    passes: AtomicI64,
    mode: Mode,
    failed: AtomicU64,
}

impl Faults {
    fn new(mode: Mode) -> Arc<Self> {
        Arc::new(Self {
            passes: AtomicI64::new(i64::MAX),
            mode,
            failed: AtomicU64::new(0),
        })
    }

    fn fail_after(&self, passes: i64) {
        self.passes.store(passes, Ordering::SeqCst);
    }

    fn work(&self) {
        self.passes.store(i64::MAX, Ordering::SeqCst);
    }

    fn pass(&self) -> io::Result<()> {
        if self.passes.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
}

#[derive(Debug)]
struct FaultyBackend {
    file: FileBackend,
    faults: Arc<Faults>,
}

impl StorageBackend for FaultyBackend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.faults.mode != Mode::SyncFails {
            self.faults.pass()?;
        }
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.pass()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.faults.mode != Mode::SyncFails
            && let Err(error) = self.faults.pass()
        {
            if self.faults.mode == Mode::Torn && self.faults.failed.load(Ordering::SeqCst) == 1 {
                self.file.write(offset, &data[..data.len() / 2])?;
            }
            return Err(error);
        }
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

fn options(faults: &Arc<Faults>) -> Options {
    let faults = Arc::clone(faults);
    let opener: Opener = Arc::new(move |path, builder| {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let backend = FaultyBackend {
            file: FileBackend::new(file)?,
            faults: Arc::clone(&faults),
        };
        builder.create_with_backend(backend)
    });
    Options {
        opener,
        ..Options::default()
    }
}

/// Content that is larger than a page and names its revision.
fn content(name: &str) -> impl FnOnce(u64) -> Bytes + Send + 'static + use<> {
    let name = name.to_owned();
    move |revision| {
        Bytes::from(format!(
            r#"{{"name":{name:?},"rv":{revision},"pad":"{:5000}"}}"#,
            ""
        ))
    }
}

async fn put(store: &Store, key: &str, name: &str) -> Result<Arc<Event>, StoreError> {
    store
        .write(Write::put(key, Expect::Any, content(name)))
        .await
}

/// Writes until the store has recovered.
async fn insist(store: &Store, key: &str, name: &str) -> Arc<Event> {
    loop {
        match put(store, key, name).await {
            Ok(event) => return event,
            Err(StoreError::Io { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// The whole content of a store: keys, values and revisions.
fn dump(store: &Store) -> Vec<(String, Bytes, u64, u64)> {
    let page = store.list("", Bound::Unbounded, 0, None).unwrap();
    page.entries
        .iter()
        .map(|e| {
            (
                e.key.to_string(),
                e.value.clone(),
                e.create_revision,
                e.mod_revision,
            )
        })
        .collect()
}

fn reopened(path: &Path) -> Store {
    Store::open(path, Options::default()).unwrap()
}

#[tokio::test]
async fn store_recovers_from_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let faults = Faults::new(Mode::Full);
    let store = Store::open(&path, options(&faults)).unwrap();
    let kept = put(&store, "/registry/pods/a/x", "kept").await.unwrap();
    let mut watch = store.watch("/registry/pods/", kept.revision).unwrap();

    faults.fail_after(0);
    for _ in 0..3 {
        let failed = put(&store, "/registry/pods/a/x", "lost").await;
        match failed {
            Err(StoreError::Io {
                path: named,
                source,
            }) => {
                assert_eq!(named, path);
                assert!(source.to_string().contains("no storage space"), "{source}");
            }
            other => panic!("{other:?}"),
        }
        // Longer than the first pauses, so that opening fails as well.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    // Reads keep working, and the failed write is not visible.
    assert_eq!(
        store.get("/registry/pods/a/x"),
        Some(Arc::clone(&kept.entry))
    );
    assert_eq!(store.revision(), kept.revision);
    assert_eq!(watch.try_next().unwrap(), None);

    faults.work();
    let written = insist(&store, "/registry/pods/a/x", "after").await;
    assert!(written.revision > kept.revision);
    assert_eq!(written.previous, Some(Arc::clone(&kept.entry)));
    assert_eq!(watch.next().await.unwrap(), written);
    let before = dump(&store);
    store.close().await;
    assert_eq!(dump(&reopened(&path)), before);
}

#[tokio::test]
async fn a_batch_that_reached_the_disk_though_its_sync_failed_is_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let faults = Faults::new(Mode::SyncFails);
    let store = Store::open(&path, options(&faults)).unwrap();
    let kept = put(&store, "/registry/pods/a/x", "kept").await.unwrap();
    let mut watch = store.watch("/registry/pods/", kept.revision).unwrap();

    faults.fail_after(0);
    let failed = put(&store, "/registry/pods/a/x", "unsure").await;
    assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
    assert_eq!(
        store.get("/registry/pods/a/x"),
        Some(Arc::clone(&kept.entry))
    );
    assert_eq!(watch.try_next().unwrap(), None);

    faults.work();
    let written = insist(&store, "/registry/pods/a/y", "after").await;
    let adopted = store.get("/registry/pods/a/x").unwrap();
    assert_eq!(adopted.object().unwrap()["name"], "unsure");
    assert!(kept.revision < adopted.mod_revision && adopted.mod_revision < written.revision);
    let seen = watch.next().await.unwrap();
    assert_eq!(
        (&seen.entry, &seen.previous),
        (&adopted, &Some(Arc::clone(&kept.entry)))
    );
    assert_eq!(watch.next().await.unwrap(), written);
    let before = dump(&store);
    store.close().await;
    assert_eq!(dump(&reopened(&path)), before);
}

/// Fails at every single operation of a run of writes in turn.
#[tokio::test]
async fn no_point_of_failure_loses_or_damages_anything() {
    for mode in [Mode::Full, Mode::Torn, Mode::SyncFails] {
        let mut survived = false;
        for point in 0..200 {
            let folder = tempfile::tempdir().unwrap();
            if run_with_failure_at(folder.path(), mode, point).await {
                survived = true;
                break;
            }
        }
        assert!(
            survived,
            "{mode:?}: the run has more operations than were tried"
        );
    }
}

/// Returns whether the run ended without reaching the point of failure.
async fn run_with_failure_at(folder: &Path, mode: Mode, point: i64) -> bool {
    let case = format!("{mode:?} at {point}");
    let path = folder.join("store");
    let faults = Faults::new(mode);
    let store = Store::open(&path, options(&faults)).unwrap();
    insist(&store, "/registry/pods/a/0", "first").await;
    insist(&store, "/registry/pods/a/1", "second").await;
    let mut watch = store.watch("", 3).unwrap();

    faults.fail_after(point);
    let mut acknowledged = Vec::new();
    for step in 0..3 {
        let key = format!("/registry/pods/a/{step}");
        if let Ok(event) = put(&store, &key, "third").await {
            acknowledged.push(event);
        }
    }
    let compacted = store.compact(3).await;
    let untouched = faults.failed.load(Ordering::SeqCst) == 0;
    assert_eq!(
        untouched,
        acknowledged.len() == 3 && compacted.is_ok(),
        "{case}"
    );

    // A crash at this point: the file must have every acknowledged write.
    let copy = folder.join("copy");
    std::fs::copy(&path, &copy).unwrap();
    let crashed = reopened(&copy);
    for event in &acknowledged {
        assert_eq!(
            crashed.get(&event.entry.key).as_ref(),
            Some(&event.entry),
            "{case}"
        );
    }
    drop(crashed);

    // No crash: the disk recovers.
    faults.work();
    acknowledged.push(insist(&store, "/registry/pods/a/9", "last").await);
    let mut last = 3;
    let mut seen = Vec::new();
    while let Some(event) = watch
        .try_next()
        .unwrap_or_else(|error| panic!("{case}: {error}"))
    {
        assert!(
            event.revision > last,
            "{case}: revision {} after {last}",
            event.revision
        );
        let text = String::from_utf8_lossy(&event.entry.value).into_owned();
        assert!(
            text.contains(&format!(r#""rv":{},"#, event.revision)),
            "{case}"
        );
        last = event.revision;
        seen.push(event);
    }
    assert_eq!(last, store.revision(), "{case}");
    for event in &acknowledged {
        assert!(
            seen.contains(event),
            "{case}: revision {} is lost",
            event.revision
        );
    }
    let before = dump(&store);
    store.close().await;
    let again = reopened(&path);
    assert_eq!(dump(&again), before, "{case}");
    let next = insist(&again, "/registry/pods/a/9", "again").await;
    assert!(next.revision > last, "{case}");
    untouched
}

#[tokio::test]
async fn replaced_file_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let faults = Faults::new(Mode::Full);
    let store = Store::open(&path, options(&faults)).unwrap();
    let kept = put(&store, "/registry/pods/a/x", "kept").await.unwrap();
    faults.fail_after(0);
    put(&store, "/registry/pods/a/x", "lost").await.unwrap_err();
    faults.work();
    std::fs::remove_file(&path).unwrap();
    reopened(&path).close().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let refused = put(&store, "/registry/pods/a/x", "misled").await;
    assert!(
        matches!(refused, Err(StoreError::Format { .. })),
        "{refused:?}"
    );
    assert_eq!(
        store.get("/registry/pods/a/x"),
        Some(Arc::clone(&kept.entry))
    );
}
