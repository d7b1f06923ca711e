//! The genuine multiarch-tuning-operator: its operator, its webhook and its controller are modes of one program.
//!
//! Operator and webhook both listen on port 9443, in pods of their own, so one ends before the other starts. The suite
//! plays the kubelet of these pods, and OpenShift's service CA and network: the webhook is registered by its URL.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use base64::Engine as _;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch};
use serde_json::json;
use testkit::{Process, Registry, by, install_peer_crds, peer, until_gone, wait_until};
use tokio::net::TcpStream;

use crate::fixture::{GenuineCluster, WAIT_TIMEOUT};

pub(crate) const PROGRAM: &str = "multiarch-tuning-operator";
/// The namespace that its manifests install it in.
const NAMESPACE: &str = "openshift-multiarch-tuning-operator";
/// Its only ClusterPodPlacementConfig has this name.
const CONFIG: &str = "cluster";
const API: &str = "multiarch.openshift.io/v1beta1";
const REGISTRATION: &str = "pod-placement-mutating-webhook-configuration";
const CONTROLLER: &str = "pod-placement-controller";
const WEBHOOK: &str = "pod-placement-web-hook";
/// controller-runtime's webhook port, which the program does not let change.
const PORT: u16 = 9443;

/// The installed operator. Its processes end with it.
pub(crate) struct Tuning {
    webhook: Option<Process>,
    controller: Option<Process>,
    folder: PathBuf,
    image: String,
    /// The CA of its certificate.
    authority: String,
}

