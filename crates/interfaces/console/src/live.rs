//! Notifies open pages of changes.
//!
//! The event carries no data: the page fetches itself again, with all checks of a page, and
//! replaces the parts that differ.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::Query;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use serde::Deserialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::error::Problem;
use crate::pages::PAGES;
use crate::visitor::Visitor;

/// Batch window: changes within it are sent as one event.
const BATCH_WINDOW: Duration = Duration::from_millis(250);
/// Minimum interval between two events: in a large cluster objects change all the time.
const MIN_EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// The open page.
#[derive(Debug, Deserialize)]
pub(crate) struct Open {
    page: String,
}

/// Sends `changed` when objects of a kind that the page shows change, until the user signs out or
/// the console stops.
pub(crate) async fn live(
    visitor: Visitor,
    Query(open): Query<Open>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let Some(page) = PAGES.iter().find(|page| page.path == open.page) else {
        return Err(Problem::missing(format!(
            "There is no page {:?}.",
            open.page
        )));
    };
    let changes = visitor.viewer().changes();
    let stopping = visitor.console.shared().stopping.subscribe();
    let session = visitor.session;
    let begun = (changes, Instant::now());
    let stream = futures::stream::unfold(begun, move |(mut changes, not_before)| {
        let (session, mut stopping) = (session.clone(), stopping.clone());
        async move {
            let changed = tokio::select! {
                changed = next(&mut changes, page.kinds, not_before) => changed,
                () = session.ended() => false,
                () = serving::stopped(&mut stopping) => false,
            };
            // Browsers ignore an event without data.
            let event = Event::default().event("changed").data(page.path);
            changed.then(|| (Ok(event), (changes, Instant::now() + MIN_EVENT_INTERVAL)))
        }
    });
    // Proxies close streams that are silent, often after 30 or 60 seconds.
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

/// Waits for a change of these kinds; returns whether there can be more.
async fn next(changes: &mut Receiver<String>, kinds: &[&str], not_before: Instant) -> bool {
    loop {
        match changes.recv().await {
            Ok(kind) if kinds.contains(&kind.as_str()) => break,
            Ok(_) => {}
            // The receiver lagged, so any kind may have changed.
            Err(RecvError::Lagged(_)) => break,
            Err(RecvError::Closed) => return false,
        }
    }
    tokio::time::sleep_until(not_before.max(Instant::now() + BATCH_WINDOW)).await;
    // Everything that came in the window is covered by this one event.
    while changes.try_recv().is_ok() {}
    true
}
