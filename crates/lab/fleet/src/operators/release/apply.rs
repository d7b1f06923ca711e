//! Applies a release manifest by manifest and level by level, as the operators of earlier levels
//! report completion.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::openshift::{CLUSTER_VERSION, ClusterOperator, ClusterVersion, payloads};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use release_migration::evaluate::{Phase, check};
use release_migration::history;
use release_migration::payload::{Manifest, Payload, Step, files_of, image_of, is_kept, steps};
use runtime::{Cache, Error, Manager, Next, Queue, Reconcile};
use serde_json::json;
use tracing::warn;

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
    let queue: Queue<TheVersion> = Queue::new();
    let to = queue.clone();
    applier.versions.on_change(move |_| to.add(TheVersion));
    let to = queue.clone();
    applier.operators.on_change(move |_| to.add(TheVersion));
    let to = queue.clone();
    applier.maps.on_change(move |change| {
        if change.sides().any(|it| is_payload(it)) {
            to.add(TheVersion);
        }
    });
    // A deleted manifest is applied again.
    let to = queue.clone();
    applier.deployments.on_change(move |change| {
        let labelled = |it: &Arc<Deployment>| it.labels().contains_key(super::OPERATOR_LABEL);
        if change.new.is_none() && change.old.as_ref().is_some_and(labelled) {
            to.add(TheVersion);
        }
    });
    manager.start(applier, &queue, 1);
}

fn is_payload(map: &ConfigMap) -> bool {
    map.namespace().as_deref() == Some(payloads::NAMESPACE) && is_kept(map)
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
            if !self.step(&payload, &step, phase).await? && phase == Phase::Updating {
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
    async fn step(&self, payload: &Payload, step: &Step, phase: Phase) -> Result<bool, Error> {
        let total = payload.manifests.len();
        let mut is_done = true;
        for part in &step.parts {
            for place in &part.places {
                let Some(manifest) = payload.manifests.get(*place) else {
                    continue;
                };
                let Some(expected) = manifest.cluster_operator() else {
                    self.once(*place, manifest).await?;
                    continue;
                };
                self.create_cluster_operator(&expected).await?;
                let actual = self.operators.get("", &expected.name_any());
                let failure = check(&expected, actual.as_deref(), phase, place + 1, total);
                if failure.is_some() {
                    is_done = false;
                    if phase == Phase::Updating {
                        break;
                    }
                }
            }
        }
        Ok(is_done)
    }

    /// Applies a manifest, unless it was applied and still exists.
    async fn once(&self, place: usize, manifest: &Manifest) -> Result<(), Error> {
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
        let (group, version) = match manifest.group() {
            "" => ("", text(manifest, "apiVersion")),
            group => (
                group,
                text(manifest, "apiVersion")
                    .rsplit('/')
                    .next()
                    .unwrap_or_default(),
            ),
        };
        let kind = match manifest.kind() {
            // The plural of other kinds is not derived from their name.
            known @ ("Namespace" | "Deployment" | "ConfigMap" | "ServiceAccount") => {
                resource(group, version, known)
            }
            other => ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, other)),
        };
        let api: Api<DynamicObject> = match manifest.namespace() {
            "" => Api::all_with(self.client.clone(), &kind),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &kind),
        };
        let params = PatchParams::apply(MANAGER).force();
        let written = api
            .patch(manifest.name(), &params, &Patch::Apply(&manifest.object))
            .await
            .map_err(Error::api(format!("apply {}", manifest.called())))?;
        if manifest.kind() == "Deployment" {
            self.deployments.saw(&written).await;
        }
        if let Some(applied) = self.applied.lock().as_mut() {
            applied.done.insert(place);
        }
        Ok(())
    }

    /// Creates the ClusterOperator before its operator does, so that its progress is visible. Only
    /// the operator itself reports its versions.
    async fn create_cluster_operator(&self, expected: &ClusterOperator) -> Result<(), Error> {
        let name = expected.name_any();
        if self.operators.get("", &name).is_some() {
            return Ok(());
        }
        let api: Api<ClusterOperator> = Api::all(self.client.clone());
        let mut object = ClusterOperator::new(&name, expected.spec.clone());
        object.metadata.annotations = Some(expected.annotations().clone());
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(Error::api(format!("create ClusterOperator {name}"))(error)),
        }
        let related = expected.status.as_ref().map(|it| &it.related_objects);
        let patch = json!({ "status": { "relatedObjects": related } });
        let written = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(Error::api(format!(
                "patch status of ClusterOperator {name}"
            )))?;
        self.operators.saw(&written).await;
        Ok(())
    }
}

fn text<'a>(manifest: &'a Manifest, field: &str) -> &'a str {
    manifest.object[field].as_str().unwrap_or_default()
}
