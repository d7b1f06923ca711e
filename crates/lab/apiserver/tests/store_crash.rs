//! Kills the process at any point: no acknowledged write is lost, no revision is reused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write as _};
use std::ops::Bound;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use apiserver::store::{Expect, Options, Store, StoreError, Write};
use bytes::Bytes;
use redb::ReadableDatabase;

const ROUNDS: u64 = 24;
const CLIENTS: u64 = 8;
const FILE_VARIABLE: &str = "STORE_CRASH_FILE";
const ROUND_VARIABLE: &str = "STORE_CRASH_ROUND";

fn options() -> Options {
    // Small, so that compaction and the removal of old records are interrupted as well.
    Options {
        max_events: 200,
        ..Options::default()
    }
}

/// The process to kill. It prints a line for every acknowledged write.
#[test]
#[ignore = "the victim of the test below, which starts it"]
fn victim() {
    let path = std::env::var(FILE_VARIABLE).expect("started by the test");
    let round = std::env::var(ROUND_VARIABLE).expect("started by the test");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = Store::open(path, options()).unwrap();
        let clients = (0..CLIENTS).map(|client| {
            let (store, round) = (store.clone(), round.clone());
            tokio::spawn(async move { work(&store, &round, client).await })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
    });
}

async fn work(store: &Store, round: &str, client: u64) {
    for step in 0_u64.. {
        let key = format!("/registry/pods/{client}/{}", step % 7);
        let text = format!("{round}.{client}.{step}");
        let delete = step % 5 == 4 && store.get(&key).is_some();
        let value = text.clone();
        let content = move |revision: u64| {
            Bytes::from(format!(
                r#"{{"text":"{value}","rv":{revision},"pad":"{:1500}"}}"#,
                ""
            ))
        };
        let write = if delete {
            Write::delete(key.as_str(), Expect::Any, content)
        } else {
            Write::put(key.as_str(), Expect::Any, content)
        };
        let event = store.write(write).await.unwrap();
        // One write call per line, so that a line is complete or missing.
        let kind = if delete { "delete" } else { "put" };
        let line = format!("ack {} {kind} {key} {text}\n", event.revision);
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        std::io::stdout().flush().unwrap();
    }
}

/// Runs the victim for a while; returns its lines as (revision, kind, key, text).
fn run_and_kill(path: &Path, round: u64) -> Vec<(u64, String, String, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .env(FILE_VARIABLE, path)
        .env(ROUND_VARIABLE, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| {
                // The test harness may have printed before the first line.
                let line = &line[line.find("ack ")?..];
                let mut words = line.split(' ').skip(1).map(str::to_owned);
                Some((
                    words.next()?.parse().ok()?,
                    words.next()?,
                    words.next()?,
                    words.next()?,
                ))
            })
            .collect()
    });
    // Spread over start, first writes, full speed and compaction.
    let pause = 10 + (round * 7919) % 190;
    std::thread::sleep(Duration::from_millis(pause));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_no_acknowledged_write_and_no_revision_is_reused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut used = HashMap::new();
    let mut expected: BTreeMap<String, (u64, Option<String>)> = BTreeMap::new();
    let mut reached = 1;
    for round in 0..ROUNDS {
        for (revision, kind, key, text) in run_and_kill(&path, round) {
            assert!(
                revision > reached,
                "round {round}: revision {revision} was used before"
            );
            assert_eq!(
                used.insert(revision, text.clone()),
                None,
                "revision {revision}"
            );
            let newest = expected.entry(key).or_default();
            if revision > newest.0 {
                *newest = (revision, (kind == "put").then_some(text));
            }
        }

        let store = Store::open(&path, options()).unwrap();
        assert!(
            store.revision() >= used.keys().copied().max().unwrap_or(1),
            "round {round}"
        );
        for (key, (revision, text)) in &expected {
            let found = store.get(key);
            let found_revision = found.as_ref().map_or(0, |entry| entry.mod_revision);
            let found_text = found
                .as_ref()
                .map(|entry| entry.object().unwrap()["text"].as_str().unwrap().to_owned());
            // Another write may have followed without its line.
            let newer = found_revision > *revision
                || found.is_none() && store.revision() > *revision && deleted(&store, key);
            assert!(
                newer || found_text == *text,
                "round {round}: {key} is {found_text:?}"
            );
        }
        check_history(&store);
        reached = store.revision();
        expected.clear();
        for entry in store.list("", Bound::Unbounded, 0, None).unwrap().entries {
            let text = entry.object().unwrap()["text"].as_str().unwrap().to_owned();
            expected.insert(entry.key.to_string(), (entry.mod_revision, Some(text)));
        }
        store.close().await;
    }
    assert!(
        used.len() > 100,
        "only {} writes were acknowledged in all rounds",
        used.len()
    );
}

/// Whether the history has a deletion of a key.
fn deleted(store: &Store, key: &str) -> bool {
    let mut watch = store.watch(key, store.compacted_revision()).unwrap();
    std::iter::from_fn(|| watch.try_next().unwrap()).any(|event| event.is_delete())
}

