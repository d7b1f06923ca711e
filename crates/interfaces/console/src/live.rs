//! Telling open pages that something changed.
//!
//! What is told is only that: the page fetches itself again, with all checks that a page has, and
//! takes over what is different.

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

/// A burst of changes is told once: after the first, others are waited for this long.
const GATHER: Duration = Duration::from_millis(250);
/// In a large cluster something changes all the time. Nobody reads faster than this.
const APART: Duration = Duration::from_secs(1);

/// Which page is open.
#[derive(Debug, Deserialize)]
pub(crate) struct Open {
    page: String,
}

/// Says `changed` whenever objects of a kind change that the page shows, until the user signs out or
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
            // An event without data is none to browsers.
            let event = Event::default().event("changed").data(page.path);
            changed.then(|| (Ok(event), (changes, Instant::now() + APART)))
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

/// Waits for a change of these kinds; whether there can be more.
async fn next(changes: &mut Receiver<String>, kinds: &[&str], not_before: Instant) -> bool {
    loop {
        match changes.recv().await {
            Ok(kind) if kinds.contains(&kind.as_str()) => break,
            Ok(_) => {}
            // There were too many to tell which.
            Err(RecvError::Lagged(_)) => break,
            Err(RecvError::Closed) => return false,
        }
    }
    tokio::time::sleep_until(not_before.max(Instant::now() + GATHER)).await;
    while changes.try_recv().is_ok() {}
    true
}
