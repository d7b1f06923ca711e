//! A cluster with the CDI CRDs and simulated storage, and our operator, which imports in the process of the test.

use std::path::PathBuf;
use std::time::Duration;

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot, annotations};
use api::golden::GoldenImagePolicy;
use controllers::Job;
use controllers::images::cdi::{Folder, Imports};
use fleet::operators::{self, Installed, importer, names};
use fleet::storage;
use k8s_openapi::api::core::v1::{Event, Namespace, PersistentVolumeClaim, Secret};
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{NamespaceResourceScope, Resource};
use platform::AddressPolicy;
use runtime::Manager;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{TestCluster, by, wait_until};

use crate::library::{Library, Server};
use crate::ours::{self, Ours};

/// Upper bound of every wait.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// Speed of the simulation: snapshots take no time.
const SIMULATION_SPEED: f64 = 1000.0;
/// Namespace of golden images.
pub(crate) const NAMESPACE: &str = "kubevirt-os-images";

/// A cluster, with our operator or without.
pub(crate) struct Stage {
    pub(crate) cluster: TestCluster,
    disks: TempDir,
    /// Simulated storage and controllers.
    _others: Manager,
    ours: Ours,
}

impl Stage {
    /// Without our operator: nodes of two architectures, and storage with snapshots.
    pub(crate) async fn new() -> anyhow::Result<Self> {
        Self::with(Installed {
            cdi: true,
            ..Installed::default()
        })
        .await
    }

