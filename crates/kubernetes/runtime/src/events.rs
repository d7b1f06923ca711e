//! Events about objects, as `kubectl describe` shows them.
//!
//! Reporting never waits and never fails a reconcile: events go through a short queue, what does not
//! fit is dropped, and what says the same again only counts, as client-go's correlator does.

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

/// Events that may wait to be written.
const WAITING: usize = 512;
/// Events remembered, to count those that come again (client-go's size).
const REMEMBERED: usize = 4096;
/// How long an event that comes again still counts as the same (client-go's ten minutes).
const SAME: Duration = Duration::from_mins(10);

pub(crate) type Sender = mpsc::Sender<Report>;

/// Reports events in the name of one component.
#[derive(Clone)]
pub struct Events {
    component: &'static str,
    sender: Sender,
    known: Option<Explained>,
}

/// Whether an event is one that is explained somewhere: by its reason, and whether it is a warning.
type Explained = fn(&'static str, &str, bool) -> bool;

/// One event to be written.
#[derive(Debug)]
pub(crate) struct Report {
    said: Said,
    at: Timestamp,
}

/// What makes two events the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Said {
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

    /// The same, for a component whose events are explained: told its name, a reason and whether it is a
    /// warning, `known` says whether it is one of them. Others are a defect, which tests find.
    #[must_use]
    pub fn knowing(self, known: Explained) -> Self {
        Self {
            known: Some(known),
            ..self
        }
    }

    /// Something went as it should.
    pub fn normal<K>(&self, about: &K, reason: &str, message: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
    {
        self.normal_of_kind(about, &(), reason, message);
    }

    /// Something went as it should with an object of a kind found at run time.
    pub fn normal_of_kind<K: Resource>(
        &self,
        about: &K,
        kind: &K::DynamicType,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.report("Normal", (about, kind), None, reason, message.into());
    }

    /// Something went wrong, or may.
    pub fn warning<K>(&self, about: &K, reason: &str, message: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
    {
        self.warning_of_kind(about, &(), reason, message);
    }

    /// Something went wrong, or may, with an object of a kind found at run time.
    pub fn warning_of_kind<K: Resource>(
        &self,
        about: &K,
        kind: &K::DynamicType,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.report("Warning", (about, kind), None, reason, message.into());
    }

    /// Something a node says about a part of an object (`spec.containers{web}`).
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
            "{kind} {reason} of {} is not explained",
            self.component
        );
        let meta = about.meta();
        let report = Report {
            said: Said {
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
        if self.sender.try_send(report).is_err() {
            debug!(reason, "too many events at once; one is dropped");
        }
    }
}

/// The end to send events to, and what writes them.
pub(crate) fn recorder(client: Client) -> (Sender, impl Future<Output = ()> + Send) {
    let (sender, mut reports) = mpsc::channel::<Report>(WAITING);
    let writing = async move {
        let mut known: HashMap<Said, Known> = HashMap::new();
        while let Some(report) = reports.recv().await {
            if known.len() >= REMEMBERED {
                known.clear();
            }
            if let Err(error) = write(&client, &mut known, &report).await {
                debug!(%error, reason = report.said.reason, "an event is lost");
            }
        }
    };
    (sender, writing)
}

/// An event that has been written.
struct Known {
    name: String,
    count: i32,
    last: Timestamp,
}

async fn write(
    client: &Client,
    known: &mut HashMap<Said, Known>,
    report: &Report,
) -> Result<(), kube::Error> {
    let said = &report.said;
    let namespace = said.about.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if let Some(same) = known.get_mut(said)
        && report.at.duration_since(same.last).unsigned_abs() < SAME
    {
        same.count += 1;
        same.last = report.at;
        let patch = json!({ "count": same.count, "lastTimestamp": Time(report.at) });
        let patched = api
            .patch(&same.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        match patched {
            // It has been cleaned away: write it anew below.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => return other.map(drop),
        }
    }
    let event = render(said, namespace, report.at);
    let name = event.metadata.name.clone().unwrap_or_default();
    api.create(&PostParams::default(), &event).await?;
    let fresh = Known {
        name,
        count: 1,
        last: report.at,
    };
    known.insert(said.clone(), fresh);
    Ok(())
}

fn render(said: &Said, namespace: &str, at: Timestamp) -> Event {
    let about = &said.about;
    Event {
        metadata: ObjectMeta {
            // client-go's names: the object's, and the time in hexadecimal.
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
        type_: Some(said.kind.to_owned()),
        reason: Some(said.reason.clone()),
        message: Some(said.message.clone()),
        count: Some(1),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        source: Some(EventSource {
            component: Some(said.component.to_owned()),
            host: said.host.clone(),
        }),
        reporting_component: Some(said.component.to_owned()),
        reporting_instance: said.host.clone(),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
