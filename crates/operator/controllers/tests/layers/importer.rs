//! Stand-in for CDI: imports on demand, marks DataSources as ready, and deletes the objects of deleted DataImportCrons.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::cdi::{DataImportCron, DataSource, Named, Source, labels};
use fleet::storage::snapshots::VolumeSnapshot;
use golden_images::action::{label, name_of};
use golden_images::cdi::data_source::{DataSourceInputs, decide};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use runtime::{Absent as _, Cache, Error, Manager, Next, Queue, Reconcile};
use serde_json::{Value, json};

use crate::stage::{HOME, claim};

type Labels = BTreeMap<String, String>;

/// Reconciles all objects when any changes.
struct Importer {
    client: Client,
    crons: Cache<DataImportCron>,
    sources: Cache<DataSource>,
    claims: Cache<PersistentVolumeClaim>,
    snapshots: Cache<VolumeSnapshot>,
}

/// Starts the stand-in; it stops with the manager.
pub(crate) async fn start(manager: &Manager) {
    let importer = Importer {
        client: manager.client(),
        crons: manager.cache(),
        sources: manager.cache(),
        claims: manager.cache(),
        snapshots: manager.cache(),
    };
    importer.crons.synced().await;
    importer.sources.synced().await;
    importer.claims.synced().await;
    importer.snapshots.synced().await;
    let queue: Queue<&'static str> = Queue::new();
    enqueue_on_change(&importer.crons, &queue);
    enqueue_on_change(&importer.sources, &queue);
    enqueue_on_change(&importer.claims, &queue);
    enqueue_on_change(&importer.snapshots, &queue);
    manager.start(importer, &queue, 1);
}

fn enqueue_on_change<K: runtime::Kind>(cache: &Cache<K>, queue: &Queue<&'static str>) {
    let to = queue.clone();
    cache.on_change(move |_| to.add("everything"));
}

impl Reconcile<&'static str> for Importer {
    fn name(&self) -> &'static str {
        "importer"
    }

    async fn reconcile(&self, _: &&'static str) -> Result<Next, Error> {
        let crons: BTreeSet<Named> = names(&self.crons);
        for claim in self.claims.list() {
            if is_left_over(&crons, &claim.metadata) {
                self.delete::<PersistentVolumeClaim>(&claim.metadata)
                    .await?;
            }
        }
        let (mut sources, mut ours) = (BTreeMap::new(), Vec::new());
        for source in self.sources.list() {
            if is_left_over(&crons, &source.metadata) {
                self.delete::<DataSource>(&source.metadata).await?;
            } else if source.metadata.deletion_timestamp.is_none() {
                ours.push(Arc::clone(&source));
                sources.insert(name_of(&source.metadata), source);
            }
        }
        let (claims, snapshots) = (labels_of(&self.claims), labels_of(&self.snapshots));
        for source in ours {
            let decision = decide(&DataSourceInputs {
                source: &source,
                sources: &|name| sources.get(name).map(|it| &**it),
                claims: &|name| claims.get(name),
                imports: &|_| None,
                snapshots: &|name| snapshots.get(name).map(|found| (found, true)),
                now: Timestamp::now(),
            });
            if let Some(patch) = &decision.labels {
                self.patch(&source.metadata, &Patch::Merge(patch)).await?;
            }
            if decision.status_changed {
                let patch = json!([{ "op": "add", "path": "/status", "value": decision.status }]);
                let patch = serde_json::from_value(patch)
                    .map_err(|error| Error::Invalid(error.to_string()))?;
                self.patch::<()>(&source.metadata, &Patch::Json(patch))
                    .await?;
            }
        }
        Ok(Next::Wait)
    }
}

impl Importer {
    async fn patch<P: serde::Serialize + std::fmt::Debug>(
        &self,
        of: &ObjectMeta,
        patch: &Patch<P>,
    ) -> Result<(), Error> {
        let name = name_of(of);
        let api: Api<DataSource> = Api::namespaced(self.client.clone(), &name.namespace);
        let written = api.patch(&name.name, &PatchParams::default(), patch).await;
        let written = written
            .not_found_as_none()
            .map_err(Error::api("patching a DataSource"))?;
        if let Some(written) = written {
            self.sources.saw(&written).await;
        }
        Ok(())
    }

    async fn delete<K>(&self, of: &ObjectMeta) -> Result<(), Error>
    where
        K: runtime::Kind<DynamicType = ()> + Resource<Scope = NamespaceResourceScope>,
    {
        let name = name_of(of);
        let api: Api<K> = Api::namespaced(self.client.clone(), &name.namespace);
        api.delete(&name.name, &DeleteParams::default())
            .await
            .not_found_as_none()
            .map_err(Error::api("deleting what was imported"))?;
        Ok(())
    }
}

/// Whether an object belongs to a deleted DataImportCron.
fn is_left_over(crons: &BTreeSet<Named>, meta: &ObjectMeta) -> bool {
    let home = meta.namespace.clone().unwrap_or_default();
    let cron = label(meta, labels::DATA_IMPORT_CRON);
    label(meta, labels::CLEANUP) == Some("true")
        && meta.deletion_timestamp.is_none()
        && cron.is_some_and(|cron| {
            let cron = Named {
                namespace: home,
                name: cron.to_owned(),
            };
            !crons.contains(&cron)
        })
}

fn names<K: runtime::Kind>(cache: &Cache<K>) -> BTreeSet<Named> {
    cache.list().iter().map(|it| name_of(it.meta())).collect()
}

fn labels_of<K: runtime::Kind>(cache: &Cache<K>) -> BTreeMap<Named, Labels> {
    let objects = cache.list().into_iter();
    objects
        .filter(|it| it.meta().deletion_timestamp.is_none())
        .map(|it| {
            let meta = it.meta();
            (name_of(meta), meta.labels.clone().unwrap_or_default())
        })
        .collect()
}

/// Completes an import of a DataImportCron as CDI does; returns the name of the volume.
pub(crate) async fn import(client: &Client, cron: &str) -> anyhow::Result<String> {
    let crons: Api<DataImportCron> = Api::namespaced(client.clone(), HOME);
    let sources: Api<DataSource> = Api::namespaced(client.clone(), HOME);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), HOME);
    let found = crons.get(cron).await?;
    let source = &found.spec.managed_data_source;
    // A terminating volume still has its name.
    let digest: String = found.uid().unwrap_or_default().chars().take(8).collect();
    let volume = format!("{source}-{digest}");
    let mut own = json!({ labels::DATA_IMPORT_CRON: cron });
    if found.spec.cleans_up() {
        own[labels::CLEANUP] = json!("true");
    }
    if let Some(architecture) = label(&found.metadata, labels::ARCHITECTURE) {
        own[labels::ARCHITECTURE] = json!(architecture);
    }
    claims
        .create(&PostParams::default(), &claim(&volume, &own)?)
        .await?;
    let live = sources.get(source).await?;
    if label(&live.metadata, labels::DATA_IMPORT_CRON) == Some(cron) {
        let mut to: Value = json!({ "pvc": null, "snapshot": null, "dataSource": null });
        to["pvc"] = json!(Source::of_pvc(HOME, &volume).pvc);
        let patch = json!({ "metadata": { "labels": own }, "spec": { "source": to } });
        sources
            .patch(source, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    Ok(volume)
}
