//! Reads a cluster into a bundle, as far as permissions and time allow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::discovery::{Discovery, Scope};
use kube::{Api, Client};
use placement::names::{GATE, WHY};
use serde::Serialize;
use serde_json::{Value, json};

use super::folder::Folder;
use super::kinds::{Extent, collected_kinds};
use super::logs;
use crate::output::Data;
use crate::read::{PAGE, resource_name};
use crate::redact::{self, Removal, Removed};
use crate::{status, version};

/// Version of the format of gather.json.
const FORMAT: u32 = 1;

/// Time limits of a collection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) now: Timestamp,
    /// Logs and events before this are left out.
    pub(super) since: Option<Timestamp>,
    /// For the whole collection.
    pub(super) all: Duration,
    /// For a single request.
    pub(super) request: Duration,
}

/// Contents of gather.json: what the bundle holds and lacks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    format: &'static str,
    version: u32,
    taken: Timestamp,
    since: Option<Timestamp>,
    medley: &'static str,
    kubernetes: String,
    pub(super) objects: usize,
    pub(super) events: usize,
    pub(super) logs: usize,
    /// Number of redacted values.
    pub(super) redacted: usize,
    /// The same by kind and rule.
    redactions: Vec<Removal>,
    /// Filled in until gather.json itself, the last file, is written.
    #[serde(skip)]
    pub(super) removed: Removed,
    /// Objects that could not be read.
    pub(super) missing: Vec<Missing>,
}

/// An object that could not be read, and why.
#[derive(Debug, Serialize)]
pub(super) struct Missing {
    pub(super) what: String,
    pub(super) reason: String,
}

/// Collects everything.
pub(super) async fn collect(
    client: &Client,
    folder: &Folder,
    limits: &Limits,
) -> anyhow::Result<Index> {
    // The one request that must succeed: a bundle of an unreachable cluster would consist of
    // timeouts, and look like one of a broken cluster.
    let kubernetes = tokio::time::timeout(limits.request, client.apiserver_version())
        .await
        .context("the cluster does not respond")?
        .context("reading the version of the cluster")?;
    let mut gathering = Gathering {
        client,
        folder,
        limits,
        until: Instant::now() + limits.all,
        kinds: BTreeSet::from(["Pod".to_owned()]),
        index: Index {
            format: "medley-gather",
            version: FORMAT,
            taken: limits.now,
            since: limits.since,
            medley: version::OPERATOR,
            kubernetes: kubernetes.git_version.clone(),
            objects: 0,
            events: 0,
            logs: 0,
            redacted: 0,
            redactions: Vec::new(),
            removed: Removed::default(),
            missing: Vec::new(),
        },
    };
    folder.write("version", &format!("medley\n{}\n", version::OPERATOR))?;
    // Small and most informative parts first: the time limit may cut off the rest.
    gathering.status().await?;
    gathering.objects().await?;
    gathering.events().await?;
    gathering.logs().await?;
    let mut index = gathering.index;
    index.redacted = index.removed.total();
    index.redactions = index.removed.list();
    folder.write("gather.json", &Data::Json.write(&json!(index))?)?;
    Ok(index)
}

struct Gathering<'a> {
    client: &'a Client,
    folder: &'a Folder,
    limits: &'a Limits,
    until: Instant,
    /// Kinds whose events are collected.
    kinds: BTreeSet<String>,
    index: Index,
}

