//! A cluster in which either the SSP operator or Medley reconciles an SSP, with nodes of two architectures.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{Process, TestCluster, free_port, install_peer_crds, peer, wait_until};

use crate::fixture::{GenuineCluster, WAIT_TIMEOUT};
use crate::imports::CLASS;

/// The namespace of the SSP and of its operator.
pub(crate) const NAMESPACE: &str = "kubevirt";
/// The namespace of images.
pub(crate) const IMAGES: &str = "kubevirt-os-images";
pub(crate) const SSP: &str = "ssp-kubevirt-hyperconverged";
const OPERATOR: &str = "ssp-operator";
const CDI: &str = "cdi.kubevirt.io/v1beta1";
/// How long objects have to stay as they are. The SSP operator has no resync, and corrects changes at once.
const QUIET: Duration = Duration::from_secs(5);
/// The operator reads a certificate below its temporary folder, and the namespace of its leader election from a
/// constant path, so the process gets a mount namespace of its own.
const START: &str = r#"set -e
certificates=$TMPDIR/k8s-webhook-server/serving-certs
mkdir -p "$certificates"
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=ssp-operator -addext subjectAltName=DNS:ssp-operator \
  -keyout "$certificates/tls.key" -out "$certificates/tls.crt"
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
printf %s "$POD_NAMESPACE" > /run/secrets/kubernetes.io/serviceaccount/namespace
exec "$0" "$@"
"#;

/// The programs are dropped before the cluster.
pub(crate) struct Story {
    medley: Option<Process>,
    operator: Option<Process>,
    pub(crate) beside: GenuineCluster,
    starts: u32,
}

