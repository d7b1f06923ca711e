//! A genuine control plane, and genuine programs of other projects beside `medley`.
//!
//! Each suite `beside_*` plays the story of one job with `medley run` and the commands as users run them, and asserts
//! what both programs wrote. `cargo xtask test --genuine` builds the programs and runs the suites.
#![allow(dead_code, reason = "no suite uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{CommandOutput, Process, ServedCluster, TestCluster, by, free_port, peer};

/// The program under test.
const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");

/// Upper bound of every wait: genuine operators retry with a backoff, and resync at most every few minutes.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
pub(crate) const NAMESPACE: &str = "medley-system";

/// A control plane, and a folder for the programs beside it. Programs are dropped before the cluster.
pub(crate) struct GenuineCluster {
    pub(crate) cluster: TestCluster,
    pub(crate) served: ServedCluster,
}

impl GenuineCluster {
    /// Starts etcd and kube-apiserver, and nothing else.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::of(TestCluster::start().await?, true).await
    }

    /// Starts etcd, kube-apiserver and kube-controller-manager: Deployments and Jobs get pods.
    pub(crate) async fn controlled() -> anyhow::Result<Self> {
        let cluster = TestCluster::controlled().await?;
        let is_complete = cluster.has_controllers();
        Self::of(cluster, is_complete).await
    }

    async fn of(cluster: TestCluster, is_complete: bool) -> anyhow::Result<Self> {
        anyhow::ensure!(
            cluster.is_genuine() && is_complete,
            "this suite needs etcd, kube-apiserver and kube-controller-manager: run it with `cargo xtask test --genuine`"
        );
        let served = cluster.serve().await?;
        Ok(Self { cluster, served })
    }

    /// Installs Medley's CRDs and starts `medley run` with one job.
    pub(crate) async fn run_medley(&self, job: &str) -> anyhow::Result<Process> {
        controllers::install(&self.cluster.client(), NAMESPACE).await?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut command = Command::new(MEDLEY);
        command
            .args(["run", "-v", "--leader-elect=false", "--controllers", job])
            .args(["--health-address", &address])
            .env("KUBECONFIG", &self.served.kubeconfig);
        Process::spawn(&mut command, &self.folder("medley")?)
    }

    /// Starts `medley webhook` with one job, and returns when the API server calls it.
    pub(crate) async fn run_webhook(&self, job: &str) -> anyhow::Result<Process> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let health = format!("127.0.0.1:{}", free_port()?);
        let mut command = Command::new(MEDLEY);
        command
            .args(["webhook", "-v", "--controllers", job])
            .args(["--address", &address, "--health-address", &health])
            .args(["--register", &format!("url=https://{address}")])
            .env("KUBECONFIG", &self.served.kubeconfig);
        let mut webhook = Process::spawn(&mut command, &self.folder("webhook")?)?;
        testkit::wait_until("medley webhook is ready", WAIT_TIMEOUT, || {
            let (checked, output) = (webhook.check(), webhook.output());
            async move {
                checked?;
                Ok(output.lines().any(|line| line == "ready").then_some(()))
            }
        })
        .await?;
        Ok(webhook)
    }

    /// Runs a command of `medley` to its end, without a terminal.
    pub(crate) fn medley(&self, arguments: &[&str]) -> anyhow::Result<CommandOutput> {
        let output = Command::new(MEDLEY)
            .args(arguments)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("medley {}", arguments.join(" ")))?;
        Ok(CommandOutput::of(&output))
    }

    /// Starts a genuine program, configured with the path of a kubeconfig. Its output is in `NAME.log` of its own folder.
    pub(crate) fn run_peer(
        &self,
        name: &str,
        configure: impl FnOnce(&mut Command, &Path),
    ) -> anyhow::Result<Process> {
        let mut command = Command::new(peer(name)?);
        configure(&mut command, &self.served.kubeconfig);
        Process::spawn(&mut command, &self.folder(name)?)
    }

    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.served.folder().join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        Ok(folder)
    }

    /// Objects of a kind, which may be served by a CRD.
    pub(crate) fn objects(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = self.cluster.client();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    /// Applies an object as an administrator.
    pub(crate) async fn apply(&self, object: Value) -> anyhow::Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(object).context("a test object")?;
        let types = object.types.clone().context("a test object has a kind")?;
        let api = self.objects(
            &types.api_version,
            &types.kind,
            object.metadata.namespace.as_deref(),
        );
        let name = object.name_any();
        api.patch(&name, &by("administrator").force(), &Patch::Apply(&object))
            .await
            .with_context(|| format!("applying {} {name}", types.kind))
    }

    /// Deletes the leases in a namespace, which a program that was killed does not release.
    pub(crate) async fn delete_leases(&self, namespace: &str) -> anyhow::Result<()> {
        let leases = self.objects("coordination.k8s.io/v1", "Lease", Some(namespace));
        for lease in leases.list(&ListParams::default()).await? {
            let params = DeleteParams::default();
            leases.delete(&lease.name_any(), &params).await?;
        }
        Ok(())
    }

    /// Serves a kind of a project that is not installed, without a schema: enough for informers of other operators.
    pub(crate) async fn define(
        &self,
        api_version: &str,
        kind: &str,
        namespaced: bool,
    ) -> anyhow::Result<()> {
        let (group, version) = api_version.split_once('/').context("a group")?;
        let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)).plural;
        let name = format!("{plural}.{group}");
        self.apply(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": name,
                // Groups such as *.k8s.io and config.openshift.io are protected; the value is the documented exemption.
                "annotations": { "api-approved.kubernetes.io": "unapproved, for a test" },
            },
            "spec": {
                "group": group,
                "scope": if namespaced { "Namespaced" } else { "Cluster" },
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    } },
                }],
            },
        }))
        .await?;
        let crds = self.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition", None);
        testkit::until(&crds, &name, "is established", WAIT_TIMEOUT, |crd| {
            let conditions = crd.data["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "Established" && condition["status"] == "True"
            })
        })
        .await?;
        Ok(())
    }
}
