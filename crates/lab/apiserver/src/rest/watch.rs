//! Watches.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use machinery::json;
use machinery::meta;
use machinery::status::Status;
use machinery::table::{IncludeObject, Table, partial_object_metadata};
use serde_json::{Value, json};
use serving::stopped;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::context::Context;
use super::list::{page, parse_version};
use super::represent::{include_object, table_of};
use super::selection::Selection;
use crate::negotiate::Shape;
use crate::request::ListOptions;
use crate::resource::Resource;
use crate::respond::{self, Body};
use crate::store::{Event, EventKind, Store, StoreError, Watch};

/// Bookmark interval of an idle watch.
// Both as in `apiserver/pkg/storage/cacher` (`defaultBookmarkFrequency`, and two seconds in
// `nextBookmarkTime`): the last bookmark lets a reflector resume from the newest revision instead
// of from its last event, which may be compacted.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// Time before its end at which a watch sends a last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Minimum default duration of a watch in seconds; the maximum is twice that.
// `MinRequestTimeout` in `apiserver/pkg/server/config.go`; `handlers/get.go` multiplies it by a
// random factor from 1 to 2.
const DEFAULT_SECONDS: u64 = 1800;
/// Duration of an unlimited watch: thirty years, tokio's own maximum for timers.
const UNLIMITED: Duration = Duration::from_hours(24 * 365 * 30);
/// Annotation of the bookmark after the initial state.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// State of a watch after its request.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent options and states of one watch"
)]
struct Watcher {
    resource: Arc<Resource>,
    store: Store,
    selection: Selection,
    shape: Shape,
    include: IncludeObject,
    columns_sent: bool,
    bookmarks: bool,
    watch: Watch,
    stopping: Receiver<bool>,
    initial: std::vec::IntoIter<Bytes>,
    ends: Instant,
    next_bookmark: Instant,
    last_bookmark_sent: bool,
    done: bool,
}

