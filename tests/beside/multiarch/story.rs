//! A cluster with nodes of two architectures and a registry, in which Medley and the genuine multiarch-tuning-operator
//! place pods.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::Context as _;
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use testkit::{Layout, Process, Registry, free_port, until, wait_until};

use crate::fixture::{GenuineCluster, WAIT_TIMEOUT};
use crate::tuning::Tuning;

pub(crate) const OUR_GATE: &str = "medley.dev/placement";
pub(crate) const THEIR_GATE: &str = "multiarch.openshift.io/scheduling-gate";
/// The multiarch-tuning-operator places pods of this namespace, if it is there.
pub(crate) const SHOP: &str = "shop";
/// A namespace that its configuration excludes.
pub(crate) const EXCLUDED: &str = "excluded";

/// Images, and their architectures. `unknown` is what buildkit's attestations have in an index.
const IMAGES: [(&str, &[&str]); 6] = [
    ("apps/amd:1", &["amd64"]),
    ("apps/both:1", &["amd64", "arm64"]),
    ("apps/more:1", &["amd64", "arm64", "s390x"]),
    ("apps/arm:1", &["arm64"]),
    ("apps/attested:1", &["arm64", "s390x", "unknown"]),
    ("tools/tuning:1", &["amd64", "arm64"]),
];

/// The programs are dropped before the cluster.
pub(crate) struct Story {
    medley: Vec<Process>,
    pub(crate) tuning: Tuning,
    registry: Registry,
    pub(crate) beside: GenuineCluster,
}

