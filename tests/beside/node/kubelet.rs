//! A genuine kubelet on a test node.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};
use testkit::{Process, free_port, peer, until};

use crate::fixture::{GenuineCluster, WAIT_TIMEOUT};
use crate::machine::Machine;

/// Name and address of the node: for a name that is an address, the kubelet looks for no other.
pub(crate) const NODE: &str = "127.0.0.1";

/// How often the kubelet reports its node.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// A running kubelet, which ends with its machine.
pub(crate) struct Kubelet {
    process: Process,
    /// Port of statistics, without TLS. The API server does not forward requests to nodes on loopback.
    port: u16,
}

impl Kubelet {
    /// Starts it with these sockets, and settings beside those that a test needs.
    pub(crate) fn start(
        machine: &Machine,
        cluster: &GenuineCluster,
        runtime: &Path,
        images: &Path,
        settings: &Value,
    ) -> anyhow::Result<Self> {
        let folder = machine.folder("kubelet")?;
        let config = folder.join("config.json");
        let port = free_port()?;
        let mut text = configuration(&folder, runtime, images, settings)?;
        text["readOnlyPort"] = json!(port);
        fs::write(&config, text.to_string()).context("writing a configuration of the kubelet")?;
        let mut command = machine.command(&peer("kubelet")?);
        command
            .arg("--config")
            .arg(&config)
            .arg("--kubeconfig")
            .arg(&cluster.served.kubeconfig)
            .arg("--root-dir")
            .arg(folder.join("root"))
            .arg("--cert-dir")
            .arg(folder.join("certificates"))
            .arg(format!("--hostname-override={NODE}"));
        let process = Process::spawn(&mut command, &machine.folder("log-kubelet")?)?;
        Ok(Self { process, port })
    }

    /// Waits until the node is in a state.
    pub(crate) async fn node(
        &mut self,
        cluster: &GenuineCluster,
        what: &str,
        holds: impl Fn(&Node) -> bool,
    ) -> anyhow::Result<Node> {
        let nodes: Api<Node> = Api::all(cluster.cluster.client());
        let found = until(&nodes, NODE, what, WAIT_TIMEOUT, holds).await;
        found.with_context(|| self.log())
    }

    /// Statistics of the node (`/stats/summary`).
    pub(crate) fn summary(&self) -> anyhow::Result<Value> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        // By HTTP/1.0 the answer is in one piece.
        stream.write_all(b"GET /stats/summary HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer")?;
        serde_json::from_str(body).with_context(|| answer.clone())
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        let output = self.process.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

/// Whether a node has a condition.
pub(crate) fn is(node: &Node, condition: &str) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|found| found.type_ == condition && found.status == "True")
}

fn configuration(
    folder: &Path,
    runtime: &Path,
    images: &Path,
    settings: &Value,
) -> anyhow::Result<Value> {
    let socket = |path: &Path| format!("unix://{}", path.display());
    let below = |name: &str| -> PathBuf { folder.join(name) };
    let interval = format!("{}s", REPORT_INTERVAL.as_secs());
    let mut configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": socket(runtime),
        "imageServiceEndpoint": socket(images),
        "featureGates": { "RuntimeClassInImageCriApi": true },
        // The API server of a test has no credentials for kubelets.
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "address": "127.0.0.1",
        "port": free_port()?,
        "healthzPort": 0,
        "nodeStatusUpdateFrequency": interval,
        "nodeStatusReportFrequency": interval,
        // Of hosts, anything goes: the disk may be almost full.
        "imageGCHighThresholdPercent": 100,
        "failCgroupV1": false,
        "failSwapOn": false,
        "cgroupDriver": "cgroupfs",
        "oomScoreAdj": 0,
        "resolvConf": "",
        "makeIPTablesUtilChains": false,
        // The machine has the flags already.
        "protectKernelDefaults": true,
        "evictionHard": { "imagefs.available": "0%", "nodefs.available": "0%" },
        "podLogsDir": below("logs"),
        "volumePluginDir": below("plugins"),
    });
    let settings = settings.as_object().context("settings of the kubelet")?;
    for (name, value) in settings {
        configuration[name] = value.clone();
    }
    Ok(configuration)
}
