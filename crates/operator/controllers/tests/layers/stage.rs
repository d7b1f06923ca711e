//! A cluster with nodes, a HyperConverged, the upstream CRDs, and some of our layers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::cdi::{DataImportCron, DataSource, Named, labels};
use api::golden::GoldenImagePolicy;
use api::hco::{MACHINES_KEY, SSP_NAME, TEMPLATES, TEMPLATES_KEY};
use api::ssp::{ARCHITECTURES, SSP};
use controllers::Job;
use fleet::operators::{self, HyperConvergedVersion, Installed, hyperconverged, names};
use fleet::storage;
use golden_images::conditions;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{TestCluster, until, wait_until};

use crate::importer;
use crate::ours::{NAMESPACE, Ours};

/// Upper bound of every wait.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
/// Namespace of golden images.
pub(crate) const HOME: &str = "kubevirt-os-images";
/// Speed of the simulation: storage takes no time.
const SIMULATION_SPEED: f64 = 1000.0;

/// The layers from HyperConverged to DataImportCrons.
pub(crate) const IMAGES: [Job; 2] = [Job::ImagesHco, Job::ImagesSsp];

/// The crons of an image for two architectures.
pub(crate) const BOTH: [&str; 2] = ["fedora-image-cron-amd64", "fedora-image-cron-arm64"];

/// A cluster.
pub(crate) struct Stage {
    pub(crate) cluster: TestCluster,
    others: Manager,
    ours: Ours,
}

impl Stage {
    /// Nodes of these architectures, the first a control plane, the others for virtual machines; and these layers.
    pub(crate) async fn new(nodes: &[&str], jobs: &[Job]) -> anyhow::Result<Arc<Self>> {
        let stage = Self::on(TestCluster::start().await?, nodes).await?;
        stage.work(jobs).await?;
        Ok(stage)
    }

    /// Nodes of two architectures, and a ready image for both.
    pub(crate) async fn mixed() -> anyhow::Result<Arc<Self>> {
        let stage = Self::new(&["amd64", "amd64", "arm64"], &IMAGES).await?;
        let fedora = template("fedora", Some("amd64,arm64"));
        stage.ask_for(&[fedora]).await?;
        stage.has_crons(&BOTH).await?;
        for cron in BOTH {
            stage.import(cron).await?;
        }
        stage.points_to("fedora", "fedora-amd64").await?;
        Ok(stage)
    }

    /// Nodes of these architectures in a given cluster, without our layers.
    pub(crate) async fn on(cluster: TestCluster, nodes: &[&str]) -> anyhow::Result<Arc<Self>> {
        let client = cluster.client();
        let installed = Installed {
            hyperconverged: Some(HyperConvergedVersion::V1),
            cdi: true,
            ssp: true,
            templates: true,
            virtual_machines: true,
            ..Installed::default()
        };
        operators::install(&client, &installed).await?;
        controllers::install(&client, NAMESPACE).await?;
        let others = Manager::new(client.clone());
        let options = storage::Options {
            client,
            speed: SIMULATION_SPEED,
            classes: false,
        };
        storage::start(&others, options).await?;
        importer::start(&others).await;
        let stage = Self {
            cluster,
            others,
            ours: Ours::default(),
        };
        for (number, architecture) in nodes.iter().enumerate() {
            let role = if number == 0 {
                "control-plane"
            } else {
                "worker"
            };
            stage
                .node(&format!("node-{number}"), architecture, role)
                .await?;
        }
        Ok(Arc::new(stage))
    }

    /// Starts these layers with the RBAC that is shipped for them, after stopping the previous ones.
    pub(crate) async fn work(&self, jobs: &[Job]) -> anyhow::Result<()> {
        self.ours.work(&self.cluster, jobs, None).await
    }

    /// Stops our layers.
    pub(crate) async fn stop(&self) {
        self.ours.stop().await;
    }

    /// Ends the test: no request was forbidden.
    pub(crate) async fn end(&self) {
        self.stop().await;
        self.others.stop().await;
    }

