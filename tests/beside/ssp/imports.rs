//! The imports of a story: by the genuine CDI, with the parts that a poller, a provisioner and a kubelet would play.

use anyhow::Context as _;
use kube::Api;
use kube::api::{DynamicObject, Patch};
use serde_json::{Value, json};
use testkit::{Process, by, until};

use crate::controller;
use crate::fixture::WAIT_TIMEOUT;
use crate::story::{IMAGES, Story};

const CDI: &str = "cdi.kubevirt.io/v1beta1";
const CDI_NAMESPACE: &str = "cdi";
/// The storage class of all templates.
pub(crate) const CLASS: &str = "local";
/// What CDI's importer writes when it ends (`cmd/cdi-importer/importer.go`).
const DONE: &str =
    r#"{"scratchSpaceRequired":false,"preallocationApplied":false,"message":"Import Complete"}"#;

impl Story {
    /// Starts CDI's controller, which runs until the process is dropped.
    pub(crate) async fn cdi(&self) -> anyhow::Result<Process> {
        for object in [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": CDI_NAMESPACE } }),
            // Without a CSIDriver of this name, CDI's importer writes to the PVC itself.
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "metadata": { "name": CLASS }, "provisioner": "storage.example",
            }),
            json!({ "apiVersion": CDI, "kind": "CDI", "metadata": { "name": "cdi" }, "spec": {} }),
        ] {
            self.beside.apply(object).await?;
        }
        let folder = self.beside.served.folder().join("cdi-controller");
        let cdi = controller::start(&self.beside, &folder)?;
        let profiles = self.beside.objects(CDI, "StorageProfile", None);
        until(&profiles, CLASS, "exists", WAIT_TIMEOUT, |_| true)
            .await
            .with_context(|| cdi.output())?;
        Ok(cdi)
    }

    pub(crate) fn volumes(&self) -> Api<DynamicObject> {
        self.beside.objects(CDI, "DataVolume", Some(IMAGES))
    }

    pub(crate) fn claims(&self) -> Api<DynamicObject> {
        self.beside
            .objects("v1", "PersistentVolumeClaim", Some(IMAGES))
    }

    pub(crate) fn pods(&self) -> Api<DynamicObject> {
        self.beside.objects("v1", "Pod", Some(IMAGES))
    }

    /// Imports the version of an image that a DataImportCron found, until its DataSource refers to it.
    pub(crate) async fn imported(&self, cron: &str, digest: &str) -> anyhow::Result<()> {
        let found = until(&self.crons(), cron, "exists", WAIT_TIMEOUT, |_| true)
            .await
            .with_context(|| self.log())?;
        let source = found.data["spec"]["managedDataSource"].as_str();
        let source = source.context("a DataImportCron has a DataSource")?;
        let patch = json!({ "metadata": { "annotations": {
            "cdi.kubevirt.io/storage.import.sourceDesiredDigest": format!("sha256:{digest}"),
            "cdi.kubevirt.io/storage.import.lastCronTime": "2026-01-01T00:00:00Z",
        } } });
        let poller = by("cdi-source-update-poller");
        self.crons()
            .patch(cron, &poller, &Patch::Merge(patch))
            .await?;
        let short = digest.get(..12).context("a digest has 64 characters")?;
        let volume = format!("{source}-{short}");
        self.bind(&volume).await?;
        self.finish(&volume).await?;
        let what = format!("refers to {volume}");
        until(&self.sources(), source, &what, WAIT_TIMEOUT, |source| {
            source.data["spec"]["source"]["pvc"]["name"] == volume.as_str() && is_ready(source)
        })
        .await?;
        Ok(())
    }

    /// Binds a PVC, in place of a provisioner.
    async fn bind(&self, name: &str) -> anyhow::Result<()> {
        let claims = self.claims();
        let claim = until(&claims, name, "exists", WAIT_TIMEOUT, |_| true)
            .await
            .with_context(|| self.log())?;
        self.beside
            .apply(json!({
                "apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": { "name": format!("pv-{name}") },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "10Gi" },
                    "storageClassName": CLASS, "hostPath": { "path": "/nonexistent" },
                    "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "namespace": IMAGES, "name": name, "uid": claim.metadata.uid },
                },
            }))
            .await?;
        until(&claims, name, "is bound", WAIT_TIMEOUT, |claim| {
            claim.data["status"]["phase"] == "Bound"
        })
        .await?;
        Ok(())
    }

    /// Lets the importer run and end, in place of a kubelet.
    async fn finish(&self, name: &str) -> anyhow::Result<()> {
        let pod = format!("importer-{name}");
        until(&self.pods(), &pod, "exists", WAIT_TIMEOUT, |_| true).await?;
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
        self.pod_status(&pod, "Running", running).await?;
        let phase = async |phase: &str| {
            until(&self.volumes(), name, phase, WAIT_TIMEOUT, |volume| {
                volume.data["status"]["phase"] == phase
            })
            .await
        };
        phase("ImportInProgress").await?;
        let ended =
            json!({ "terminated": { "exitCode": 0, "reason": "Completed", "message": DONE } });
        self.pod_status(&pod, "Succeeded", ended).await?;
        phase("Succeeded").await?;
        Ok(())
    }

    async fn pod_status(&self, pod: &str, phase: &str, state: Value) -> anyhow::Result<()> {
        let status = json!({ "status": { "phase": phase, "containerStatuses": [{
            "name": "importer", "image": "i", "imageID": "i", "restartCount": 0,
            "ready": phase == "Running", "state": state,
        }] } });
        self.pods()
            .patch_status(pod, &by("kubelet"), &Patch::Merge(status))
            .await?;
        Ok(())
    }
}

/// Whether VMs can be created from a DataSource.
pub(crate) fn is_ready(source: &DynamicObject) -> bool {
    let conditions = source.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}
