//! A cluster in which either CDI or Medley imports, and the parts that a kubelet and a provisioner would play.

use anyhow::Context as _;
use futures::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, WatchEvent, WatchParams};
use serde_json::{Value, json};
use testkit::{Process, by, install_peer_crds, until, until_gone};

use crate::controller;
use crate::fixture::{GenuineCluster, WAIT_TIMEOUT};

const CDI_NAMESPACE: &str = "cdi";
const CDI_LEASE: &str = "cdi-controller-leader-election-helper";
pub(crate) const NAMESPACE: &str = "images";
const CLASS: &str = "local";
/// What CDI's importer writes when it ends (`cmd/cdi-importer/importer.go`).
pub(crate) const CDI_DONE: &str =
    r#"{"scratchSpaceRequired":false,"preallocationApplied":false,"message":"Import Complete"}"#;
/// What Medley's importer writes.
pub(crate) const MEDLEY_DONE: &str = r#"{"content":"sha256:1","sniffed":["amd64"]}"#;

/// The programs are dropped before the cluster.
pub(crate) struct Story {
    medley: Option<Process>,
    cdi: Option<Process>,
    pub(crate) beside: GenuineCluster,
    starts: u32,
}

impl Story {
    /// Neither CDI nor Medley runs.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let beside = GenuineCluster::start().await?;
        install_peer_crds(&beside.cluster, "containerized-data-importer").await?;
        for name in [CDI_NAMESPACE, NAMESPACE] {
            beside
                .apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
                .await?;
        }
        // Without a CSIDriver of this name, CDI's importer writes to the PVC itself.
        beside
            .apply(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "metadata": { "name": CLASS }, "provisioner": "storage.example",
            }))
            .await?;
        beside
            .apply(
                json!({ "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDI",
                "metadata": { "name": "cdi" }, "spec": {} }),
            )
            .await?;
        beside.cluster.node("worker-1", "amd64", "worker").await?;
        Ok(Self {
            medley: None,
            cdi: None,
            beside,
            starts: 0,
        })
    }

    /// Starts CDI and stops Medley.
    pub(crate) async fn cdi_runs(&mut self) -> anyhow::Result<()> {
        self.medley = None;
        self.starts += 1;
        let folder = self.beside.served.folder();
        let folder = folder.join(format!("cdi-controller-{}", self.starts));
        self.cdi = Some(controller::start(&self.beside, &folder)?);
        let configs = self
            .beside
            .objects("cdi.kubevirt.io/v1beta1", "StorageProfile", None);
        until(&configs, CLASS, "exists", WAIT_TIMEOUT, |_| true)
            .await
            .with_context(|| self.log())?;
        Ok(())
    }

    /// Starts Medley beside CDI, which goes on.
    pub(crate) async fn medley_joins(&mut self) -> anyhow::Result<()> {
        self.medley = Some(self.beside.run_medley("images-cdi").await?);
        Ok(())
    }

    /// Starts CDI beside Medley, and returns when it leads.
    pub(crate) async fn cdi_joins(&mut self) -> anyhow::Result<()> {
        let medley = self.medley.take();
        self.cdi_runs().await?;
        self.medley = medley;
        let leases = self
            .beside
            .objects("coordination.k8s.io/v1", "Lease", Some(CDI_NAMESPACE));
        until(&leases, CDI_LEASE, "is held", WAIT_TIMEOUT, |lease| {
            let renewed = lease.data["spec"]["renewTime"].as_str();
            let renewed = renewed.and_then(|it| it.parse::<Timestamp>().ok());
            let age = renewed.map(|it| Timestamp::now().duration_since(it));
            age.is_some_and(|it| it < SignedDuration::from_secs(5))
        })
        .await
        .with_context(|| self.log())?;
        Ok(())
    }

    /// Ends CDI, whose Lease expires by itself.
    pub(crate) fn crash_cdi(&mut self) {
        self.cdi = None;
    }

    /// Starts Medley and stops CDI, whose lease is deleted: it does not release it.
    pub(crate) async fn medley_runs(&mut self) -> anyhow::Result<()> {
        self.stop_cdi().await?;
        self.medley = Some(self.beside.run_medley("images-cdi").await?);
        Ok(())
    }

    pub(crate) async fn stop_cdi(&mut self) -> anyhow::Result<()> {
        self.cdi = None;
        self.beside.delete_leases(CDI_NAMESPACE).await
    }

    pub(crate) fn stop_medley(&mut self) {
        self.medley = None;
    }

    fn log(&self) -> String {
        let cdi = self.cdi.as_ref().map(Process::output).unwrap_or_default();
        let medley = self.medley.as_ref();
        let medley = medley.map(Process::output).unwrap_or_default();
        let end = |text: &str| -> String {
            let lines: Vec<&str> = text.lines().rev().take(30).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        format!("CDI:\n{}\nMedley:\n{}", end(&cdi), end(&medley))
    }

    pub(crate) fn volumes(&self) -> Api<DynamicObject> {
        self.beside
            .objects("cdi.kubevirt.io/v1beta1", "DataVolume", Some(NAMESPACE))
    }

    pub(crate) fn claims(&self) -> Api<DynamicObject> {
        self.beside
            .objects("v1", "PersistentVolumeClaim", Some(NAMESPACE))
    }

    pub(crate) fn pods(&self) -> Api<DynamicObject> {
        self.beside.objects("v1", "Pod", Some(NAMESPACE))
    }

    /// Creates a DataVolume with this source.
    pub(crate) async fn volume(&self, name: &str, source: Value) -> anyhow::Result<DynamicObject> {
        self.beside
            .apply(json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
                "metadata": { "name": name, "namespace": NAMESPACE },
                "spec": {
                    "source": source,
                    "pvc": {
                        "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
                        "resources": { "requests": { "storage": "1Gi" } },
                    },
                },
            }))
            .await
    }

    /// Creates a DataVolume that imports an image.
    pub(crate) async fn import(&self, name: &str) -> anyhow::Result<DynamicObject> {
        let url = "docker://registry.example/fedora:1";
        self.volume(name, json!({ "registry": { "url": url } }))
            .await
    }

    pub(crate) async fn phase(&self, name: &str, phase: &str) -> anyhow::Result<DynamicObject> {
        until(&self.volumes(), name, phase, WAIT_TIMEOUT, |volume| {
            volume.data["status"]["phase"] == phase
        })
        .await
        .with_context(|| self.log())
    }

    /// Binds a PVC, in place of a provisioner and the binder.
    pub(crate) async fn bind(&self, name: &str) -> anyhow::Result<()> {
        let claims = self.claims();
        let claim = until(&claims, name, "exists", WAIT_TIMEOUT, |_| true)
            .await
            .with_context(|| self.log())?;
        self.beside
            .apply(json!({
                "apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": { "name": format!("pv-{name}") },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
                    "storageClassName": CLASS, "hostPath": { "path": "/nonexistent" },
                    "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "namespace": NAMESPACE, "name": name, "uid": claim.metadata.uid },
                },
            }))
            .await?;
        let binder = by("persistentvolume-controller");
        let spec = json!({ "spec": { "volumeName": format!("pv-{name}") } });
        claims.patch(name, &binder, &Patch::Merge(spec)).await?;
        let status = json!({ "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "1Gi" } } });
        claims
            .patch_status(name, &binder, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// The importer pod of a DataVolume.
    pub(crate) async fn importer(&self, name: &str) -> anyhow::Result<DynamicObject> {
        let name = format!("importer-{name}");
        until(&self.pods(), &name, "exists", WAIT_TIMEOUT, |_| true)
            .await
            .with_context(|| self.log())
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

    /// The importer runs, in place of a kubelet.
    pub(crate) async fn importer_runs(&self, name: &str) -> anyhow::Result<()> {
        let pod = self.importer(name).await?.name_any();
        let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
        self.pod_status(&pod, "Running", state).await?;
        self.phase(name, "ImportInProgress").await?;
        Ok(())
    }

    /// The importer ends with this termination message; the controller deletes it.
    pub(crate) async fn importer_succeeds(&self, name: &str, message: &str) -> anyhow::Result<()> {
        let pod = self.importer(name).await?.name_any();
        let state =
            json!({ "terminated": { "exitCode": 0, "reason": "Completed", "message": message } });
        self.pod_status(&pod, "Succeeded", state).await?;
        self.phase(name, "Succeeded").await?;
        until_gone(&self.pods(), &pod, WAIT_TIMEOUT)
            .await
            .with_context(|| self.log())
    }

    /// Imports a DataVolume with the running controller, from creation to the end.
    pub(crate) async fn imported(
        &self,
        name: &str,
        message: &str,
    ) -> anyhow::Result<DynamicObject> {
        let created = self.import(name).await?;
        self.bind(name).await?;
        self.importer_runs(name).await?;
        self.importer_succeeds(name, message).await?;
        Ok(created)
    }

    /// How many importer pods of a DataVolume were created since it was.
    pub(crate) async fn importers(&self, created: &DynamicObject) -> anyhow::Result<usize> {
        let name = format!("importer-{}", created.name_any());
        let events = history(&self.pods(), &name, created).await?;
        let is_new = |event: &&WatchEvent<DynamicObject>| matches!(event, WatchEvent::Added(_));
        Ok(events.iter().filter(is_new).count())
    }

    /// The phases of a DataVolume in order, without repetitions.
    pub(crate) async fn phases(&self, created: &DynamicObject) -> anyhow::Result<Vec<String>> {
        let mut phases: Vec<String> = Vec::new();
        for event in history(&self.volumes(), &created.name_any(), created).await? {
            let WatchEvent::Modified(volume) = event else {
                continue;
            };
            let phase = volume.data["status"]["phase"].as_str().unwrap_or_default();
            if phases.last().is_none_or(|last| last != phase) {
                phases.push(phase.to_owned());
            }
        }
        Ok(phases)
    }
}

/// The watch events of an object since a DataVolume was created.
async fn history(
    api: &Api<DynamicObject>,
    name: &str,
    since: &DynamicObject,
) -> anyhow::Result<Vec<WatchEvent<DynamicObject>>> {
    let version = since.resource_version().context("a resourceVersion")?;
    let params = WatchParams::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(2);
    Ok(api.watch(&params, &version).await?.try_collect().await?)
}
