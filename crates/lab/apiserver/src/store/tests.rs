use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use super::state::{collection_of, resource_prefix};
use super::*;

fn content(text: &'static str) -> impl FnOnce(u64) -> Bytes + Send + 'static {
    move |revision| Bytes::from(json!({ "text": text, "revision": revision }).to_string())
}

async fn put(store: &Store, key: &str, text: &'static str) -> Arc<Event> {
    store
        .write(Write::put(key, Expect::Any, content(text)))
        .await
        .unwrap()
}

async fn delete(store: &Store, key: &str) -> Arc<Event> {
    store
        .write(Write::delete(key, Expect::Any, content("gone")))
        .await
        .unwrap()
}

fn keys(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| &*entry.key).collect()
}

#[tokio::test]
async fn writes_take_consecutive_revisions_after_the_first_one() {
    let store = Store::memory();
    assert_eq!(store.revision(), 1);
    let created = put(&store, "/registry/pods/a/x", "one").await;
    assert_eq!(
        (created.revision, created.kind),
        (2, EventKind::Put { created: true })
    );
    let updated = put(&store, "/registry/pods/a/x", "two").await;
    assert_eq!(
        (updated.revision, updated.kind),
        (3, EventKind::Put { created: false })
    );
    assert_eq!(updated.previous.as_ref(), Some(&created.entry));
    assert_eq!(
        (updated.entry.create_revision, updated.entry.mod_revision),
        (2, 3)
    );
    assert_eq!(
        *updated.entry.object().unwrap(),
        json!({ "text": "two", "revision": 3 })
    );
    let deleted = delete(&store, "/registry/pods/a/x").await;
    assert_eq!((deleted.revision, deleted.kind), (4, EventKind::Delete));
    assert_eq!(
        *deleted.entry.object().unwrap(),
        json!({ "text": "gone", "revision": 4 })
    );
    assert_eq!(store.get("/registry/pods/a/x"), None);
    let again = put(&store, "/registry/pods/a/x", "three").await;
    assert_eq!(
        (again.entry.create_revision, again.kind),
        (5, EventKind::Put { created: true })
    );
}

#[tokio::test]
async fn failed_preconditions_name_the_current_version_and_use_no_revision() {
    let store = Store::memory();
    let key = "/registry/pods/a/x";
    let first = put(&store, key, "one").await;
    let absent = "/registry/pods/a/none";
    let cases = [
        (
            Write::put(key, Expect::Absent, content("")),
            Some(&first.entry),
        ),
        (
            Write::put(key, Expect::Revision(1), content("")),
            Some(&first.entry),
        ),
        (
            Write::delete(key, Expect::Revision(3), content("")),
            Some(&first.entry),
        ),
        (
            Write::delete(key, Expect::Absent, content("")),
            Some(&first.entry),
        ),
        (Write::put(absent, Expect::Revision(2), content("")), None),
        (Write::delete(absent, Expect::Any, content("")), None),
        (Write::delete(absent, Expect::Absent, content("")), None),
    ];
    for (write, expected) in cases {
        let case = format!("{write:?}");
        match store.write(write).await {
            Err(StoreError::Conflict { current, .. }) => {
                assert_eq!(current.as_ref(), expected, "{case}");
            }
            other => panic!("{case}: {other:?}"),
        }
    }
    assert_eq!(store.revision(), 2);
    store
        .write(Write::put(key, Expect::Revision(2), content("two")))
        .await
        .unwrap();
}

