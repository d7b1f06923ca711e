//! A cluster with the genuine cluster-version operator, Medley, and `oc`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use api::openshift::payloads;
use api::release::ReleasePolicy;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use testkit::{CommandOutput, Process, by, install_peer_crds, peer, until, wait_until};

use crate::fixture::GenuineCluster;
use crate::payload::{CLUSTER_VERSION_OPERATOR, Release};
use crate::roles::{Roles, WAIT_TIMEOUT};

const NODE: &str = "control-plane-1";
/// The releases that it downloads are in a constant folder below `/etc` (`pkg/cvo/updatepayload.go`), so the process gets
/// a mount namespace of its own.
const START: &str = r#"set -e
mount --bind "$1" /etc
exec "$0" start --kubeconfig "$2" --release-image "$3" --node-name "$4" --listen= --enable-auto-update=false --v=2
"#;
/// Where a job unpacks releases, on the node.
const DOWNLOADS: &str = "/etc/cvo/updatepayloads";

/// The programs are dropped before the cluster.
pub(crate) struct Story {
    medley: Option<Process>,
    operator: Option<Process>,
    pub(crate) beside: GenuineCluster,
    pub(crate) roles: Roles,
    starts: u32,
}

impl Story {
    /// A cluster in which neither the operator nor Medley runs.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let beside = GenuineCluster::controlled().await?;
        install_peer_crds(&beside.cluster, CLUSTER_VERSION_OPERATOR).await?;
        for (api_version, kind) in [
            // What the operator's informers need.
            ("config.openshift.io/v1", "Proxy"),
            ("config.openshift.io/v1", "FeatureGate"),
            // What `oc adm upgrade status` reads.
            ("machineconfiguration.openshift.io/v1", "MachineConfigPool"),
        ] {
            beside.define(api_version, kind, false).await?;
        }
        for role in ["master", "worker"] {
            beside
                .apply(json!({
                    "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                    "metadata": { "name": role },
                    "spec": { "nodeSelector": { "matchLabels": { format!("node-role.kubernetes.io/{role}"): "" } } },
                }))
                .await?;
        }
        beside.cluster.node(NODE, "amd64", "master").await?;
        // The job that downloads a release has it.
        beside
            .apply(json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": { "name": "openshift-user-critical" }, "value": 1_000_000_000,
            }))
            .await?;
        let roles = Roles::new(beside.cluster.client());
        Ok(Self {
            medley: None,
            operator: None,
            beside,
            roles,
            starts: 0,
        })
    }

    /// Starts the operator from the image of a release, as its Deployment would.
    pub(crate) fn run_operator(&mut self, release: &Release) -> anyhow::Result<()> {
        self.starts += 1;
        let folder = self.beside.served.folder();
        let folder = folder.join(format!("{CLUSTER_VERSION_OPERATOR}-{}", self.starts));
        let payload = folder.join("payload");
        release.unpack(&payload)?;
        let downloads = self.on_node(DOWNLOADS)?;
        std::fs::create_dir_all(&downloads)
            .with_context(|| format!("creating {}", downloads.display()))?;
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", START])
            .arg(peer(CLUSTER_VERSION_OPERATOR)?)
            .arg(self.on_node("/etc")?)
            .arg(&self.beside.served.kubeconfig)
            .args([&release.image, NODE])
            .env("PAYLOAD_OVERRIDE", &payload);
        self.operator = Some(Process::spawn(&mut command, &folder)?);
        Ok(())
    }

    /// Replaces the operator, as its Deployment does: the new pod starts when the old one has ended.
    pub(crate) async fn replace_operator(&mut self, release: &Release) -> anyhow::Result<()> {
        let mut old = self.operator.take().context("the operator runs")?;
        // Terminated like a pod: it gives back its lease.
        let id = old.id().to_string();
        let status = Command::new("kill").arg(&id).status().context("kill")?;
        anyhow::ensure!(status.success(), "kill {id}: {status}");
        wait_until("the operator ends", WAIT_TIMEOUT, || {
            let ended = old.ended();
            async move { Ok(ended?.map(drop)) }
        })
        .await
        .with_context(|| old.output())?;
        self.run_operator(release)
    }

    pub(crate) async fn run_medley(&mut self) -> anyhow::Result<()> {
        self.medley = Some(self.beside.run_medley("release").await?);
        Ok(())
    }

    /// The place of a path of the node below the folder of the test.
    fn on_node(&self, path: &str) -> anyhow::Result<PathBuf> {
        let inner = path.strip_prefix('/').context("an absolute path")?;
        Ok(self.beside.served.folder().join("node").join(inner))
    }

    /// Plays the kubelet for the job that unpacks a release on the node of the operator.
    pub(crate) async fn download(&self, release: &Release) -> anyhow::Result<()> {
        let client = self.beside.cluster.client();
        let jobs: Api<Job> = Api::namespaced(client.clone(), payloads::NAMESPACE);
        let pods: Api<Pod> = Api::namespaced(client, payloads::NAMESPACE);
        let what = "a job downloads the release";
        let pod = wait_until(what, WAIT_TIMEOUT, async || {
            for job in jobs.list(&ListParams::default()).await? {
                let runs = job.spec.and_then(|it| it.template.spec);
                let containers = runs.map(|it| it.containers).unwrap_or_default();
                if !containers
                    .iter()
                    .any(|it| it.image.as_ref() == Some(&release.image))
                {
                    continue;
                }
                let labels = format!("job-name={}", job.metadata.name.unwrap_or_default());
                let found = pods.list(&ListParams::default().labels(&labels)).await?;
                return Ok(found.items.into_iter().next());
            }
            Ok(None)
        })
        .await?;
        let spec = pod.spec.as_ref().context("the pod has a spec")?;
        let command = spec.containers.first().and_then(|it| it.command.as_ref());
        // It renames the folder that the init containers have filled.
        let [program, _, to] = command.map_or(&[][..], Vec::as_slice) else {
            anyhow::bail!("the job runs another command: {spec:?}");
        };
        anyhow::ensure!(program == "mv" && Path::new(to).starts_with(DOWNLOADS));
        release.unpack(&self.on_node(to)?)?;
        let status = json!({ "status": { "phase": "Succeeded" } });
        pods.patch_status(&pod.name_any(), &by("kubelet"), &Patch::Strategic(status))
            .await?;
        Ok(())
    }

    /// Waits for a condition of the policy, as `STATUS REASON`.
    pub(crate) async fn verdict(&self, kind: &str, text: &str) -> anyhow::Result<ReleasePolicy> {
        let policies: Api<ReleasePolicy> = Api::all(self.beside.cluster.client());
        let what = format!("{kind} is {text}");
        until(&policies, "default", &what, WAIT_TIMEOUT, |policy| {
            let status = json!(policy.status);
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let mut found = conditions.filter(|it| it["type"] == kind);
            found.any(|it| {
                let part = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
                format!("{} {}", part("status"), part("reason")) == text
            })
        })
        .await
    }

    /// Configures Medley to own the ClusterVersion.
    pub(crate) async fn configure_ownership(&self) -> anyhow::Result<()> {
        let own = Patch::Merge(json!({ "spec": { "mode": "Own" } }));
        self.beside
            .objects("medley.dev/v1alpha1", "ReleasePolicy", None)
            .patch("default", &by("administrator"), &own)
            .await
            .context("patching the policy")?;
        Ok(())
    }

    /// Runs a command of `oc` to its end.
    pub(crate) fn oc(&self, arguments: &[&str]) -> anyhow::Result<CommandOutput> {
        let output = Command::new(peer("oc")?)
            .args(arguments)
            .env("KUBECONFIG", &self.beside.served.kubeconfig)
            .env("HOME", self.beside.served.folder())
            .env("OC_ENABLE_CMD_UPGRADE_STATUS", "true")
            .output()
            .with_context(|| format!("oc {}", arguments.join(" ")))?;
        Ok(CommandOutput::of(&output))
    }

    /// The ends of the logs.
    pub(crate) fn log(&self) -> String {
        let end = |process: &Option<Process>| -> String {
            let text = process.as_ref().map(Process::output).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(40).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        format!(
            "{CLUSTER_VERSION_OPERATOR}:\n{}\nmedley:\n{}",
            end(&self.operator),
            end(&self.medley)
        )
    }
}