    /// Like [`Self::new`], with these upstream operators.
    pub(crate) async fn with(installed: Installed) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        operators::install(&client, &installed).await?;
        controllers::install(&client, ours::NAMESPACE).await?;
        let others = Manager::new(client.clone());
        let options = storage::Options {
            client: client.clone(),
            speed: SIMULATION_SPEED,
            classes: true,
        };
        storage::start(&others, options).await?;
        operators::start(&others, client.clone(), SIMULATION_SPEED).await;
        if !cluster.has_controllers() {
            controlplane::storage::start(&others).await;
            controlplane::collection::start(&others).await;
        }
        let stage = Self {
            cluster,
            disks: tempfile::tempdir()?,
            _others: others,
            ours: Ours::default(),
        };
        // Upstream operators may have created it.
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        });
        let namespaces: Api<Namespace> = Api::all(stage.cluster.client());
        let apply = PatchParams::apply("admin");
        namespaces
            .patch(NAMESPACE, &apply, &Patch::Apply(namespace))
            .await?;
        for architecture in ["amd64", "arm64"] {
            stage.node(architecture).await?;
        }
        // Failures are retried at once, to keep tests short.
        let policy = json!({ "retry": { "initialDelay": "1s", "maxDelay": "2s" } });
        stage.policy(policy).await?;
        wait_until("storage has a profile", WAIT_TIMEOUT, async || {
            let profiles: Api<DynamicObject> =
                Api::all_with(stage.cluster.client(), &importer("StorageProfile"));
            let found = profiles.get_opt("fast").await?;
            Ok(found.filter(|it| it.data.pointer("/status/storageClass").is_some()))
        })
        .await?;
        Ok(stage)
    }

    /// With our operator, and these insecure registries.
    pub(crate) async fn importing(registries: &[String]) -> anyhow::Result<Self> {
        let stage = Self::new().await?;
        stage.trust(registries).await?;
        stage.operator().await?;
        Ok(stage)
    }

    /// With a registry that has the first version of an image under a tag, and misbehaves on demand.
    pub(crate) async fn serving(tag: &str) -> anyhow::Result<(Library, Server, Self)> {
        let library = Library::published(tag)?;
        let server = library.serve().await?;
        let stage = Self::importing(&[server.host()]).await?;
        Ok((library, server, stage))
    }

    /// Starts our operator with the RBAC that is shipped, after stopping the previous one.
    pub(crate) async fn operator(&self) -> anyhow::Result<()> {
        self.operator_with(self.here()).await
    }

    /// Imports in the process of the test.
    pub(crate) fn here(&self) -> Imports {
        Imports::InProcess(Folder {
            // Disks of tests are small.
            checkpoint_every: 256 << 10,
            ..Folder::new(self.disks.path().to_owned())
        })
    }

    pub(crate) async fn operator_with(&self, imports: Imports) -> anyhow::Result<()> {
        self.work(&[Job::ImagesCdi], imports).await
    }

    /// Starts these jobs with the RBAC that is shipped for them.
    pub(crate) async fn work(&self, jobs: &[Job], imports: Imports) -> anyhow::Result<()> {
        self.ours.work(&self.cluster, jobs, Some(imports)).await
    }

    /// Like [`Self::work`], with these addresses allowed.
    pub(crate) async fn work_at(
        &self,
        jobs: &[Job],
        imports: Imports,
        addresses: AddressPolicy,
    ) -> anyhow::Result<()> {
        self.ours
            .work_at(&self.cluster, jobs, Some(imports), addresses)
            .await
    }

    /// Stops our operator.
    pub(crate) async fn stop(&self) {
        self.ours.stop().await;
    }

    /// Metrics of our operator.
    pub(crate) fn metrics(&self) -> String {
        self.ours.metrics()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), NAMESPACE)
    }

    pub(crate) async fn node(&self, architecture: &str) -> anyhow::Result<()> {
        self.node_called(&format!("node-{architecture}"), architecture)
            .await
    }

    pub(crate) async fn node_called(&self, name: &str, architecture: &str) -> anyhow::Result<()> {
        self.cluster.node(name, architecture, "worker").await
    }

    /// Creates or replaces the GoldenImagePolicy.
    pub(crate) async fn policy(&self, spec: Value) -> anyhow::Result<()> {
        let policies: Api<GoldenImagePolicy> = Api::all(self.cluster.client());
        let object = json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": "GoldenImagePolicy",
            "metadata": { "name": "default" }, "spec": spec,
        });
        let params = PatchParams::apply("admin").force();
        policies
            .patch("default", &params, &Patch::Apply(&object))
            .await?;
        Ok(())
    }

    /// Sets the insecure registries of CDI.
    pub(crate) async fn trust(&self, registries: &[String]) -> anyhow::Result<()> {
        let client = self.cluster.client();
        let importers: Api<DynamicObject> = Api::all_with(client.clone(), &importer("CDI"));
        let patch = json!({ "spec": { "config": { "insecureRegistries": registries } } });
        importers
            .patch(names::IMPORTER, &by("admin"), &Patch::Merge(&patch))
            .await?;
        let configs: Api<DynamicObject> = Api::all_with(client, &importer("CDIConfig"));
        wait_until("importers know the registries", WAIT_TIMEOUT, async || {
            let config = configs.get(names::IMPORTER_CONFIG).await?;
            let found = config.data.pointer("/spec/insecureRegistries");
            Ok((found == Some(&json!(registries))).then_some(()))
        })
        .await
    }

    /// Keeps imports as volumes instead of snapshots.
    pub(crate) async fn keep_volumes(&self) -> anyhow::Result<()> {
        let client = self.cluster.client();
        let profiles: Api<DynamicObject> = Api::all_with(client, &importer("StorageProfile"));
        let patch = json!({ "spec": { "dataImportCronSourceFormat": "pvc" } });
        profiles
            .patch("fast", &by("admin"), &Patch::Merge(&patch))
            .await?;
        wait_until("imports are kept as volumes", WAIT_TIMEOUT, async || {
            let found = profiles.get("fast").await?;
            let format = found.data.pointer("/status/dataImportCronSourceFormat");
            Ok((format == Some(&json!("pvc"))).then_some(()))
        })
        .await
    }

    /// Creates the DataImportCron of an architecture, with SSP's names and labels.
    pub(crate) async fn cron(
        &self,
        image: &str,
        architecture: &str,
        url: &str,
    ) -> anyhow::Result<DataImportCron> {
        self.cron_with(image, architecture, url, &json!({})).await
    }

    /// Like [`Self::cron`], with a merge patch applied.
    pub(crate) async fn cron_with(
        &self,
        image: &str,
        architecture: &str,
        url: &str,
        patch: &Value,
    ) -> anyhow::Result<DataImportCron> {
        let mut object = json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
            "metadata": {
                "name": format!("{image}-image-cron-{architecture}"),
                "labels": {
                    "template.kubevirt.io/architecture": architecture,
                    "cdi.kubevirt.io/storage.import.datasource-name": image,
                },
            },
            "spec": {
                "schedule": "0 */12 * * *",
                "garbageCollect": "Outdated",
                "importsToKeep": 1,
                "retentionPolicy": "None",
                "managedDataSource": format!("{image}-{architecture}"),
                "template": { "spec": {
                    "source": { "registry": {
                        "url": url, "platform": { "architecture": architecture },
                    } },
                    "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                } },
            },
        });
        machinery::patch::merge_patch(&mut object, patch)?;
        let object = serde_json::from_value(object)?;
        let crons: Api<DataImportCron> = self.api();
        Ok(crons.create(&PostParams::default(), &object).await?)
    }

    /// Creates a DataSource that points to another.
    pub(crate) async fn pointer(&self, name: &str, to: &str) -> anyhow::Result<()> {
        let pointer = serde_json::from_value(json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
            "metadata": { "name": name },
            "spec": { "source": { "dataSource": { "name": to, "namespace": NAMESPACE } } },
        }))?;
        let sources: Api<DataSource> = self.api();
        sources.create(&PostParams::default(), &pointer).await?;
        Ok(())
    }

    /// Forces a poll.
    pub(crate) async fn refresh(&self, cron: &str) -> anyhow::Result<()> {
        let patch = json!({ "metadata": { "annotations": { annotations::LAST_CRON_TIME: null } } });
        let crons: Api<DataImportCron> = self.api();
        crons
            .patch(cron, &by("admin"), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// Waits until an object fulfils the condition; the error shows its last state.
    pub(crate) async fn until<K>(
        &self,
        what: &str,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let holds = |it: &K| holds(&json!(it));
        let found = testkit::until(&self.api::<K>(), name, what, WAIT_TIMEOUT, holds).await?;
        Ok(json!(found))
    }

    /// Waits until an object is deleted.
    pub(crate) async fn until_gone<K>(&self, name: &str) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        testkit::until_gone(&self.api::<K>(), name, WAIT_TIMEOUT).await
    }

    /// Waits until a DataImportCron has imported a version, and its DataSource resolves to it.
    pub(crate) async fn imported(
        &self,
        image: &str,
        architecture: &str,
        digest: &str,
    ) -> anyhow::Result<Value> {
        let cron = format!("{image}-image-cron-{architecture}");
        let found = self
            .until::<DataImportCron>("up to date", &cron, |it| {
                condition(it, "UpToDate").0 == "True"
                    && it["status"]["currentImports"][0]["Digest"] == digest
            })
            .await?;
        let name = volume(image, architecture, digest);
        self.until::<DataSource>("ready", &format!("{image}-{architecture}"), |it| {
            let source = &it["status"]["source"];
            let found = source["snapshot"]["name"].as_str();
            condition(it, "Ready").0 == "True"
                && found.or_else(|| source["pvc"]["name"].as_str()) == Some(&name)
        })
        .await?;
        Ok(found)
    }

    /// Waits until a DataImportCron reports this reason for being outdated.
    pub(crate) async fn fails(&self, cron: &str, reason: &str) -> anyhow::Result<Value> {
        self.until::<DataImportCron>(reason, cron, |it| {
            let (status, actual, _) = condition(it, "UpToDate");
            status == "False" && actual == reason
        })
        .await
    }

    /// Like [`Self::fails`], with the time of the next attempt.
    pub(crate) async fn fails_for_now(&self, cron: &str, reason: &str) -> anyhow::Result<Value> {
        let what = format!("{reason}, for now");
        self.until::<DataImportCron>(&what, cron, |it| {
            let (status, actual, message) = condition(it, "UpToDate");
            status == "False" && actual == reason && message.contains("; next try at ")
        })
        .await
    }

    /// Path of a volume's disk.
    pub(crate) fn disk(&self, name: &str) -> PathBuf {
        self.disks
            .path()
            .join(NAMESPACE)
            .join(name)
            .join("disk.img")
    }

    /// Reasons and messages of the events about an object.
    pub(crate) async fn events(&self, about: &str) -> anyhow::Result<Vec<(String, String)>> {
        let events: Api<Event> = self.api();
        let list = events.list(&ListParams::default()).await?.items;
        let about = list
            .into_iter()
            .filter(|it| it.involved_object.name.as_deref() == Some(about));
        Ok(about
            .map(|it| {
                (
                    it.reason.unwrap_or_default(),
                    it.message.unwrap_or_default(),
                )
            })
            .collect())
    }

    pub(crate) async fn secret(&self, name: &str, data: Value) -> anyhow::Result<()> {
        let secret = serde_json::from_value(json!({
            "metadata": { "name": name }, "stringData": data,
        }))?;
        let secrets: Api<Secret> = self.api();
        secrets.create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    /// Names of the existing imports: volumes and snapshots.
    pub(crate) async fn imports(&self) -> anyhow::Result<Vec<String>> {
        let all = ListParams::default();
        let claims: Api<PersistentVolumeClaim> = self.api();
        let snapshots: Api<VolumeSnapshot> = self.api();
        let volumes: Api<DataVolume> = self.api();
        let mut found: Vec<Option<String>> = Vec::new();
        let listed = claims.list(&all).await?;
        found.extend(listed.items.into_iter().map(|it| it.metadata.name));
        let listed = snapshots.list(&all).await?;
        found.extend(listed.items.into_iter().map(|it| it.metadata.name));
        let listed = volumes.list(&all).await?;
        found.extend(listed.items.into_iter().map(|it| it.metadata.name));
        let mut found: Vec<String> = found.into_iter().flatten().collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// Name of the volume of a version.
pub(crate) fn volume(image: &str, architecture: &str, digest: &str) -> String {
    golden_images::names::volume(&format!("{image}-{architecture}"), digest).unwrap()
}

/// Status, reason and message of a condition.
pub(crate) fn condition(object: &Value, kind: &str) -> (String, String, String) {
    let all = object["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|it| it["type"] == kind);
    let text = |name: &str| {
        let text = found.and_then(|it| it[name].as_str());
        text.unwrap_or_default().to_owned()
    };
    (text("status"), text("reason"), text("message"))
}
