//! Events about objects, as `kubectl describe` shows them.
//!
//! Recording never blocks and never fails a reconcile: events go through a bounded queue, excess events
//! are dropped, and a repeated event only increments `count`, as client-go's correlator does.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

/// Events that may be queued for writing.
// client-go queues 1000 (`tools/record/event.go`). A dropped event is no loss of state: conditions carry the same
// facts, and controllers do not read events.
const QUEUE_CAPACITY: usize = 512;
/// Events remembered, to count repetitions (client-go's `maxLruCacheEntries`).
const CORRELATOR_CAPACITY: usize = 4096;
/// How long a repeated event still counts as the same (client-go's ten minutes).
const CORRELATION_WINDOW: Duration = Duration::from_mins(10);

pub(crate) type Sender = mpsc::Sender<Report>;

/// Records events of one component.
#[derive(Clone)]
pub struct Events {
    component: &'static str,
    sender: Sender,
    known: Option<Explained>,
}

/// Whether an event is documented, by component, reason and whether it is a warning.
type Explained = fn(&'static str, &str, bool) -> bool;

/// One event to be written.
#[derive(Debug)]
pub(crate) struct Report {
    identity: EventIdentity,
    at: Timestamp,
}

/// Two events with equal identities are the same event, counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EventIdentity {
    component: &'static str,
    host: Option<String>,
    kind: &'static str,
    reason: String,
    message: String,
    about: About,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct About {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
    part: Option<String>,
}

impl Events {
    pub(crate) fn new(component: &'static str, sender: Sender) -> Self {
        Self {
            component,
            sender,
            known: None,
        }
    }

    /// Checks the events of this recorder against the documented ones: `known` receives the component,
    /// the reason and whether it is a warning. An undocumented event fails a debug assertion, which
    /// tests find.
    #[must_use]
    pub fn knowing(self, known: Explained) -> Self {
        Self {
            known: Some(known),
            ..self
        }
    }

    /// Records a `Normal` event.
    pub fn normal<K>(&self, about: &K, reason: &str, message: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
    {
        self.normal_of_kind(about, &(), reason, message);
    }

    /// Records a `Normal` event about an object of a kind found at run time.
    pub fn normal_of_kind<K: Resource>(
        &self,
        about: &K,
        kind: &K::DynamicType,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.report("Normal", (about, kind), None, reason, message.into());
    }

    /// Records a `Warning` event.
    pub fn warning<K>(&self, about: &K, reason: &str, message: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
    {
        self.warning_of_kind(about, &(), reason, message);
    }

    /// Records a `Warning` event about an object of a kind found at run time.
    pub fn warning_of_kind<K: Resource>(
        &self,
        about: &K,
        kind: &K::DynamicType,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.report("Warning", (about, kind), None, reason, message.into());
    }

    /// Records a `Normal` event of a node about a part of an object (`spec.containers{web}`).
    pub fn from_node<K>(
        &self,
        node: &str,
        about: &K,
        part: Option<&str>,
        reason: &str,
        message: impl Into<String>,
    ) where
        K: Resource<DynamicType = ()>,
    {
        let node = Some((node, part));
        self.report("Normal", (about, &()), node, reason, message.into());
    }

    fn report<K: Resource>(
        &self,
        kind: &'static str,
        (about, of): (&K, &K::DynamicType),
        node: Option<(&str, Option<&str>)>,
        reason: &str,
        message: String,
    ) {
        debug_assert!(
            self.known
                .is_none_or(|known| known(self.component, reason, kind == "Warning")),
            "{kind} {reason} of {} is not documented",
            self.component
        );
        let meta = about.meta();
        let report = Report {
            identity: EventIdentity {
                component: self.component,
                host: node.map(|(name, _)| name.to_owned()),
                kind,
                reason: reason.to_owned(),
                message,
                about: About {
                    api_version: K::api_version(of).into_owned(),
                    kind: K::kind(of).into_owned(),
                    namespace: meta.namespace.clone(),
                    name: meta.name.clone().unwrap_or_default(),
                    uid: meta.uid.clone(),
                    part: node.and_then(|(_, part)| part).map(str::to_owned),
                },
            },
            at: Timestamp::now(),
        };
        // `try_send`, not `send`: a reconcile must not wait for the API server to accept an event. During an outage,
        // the queue fills up and the reconciles still end with the error that matters.
        if self.sender.try_send(report).is_err() {
            debug!(reason, "event queue is full; dropping an event");
        }
    }
}

/// The sender for events, and the task that writes them.
pub(crate) fn recorder(client: Client) -> (Sender, impl Future<Output = ()> + Send) {
    let (sender, mut reports) = mpsc::channel::<Report>(QUEUE_CAPACITY);
    let writing = async move {
        let mut known: HashMap<EventIdentity, WrittenEvent> = HashMap::new();
        while let Some(report) = reports.recv().await {
            // All of them instead of the oldest: an LRU list would need a lock and an order for every event. The cost
            // is one new Event object for each series that continues.
            if known.len() >= CORRELATOR_CAPACITY {
                known.clear();
            }
            if let Err(error) = write(&client, &mut known, &report).await {
                // Not retried, unlike client-go with its twelve attempts: the usual errors are a
                // terminating namespace and missing permission, which no retry corrects, and a
                // follower whose fence does not send the write.
                debug!(%error, reason = report.identity.reason, "cannot write an event; dropping it");
            }
        }
    };
    (sender, writing)
}

/// An event that has been written, to be patched when it is repeated.
struct WrittenEvent {
    name: String,
    count: i32,
    last: Timestamp,
}

async fn write(
    client: &Client,
    known: &mut HashMap<EventIdentity, WrittenEvent>,
    report: &Report,
) -> Result<(), kube::Error> {
    let identity = &report.identity;
    // Events are namespaced; those of cluster-scoped objects go to `default`, where `kubectl describe` expects them.
    let namespace = identity.about.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if let Some(same) = known.get_mut(identity)
        && report.at.duration_since(same.last).unsigned_abs() < CORRELATION_WINDOW
    {
        same.count += 1;
        same.last = report.at;
        let patch = json!({ "count": same.count, "lastTimestamp": Time(report.at) });
        let patched = api
            .patch(&same.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        match patched {
            // The API server has expired it: create a new one below.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => return other.map(drop),
        }
    }
    let event = render(identity, namespace, report.at);
    let name = event.metadata.name.clone().unwrap_or_default();
    api.create(&PostParams::default(), &event).await?;
    let fresh = WrittenEvent {
        name,
        count: 1,
        last: report.at,
    };
    known.insert(identity.clone(), fresh);
    Ok(())
}

fn render(identity: &EventIdentity, namespace: &str, at: Timestamp) -> Event {
    let about = &identity.about;
    Event {
        metadata: ObjectMeta {
            // client-go's naming: the object's name and the time in hexadecimal.
            name: Some(format!("{}.{:x}", about.name, at.as_nanosecond())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(about.api_version.clone()),
            kind: Some(about.kind.clone()),
            namespace: about.namespace.clone(),
            name: Some(about.name.clone()),
            uid: about.uid.clone(),
            field_path: about.part.clone(),
            ..ObjectReference::default()
        },
        type_: Some(identity.kind.to_owned()),
        reason: Some(identity.reason.clone()),
        message: Some(identity.message.clone()),
        count: Some(1),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        source: Some(EventSource {
            component: Some(identity.component.to_owned()),
            host: identity.host.clone(),
        }),
        reporting_component: Some(identity.component.to_owned()),
        reporting_instance: identity.host.clone(),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
