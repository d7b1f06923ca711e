//! `medley up` with a large mixed fleet, virtual machines, pods, images and a plan for review.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use api::advisor::VirtPlatformConfig;
use api::cdi::DataImportCron;
use api::kubevirt::VirtualMachineInstance;
use api::ssp::ARCHITECTURES;
use fleet::operators::{HyperConvergedVersion, hyperconverged, names};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::wait_until;

use super::Size;
use crate::fleet as deployments;
use crate::report::Report;
use crate::target::Target;

/// Timeout of each step.
const STEP_TIMEOUT: Duration = Duration::from_mins(30);
/// Poll interval for virtual machines: listing them is expensive.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Architectures of images.
const ARCHITECTURE: [&str; 3] = ["amd64", "arm64", "s390x"];

/// Pools: name, architecture, further fields, and their share in percent.
const POOLS: [(&str, &str, &str, usize); 8] = [
    ("skylake", "amd64", "cpu: {generation: skylake}", 24),
    ("icelake", "amd64", "cpu: {generation: icelake}", 20),
    ("rome", "amd64", "cpu: {generation: rome}", 12),
    ("milan", "amd64", "cpu: {generation: milan}", 12),
    ("genoa", "amd64", "cpu: {generation: genoa}", 10),
    ("arm", "arm64", "", 15),
    ("ibmz", "s390x", "cpu: {generation: z16}", 4),
    ("win", "amd64", "os: windows, windowsBuild: 10.0.20348", 3),
];

/// Virtual machines: name, architecture, CPU model, and their share in percent.
const MACHINES: [(&str, &str, &str, usize); 6] = [
    ("match", "amd64", "cpuModel: best-match-model", 50),
    ("shop", "amd64", "cpuModel: host-model", 20),
    ("legacy", "amd64", "cpuModel: Skylake-Server-IBRS", 10),
    ("ledger", "amd64", "cpuModel: EPYC-IBPB", 5),
    ("edge", "arm64", "", 10),
    ("batch", "s390x", "cpuModel: host-model", 5),
];

fn fleet(size: Size) -> String {
    let mut text = "pools:\n".to_owned();
    let part = |all: usize, percent: usize| (all * percent / 100).max(1);
    for (name, architecture, more, percent) in POOLS {
        let more = if more.is_empty() {
            String::new()
        } else {
            format!(", {more}")
        };
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "- {{name: {name}, count: {}, arch: {architecture}, roles: [worker], capacity: {{cpu: 64, memory: 256Gi, pods: 110, devices.kubevirt.io/kvm: 1000}}{more}}}",
            part(size.nodes, percent)
        );
    }
    text.push_str("virtualMachines:\n");
    for (name, architecture, more, percent) in MACHINES {
        let more = if more.is_empty() {
            String::new()
        } else {
            format!(", {more}")
        };
        let _ = writeln!(
            text,
            "- {{name: {name}, namespace: machines, count: {}, arch: {architecture}{more}}}",
            part(size.machines, percent)
        );
    }
    text
}

/// Starts it, and waits until all objects exist.
pub(super) async fn up(binary: &Path, size: Size, report: &mut Report) -> anyhow::Result<Target> {
    let target = Target::up(binary, &fleet(size), STEP_TIMEOUT).await?;
    report.column(target.name);
    report.less_is_better(
        &format!("{} nodes ready", size.nodes),
        "s",
        target.ready.as_secs_f64(),
    );
    let client = target.client().await?;
    let started = Instant::now();
    let wanted = MACHINES
        .iter()
        .map(|it| (size.machines * it.3 / 100).max(1))
        .sum();
    machines(&client, wanted).await?;
    report.less_is_better(
        &format!("{wanted} machines running"),
        "s",
        started.elapsed().as_secs_f64(),
    );
    // Every virtual machine has a launcher pod.
    let deployed = deployments::Size {
        nodes: size.nodes,
        pods: size.pods.saturating_sub(wanted),
    };
    deployments::scheduled(&client, deployed, report).await?;
    images(&client, size.images).await?;
    plan(&client).await?;
    Ok(target)
}

async fn machines(client: &Client, wanted: usize) -> anyhow::Result<()> {
    let api: Api<VirtualMachineInstance> = Api::all(client.clone());
    wait_until("all machines run", STEP_TIMEOUT, async || {
        tokio::time::sleep(POLL_INTERVAL).await;
        let all = api.list(&ListParams::default()).await;
        let all = all.context("listing machines")?;
        let running = all.iter().filter(|it| it.phase() == "Running").count();
        Ok((running >= wanted).then_some(()))
    })
    .await
}

/// Requests images that do not exist: the console shows as much about them, and nothing is
/// imported.
async fn images(client: &Client, images: usize) -> anyhow::Result<()> {
    let kind = hyperconverged(HyperConvergedVersion::V1);
    let home = names::VIRTUALIZATION_NAMESPACE;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), home, &kind);
    let templates: Vec<Value> = (0..images).map(template).collect();
    let patch = json!({ "spec": { "workloadSources": {
        "enableMultiArchBootImageImport": true, "dataImportCronTemplates": templates,
    } } });
    let params = PatchParams::default();
    api.patch(names::HYPERCONVERGED, &params, &Patch::Merge(patch))
        .await
        .context("asking for images")?;
    let crons: Api<DataImportCron> = Api::all(client.clone());
    wait_until("all images are kept", STEP_TIMEOUT, async || {
        tokio::time::sleep(POLL_INTERVAL).await;
        let all = crons.list(&ListParams::default()).await;
        let all = all.context("listing images")?;
        Ok((all.items.len() >= images * ARCHITECTURE.len()).then_some(()))
    })
    .await
}

fn template(number: usize) -> Value {
    let source = format!("image-{number}");
    json!({
        "metadata": {
            "name": format!("{source}-cron"),
            "annotations": { ARCHITECTURES: ARCHITECTURE.join(",") },
        },
        "spec": {
            "managedDataSource": source, "schedule": "0 */12 * * *",
            "importsToKeep": 1, "retentionPolicy": "None", "garbageCollect": "Outdated",
            "template": { "spec": {
                "source": { "registry": { "url": format!("docker://127.0.0.1:1/disks/{source}:1") } },
                "storage": { "resources": { "requests": { "storage": "10Gi" } } },
            } },
        },
    })
}

/// Creates a plan.
async fn plan(client: &Client) -> anyhow::Result<()> {
    const NAME: &str = "load-aware-rebalancing";
    let configs: Api<VirtPlatformConfig> = Api::all(client.clone());
    wait_until("there is a configuration", STEP_TIMEOUT, async || {
        Ok(configs.get_opt(NAME).await?)
    })
    .await?;
    let patch = Patch::Merge(json!({ "spec": { "action": "DryRun" } }));
    let params = PatchParams::default();
    configs.patch(NAME, &params, &patch).await?;
    wait_until("there is a plan", STEP_TIMEOUT, async || {
        let config = configs.get(NAME).await?;
        let items = config.status.map(|it| it.items).unwrap_or_default();
        Ok((!items.is_empty()).then_some(()))
    })
    .await
}
