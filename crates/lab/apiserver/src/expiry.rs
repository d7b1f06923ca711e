//! Events that are old enough to go: an hour after they were last written, as `--event-ttl` has it.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use serving::stopped;

use crate::server::State;

/// How long an event is kept (kube-apiserver's default).
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// How often is looked for old ones.
const LOOK: Duration = Duration::from_mins(1);

/// Removes old events for as long as the server is there.
pub(crate) fn follow(state: &Arc<State>) {
    let mut stopping = state.stopping.subscribe();
    let state = Arc::downgrade(state);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stopped(&mut stopping) => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let Some(state) = state.upgrade() else {
                return;
            };
            sweep(&state, Timestamp::now()).await;
        }
    });
}

/// Removes the events that are too old at a time.
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
        let Ok(object) = resource.read(&entry) else {
            continue;
        };
        if last_said(&object).is_some_and(|said| now.duration_since(said) > KEPT) {
            // Whoever wrote it meanwhile has made it new; a store that fails says so itself.
            let _ = state.remove_object(resource, &entry, object).await;
        }
    }
}

/// When an event was last written, as far as it tells.
fn last_said(event: &Value) -> Option<Timestamp> {
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
    fn the_latest_time_counts() {
        let event = json!({
            "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" },
            "lastTimestamp": "2026-01-01T02:00:00Z",
            "eventTime": null,
            "series": { "lastObservedTime": "2026-01-01T01:00:00.000000Z" },
        });
        assert_eq!(last_said(&event), "2026-01-01T02:00:00Z".parse().ok());
        assert_eq!(last_said(&json!({})), None);
    }
}