#[tokio::test]
async fn transactions_happen_as_a_whole() {
    let store = Store::memory();
    let (a, b) = ("/registry/pods/a/a", "/registry/pods/a/b");
    let failed = store
        .transact(vec![
            Write::put(a, Expect::Absent, content("a")),
            Write::put(b, Expect::Revision(7), content("b")),
        ])
        .await;
    assert!(matches!(failed, Err(StoreError::Conflict { key, .. }) if &*key == b));
    assert_eq!((store.get(a), store.revision()), (None, 1));

    let twice = store
        .transact(vec![
            Write::put(a, Expect::Absent, content("a")),
            Write::delete(a, Expect::Any, content("a")),
        ])
        .await;
    assert!(matches!(twice, Err(StoreError::DuplicateKey { .. })));

    let events = store
        .transact(vec![
            Write::put(a, Expect::Absent, content("a")),
            Write::put(b, Expect::Absent, content("b")),
        ])
        .await
        .unwrap();
    assert_eq!(
        events
            .iter()
            .map(|event| event.revision)
            .collect::<Vec<_>>(),
        [2, 3]
    );
    assert_eq!(store.transact(Vec::new()).await.unwrap(), []);
}

#[tokio::test]
async fn panicking_content_fails_only_its_own_write() {
    let store = Store::memory();
    let bad = Write::put("/registry/pods/a/x", Expect::Any, |_| panic!("bad content"));
    assert!(matches!(
        store.write(bad).await,
        Err(StoreError::Content { .. })
    ));
    assert_eq!(put(&store, "/registry/pods/a/x", "one").await.revision, 2);
}

#[tokio::test]
async fn lists_page_through_a_prefix_at_one_revision() {
    let store = Store::memory();
    for key in ["a/1", "a/2", "a/3", "ab/1", "b/1"] {
        put(&store, &format!("/registry/pods/{key}"), "x").await;
    }
    let prefix = "/registry/pods/a/";
    let page = store.list(prefix, Bound::Unbounded, 2, None).unwrap();
    assert_eq!(keys(&page), ["/registry/pods/a/1", "/registry/pods/a/2"]);
    assert_eq!((page.more, page.remaining, page.revision), (true, 1, 6));

    put(&store, "/registry/pods/a/25", "x").await;
    delete(&store, "/registry/pods/a/3").await;
    let after = Bound::Excluded("/registry/pods/a/2");
    let rest = store.list(prefix, after, 2, Some(page.revision)).unwrap();
    assert_eq!(keys(&rest), ["/registry/pods/a/3"]);
    assert_eq!((rest.more, rest.remaining, rest.revision), (false, 0, 6));
    let now = store
        .list(prefix, Bound::Included("/registry/pods/a/2"), 0, None)
        .unwrap();
    assert_eq!(keys(&now), ["/registry/pods/a/2", "/registry/pods/a/25"]);

    // A start outside of the prefix does not widen it.
    let low = store
        .list(prefix, Bound::Excluded("/registry/"), 0, None)
        .unwrap();
    assert_eq!(low.entries.len(), 3);
    let high = store
        .list(prefix, Bound::Included("/registry/pods/b/"), 0, None)
        .unwrap();
    assert_eq!(high.entries.len(), 0);
    assert_eq!(store.count("/registry/pods/"), 5);
    assert_eq!(store.count("/registry/pods/a"), 4);
    let future = store.list(prefix, Bound::Unbounded, 0, Some(9));
    assert!(matches!(
        future,
        Err(StoreError::FutureRevision {
            requested: 9,
            current: 8
        })
    ));
}

#[tokio::test]
async fn compaction_drops_old_revisions_and_keeps_current_objects() {
    let store = Store::memory();
    let key = "/registry/pods/a/x";
    put(&store, key, "one").await;
    put(&store, key, "two").await;
    put(&store, "/registry/pods/a/y", "one").await;
    delete(&store, "/registry/pods/a/y").await;
    store.compact(4).await.unwrap();
    assert_eq!(store.compacted_revision(), 4);
    // The compacted revision itself can still be read, and watched after.
    let page = store
        .list("/registry/", Bound::Unbounded, 0, Some(4))
        .unwrap();
    assert_eq!(page.entries.len(), 2);
    let older = store.list("/registry/", Bound::Unbounded, 0, Some(3));
    assert!(matches!(
        older,
        Err(StoreError::Compacted {
            requested: 3,
            compacted: 4
        })
    ));
    assert!(matches!(
        store.watch("/registry/", 3),
        Err(StoreError::Compacted { .. })
    ));
    let mut watch = store.watch("/registry/", 4).unwrap();
    assert_eq!(watch.next().await.unwrap().revision, 5);

    store.compact(5).await.unwrap();
    store.compact(2).await.unwrap();
    assert_eq!((store.compacted_revision(), store.revision()), (5, 5));
    assert_eq!(store.get(key).unwrap().mod_revision, 3);
    assert_eq!(store.count(""), 1);
    let future = store.compact(6).await;
    assert!(matches!(
        future,
        Err(StoreError::FutureRevision {
            requested: 6,
            current: 5
        })
    ));
}