/// GET with `watch=true`.
pub(crate) async fn watch(
    context: &Context,
    resource: &Arc<Resource>,
    namespace: &str,
    name: &str,
) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&context.query, true)?;
    let mut selection = Selection::parse(&options, resource)?;
    if !name.is_empty() {
        selection = selection.and_name(name);
    }
    let representation = context.representation(resource)?;
    let include = if representation.shape == Shape::Table {
        include_object(context)?
    } else {
        IncludeObject::None
    };
    // kube-apiserver responds with a bare 500 here.
    let from: u64 = match options.resource_version.as_str() {
        "" => 0,
        text => parse_version(text).map_err(|status| {
            let message = status
                .message
                .trim_start_matches("invalid resource version: ");
            Status::plain_500(message)
        })?,
    };
    let store = context.state.store.clone();
    let prefix = resource.collection(namespace);
    // As upstream, a watch without a version or with version 0 begins with the state, as synthetic
    // ADDED events; one with the version of a list continues from there.
    let with_state = match options.send_initial_events {
        Some(wanted) => wanted,
        None => from == 0,
    };
    let seconds = match options
        .timeout_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
    {
        Some(seconds) if seconds > 0 => seconds,
        // Random, so that many watchers do not reconnect at once.
        _ => DEFAULT_SECONDS + context.state.random_below(DEFAULT_SECONDS),
    };
    let mut initial = Vec::new();
    let start;
    let mut state_objects = Vec::new();
    if with_state {
        // `resourceVersion` only limits the age of the state; reads here are always current.
        super::list::wait_for_version(context, &options.resource_version).await?;
        let everything = ListOptions::default();
        let state = page(context, resource, namespace, &everything, &selection).await?;
        start = state.revision;
        for entry in state.entries {
            state_objects.push(resource.read(&entry)?);
        }
    } else {
        start = if from == 0 { store.revision() } else { from };
    }
    // An expired version is an ERROR event in a 200 response, not a 410 response: client-go's
    // reflector expects it in the stream.
    let Ok(watch) = store.watch(&prefix, start) else {
        return Ok(expired_stream(start, store.compacted_revision()));
    };
    let now = Instant::now();
    // The requested duration may exceed the range of the clock.
    let ends = now
        .checked_add(Duration::from_secs(seconds))
        .unwrap_or(now + UNLIMITED);
    let mut watcher = Watcher {
        resource: Arc::clone(resource),
        store,
        selection,
        shape: representation.shape,
        include,
        columns_sent: false,
        bookmarks: options.allow_bookmarks,
        watch,
        stopping: context.state.stopping.subscribe(),
        initial: Vec::new().into_iter(),
        ends,
        next_bookmark: now + BOOKMARK_PERIOD,
        last_bookmark_sent: false,
        done: false,
    };
    for object in state_objects {
        // Encoded before the first byte is sent: the objects are from one revision, and the watch
        // continues exactly after it.
        initial.push(watcher.frame("ADDED", object));
    }
    if with_state && options.allow_bookmarks {
        initial.push(watcher.bookmark(start, true));
    }
    watcher.initial = initial.into_iter();
    let mut response = Response::new(respond::streaming(frames(watcher)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// A watch that ends with the error that its start has been compacted.
fn expired_stream(from: u64, oldest: u64) -> Response<Body> {
    let mut response = Response::new(respond::full(expired_frame(from, oldest)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn expired_frame(from: u64, oldest: u64) -> Bytes {
    let status = Status::expired(format!("too old resource version: {from} ({oldest})"));
    event_line(
        "ERROR",
        &json::to_vec(&serde_json::to_value(status).unwrap_or_default()),
    )
}

fn event_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + kind.len() + 24);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}

fn frames(watcher: Watcher) -> impl Stream<Item = Bytes> + Send {
    futures::stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next_frame().await?;
        Some((frame, watcher))
    })
}

impl Watcher {
    async fn next_frame(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.initial.next() {
            return Some(frame);
        }
        if self.done {
            return None;
        }
        loop {
            let last_bookmark = self.ends
                - LAST_BOOKMARK.min(self.ends.saturating_duration_since(Instant::now()) / 2);
            let bookmark_at = if self.last_bookmark_sent {
                self.ends
            } else {
                self.next_bookmark.min(last_bookmark)
            };
            let event = tokio::select! {
                // Events before timers: a bookmark or the end of the watch must not overtake an
                // event that has already happened.
                biased;
                event = self.watch.next() => event,
                () = sleep_until(bookmark_at), if self.bookmarks && !self.last_bookmark_sent => {
                    let now = Instant::now();
                    self.next_bookmark = now + BOOKMARK_PERIOD;
                    self.last_bookmark_sent = self.ends.saturating_duration_since(now) <= LAST_BOOKMARK;
                    let revision = self.watch.progress();
                    return Some(self.bookmark(revision, false));
                }
                () = sleep_until(self.ends) => return None,
                () = stopped(&mut self.stopping) => return None,
            };
            match event {
                Ok(event) => {
                    if let Some(frame) = self.event_frame(&event) {
                        return Some(frame);
                    }
                }
                Err(StoreError::Closed) => return None,
                // Compaction overtook a slow client. It gets the same error as one that reconnects
                // too late, and lists again.
                Err(_) => {
                    self.done = true;
                    return Some(expired_frame(
                        self.watch.progress(),
                        self.store.compacted_revision(),
                    ));
                }
            }
        }
    }

    /// The event that a change causes with these selectors; `None` if there is none.
    fn event_frame(&mut self, event: &Event) -> Option<Bytes> {
        // Upstream ends the watch at an object it cannot decode; here one damaged object must not
        // stop all controllers of a kind.
        if event.entry.damage().is_some() {
            return None;
        }
        if self.selection.is_everything() {
            let kind = match event.kind {
                EventKind::Put { created: true } => "ADDED",
                EventKind::Put { created: false } => "MODIFIED",
                EventKind::Delete => "DELETED",
            };
            // The common case of a controller: stored bytes are copied to the socket, without
            // parsing, for any number of watchers.
            if self.shape == Shape::Object && self.resource.is_verbatim(&event.entry) {
                return Some(event_line(kind, &event.entry.value));
            }
            let object = self.resource.read(&event.entry).ok()?;
            return Some(self.frame(kind, object));
        }
        let object = self.resource.read(&event.entry).ok()?;
        let matches = self.selection.matches(&self.resource, &object);
        let previous = event
            .previous
            .as_ref()
            .and_then(|entry| self.resource.read(entry).ok());
        // Whether a damaged object has matched is unknown; a client that never had it ignores its
        // deletion.
        let was_damaged = event
            .previous
            .as_ref()
            .is_some_and(|entry| event.is_delete() && entry.damage().is_some());
        let matched = was_damaged
            || previous
                .as_ref()
                .is_some_and(|old| self.selection.matches(&self.resource, old));
        match (event.kind, matched, matches) {
            (EventKind::Put { .. }, false, true) => Some(self.frame("ADDED", object)),
            (EventKind::Put { .. }, true, true) => Some(self.frame("MODIFIED", object)),
            (EventKind::Put { .. }, true, false) => {
                // It stopped matching: its last matching state, with the version of the change.
                let mut old = previous?;
                meta::set_resource_version(&mut old, &event.revision.to_string());
                Some(self.frame("DELETED", old))
            }
            (EventKind::Delete, true, _) => Some(self.frame("DELETED", object)),
            (EventKind::Put { .. }, false, false) | (EventKind::Delete, false, _) => None,
        }
    }

    fn frame(&mut self, kind: &str, object: Value) -> Bytes {
        let shaped = match self.shape {
            Shape::Object => object,
            Shape::PartialMetadata | Shape::PartialMetadataList => partial_object_metadata(&object),
            Shape::Table => {
                let resource_version = meta::resource_version(&object).to_owned();
                self.table(&object, self.include, resource_version)
            }
        };
        event_line(kind, &json::to_vec(&shaped))
    }

    /// One row; only the first has headings.
    fn table(&mut self, object: &Value, include: IncludeObject, resource_version: String) -> Value {
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        let now = jiff::Timestamp::now();
        let table = table_of(
            &self.resource,
            std::slice::from_ref(object),
            include,
            columns,
            now,
        );
        Table {
            resource_version,
            ..table
        }
        .into_value()
    }

    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let (kind, api_version) = match self.shape {
            Shape::Object | Shape::Table => (
                self.resource.info.gvk.kind.clone(),
                self.resource.api_version(),
            ),
            Shape::PartialMetadata | Shape::PartialMetadataList => (
                "PartialObjectMetadata".to_owned(),
                "meta.k8s.io/v1".to_owned(),
            ),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if self.resource.custom.is_none() && self.shape == Shape::Object {
            fill_required(&self.resource, &mut object);
        }
        if self.shape == Shape::Table {
            object = self.table(&object, IncludeObject::Object, revision.to_string());
        }
        event_line("BOOKMARK", &json::to_vec(&object))
    }
}

/// Typed clients decode a bookmark into the kind, so it gets the fields Go always writes.
fn fill_required(resource: &Resource, object: &mut Value) {
    if let Ok(decoded) = resource.strategy.decode(object.clone()) {
        *object = decoded.object;
    }
}
