//! Expiry of events an hour after their last write, as with `--event-ttl`.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use serving::stopped;

use crate::server::State;

/// Lifetime of an event (kube-apiserver's default).
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
/// Interval between sweeps.
// etcd expires keys by lease; here a sweep does it, so an event may live a minute longer.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Removes expired events as long as the server runs.
pub(crate) fn follow(state: &Arc<State>) {
    let mut stopping = state.stopping.subscribe();
    // Weak, so that this task does not keep the store open after the last server handle is dropped.
    let state = Arc::downgrade(state);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stopped(&mut stopping) => return,
                () = tokio::time::sleep(SWEEP_INTERVAL) => {}
            }
            let Some(state) = state.upgrade() else {
                return;
            };
            sweep(&state, Timestamp::now()).await;
        }
    });
}

/// Removes the events that are expired at a time.
async fn sweep(state: &State, now: Timestamp) {
    let snapshot = state.registry.snapshot();
    let Some(resource) = snapshot.find("", "v1", "events") else {
        return;
    };
    let prefix = resource.collection("");
    let Ok(page) = state.store.list(&prefix, Bound::Unbounded, 0, None) else {
        return;
    };
    for entry in page.entries {
        // A damaged event stays until it is deleted by hand: its age is unknown.
        let Ok(object) = resource.read(&entry) else {
            continue;
        };
        if last_written(&object)
            .is_some_and(|written_at| now.duration_since(written_at) > EVENT_TTL)
        {
            // A concurrent write renewed the event; a store failure is reported by the store.
            let _ = state.remove_object(resource, &entry, object).await;
        }
    }
}

/// The last write of an event, as far as its fields show it.
fn last_written(event: &Value) -> Option<Timestamp> {
    [
        &event["metadata"]["creationTimestamp"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["series"]["lastObservedTime"],
    ]
    .into_iter()
    .filter_map(|time| time.as_str()?.parse().ok())
    .max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn latest_timestamp_of_an_event_counts() {
        let event = json!({
            "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" },
            "lastTimestamp": "2026-01-01T02:00:00Z",
            "eventTime": null,
            "series": { "lastObservedTime": "2026-01-01T01:00:00.000000Z" },
        });
        assert_eq!(last_written(&event), "2026-01-01T02:00:00Z".parse().ok());
        assert_eq!(last_written(&json!({})), None);
    }
}