impl Story {
    /// Neither of both runs.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let beside = GenuineCluster::controlled().await?;
        let registry = Registry::start().await?;
        push_images(&registry)?;
        for (name, labels) in [
            (SHOP, json!({})),
            (
                EXCLUDED,
                json!({ "multiarch.openshift.io/exclude-pod-placement": "" }),
            ),
        ] {
            beside
                .apply(json!({ "apiVersion": "v1", "kind": "Namespace",
                    "metadata": { "name": name, "labels": labels } }))
                .await?;
            let accounts = beside.objects("v1", "ServiceAccount", Some(name));
            until(&accounts, "default", "exists", WAIT_TIMEOUT, |_| true).await?;
        }
        beside.cluster.node("worker-1", "amd64", "worker").await?;
        beside.cluster.node("worker-2", "arm64", "worker").await?;
        let tuning = Tuning::install(&beside, &registry).await?;
        Ok(Self {
            medley: Vec::new(),
            tuning,
            registry,
            beside,
        })
    }

    /// The reference of an image.
    pub(crate) fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.registry.host())
    }

    pub(crate) fn registry(&self) -> String {
        self.registry.host()
    }

    pub(crate) fn pods(&self, namespace: &str) -> Api<DynamicObject> {
        self.beside.objects("v1", "Pod", Some(namespace))
    }

    fn medley(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Process> {
        let folder = self.beside.served.folder().join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_medley"));
        command
            .args(arguments)
            .args(["-v", "--controllers", "placement"])
            .args(["--insecure", &self.registry.host()])
            .args(["--allow-address", "127.0.0.0/8"])
            .args(["--health-address", &format!("127.0.0.1:{}", free_port()?)])
            .env("KUBECONFIG", &self.beside.served.kubeconfig);
        Process::spawn(&mut command, &folder)
    }

    /// Installs Medley: its webhook and its controller.
    pub(crate) async fn install_medley(&mut self) -> anyhow::Result<()> {
        controllers::install(&self.beside.cluster.client(), crate::fixture::NAMESPACE).await?;
        let operator = self.medley("operator", &["run", "--leader-elect=false"])?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let register = format!("url=https://{address}");
        let webhook = ["webhook", "--address", &address, "--register", &register];
        let webhook = self.medley("webhook", &webhook)?;
        self.medley = vec![webhook, operator];
        self.admission(EXCLUDED, |pod| gates(pod) == [OUR_GATE])
            .await
    }

    /// Uninstalls Medley: the registration first, then the processes once no pod waits for them.
    pub(crate) async fn uninstall_medley(&mut self) -> anyhow::Result<()> {
        let registrations = self.beside.objects(
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            None,
        );
        registrations
            .delete(api::placement::WEBHOOK, &DeleteParams::default())
            .await?;
        self.admission(EXCLUDED, |pod| gates(pod).is_empty())
            .await?;
        self.nothing_gated().await?;
        self.medley.clear();
        Ok(())
    }

    /// Ends Medley's processes, with all registrations left behind.
    pub(crate) fn kill_medley(&mut self) {
        self.medley.clear();
    }

    pub(crate) async fn install_tuning(&mut self) -> anyhow::Result<()> {
        self.tuning.enable(&self.beside).await?;
        self.admission(SHOP, |pod| gates(pod) == [THEIR_GATE]).await
    }

    pub(crate) async fn uninstall_tuning(&mut self) -> anyhow::Result<()> {
        self.tuning.disable(&self.beside).await
    }

    /// Waits until new pods of a namespace are admitted so. The API server and the webhooks learn of a registration when
    /// their watches show it.
    pub(crate) async fn admission(
        &self,
        namespace: &str,
        holds: impl Fn(&DynamicObject) -> bool,
    ) -> anyhow::Result<()> {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let last = parking_lot::Mutex::new(Value::Null);
        let what = format!("admission of pods in {namespace}");
        // Each time another image, of which no webhook knows the platforms.
        let mut tag = 0;
        let admitted = wait_until(&what, WAIT_TIMEOUT, || {
            tag += 1;
            let pod = self.pod(namespace, "probe", &[&format!("apps/none:{tag}")]);
            let (holds, last, dry_run) = (&holds, &last, &dry_run);
            async move {
                let admitted = self.pods(namespace).create(dry_run, &pod?).await?;
                *last.lock() = json!(admitted);
                Ok(holds(&admitted).then_some(()))
            }
        });
        admitted
            .await
            .with_context(|| format!("last: {:#}\n{}", last.lock(), self.output()))
    }

    fn pod(&self, namespace: &str, name: &str, images: &[&str]) -> anyhow::Result<DynamicObject> {
        let containers: Vec<Value> = images
            .iter()
            .enumerate()
            .map(
                |(index, image)| json!({ "name": format!("c{index}"), "image": self.image(image) }),
            )
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "containers": containers },
        }))
        .context("a pod")
    }

    /// Creates a pod of these images, and returns it as it was admitted.
    pub(crate) async fn create(
        &self,
        namespace: &str,
        name: &str,
        images: &[&str],
    ) -> anyhow::Result<DynamicObject> {
        let params = PostParams {
            field_manager: Some("administrator".to_owned()),
            ..PostParams::default()
        };
        let pod = self.pod(namespace, name, images)?;
        Ok(self.pods(namespace).create(&params, &pod).await?)
    }

    /// Waits until a pod is not gated any more.
    pub(crate) async fn lifted(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<DynamicObject> {
        let pods = self.pods(namespace);
        until(&pods, name, "is not gated", WAIT_TIMEOUT, |pod| {
            gates(pod).is_empty()
        })
        .await
        .with_context(|| self.output())
    }

    /// Waits until no pod is gated.
    pub(crate) async fn nothing_gated(&self) -> anyhow::Result<()> {
        for namespace in [SHOP, EXCLUDED] {
            for pod in self.pods(namespace).list(&ListParams::default()).await? {
                self.lifted(namespace, &pod.name_any()).await?;
            }
        }
        Ok(())
    }

    /// Waits until the events of a pod have these reasons and messages.
    pub(crate) async fn events(&self, pod: &str, expected: &[(&str, &str)]) -> anyhow::Result<()> {
        let events = self.beside.objects("v1", "Event", Some(SHOP));
        let about = ListParams::default().fields(&format!("involvedObject.name={pod}"));
        let expected: BTreeSet<(&str, &str)> = expected.iter().copied().collect();
        let last = parking_lot::Mutex::new(String::new());
        let what = format!("the events of {pod}");
        let written = wait_until(&what, WAIT_TIMEOUT, || async {
            let events = events.list(&about).await?;
            let text = |event: &'_ DynamicObject, field: &str| {
                event.data[field].as_str().unwrap_or_default().to_owned()
            };
            let written: BTreeSet<(String, String)> = events
                .iter()
                .map(|event| (text(event, "reason"), text(event, "message")))
                .collect();
            *last.lock() = format!("{written:#?}");
            let written: BTreeSet<(&str, &str)> = written
                .iter()
                .map(|(reason, message)| (reason.as_str(), message.as_str()))
                .collect();
            Ok((written == expected).then_some(()))
        });
        written.await.with_context(|| last.lock().clone())
    }

    fn output(&self) -> String {
        let outputs: Vec<String> = self.medley.iter().map(Process::output).collect();
        format!("{}\nMedley:\n{}", self.tuning.output(), outputs.join("\n"))
    }
}

fn push_images(registry: &Registry) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("creating a folder for images")?;
    let mut layout = Layout::new(folder.path())?;
    for (index, (name, architectures)) in IMAGES.into_iter().enumerate() {
        let images = architectures
            .iter()
            .map(|&architecture| {
                let os = if architecture == "unknown" {
                    architecture
                } else {
                    "linux"
                };
                let config = json!({ "architecture": architecture, "os": os, "author": name });
                layout.image_of(&config, &[])
            })
            .collect::<Result<Vec<_>, _>>()?;
        let tag = index.to_string();
        match images.as_slice() {
            [image] => layout.name(&tag, image)?,
            images => {
                let all = layout.index(images)?;
                layout.name(&tag, &all)?;
            }
        }
        registry.push(&layout.source(&tag), name)?;
    }
    Ok(())
}

/// The scheduling gates of a pod.
pub(crate) fn gates(pod: &DynamicObject) -> Vec<&str> {
    let gates = pod.data["spec"]["schedulingGates"].as_array();
    let gates = gates.into_iter().flatten();
    gates.filter_map(|gate| gate["name"].as_str()).collect()
}

/// The architectures that the node affinity of a pod allows.
pub(crate) fn architectures(pod: &DynamicObject) -> BTreeSet<&str> {
    let required = &pod.data["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array();
    terms
        .into_iter()
        .flatten()
        .flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten())
        .filter(|expression| expression["key"] == "kubernetes.io/arch")
        .flat_map(|expression| expression["values"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect()
}