    /// Metrics of our layers.
    pub(crate) fn metrics(&self) -> String {
        self.ours.metrics()
    }

    pub(crate) async fn node(&self, name: &str, arch: &str, role: &str) -> anyhow::Result<()> {
        self.cluster.node(name, arch, role).await
    }

    pub(crate) async fn remove_node(&self, name: &str) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.cluster.client());
        nodes.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) fn hyperconvergeds(&self) -> Api<DynamicObject> {
        let kind = hyperconverged(HyperConvergedVersion::V1);
        let home = names::VIRTUALIZATION_NAMESPACE;
        Api::namespaced_with(self.cluster.client(), home, &kind)
    }

    /// Patches the boot image settings of the HyperConverged.
    pub(crate) async fn ask(&self, sources: Value) -> anyhow::Result<()> {
        let patch = json!({ "spec": { "workloadSources": sources } });
        self.hyperconvergeds()
            .patch(
                names::HYPERCONVERGED,
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await?;
        Ok(())
    }

    /// Requests images of these templates, for every architecture.
    pub(crate) async fn ask_for(&self, templates: &[Value]) -> anyhow::Result<()> {
        self.ask(json!({
            "enableMultiArchBootImageImport": true,
            "dataImportCronTemplates": templates,
        }))
        .await
    }

    /// The status of the HyperConverged.
    pub(crate) async fn seen(&self) -> anyhow::Result<Value> {
        let found = self.hyperconvergeds().get(names::HYPERCONVERGED).await?;
        Ok(found.data.get("status").cloned().unwrap_or_default())
    }

    /// Sets the built-in templates, of images and of virtual machines.
    pub(crate) async fn build_in(
        &self,
        images: &[Value],
        machines: &[Value],
    ) -> anyhow::Result<()> {
        let home = names::VIRTUALIZATION_NAMESPACE;
        let maps: Api<ConfigMap> = Api::namespaced(self.cluster.client(), home);
        // JSON is valid YAML.
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": TEMPLATES },
            "data": {
                TEMPLATES_KEY: json!(images).to_string(),
                MACHINES_KEY: json!(machines).to_string(),
            },
        });
        maps.patch(
            TEMPLATES,
            &PatchParams::apply("test").force(),
            &Patch::Apply(map),
        )
        .await?;
        Ok(())
    }

    pub(crate) fn ssps(&self) -> Api<SSP> {
        Api::namespaced(self.cluster.client(), names::VIRTUALIZATION_NAMESPACE)
    }

    /// Waits until the SSP fulfils the condition.
    pub(crate) async fn ssp(
        &self,
        what: &str,
        holds: impl Fn(&SSP) -> bool,
    ) -> anyhow::Result<SSP> {
        until(&self.ssps(), SSP_NAME, what, WAIT_TIMEOUT, holds).await
    }

    pub(crate) fn crons(&self) -> Api<DataImportCron> {
        Api::namespaced(self.cluster.client(), HOME)
    }

    pub(crate) fn sources(&self) -> Api<DataSource> {
        Api::namespaced(self.cluster.client(), HOME)
    }

    pub(crate) fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.cluster.client(), HOME)
    }

    /// Waits until exactly these DataImportCrons exist.
    pub(crate) async fn has_crons(&self, names: &[&str]) -> anyhow::Result<()> {
        has(&self.crons(), names).await
    }

    /// Waits until exactly these DataSources exist.
    pub(crate) async fn has_sources(&self, names: &[&str]) -> anyhow::Result<()> {
        has(&self.sources(), names).await
    }

    /// Waits until a DataSource fulfils the condition.
    pub(crate) async fn source(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&DataSource) -> bool,
    ) -> anyhow::Result<DataSource> {
        until(&self.sources(), name, what, WAIT_TIMEOUT, holds).await
    }

    /// Waits until a DataSource points to another and is ready.
    pub(crate) async fn points_to(&self, name: &str, to: &str) -> anyhow::Result<DataSource> {
        let what = format!("points to {to} and can be used");
        self.source(name, &what, |it| {
            is_ready(it) && it.spec.source.data_source.as_ref() == Some(&here(to))
        })
        .await
    }

    /// Waits until a DataSource resolves to a volume.
    pub(crate) async fn stands_for(&self, name: &str, volume: &str) -> anyhow::Result<DataSource> {
        let what = format!("stands for {volume}");
        self.source(name, &what, |it| {
            let status = it.status.as_ref();
            let found = status.and_then(|status| status.source.pvc.as_ref());
            found == Some(&here(volume))
        })
        .await
    }

    /// Completes an import of a DataImportCron, and waits for it and its DataSource. Returns the name of the volume.
    pub(crate) async fn import(&self, cron: &str) -> anyhow::Result<String> {
        wait_until(
            &format!("DataImportCron {cron}"),
            WAIT_TIMEOUT,
            async || {
                let Some(found) = self.crons().get_opt(cron).await? else {
                    return Ok(None);
                };
                let source = &found.spec.managed_data_source;
                Ok(self.sources().get_opt(source).await?.map(drop))
            },
        )
        .await?;
        importer::import(&self.cluster.client(), cron).await
    }

    pub(crate) fn policies(&self) -> Api<GoldenImagePolicy> {
        Api::all(self.cluster.client())
    }

    /// Creates or replaces the GoldenImagePolicy.
    pub(crate) async fn policy(&self, spec: Value) -> anyhow::Result<()> {
        let policy = json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": "GoldenImagePolicy",
            "metadata": { "name": "default" }, "spec": spec,
        });
        let params = PatchParams::apply("admin").force();
        self.policies()
            .patch("default", &params, &Patch::Apply(policy))
            .await?;
        Ok(())
    }
}