impl Story {
    /// An amd64 control plane, and workers of amd64 and arm64. Neither the SSP operator nor Medley runs.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        // Its ValidatingAdmissionPolicy is checked by kube-controller-manager, which the operator waits for.
        let cluster = TestCluster::controlled().await?;
        anyhow::ensure!(
            cluster.is_genuine() && cluster.has_controllers(),
            "this suite needs kube-controller-manager: run it with `cargo xtask test --genuine`"
        );
        let served = cluster.serve().await?;
        let beside = GenuineCluster { cluster, served };
        for project in ["containerized-data-importer", "kubevirt", "ssp-operator"] {
            install_peer_crds(&beside.cluster, project).await?;
        }
        beside
            .apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }))
            .await?;
        for (name, architecture, role) in [
            ("control-plane", "amd64", "control-plane"),
            ("worker-1", "amd64", "worker"),
            ("worker-2", "arm64", "worker"),
        ] {
            beside.cluster.node(name, architecture, role).await?;
        }
        let story = Self {
            medley: None,
            operator: None,
            beside,
            starts: 0,
        };
        story.scale(0).await?;
        Ok(story)
    }

    /// The Deployment of the SSP operator, which is not what runs it here.
    async fn scale(&self, replicas: u32) -> anyhow::Result<()> {
        let labels = json!({ "name": OPERATOR });
        self.beside
            .apply(json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": OPERATOR, "namespace": NAMESPACE, "labels": labels },
                "spec": {
                    "replicas": replicas, "selector": { "matchLabels": labels },
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": { "containers": [{ "name": "manager", "image": "registry.example/ssp:1" }] },
                    },
                },
            }))
            .await?;
        Ok(())
    }

    /// Starts the SSP operator.
    pub(crate) async fn operator_runs(&mut self) -> anyhow::Result<()> {
        self.scale(1).await?;
        self.starts += 1;
        let folder = self.beside.served.folder();
        let folder = folder.join(format!("{OPERATOR}-{}", self.starts));
        std::fs::create_dir_all(&folder)?;
        let program = peer(OPERATOR)?.canonicalize()?;
        let data = program.with_file_name("data");
        std::os::unix::fs::symlink(&data, folder.join("data"))
            .with_context(|| format!("linking {}", data.display()))?;
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", START])
            .arg(&program)
            .arg("--leader-elect")
            .args([
                "--metrics-bind-address",
                &format!("127.0.0.1:{}", free_port()?),
            ])
            .args(["--health-probe-bind-address", "0"])
            .env("KUBECONFIG", &self.beside.served.kubeconfig)
            .env("TMPDIR", &folder)
            .env("POD_NAMESPACE", NAMESPACE)
            .env("OPERATOR_VERSION", "0.26.0")
            .env("VALIDATOR_IMAGE", "registry.example/validator:1")
            // It would listen at a constant port.
            .env("ENABLE_WEBHOOKS", "false");
        self.operator = Some(Process::spawn(&mut command, &folder)?);
        Ok(())
    }

    /// Stops the SSP operator as an administrator does, by its Deployment. Its Lease expires by itself.
    pub(crate) async fn stop_operator(&mut self) -> anyhow::Result<()> {
        self.operator = None;
        self.scale(0).await
    }

    pub(crate) async fn medley_runs(&mut self) -> anyhow::Result<()> {
        self.medley = Some(self.beside.run_medley("images-ssp").await?);
        Ok(())
    }

    pub(crate) fn stop_medley(&mut self) {
        self.medley = None;
    }

    pub(crate) fn log(&self) -> String {
        let operator = self.operator.as_ref();
        let operator = operator.map(Process::output).unwrap_or_default();
        let medley = self.medley.as_ref();
        let medley = medley.map(Process::output).unwrap_or_default();
        let end = |text: &str| -> String {
            let lines: Vec<&str> = text.lines().rev().take(30).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        format!(
            "SSP operator:\n{}\nMedley:\n{}",
            end(&operator),
            end(&medley)
        )
    }

    pub(crate) fn ssps(&self) -> Api<DynamicObject> {
        self.beside
            .objects("ssp.kubevirt.io/v1beta3", "SSP", Some(NAMESPACE))
    }

    pub(crate) fn crons(&self) -> Api<DynamicObject> {
        self.beside.objects(CDI, "DataImportCron", Some(IMAGES))
    }

    pub(crate) fn sources(&self) -> Api<DynamicObject> {
        self.beside.objects(CDI, "DataSource", Some(IMAGES))
    }

    /// Creates or replaces the SSP, as the HyperConverged cluster operator does.
    pub(crate) async fn apply(&self, multi_arch: bool, templates: &[Value]) -> anyhow::Result<()> {
        self.beside
            .apply(json!({
                "apiVersion": "ssp.kubevirt.io/v1beta3", "kind": "SSP",
                "metadata": { "name": SSP, "namespace": NAMESPACE },
                "spec": {
                    "enableMultipleArchitectures": multi_arch,
                    "cluster": {
                        "controlPlaneArchitectures": ["amd64"],
                        "workloadArchitectures": ["amd64", "arm64"],
                    },
                    "commonTemplates": {
                        "namespace": NAMESPACE, "dataImportCronTemplates": templates,
                    },
                },
            }))
            .await?;
        Ok(())
    }

    /// All objects of a kind in the namespace of images, by name.
    pub(crate) async fn images<K>(&self, api: &Api<K>) -> anyhow::Result<Vec<K>>
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Waits until neither program writes: the resource versions of the SSP and its objects stay.
    pub(crate) async fn settles(&self) -> anyhow::Result<()> {
        let versions = async || -> anyhow::Result<Vec<(String, Option<String>)>> {
            let mut all = Vec::new();
            for api in [self.ssps(), self.crons(), self.sources()] {
                for object in self.images(&api).await? {
                    all.push((object.name_any(), object.resource_version()));
                }
            }
            Ok(all)
        };
        wait_until("nothing is written any more", WAIT_TIMEOUT, async || {
            let before = versions().await?;
            tokio::time::sleep(QUIET).await;
            Ok((versions().await? == before).then_some(()))
        })
        .await
        .with_context(|| self.log())
    }
}

/// A template of an image, for architectures or without any.
pub(crate) fn template(name: &str, architectures: Option<&str>) -> Value {
    let mut template = json!({
        "metadata": {
            "name": format!("{name}-image-cron"),
            "annotations": { "cdi.kubevirt.io/storage.bind.immediate.requested": "true" },
        },
        "spec": {
            "garbageCollect": "Outdated", "importsToKeep": 1, "retentionPolicy": "None",
            "managedDataSource": name, "schedule": "0 */12 * * *",
            "template": { "spec": {
                "source": { "registry": { "url": format!("docker://registry.example/{name}:1") } },
                "storage": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            } },
        },
    });
    if let Some(list) = architectures {
        template["metadata"]["annotations"]["ssp.kubevirt.io/dict.architectures"] = json!(list);
    }
    template
}