impl Gathering<'_> {
    /// The result of a request within the time limits; a failure is recorded in the index.
    async fn try_for<T>(
        &mut self,
        what: &str,
        limit: Duration,
        work: impl Future<Output = kube::Result<T>>,
    ) -> Option<T> {
        // Each request gets what is left of the whole: one hanging aggregated API must not use up
        // the time of the others.
        let left = self.until.saturating_duration_since(Instant::now());
        let reason = match tokio::time::timeout(limit.min(left), work).await {
            Ok(Ok(found)) => return Some(found),
            Ok(Err(kube::Error::Api(status))) => status.message.clone(),
            Ok(Err(error)) => format!("{:#}", anyhow::Error::new(error)),
            Err(_) if left.is_zero() => "timed out (--timeout)".to_owned(),
            Err(_) => "timed out (--request-timeout, --timeout)".to_owned(),
        };
        self.index.missing.push(Missing {
            what: what.to_owned(),
            reason: redact::text("message", &reason, &mut self.index.removed),
        });
        None
    }

    async fn status(&mut self) -> anyhow::Result<()> {
        let client = self.client.clone();
        // Status sends many requests, so no request timeout applies to it as a whole.
        let read_status = async { Ok(status::read_state(&client, &[]).await) };
        let Some(jobs) = self.try_for("status", self.limits.all, read_status).await else {
            return Ok(());
        };
        let mut data = status::data(&jobs);
        redact::object(&mut data, "status", &mut self.index.removed);
        self.folder
            .write("status.json", &Data::Json.write(&data)?)?;
        let text = redact::text("status", &status::text(&jobs), &mut self.index.removed);
        self.folder.write("status.txt", &text)
    }

    async fn objects(&mut self) -> anyhow::Result<()> {
        let discovery = Discovery::new(self.client.clone()).run();
        let limit = self.limits.all;
        let Some(discovery) = self.try_for("API discovery", limit, discovery).await else {
            return Ok(());
        };
        let served = discovery
            .groups()
            .flat_map(kube::discovery::ApiGroup::recommended_resources);
        let served = served.map(|(it, capabilities)| {
            let key = (it.group.clone(), it.plural.clone());
            (key, (it, capabilities.scope))
        });
        let served: BTreeMap<(String, String), (ApiResource, Scope)> = served.collect();
        for (key, extent) in collected_kinds()? {
            // The status reports missing CRDs.
            if let Some((resource, scope)) = served.get(&key) {
                self.resource(resource, scope, &extent).await?;
            }
        }
        Ok(())
    }

    async fn resource(
        &mut self,
        resource: &ApiResource,
        scope: &Scope,
        extent: &Extent,
    ) -> anyhow::Result<()> {
        let name = resource_name(resource);
        let mut found = Vec::new();
        match extent {
            Extent::All => self.pages(&name, resource, "", false, &mut found).await,
            Extent::Outline => self.pages(&name, resource, "", true, &mut found).await,
            Extent::Named(names) => {
                for object in names {
                    let only = format!("metadata.name={object}");
                    self.pages(&name, resource, &only, false, &mut found).await;
                }
            }
        }
        if resource.kind == "Pod" && resource.group.is_empty() {
            found.retain(is_of_interest);
        }
        if !found.is_empty() {
            self.kinds.insert(resource.kind.clone());
        }
        self.index.objects += found.len();
        let group = if resource.group.is_empty() {
            "core"
        } else {
            &resource.group
        };
        if matches!(scope, Scope::Cluster) {
            for object in found {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!(
                    "cluster-scoped-resources/{group}/{}/{name}.yaml",
                    resource.plural
                );
                self.folder.write(&path, &Data::Yaml.write(&object)?)?;
            }
            return Ok(());
        }
        let api_version = resource.api_version.clone();
        let kind = format!("{}List", resource.kind);
        self.lists(group, &resource.plural, (&api_version, &kind), found)
    }

    /// Namespaced objects, one list per namespace.
    fn lists(
        &self,
        group: &str,
        plural: &str,
        (api_version, kind): (&str, &str),
        objects: Vec<Value>,
    ) -> anyhow::Result<()> {
        let mut namespaces: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for object in objects {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            namespaces
                .entry(namespace.to_owned())
                .or_default()
                .push(object);
        }
        for (namespace, items) in namespaces {
            let path = format!("namespaces/{namespace}/{group}/{plural}.yaml");
            let list = json!({ "apiVersion": api_version, "kind": kind, "items": items });
            self.folder.write(&path, &Data::Yaml.write(&list)?)?;
        }
        Ok(())
    }

    /// All objects of a kind, page by page; pages before a failed one are kept.
    async fn pages(
        &mut self,
        name: &str,
        resource: &ApiResource,
        fields: &str,
        outline: bool,
        found: &mut Vec<Value>,
    ) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let mut params = ListParams::default().limit(PAGE);
        if !fields.is_empty() {
            params = params.fields(fields);
        }
        loop {
            let limit = self.limits.request;
            let page = async {
                if outline {
                    let page = api.list_metadata(&params).await?;
                    let items = page.items.into_iter();
                    let items = items.map(|it| json!({ "metadata": it.metadata }));
                    Ok((items.collect::<Vec<_>>(), page.metadata.continue_))
                } else {
                    let page = api.list(&params).await?;
                    let items = page.items.into_iter().map(|it| json!(it));
                    Ok((items.collect(), page.metadata.continue_))
                }
            };
            let Some((items, next)) = self.try_for(name, limit, page).await else {
                return;
            };
            for mut object in items {
                object["apiVersion"] = resource.api_version.clone().into();
                object["kind"] = resource.kind.clone().into();
                // Before the object is kept anywhere, so that no later step has to think of it.
                redact::object(&mut object, &resource.kind, &mut self.index.removed);
                found.push(object);
            }
            match next.filter(|it| !it.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return,
            }
        }
    }

    async fn events(&mut self) -> anyhow::Result<()> {
        let resource = ApiResource::erase::<Event>(&());
        let mut found = Vec::new();
        self.pages("events", &resource, "", false, &mut found).await;
        let since = self.limits.since;
        found.retain(|event| {
            let kind = event["involvedObject"]["kind"].as_str().unwrap_or_default();
            // Events of kinds that are not in the bundle are mostly of pods of other teams.
            self.kinds.contains(kind) && is_after(event, since)
        });
        self.index.events = found.len();
        self.lists("core", "events", ("v1", "EventList"), found)
    }

    async fn logs(&mut self) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let ours = ListParams::default().labels(logs::OURS);
        let limit = self.limits.request;
        let pods = self
            .try_for("pods of the operator", limit, pods.list(&ours))
            .await;
        for log in pods.iter().flatten().flat_map(logs::of_pod) {
            let what = format!("log of {}/{} ({})", log.namespace, log.pod, log.container);
            let client = self.client.clone();
            let read = log.read(&client, self.limits.since);
            if let Some(text) = self.try_for(&what, limit, read).await {
                let text = redact::text("log", &text, &mut self.index.removed);
                self.folder.write(&log.path(), &text)?;
                self.index.logs += 1;
            }
        }
        Ok(())
    }
}

