//! Applies a release manifest by manifest and level by level, as the operators of earlier levels
//! report completion.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::openshift::{
    CLUSTER_VERSION, ClusterOperator, ClusterOperatorStatus, ClusterVersion, payloads,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use release_migration::evaluate::{Phase, check};
use release_migration::history;
use release_migration::payload::{
    ApplyStage, Manifest, Payload, files_of, image_of, is_stored, steps,
};
use runtime::{Cache, Error, Key, Manager, Next, Queue, Reconcile, Writer};
use serde_json::{Value, json};
use tracing::warn;

use crate::names::label;
use crate::operators::kinds::resource;

/// Field manager of the manifests.
const MANAGER: &str = "cluster-version-operator";

/// The single reconcile key: there is one ClusterVersion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TheVersion;

impl fmt::Display for TheVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CLUSTER_VERSION)
    }
}

/// A release and the manifests applied so far.
struct Applied {
    /// The ConfigMap it was read from, and its resource version.
    from: (String, Option<String>),
    image: String,
    payload: Arc<Payload>,
    done: BTreeSet<usize>,
}

struct Applier {
    client: Client,
    versions: Cache<ClusterVersion>,
    operators: Cache<ClusterOperator>,
    maps: Cache<ConfigMap>,
    deployments: Cache<Deployment>,
    applied: Mutex<Option<Applied>>,
}

pub(super) async fn start(manager: &Manager, client: Client) {
    let applier = Applier {
        client,
        versions: manager.cache(),
        operators: manager.cache(),
        maps: manager.cache(),
        deployments: manager.cache(),
        applied: Mutex::default(),
    };
    tokio::join!(
        applier.versions.synced(),
        applier.operators.synced(),
        applier.maps.synced(),
        applier.deployments.synced(),
    );
    let queue = Queue::new();
    queue.enqueue_mapped(&applier.versions, |_| Some(TheVersion));
    queue.enqueue_mapped(&applier.operators, |_| Some(TheVersion));
    queue.enqueue_mapped(&applier.maps, |change| {
        let is_payload = change.sides().any(|it| is_payload(it));
        is_payload.then_some(TheVersion)
    });
    // A deleted manifest is applied again.
    queue.enqueue_mapped(&applier.deployments, |change| {
        let gone = change.old.as_ref().filter(|_| change.new.is_none())?;
        label(&gone.metadata, super::OPERATOR_LABEL).map(|_| TheVersion)
    });
    manager.start(applier, &queue, 1);
}

fn is_payload(map: &ConfigMap) -> bool {
    map.namespace().as_deref() == Some(payloads::NAMESPACE) && is_stored(map)
}

impl Reconcile<TheVersion> for Applier {
    fn name(&self) -> &'static str {
        "cluster-version"
    }

    async fn reconcile(&self, TheVersion: &TheVersion) -> Result<Next, Error> {
        let Some(version) = self.versions.get("", CLUSTER_VERSION) else {
            return Ok(Next::Wait);
        };
        let image = wanted(&version);
        let Some(payload) = self.payload(image) else {
            return Ok(Next::Wait);
        };
        let history = version.status.as_ref().map(|it| it.history.as_slice());
        let phase = history::phase(history.unwrap_or_default(), image);
        for step in steps(&payload.manifests) {
            let is_done = self.step(&version, &payload, &step, phase).await?;
            if !is_done && phase == Phase::Updating {
                break;
            }
        }
        Ok(Next::Wait)
    }
}

/// The release to run: the accepted one, and before any is accepted the desired one.
fn wanted(version: &ClusterVersion) -> &str {
    let decided = version.status.as_ref().map(|it| it.desired.image.as_str());
    let asked = version.spec.desired_update.as_ref();
    let asked = asked.map(|it| it.image.as_str()).unwrap_or_default();
    decided.filter(|it| !it.is_empty()).unwrap_or(asked)
}

impl Applier {
    /// A release by its image, if its ConfigMap is in the cluster. An unreadable one is not
    /// applied; the release migration reports why.
    fn payload(&self, image: &str) -> Option<Arc<Payload>> {
        let maps = self.maps.in_namespace(payloads::NAMESPACE);
        let map = maps
            .into_iter()
            .find(|it| is_payload(it) && image_of(it) == Some(image))?;
        let from = (map.name_any(), map.resource_version());
        let mut applied = self.applied.lock();
        if let Some(known) = applied.as_ref()
            && known.from == from
            && known.image == image
        {
            return Some(Arc::clone(&known.payload));
        }
        match Payload::read(image, &files_of(&map)) {
            Ok(payload) => {
                let payload = Arc::new(payload);
                *applied = Some(Applied {
                    from,
                    image: image.to_owned(),
                    payload: Arc::clone(&payload),
                    done: BTreeSet::new(),
                });
                Some(payload)
            }
            Err(error) => {
                warn!(%error, "cannot read the release; not applying it");
                None
            }
        }
    }