#[tokio::test]
async fn history_keeps_its_limits() {
    let by_count = Store::memory_with(Options {
        max_events: 3,
        ..Options::default()
    });
    for _ in 0..10 {
        put(&by_count, "/registry/pods/a/x", "x").await;
    }
    assert_eq!(
        (by_count.revision(), by_count.compacted_revision()),
        (11, 8)
    );

    let size = put(&by_count, "/registry/pods/a/x", "x")
        .await
        .entry
        .value
        .len();
    let max_history_bytes = 4 * size;
    let by_bytes = Store::memory_with(Options {
        max_history_bytes,
        ..Options::default()
    });
    for _ in 0..10 {
        put(&by_bytes, "/registry/pods/a/x", "x").await;
    }
    let kept = by_bytes.revision() - by_bytes.compacted_revision();
    assert!((3..=5).contains(&kept), "{kept} events kept");

    let base = Instant::now();
    let seconds = Arc::new(AtomicU64::new(0));
    let time = Arc::clone(&seconds);
    let clock: Clock = Arc::new(move || base + Duration::from_secs(time.load(Ordering::SeqCst)));
    let max_age = Duration::from_mins(1);
    let by_age = Store::memory_with(Options {
        max_age,
        clock,
        ..Options::default()
    });
    put(&by_age, "/registry/pods/a/x", "x").await;
    seconds.store(30, Ordering::SeqCst);
    put(&by_age, "/registry/pods/a/x", "x").await;
    seconds.store(59, Ordering::SeqCst);
    put(&by_age, "/registry/pods/a/x", "x").await;
    assert_eq!(by_age.compacted_revision(), 0);
    seconds.store(60, Ordering::SeqCst);
    put(&by_age, "/registry/pods/a/x", "x").await;
    assert_eq!(by_age.compacted_revision(), 2);
    seconds.store(1000, Ordering::SeqCst);
    put(&by_age, "/registry/pods/a/x", "x").await;
    assert_eq!(by_age.compacted_revision(), 5);
}

#[tokio::test]
async fn watches_deliver_the_backlog_and_then_live_events() {
    let store = Store::memory();
    put(&store, "/registry/pods/a/x", "one").await;
    put(&store, "/registry/configmaps/a/x", "one").await;
    put(&store, "/registry/pods/b/x", "one").await;
    let mut all = store.watch("/registry/", 1).unwrap();
    let mut pods = store.watch("/registry/pods/", 0).unwrap();
    let mut ours = store.watch("/registry/pods/b/", 1).unwrap();
    for revision in 2..5 {
        assert_eq!(all.next().await.unwrap().revision, revision);
    }
    let first = pods.next().await.unwrap();
    assert_eq!(pods.progress(), 3);
    assert_eq!(
        (first.revision, pods.next().await.unwrap().revision),
        (2, 4)
    );
    assert_eq!(ours.next().await.unwrap().revision, 4);
    assert_eq!(ours.try_next().unwrap(), None);

    let waiting = tokio::spawn(async move {
        let event = ours.next().await.unwrap();
        (ours, event)
    });
    tokio::task::yield_now().await;
    put(&store, "/registry/configmaps/a/x", "two").await;
    put(&store, "/registry/pods/a/x", "two").await;
    let written = put(&store, "/registry/pods/b/x", "two").await;
    let (_ours, event) = waiting.await.unwrap();
    assert!(
        Arc::ptr_eq(&event, &written),
        "events are shared, not copied"
    );
}