impl Tuning {
    /// Writes what the program reads, and installs its CRDs. Nothing runs.
    pub(crate) async fn install(
        beside: &GenuineCluster,
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        install_peer_crds(&beside.cluster, PROGRAM).await?;
        beside
            .apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }))
            .await?;
        let folder = beside.served.folder().join("tuning");
        for name in ["tls", "conf.d", "certs.d", "sigstore.d", "cache"] {
            std::fs::create_dir_all(folder.join(name)).context("creating folders")?;
        }
        let (certificate, key, authority) = testkit::certificate()?;
        // Nodes have these files in /etc/containers, which the operator's pods mount.
        let registries = format!(
            "[[registry]]\nlocation = \"{}\"\ninsecure = true\n",
            registry.host()
        );
        for (name, content) in [
            ("tls/tls.crt", certificate),
            ("tls/tls.key", key),
            ("registries.conf", registries),
            (
                "policy.json",
                json!({ "default": [{ "type": "insecureAcceptAnything" }] }).to_string(),
            ),
        ] {
            std::fs::write(folder.join(name), content)
                .with_context(|| format!("writing {name}"))?;
        }
        Ok(Self {
            webhook: None,
            controller: None,
            folder,
            image: format!("{}/tools/tuning:1", registry.host()),
            authority,
        })
    }

    fn run(&self, beside: &GenuineCluster, name: &str, mode: &[&str]) -> anyhow::Result<Process> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        let mut command = Command::new(peer(PROGRAM)?);
        command
            .args(mode)
            .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .arg(format!("--cert-dir={}", self.folder.join("tls").display()))
            .env("KUBECONFIG", &beside.served.kubeconfig)
            .env("NAMESPACE", NAMESPACE)
            .env("IMAGE", &self.image)
            .env("HOME", &self.folder)
            .env("XDG_CACHE_HOME", self.folder.join("cache"));
        for (variable, name) in [
            ("REGISTRIES_CONF_PATH", "registries.conf"),
            ("REGISTRIES_CONF_DIR", "conf.d"),
            ("REGISTRIES_CERTS_DIR", "sigstore.d"),
            ("DOCKER_CERTS_DIR", "certs.d"),
            ("POLICY_CONF_PATH", "policy.json"),
        ] {
            command.env(variable, self.folder.join(name));
        }
        Process::spawn(&mut command, &folder)
    }

    fn operator(&self, beside: &GenuineCluster) -> anyhow::Result<Process> {
        self.run(beside, "operator", &["--enable-operator"])
    }

    /// Creates the ClusterPodPlacementConfig, and starts what the operator deploys for it. Pods of namespaces with the
    /// label `multiarch.openshift.io/exclude-pod-placement` are not selected.
    pub(crate) async fn enable(&mut self, beside: &GenuineCluster) -> anyhow::Result<()> {
        let operator = self.operator(beside)?;
        beside
            .apply(json!({
                "apiVersion": API, "kind": "ClusterPodPlacementConfig", "metadata": { "name": CONFIG },
                "spec": { "namespaceSelector": { "matchExpressions": [
                    { "key": "multiarch.openshift.io/exclude-pod-placement", "operator": "DoesNotExist" },
                ] } },
            }))
            .await?;
        let registrations = beside.objects(
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            None,
        );
        wait_until(
            "the operator registers its webhook",
            WAIT_TIMEOUT,
            || async {
                self.play_kubelet(beside).await?;
                Ok(registrations.get_opt(REGISTRATION).await?.map(drop))
            },
        )
        .await
        .with_context(|| operator.output())?;
        drop(operator);
        self.webhook = Some(self.run(
            beside,
            "webhook",
            &["--enable-ppc-webhook", "--enable-cppc-informer"],
        )?);
        self.start_controller(beside)?;
        wait_until("its webhook listens", WAIT_TIMEOUT, || async {
            Ok(TcpStream::connect(("127.0.0.1", PORT)).await.ok().map(drop))
        })
        .await
        .with_context(|| self.output())?;
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.authority);
        let change = json!([{ "op": "replace", "path": "/webhooks/0/clientConfig", "value": {
            "url": format!("https://127.0.0.1:{PORT}/add-pod-scheduling-gate"),
            "caBundle": authority,
        } }]);
        let change = Patch::Json::<()>(serde_json::from_value(change)?);
        registrations
            .patch(REGISTRATION, &by("service-ca"), &change)
            .await?;
        Ok(())
    }

    pub(crate) fn start_controller(&mut self, beside: &GenuineCluster) -> anyhow::Result<()> {
        let mode = ["--enable-ppc-controllers", "--enable-cppc-informer"];
        self.controller = Some(self.run(beside, "controller", &mode)?);
        Ok(())
    }

    pub(crate) fn stop_controller(&mut self) {
        self.controller = None;
    }

    /// Makes the pods of the operator's Deployments ready.
    async fn play_kubelet(&self, beside: &GenuineCluster) -> anyhow::Result<()> {
        let pods = beside.objects("v1", "Pod", Some(NAMESPACE));
        for pod in pods.list(&ListParams::default()).await? {
            if pod.data["status"]["phase"] == "Running" {
                continue;
            }
            let now = jiff::Timestamp::now().to_string();
            let status = json!({ "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": now },
            ] } });
            pods.patch_status(&pod.name_any(), &by("kubelet"), &Patch::Merge(status))
                .await?;
        }
        Ok(())
    }

    /// Deletes the ClusterPodPlacementConfig, and waits until the operator has removed what it deployed. It does so when
    /// no pod has its gate any more.
    pub(crate) async fn disable(&mut self, beside: &GenuineCluster) -> anyhow::Result<()> {
        let configs = beside.objects(API, "ClusterPodPlacementConfig", None);
        configs.delete(CONFIG, &DeleteParams::default()).await?;
        // Its port is the operator's now; it would be called until the operator has deleted the registration.
        self.webhook = None;
        let operator = self.operator(beside)?;
        until_gone(&configs, CONFIG, WAIT_TIMEOUT)
            .await
            .with_context(|| format!("{}\n{}", operator.output(), self.output()))?;
        self.controller = None;
        for name in [CONTROLLER, WEBHOOK] {
            let deployments = beside.objects("apps/v1", "Deployment", Some(NAMESPACE));
            until_gone(&deployments, name, WAIT_TIMEOUT).await?;
        }
        Ok(())
    }

    /// What its processes have printed, for errors.
    pub(crate) fn output(&self) -> String {
        let processes = [("webhook", &self.webhook), ("controller", &self.controller)];
        let outputs = processes.map(|(name, process)| {
            let output = process.as_ref().map(Process::output).unwrap_or_default();
            let last: Vec<&str> = output.lines().rev().take(20).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            format!("{PROGRAM} {name}:\n{}", last.join("\n"))
        });
        outputs.join("\n")
    }
}