    /// Applies one level: components in parallel, each as far as its operators have come. Returns
    /// whether all of it is done.
    async fn step(
        &self,
        version: &ClusterVersion,
        payload: &Payload,
        step: &ApplyStage,
        phase: Phase,
    ) -> Result<bool, Error> {
        let total = payload.manifests.len();
        let mut is_done = true;
        for part in &step.parts {
            for place in &part.places {
                let Some(manifest) = payload.manifests.get(*place) else {
                    continue;
                };
                let Some(expected) = manifest.cluster_operator() else {
                    self.once(version, *place, manifest).await?;
                    continue;
                };
                self.create_cluster_operator(version, &expected).await?;
                let actual = self.operators.get("", &expected.name_any());
                let failure = check(&expected, actual.as_deref(), phase, place + 1, total);
                if failure.is_some() {
                    is_done = false;
                    // Within a component the order of the manifests counts: later ones wait until
                    // the operator reports the new version.
                    if phase == Phase::Updating {
                        break;
                    }
                }
            }
        }
        Ok(is_done)
    }

    /// Applies a manifest, unless it was applied and still exists.
    async fn once(
        &self,
        version: &ClusterVersion,
        place: usize,
        manifest: &Manifest,
    ) -> Result<(), Error> {
        let done = |applied: &Option<Applied>| {
            let applied = applied.as_ref();
            applied.is_some_and(|it| it.done.contains(&place))
        };
        let gone = manifest.kind() == "Deployment"
            && self
                .deployments
                .get(manifest.namespace(), manifest.name())
                .is_none();
        if done(&self.applied.lock()) && !gone {
            return Ok(());
        }
        let api_version = manifest.object["apiVersion"].as_str().unwrap_or_default();
        let api = api_version.rsplit('/').next().unwrap_or_default();
        let group = manifest.group();
        let kind = match manifest.kind() {
            // The plural of other kinds is not derived from their name.
            known @ ("Namespace" | "Deployment" | "ConfigMap" | "ServiceAccount") => {
                resource(group, api, known)
            }
            other => ApiResource::from_gvk(&GroupVersionKind::gvk(group, api, other)),
        };
        let mut object = manifest.object.clone();
        object["metadata"]["ownerReferences"] = json!([owner(version)]);
        let written = self.write(&kind, manifest, &object).await?;
        if manifest.kind() == "Deployment" {
            self.deployments.saw(&written).await;
        }
        // After the write, so that a failed one is repeated. In memory only: a restart applies
        // everything again, which changes nothing.
        if let Some(applied) = self.applied.lock().as_mut() {
            applied.done.insert(place);
        }
        Ok(())
    }

    /// Creates an object or updates it. Not by server-side apply: the operator owns fields with
    /// defaults as well, and fields that a release no longer has stay.
    async fn write(
        &self,
        kind: &ApiResource,
        manifest: &Manifest,
        object: &Value,
    ) -> Result<DynamicObject, Error> {
        let writer = Writer::<DynamicObject>::dynamic(self.client.clone(), kind);
        let writer = writer.managed_by(MANAGER);
        let complete: DynamicObject = serde_json::from_value(object.clone())
            .map_err(|error| Error::Invalid(format!("a manifest: {error}")))?;
        if let Some(created) = writer.create_if_absent(&complete).await? {
            return Ok(created);
        }
        let key = Key::new(manifest.namespace(), manifest.name());
        writer.merge(&key, object).await
    }

    /// Creates the ClusterOperator before its operator does, so that its progress is visible. Only
    /// the operator itself reports its versions.
    async fn create_cluster_operator(
        &self,
        version: &ClusterVersion,
        expected: &ClusterOperator,
    ) -> Result<(), Error> {
        let name = expected.name_any();
        if self.operators.get("", &name).is_some() {
            return Ok(());
        }
        let writer = Writer::cluster(self.client.clone()).shown_by(&self.operators);
        let writer = writer.managed_by(MANAGER);
        let mut object = ClusterOperator::new(&name, expected.spec.clone());
        object.metadata.annotations = Some(expected.annotations().clone());
        object.metadata.owner_references = Some(vec![owner(version)]);
        let Some(mut created) = writer.create_if_absent(&object).await? else {
            return Ok(());
        };
        let related = expected.status.as_ref();
        let related = related.map(|it| it.related_objects.clone());
        created.status = Some(ClusterOperatorStatus {
            related_objects: related.unwrap_or_default(),
            rest: [("extension".to_owned(), Value::Null)]
                .into_iter()
                .collect(),
            ..ClusterOperatorStatus::default()
        });
        match writer.put_status(&created).await {
            // Its operator was faster.
            Err(error) if error.code() == Some(409) => Ok(()),
            written => written.map(drop),
        }
    }
}

/// The ClusterVersion owns what its release consists of; it is no controller of it.
fn owner(version: &ClusterVersion) -> OwnerReference {
    OwnerReference {
        api_version: ClusterVersion::api_version(&()).into_owned(),
        kind: ClusterVersion::kind(&()).into_owned(),
        name: version.name_any(),
        uid: version.uid().unwrap_or_default(),
        ..OwnerReference::default()
    }
}