/// The history is in order and every record has the revision it was written for.
fn check_history(store: &Store) {
    let mut watch = store.watch("", store.compacted_revision()).unwrap();
    // Revision 1 is that of the empty store, there is no event for it.
    let mut last = store.compacted_revision().max(1);
    while let Some(event) = watch.try_next().unwrap() {
        assert_eq!(event.revision, last + 1, "a gap without any failed write");
        assert_eq!(event.entry.object().unwrap()["rv"], event.revision);
        last = event.revision;
    }
    assert_eq!(last, store.revision());
}

#[tokio::test]
async fn second_process_is_rejected_with_the_file_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let first = Store::open(&path, options()).unwrap();
    let second = Store::open(&path, options());
    let error = second.expect_err("the file is in use");
    assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );

    // The same from another process.
    let lines = run_and_kill(&path, 0);
    assert_eq!(lines, []);
    first.close().await;
    Store::open(&path, options()).unwrap();
}

#[tokio::test]
async fn content_survives_closing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, Options::default()).unwrap();
    assert_eq!(store.revision(), 1);
    let text = |text: &'static str| move |_: u64| Bytes::from(format!("{text:?}"));
    let key = "/registry/pods/a/x";
    for value in ["one", "two", "three"] {
        store
            .write(Write::put(key, Expect::Any, text(value)))
            .await
            .unwrap();
    }
    store.compact(3).await.unwrap();
    let gone = store
        .write(Write::delete(key, Expect::Any, text("gone")))
        .await
        .unwrap();
    let mut watch = store.watch("", 3).unwrap();
    let events = [watch.next().await.unwrap(), watch.next().await.unwrap()];
    store.close().await;
    assert!(matches!(watch.next().await, Err(StoreError::Closed)));

    let store = Store::open(&path, Options::default()).unwrap();
    assert_eq!(
        (
            store.revision(),
            store.compacted_revision(),
            store.count("")
        ),
        (5, 3, 0)
    );
    let page = store.list("", Bound::Unbounded, 0, Some(3)).unwrap();
    assert_eq!(page.entries[0].value, "\"two\"");
    assert!(matches!(
        store.watch("", 2),
        Err(StoreError::Compacted { .. })
    ));
    let mut watch = store.watch("", 3).unwrap();
    assert_eq!(
        [watch.next().await.unwrap(), watch.next().await.unwrap()],
        events
    );
    assert_eq!(*events[1], *gone);

    // Even when the last write is a compacted deletion its revision stays used.
    store.compact(5).await.unwrap();
    store.close().await;
    let store = Store::open(&path, Options::default()).unwrap();
    assert_eq!(
        (
            store.revision(),
            store.compacted_revision(),
            store.count("")
        ),
        (5, 5, 0)
    );
    let next = store
        .write(Write::put(key, Expect::Absent, text("new")))
        .await
        .unwrap();
    assert_eq!((next.revision, next.entry.create_revision), (6, 6));
}

#[tokio::test]
async fn compaction_frees_the_file_of_old_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, Options::default()).unwrap();
    let text = |_: u64| Bytes::from_static(b"{}");
    let (kept, gone) = ("/registry/pods/a/kept", "/registry/pods/a/gone");
    for _ in 0..20 {
        store
            .write(Write::put(kept, Expect::Any, text))
            .await
            .unwrap();
        store
            .write(Write::put(gone, Expect::Any, text))
            .await
            .unwrap();
    }
    store
        .write(Write::delete(gone, Expect::Any, text))
        .await
        .unwrap();
    store.compact(store.revision()).await.unwrap();
    // Old records are removed with the next write.
    let last = store
        .write(Write::put(gone, Expect::Absent, text))
        .await
        .unwrap();
    let newest = store.get(kept).unwrap().mod_revision;
    store.close().await;

    let db = redb::Database::open(&path).unwrap();
    let log = redb::TableDefinition::<u64, &[u8]>::new("log");
    let table = db.begin_read().unwrap().open_table(log).unwrap();
    let left: Vec<_> = table
        .range(0..)
        .unwrap()
        .map(|record| record.unwrap().0.value())
        .collect();
    assert_eq!(left, [newest, last.revision]);
}

#[tokio::test]
async fn other_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "not a database").unwrap();
    assert!(matches!(
        Store::open(&text, options()),
        Err(StoreError::Open { .. })
    ));
    let missing = folder.path().join("missing").join("store");
    assert!(matches!(
        Store::open(&missing, options()),
        Err(StoreError::Open { .. })
    ));

    let newer = folder.path().join("newer");
    let db = redb::Database::create(&newer).unwrap();
    let transaction = db.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    transaction
        .open_table(meta)
        .unwrap()
        .insert("format", 3)
        .unwrap();
    transaction.commit().unwrap();
    drop(db);
    let refused = Store::open(&newer, options()).unwrap_err();
    assert!(refused.to_string().contains("format 3"), "{refused}");
}

#[tokio::test]
async fn the_last_handle_frees_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, options()).unwrap();
    let held = Arc::new(store.clone());
    drop(store);
    assert!(matches!(
        Store::open(&path, options()),
        Err(StoreError::InUse { .. })
    ));
    drop(held);
    Store::open(&path, options()).unwrap();
}
