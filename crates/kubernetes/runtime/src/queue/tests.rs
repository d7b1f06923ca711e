use std::time::Duration;

use super::{Backoff, Queue};

/// Takes all keys that are queued now.
async fn drain(queue: &Queue<&'static str>) -> Vec<&'static str> {
    let mut taken = Vec::new();
    while let Ok(what) = tokio::time::timeout(Duration::from_millis(20), queue.next()).await {
        taken.push(what);
    }
    taken
}

#[tokio::test]
async fn duplicate_keys_are_queued_once_and_in_order() {
    let queue = Queue::new();
    for what in ["a", "b", "a", "c", "b"] {
        queue.add(what);
    }
    assert_eq!(drain(&queue).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn key_in_process_is_requeued_when_done() {
    let queue = Queue::new();
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add("a");
    assert_eq!(drain(&queue).await, [""; 0]);
    queue.done(&"a");
    assert_eq!(drain(&queue).await, ["a"]);
}

#[tokio::test]
async fn earliest_delay_wins() {
    let queue = Queue::new();
    let hour = Duration::from_hours(1);
    queue.add_after("a", hour);
    queue.add_after("a", Duration::from_millis(1));
    queue.add_after("a", hour);
    assert_eq!(drain(&queue).await, ["a"]);
    queue.done(&"a");
    assert!(queue.is_idle(), "the later times are dropped");
}

#[test]
fn backoff_grows_up_to_a_limit() {
    for (backoff, limit) in [(Backoff::CLUSTER, 300), (Backoff::LAB, 5)] {
        let waits: Vec<Duration> = (1..40)
            .map(|failures| backoff.wait(failures, 0.0))
            .collect();
        assert!(waits.is_sorted(), "{waits:?}");
        assert_eq!(waits.first().map(Duration::as_millis), Some(5));
        assert_eq!(waits.get(1).map(Duration::as_millis), Some(10));
        assert_eq!(waits.last().map(Duration::as_secs), Some(limit));
    }
}

/// Objects that failed together are not retried together, and no backoff is longer than its limit.
#[test]
fn jitter_only_shortens_a_backoff() {
    let wait = |share| Backoff::CLUSTER.wait(30, share).as_secs();
    assert_eq!((wait(0.0), wait(0.5), wait(1.0)), (300, 270, 240));
}

#[tokio::test]
async fn success_resets_backoff() {
    let queue = Queue::new();
    for _ in 0..30 {
        queue.add_failed("a", Backoff::CLUSTER);
    }
    queue.forget(&"a");
    queue.add_failed("a", Backoff::CLUSTER);
    assert_eq!(drain(&queue).await, ["a"]);
}

#[tokio::test]
async fn concurrent_workers_lose_no_key() {
    let queue = Queue::new();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let queue = queue.clone();
        workers.spawn(async move {
            let mut seen = Vec::new();
            loop {
                let what: u32 = queue.next().await;
                if what == u32::MAX {
                    queue.done(&what);
                    queue.add(what);
                    return seen;
                }
                seen.push(what);
                queue.done(&what);
            }
        });
    }
    for what in 0..1000 {
        queue.add_after(what, Duration::from_millis(u64::from(what % 3)));
    }
    while !queue.is_idle() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    queue.add(u32::MAX);
    let mut all: Vec<u32> = workers.join_all().await.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
}