#[tokio::test]
async fn progress_follows_the_store_while_a_resource_is_quiet() {
    let store = Store::memory();
    let mut pods = store.watch("/registry/pods/", 1).unwrap();
    let last = put(&store, "/registry/configmaps/a/x", "one")
        .await
        .revision;
    assert_eq!(pods.progress(), last);
    store.compact(last).await.unwrap();
    put(&store, "/registry/pods/a/x", "one").await;
    assert_eq!(pods.next().await.unwrap().revision, last + 1);
}

#[tokio::test]
async fn a_watch_overtaken_by_compaction_ends() {
    let store = Store::memory();
    let mut pods = store.watch("/registry/pods/", 1).unwrap();
    let mut quiet = store.watch("/registry/secrets/", 1).unwrap();
    put(&store, "/registry/pods/a/x", "one").await;
    put(&store, "/registry/pods/a/x", "two").await;
    store.compact(3).await.unwrap();
    assert!(matches!(
        pods.next().await,
        Err(StoreError::Compacted { .. })
    ));
    // It has missed nothing.
    put(&store, "/registry/secrets/a/x", "one").await;
    assert_eq!(quiet.next().await.unwrap().revision, 4);
}

#[tokio::test]
async fn waiting_for_a_revision_ends_on_arrival_or_timeout() {
    let store = Store::memory();
    let waiter = store.clone();
    let waiting =
        tokio::spawn(async move { waiter.wait_for_revision(3, Duration::from_mins(1)).await });
    tokio::task::yield_now().await;
    put(&store, "/registry/pods/a/x", "one").await;
    put(&store, "/registry/pods/a/x", "two").await;
    assert_eq!(waiting.await.unwrap().unwrap(), 3);
    let late = store.wait_for_revision(4, Duration::from_millis(1)).await;
    assert!(matches!(
        late,
        Err(StoreError::Timeout {
            requested: 4,
            current: 3
        })
    ));
}

#[tokio::test]
async fn closed_store_rejects_writes_and_ends_watches() {
    let store = Store::memory();
    put(&store, "/registry/pods/a/x", "one").await;
    let mut watch = store.watch("/registry/pods/", 1).unwrap();
    store.close().await;
    assert_eq!(watch.next().await.unwrap().revision, 2);
    assert!(matches!(watch.next().await, Err(StoreError::Closed)));
    let refused = store
        .write(Write::put("/registry/pods/a/y", Expect::Any, content("")))
        .await;
    assert!(matches!(refused, Err(StoreError::Closed)));
    assert_eq!(store.count(""), 1);
}

#[test]
fn content_that_is_not_json_is_an_error_when_read_as_an_object() {
    let entry = Entry::new(
        "/registry/pods/a/x".into(),
        Bytes::from_static(b"{"),
        2,
        2,
        None,
    );
    assert!(matches!(entry.object(), Err(StoreError::Decode { .. })));
}

#[test]
fn collections_are_resources() {
    let cases = [
        ("/registry/pods/a/x", "/registry/pods/"),
        ("/registry/namespaces/a", "/registry/namespaces/"),
        (
            "/registry/example.com/widgets/a/x",
            "/registry/example.com/widgets/",
        ),
        (
            "/registry/example.com/widgets/x",
            "/registry/example.com/widgets/",
        ),
        ("/registry/example.com/widgets", ""),
        ("/registry/pods", ""),
        ("pods/a/x", ""),
        ("/", ""),
        ("", ""),
    ];
    for (key, collection) in cases {
        assert_eq!(collection_of(key), collection, "{key}");
    }
    assert_eq!(resource_prefix("/registry/pods/"), Some("/registry/pods/"));
    assert_eq!(resource_prefix("/registry/pods"), None);
    assert_eq!(resource_prefix("/registry/example.com/"), None);
}