/// Clusters have many pods, so only these are collected: unscheduled pods, Medley's own, those of
/// virtual machines and imports, and those with a placement decision.
fn is_of_interest(pod: &Value) -> bool {
    let meta = &pod["metadata"];
    let label = |name: &str| meta["labels"][name].as_str();
    let gates = pod["spec"]["schedulingGates"].as_array();
    label("app.kubernetes.io/part-of") == Some("medley")
        || label("kubevirt.io").is_some()
        || label("app").is_some_and(|it| it == "containerized-data-importer")
        || meta["annotations"][WHY].is_string()
        || gates.is_some_and(|all| all.iter().any(|it| it["name"] == GATE))
        || pod["status"]["phase"] == "Pending"
}

/// Whether an event is recent enough.
fn is_after(event: &Value, since: Option<Timestamp>) -> bool {
    let Some(since) = since else {
        return true;
    };
    let times = ["lastTimestamp", "eventTime"].map(|it| event[it].as_str());
    let made = event["metadata"]["creationTimestamp"].as_str();
    let times = times.into_iter().chain([made]).flatten();
    let newest = times.filter_map(|it| it.parse::<Timestamp>().ok()).max();
    newest.is_none_or(|it| it >= since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_before_since_are_left_out() {
        let event = json!({
            "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" },
            "lastTimestamp": null, "eventTime": "2026-01-01T02:00:00.000000Z",
        });
        let at = |text: &str| text.parse::<Timestamp>().ok();
        assert!(is_after(&event, None));
        assert!(is_after(&event, at("2026-01-01T01:00:00Z")));
        assert!(!is_after(&event, at("2026-01-01T03:00:00Z")));
    }

    #[test]
    fn only_relevant_pods_are_collected() {
        let pod = |extra: Value| -> bool {
            let mut pod = json!({ "metadata": {}, "spec": {}, "status": { "phase": "Running" } });
            put(&mut pod, &extra);
            is_of_interest(&pod)
        };
        assert!(!pod(json!({})));
        assert!(pod(json!({ "status": { "phase": "Pending" } })));
        assert!(pod(
            json!({ "metadata": { "labels": { "kubevirt.io": "virt-launcher" } } })
        ));
        assert!(pod(
            json!({ "spec": { "schedulingGates": [{ "name": GATE }] } })
        ));
        assert!(!pod(
            json!({ "spec": { "schedulingGates": [{ "name": "other" }] } })
        ));
    }

    fn put(target: &mut Value, extra: &Value) {
        for (key, value) in extra.as_object().into_iter().flatten() {
            target[key] = value.clone();
        }
    }
}
