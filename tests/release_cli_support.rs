//! Releases and clusters for the tests of `medley release`.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use api::openshift::payloads;
use api::release::{ReleasePolicy, ReleasePolicySpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use runtime::wait_until_served;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{CommandOutput, Layout, ServedCluster, TestCluster};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const PLACEHOLDER: &str = "placeholder.url.oc.will.replace.this.org/placeholdernamespace";

/// Runs the binary without the test user's credentials and kubeconfig.
pub(crate) async fn medley(
    line: &[&str],
    kubeconfig: Option<&Path>,
) -> anyhow::Result<CommandOutput> {
    let mut command = tokio::process::Command::new(MEDLEY);
    command
        .arg("release")
        .args(line)
        .env_remove("REGISTRY_AUTH_FILE")
        .env_remove("XDG_RUNTIME_DIR")
        .env("HOME", "/nonexistent")
        .env(
            "KUBECONFIG",
            kubeconfig.unwrap_or_else(|| Path::new("/nonexistent")),
        )
        .stdin(Stdio::null());
    Ok(CommandOutput::of(&command.output().await?))
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Folders with the sources of a release: operators and images.
pub(crate) struct ReleaseSources {
    pub(crate) folder: TempDir,
}

/// Operators of the release, and their images.
pub(crate) const OPERATORS: [(&str, &str, u32); 2] = [
    ("dns", "cluster-dns-operator", 70),
    ("machine-config", "machine-config-operator", 80),
];

impl ReleaseSources {
    /// Two operators; both report their images, or only machine-config does.
    pub(crate) fn new(all_report: bool) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        for (name, image, level) in OPERATORS {
            let own = folder
                .path()
                .join("operators")
                .join(image)
                .join("manifests");
            std::fs::create_dir_all(&own)?;
            let references = format!(
                "kind: ImageStream\napiVersion: image.openshift.io/v1\nspec:\n  tags:\n  - name: {image}\n    from:\n      kind: DockerImage\n      name: {PLACEHOLDER}:{image}\n"
            );
            std::fs::write(own.join("image-references"), references)?;
            let reports = if all_report || name == "machine-config" {
                format!("  - name: operator-image\n    version: {PLACEHOLDER}:{image}\n")
            } else {
                String::new()
            };
            let include = "  annotations:\n    include.release.openshift.io/self-managed-high-availability: \"true\"\n";
            let operator = format!(
                "apiVersion: config.openshift.io/v1\nkind: ClusterOperator\nmetadata:\n  name: {name}\n{include}spec: {{}}\nstatus:\n  versions:\n  - name: operator\n    version: \"0.0.1-snapshot\"\n{reports}"
            );
            std::fs::write(
                own.join(format!("0000_{level}_{name}_09_co.yaml")),
                operator,
            )?;
            let deployment = format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {image}\n  namespace: openshift-{name}\n{include}spec:\n  template:\n    spec:\n      containers:\n      - name: operator\n        image: {PLACEHOLDER}:{image}\n        args: [\"--operator-image={PLACEHOLDER}:{image}\", \"--payload-version=0.0.1-snapshot\"]\n"
            );
            std::fs::write(
                own.join(format!("0000_{level}_{name}_05_deployment.yaml")),
                deployment,
            )?;
        }
        Ok(Self { folder })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The images of a release, in a file.
    pub(crate) fn images(&self, images: &[(&str, &str)]) -> anyhow::Result<PathBuf> {
        let tags: Vec<Value> = images
            .iter()
            .map(|(name, image)| {
                json!({ "name": name, "from": { "kind": "DockerImage", "name": image } })
            })
            .collect();
        let stream = json!({
            "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
            "metadata": { "name": "input" }, "spec": { "tags": tags },
        });
        let file = self.path("images.json");
        std::fs::write(&file, stream.to_string())?;
        Ok(file)
    }

    /// Renders a release of both operators; returns its folder.
    pub(crate) async fn render(&self, images: &Path, to: &str) -> anyhow::Result<PathBuf> {
        let (operators, out) = (self.path("operators"), self.path(to));
        let line = [
            "render",
            "--operators",
            path(&operators),
            "--images",
            path(images),
            "--name",
            "4.18.0",
            "--multi-arch",
            "-o",
            path(&out),
        ];
        medley(&line, None).await?.ok()?;
        Ok(out)
    }

    /// A tar archive of a folder, as in a layer.
    pub(crate) fn layer(&self, release: &Path) -> anyhow::Result<Vec<u8>> {
        let root = self.path("layer");
        std::fs::create_dir_all(&root)?;
        std::fs::rename(release, root.join("release-manifests"))?;
        let output = std::process::Command::new("tar")
            .args(["-C", path(&root), "-cf", "-", "release-manifests"])
            .output()?;
        anyhow::ensure!(output.status.success(), "{output:?}");
        Ok(output.stdout)
    }
}

/// Adds an image for some architectures to a layout; returns its digest.
pub(crate) fn image(layout: &mut Layout, name: &str, for_: &[&str], index: bool) -> String {
    let layers: Vec<Value> = for_
        .iter()
        .map(|architecture| {
            let text = format!("{name} for {architecture}");
            // An archive of one empty block, and a suffix that makes it unique.
            let mut layer = vec![0; 1024];
            layer.extend_from_slice(text.as_bytes());
            layer.resize(2048, 0);
            layout.image(architecture, &[&layer], &json!({})).unwrap()
        })
        .collect();
    let root = if index {
        layout.index(&layers).unwrap()
    } else {
        layers[0].clone()
    };
    layout.name(name, &root).unwrap();
    root["digest"].as_str().unwrap().to_owned()
}

/// A cluster with the OpenShift CRDs that describe its release.
pub(crate) struct OpenShiftFixture {
    pub(crate) served: ServedCluster,
    pub(crate) client: Client,
    /// Kept alive with the fixture.
    _cluster: TestCluster,
}

impl OpenShiftFixture {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in testkit::openshift_crds() {
            let definition: CustomResourceDefinition = serde_json::from_value(definition)?;
            let made = api.create(&PostParams::default(), &definition).await?;
            wait_until_served(&client, &made.name_any()).await?;
        }
        Ok(Self {
            served: cluster.serve().await?,
            client,
            _cluster: cluster,
        })
    }

    pub(crate) async fn run(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        medley(line, Some(&self.served.kubeconfig)).await
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let group = if kind == "MachineConfigPool" {
            "machineconfiguration.openshift.io"
        } else {
            "config.openshift.io"
        };
        let kind = GroupVersionKind::gvk(group, "v1", kind);
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    /// Creates an object with its status.
    pub(crate) async fn put(&self, kind: &str, object: Value) -> anyhow::Result<()> {
        let api = self.api(kind);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let mut object = object;
        let group = if kind == "MachineConfigPool" {
            "machineconfiguration.openshift.io/v1"
        } else {
            "config.openshift.io/v1"
        };
        object["apiVersion"] = json!(group);
        object["kind"] = json!(kind);
        let status = object["status"].take();
        if api.get_opt(&name).await?.is_none() {
            let new = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &new).await?;
        }
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Creates a ClusterOperator with its image, and since when it is progressing.
    pub(crate) async fn operator(
        &self,
        name: &str,
        image: Option<&str>,
        progressing: bool,
    ) -> anyhow::Result<()> {
        let mut versions = vec![json!({ "name": "operator", "version": "4.18.0" })];
        versions.extend(image.map(|it| json!({ "name": "operator-image", "version": it })));
        let now = "2026-01-02T12:00:00Z";
        let progressing = if progressing { "True" } else { "False" };
        self.put("ClusterOperator", json!({
            "metadata": { "name": name, "annotations": {
                "include.release.openshift.io/self-managed-high-availability": "true",
            } },
            "spec": {},
            "status": {
                "versions": versions,
                "relatedObjects": [
                    { "group": "", "resource": "namespaces", "name": format!("openshift-{name}") },
                ],
                "conditions": [
                    { "type": "Available", "status": "True", "lastTransitionTime": now },
                    { "type": "Degraded", "status": "False", "lastTransitionTime": now },
                    { "type": "Progressing", "status": progressing, "lastTransitionTime": now },
                ],
            },
        }))
        .await
    }

    /// Stores a release folder in a ConfigMap, under the release image.
    pub(crate) async fn keep(&self, folder: &str, image: &str) -> anyhow::Result<()> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, std::fs::read_to_string(entry.path())?);
        }
        let namespace = json!({ "metadata": { "name": payloads::NAMESPACE } });
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let params = PostParams::default();
        namespaces
            .create(&params, &serde_json::from_value(namespace)?)
            .await?;
        let map = json!({
            "metadata": {
                "name": "release",
                "labels": { payloads::LABEL: payloads::LABELLED },
                "annotations": { payloads::IMAGE: image },
            },
            "data": files,
        });
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), payloads::NAMESPACE);
        maps.create(&params, &serde_json::from_value(map)?).await?;
        Ok(())
    }

    /// Records in the ReleasePolicy how long an operator took.
    pub(crate) async fn remember(&self, operator: &str, seconds: i64) -> anyhow::Result<()> {
        let params = PostParams::default();
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let made = definitions
            .create(&params, &api::release::definition())
            .await?;
        wait_until_served(&self.client, &made.name_any()).await?;
        let policies: Api<ReleasePolicy> = Api::all(self.client.clone());
        let policy = ReleasePolicy::new(api::release::NAME, ReleasePolicySpec::default());
        policies.create(&params, &policy).await?;
        let history = json!([{ "operator": operator, "tookSeconds": [seconds] }]);
        let patch = Patch::Merge(json!({ "status": { "history": history } }));
        policies
            .patch_status(api::release::NAME, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Creates the ClusterVersion with the current or desired release.
    pub(crate) async fn version(
        &self,
        image: &str,
        before: Option<&str>,
        progressing: bool,
    ) -> anyhow::Result<()> {
        let entry = |image: &str, state: &str| {
            let end = (state == "Completed").then_some("2026-01-02T12:30:00Z");
            json!({
                "state": state, "startedTime": "2026-01-02T12:00:00Z", "completionTime": end,
                "version": "4.18.0", "image": image, "verified": true,
            })
        };
        let state = if progressing { "Partial" } else { "Completed" };
        let mut history = vec![entry(image, state)];
        history.extend(before.map(|it| entry(it, "Completed")));
        let status = if progressing { "True" } else { "False" };
        self.put("ClusterVersion", json!({
            "metadata": { "name": "version" },
            "spec": { "clusterID": "b54b0d5e-6b8a-4b0c-9b3e-0f6a5d1c2e3f", "channel": "stable-4.18" },
            "status": {
                "desired": { "version": "4.18.0", "image": image },
                "history": history,
                "observedGeneration": 1,
                "versionHash": "x=",
                "availableUpdates": null,
                "conditions": [
                    { "type": "Progressing", "status": status, "lastTransitionTime": "2026-01-02T12:00:00Z",
                      "message": "Working towards 4.18.0: waiting on machine-config" },
                    { "type": "Failing", "status": "False", "lastTransitionTime": "2026-01-02T12:00:00Z" },
                    { "type": "RetrievedUpdates", "status": "True", "lastTransitionTime": "2026-01-02T12:00:00Z" },
                ],
            },
        }))
        .await
    }
}