/// Waits until exactly the objects of these names exist.
pub(crate) async fn has<K>(api: &Api<K>, names: &[&str]) -> anyhow::Result<()>
where
    K: runtime::Kind,
{
    let last = Mutex::new(Vec::new());
    let what = format!("{} {names:?}", api.resource_url());
    let found = wait_until(&what, WAIT_TIMEOUT, async || {
        let all = api.list(&ListParams::default()).await?;
        let mut all: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
        all.sort();
        let same = all == names;
        *last.lock() = all;
        Ok(same.then_some(()))
    })
    .await;
    found.with_context(|| format!("there are {:?}", last.lock()))
}

/// A template of an image, with architectures or without.
pub(crate) fn template(name: &str, architectures: Option<&str>) -> Value {
    let mut template = json!({
        "metadata": { "name": format!("{name}-image-cron"), "annotations": {} },
        "spec": {
            "garbageCollect": "Outdated", "importsToKeep": 1, "retentionPolicy": "None",
            "managedDataSource": name, "schedule": "0 */12 * * *",
            "template": { "spec": {
                "source": { "registry": { "url": format!("docker://quay.io/containerdisks/{name}:9") } },
                "storage": { "resources": { "requests": { "storage": "10Gi" } } },
            } },
        },
    });
    if let Some(list) = architectures {
        template["metadata"]["annotations"][ARCHITECTURES] = json!(list);
    }
    template
}

pub(crate) fn claim(name: &str, labels: &Value) -> anyhow::Result<PersistentVolumeClaim> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": HOME, "labels": labels },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
            // Not provisioned: no storage fills it.
            "storageClassName": "",
        },
    }))?)
}

/// A name in the namespace of golden images.
pub(crate) fn here(name: &str) -> Named {
    Named {
        namespace: HOME.to_owned(),
        name: name.to_owned(),
    }
}

/// Whether a DataSource is ready.
pub(crate) fn is_ready(source: &DataSource) -> bool {
    let status = source.status.as_ref();
    let ready = status.and_then(|status| conditions::get(&status.conditions, "Ready"));
    ready.is_some_and(|ready| ready.status == "True")
}

/// The architecture label of an object.
pub(crate) fn architecture(meta: &kube::api::ObjectMeta) -> Option<&str> {
    golden_images::action::label(meta, labels::ARCHITECTURE)
}
