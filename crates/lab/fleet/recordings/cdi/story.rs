//! The story of CDI's controller without imports: profiles of storage classes, and the configuration of all imports.
//!
//! Played beside the genuine controller (`tests/beside_cdi.rs`) and its stand-in (`tests/recordings.rs` here).

use std::time::Duration;

use anyhow::Context as _;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::recording::{Recorder, Subject};
use testkit::{by, until, until_gone};

/// What the genuine controller wrote.
pub(crate) const RECORDING: &str = "cdi/controller.json";
/// Field manager of all writes of the story.
pub(crate) const MANAGER: &str = "administrator";
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// Provisioner that no CDI knows.
const UNKNOWN: &str = "storage.example";
/// Without it, CDI's controller does not copy the configuration; its operator sets it.
const AUTHORITY: &str = "cdi.kubevirt.io/configAuthority";

pub(crate) fn subject(known: &str) -> Subject {
    Subject::new(["StorageProfile", "CDIConfig", "CDI"].map(cdi))
        .played_by(&[MANAGER])
        .replacing(known, "<known provisioner>")
}

pub(crate) struct Story {
    client: Client,
    recorder: Recorder,
    known: &'static str,
}

impl Story {
    /// To be called before the controller starts, when its CRDs and those of snapshots are served. `known` is a
    /// provisioner of shared volumes that it knows.
    pub(crate) async fn prepare(client: Client, known: &'static str) -> anyhow::Result<Self> {
        let recorder = Recorder::start(client.clone(), subject(known));
        let story = Self {
            client,
            recorder,
            known,
        };
        story.class("local", UNKNOWN, json!({})).await?;
        Ok(story)
    }

    /// Plays the story.
    pub(crate) async fn play(self) -> anyhow::Result<Recorder> {
        let authority = json!({ "metadata": { "annotations": { AUTHORITY: "" } } });
        let objects = self.objects(&cdi("CDI"));
        objects
            .patch("cdi", &by(MANAGER), &Patch::Merge(authority))
            .await?;
        self.overhead("0.06").await?;
        self.profile("local", "has a status", |status| {
            status["storageClass"] == "local"
        })
        .await?;
        self.recorder.step("started").await?;

        self.class("shared", self.known, json!({})).await?;
        let default = json!({ "storageclass.kubernetes.io/is-default-class": "true" });
        self.class("default", UNKNOWN, default).await?;
        for name in ["shared", "default"] {
            self.profile(name, "has a status", |status| {
                status["storageClass"] == name
            })
            .await?;
        }
        self.recorder.step("classes without snapshots").await?;

        self.snapshot_class("snapshots", self.known).await?;
        self.snapshot_class("others", UNKNOWN).await?;
        self.profile("shared", "has a snapshot class", |status| {
            status["snapshotClass"] == "snapshots"
        })
        .await?;
        self.profile("local", "has a snapshot class", |status| {
            status["snapshotClass"] == "others"
        })
        .await?;
        self.recorder.step("snapshot classes").await?;

        let sets = json!([{ "accessModes": ["ReadWriteOnce"], "volumeMode": "Block" }]);
        let spec = json!({
            "claimPropertySets": sets, "cloneStrategy": "copy", "dataImportCronSourceFormat": "pvc",
        });
        for name in ["shared", "local"] {
            self.advise(name, &spec).await?;
            self.profile(name, "is as advised", |status| {
                status["claimPropertySets"] == sets && status["cloneStrategy"] == "copy"
            })
            .await?;
        }
        self.recorder.step("profiles with a spec").await?;

        let none = json!({
            "claimPropertySets": null, "cloneStrategy": null, "dataImportCronSourceFormat": null,
        });
        for name in ["shared", "local"] {
            self.advise(name, &none).await?;
            self.profile(name, "is as before", |status| {
                status["cloneStrategy"] != "copy"
            })
            .await?;
        }
        self.recorder.step("profiles without a spec again").await?;

        self.configure(json!({
            "insecureRegistries": ["registry.example:5000"], "scratchSpaceStorageClass": "local",
            "filesystemOverhead": { "global": "0.1", "storageClass": { "shared": "0.2" } },
        }))
        .await?;
        self.overhead("0.1").await?;
        self.recorder.step("configured").await?;

        self.configure(json!(null)).await?;
        self.overhead("0.06").await?;
        self.recorder.step("configured no more").await?;

        let classes = self.objects(&storage("StorageClass"));
        classes.delete("local", &DeleteParams::default()).await?;
        let profiles = self.objects(&cdi("StorageProfile"));
        until_gone(&profiles, "local", WAIT_TIMEOUT).await?;
        self.recorder.step("class deleted").await?;

        profiles.delete("default", &DeleteParams::default()).await?;
        self.profile("default", "has a status", |status| {
            status["storageClass"] == "default"
        })
        .await?;
        self.recorder.step("profile deleted").await?;
        Ok(self.recorder)
    }

    fn objects(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), resource)
    }

    async fn apply(&self, resource: &ApiResource, mut object: Value) -> anyhow::Result<()> {
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(resource.kind);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let objects = self.objects(resource);
        objects
            .patch(name, &by(MANAGER), &Patch::Apply(&object))
            .await
            .with_context(|| format!("applying {} {name}", resource.kind))?;
        Ok(())
    }

    async fn class(&self, name: &str, provisioner: &str, annotations: Value) -> anyhow::Result<()> {
        let metadata = json!({ "name": name, "annotations": annotations });
        let class = json!({ "metadata": metadata, "provisioner": provisioner });
        self.apply(&storage("StorageClass"), class).await
    }

    async fn snapshot_class(&self, name: &str, driver: &str) -> anyhow::Result<()> {
        let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass");
        let class = json!({
            "metadata": { "name": name }, "driver": driver, "deletionPolicy": "Delete",
        });
        let resource = ApiResource::from_gvk_with_plural(&kind, "volumesnapshotclasses");
        self.apply(&resource, class).await
    }

    async fn advise(&self, name: &str, spec: &Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let profiles = self.objects(&cdi("StorageProfile"));
        profiles.patch(name, &by(MANAGER), &patch).await?;
        Ok(())
    }

    async fn configure(&self, config: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "config": config } }));
        let objects = self.objects(&cdi("CDI"));
        objects.patch("cdi", &by(MANAGER), &patch).await?;
        Ok(())
    }

    async fn profile(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let profiles = self.objects(&cdi("StorageProfile"));
        until(&profiles, name, what, WAIT_TIMEOUT, |profile| {
            holds(&profile.data["status"])
        })
        .await?;
        Ok(())
    }

    /// Waits until the effective configuration has this share of file system overhead.
    async fn overhead(&self, share: &str) -> anyhow::Result<()> {
        let configs = self.objects(&cdi("CDIConfig"));
        until(&configs, "config", share, WAIT_TIMEOUT, |config| {
            config.data["status"]["filesystemOverhead"]["global"] == share
        })
        .await?;
        Ok(())
    }
}

fn cdi(kind: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk("cdi.kubevirt.io", "v1beta1", kind);
    let plural = format!("{}s", kind.kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&kind, &plural)
}

fn storage(kind: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk("storage.k8s.io", "v1", kind);
    ApiResource::from_gvk_with_plural(&kind, "storageclasses")
}
