//! The console on a large cluster: latency of its pages, cold and warm, for one and for concurrent
//! readers, on an idle and on a changing cluster; and its memory.

mod browser;
mod fill;

use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use self::browser::Browser;
use crate::report::Report;

/// Budget of the page latency, in milliseconds.
const LATENCY_BUDGET_MS: f64 = 200.0;
/// Number of concurrent readers.
const READERS: usize = 8;
/// Interval between changes.
const CHANGE_INTERVAL: Duration = Duration::from_millis(50);
/// Time for the cluster to settle.
const SETTLE_TIME: Duration = Duration::from_secs(20);

/// Size of the cluster, and number of requests per page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    pub(crate) machines: usize,
    pub(crate) images: usize,
    pub(crate) rounds: usize,
}

/// Pages and their names in the report.
const PAGES: [(&str, &str); 12] = [
    ("overview", "/"),
    ("governance", "/governance"),
    ("plan", "/governance/load-aware-rebalancing"),
    ("images", "/images"),
    ("image", "/images/kubevirt-os-images/image-0"),
    ("CPU models", "/cpu"),
    ("what if", "/cpu?remove=rome-1*&like=milan-1&count=10"),
    ("release", "/release"),
    ("placement", "/placement"),
    ("machines", "/machines"),
    ("new machine", "/machines/new"),
    ("its image", "/machines/new?arch=arm64"),
];

/// Fills `medley up`, signs in, and measures the pages.
pub(crate) async fn measure(binary: &Path, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let target = fill::up(binary, size, report).await?;
    tokio::time::sleep(SETTLE_TIME).await;
    let before = target.memory()?;
    report.less_is_better("memory, nobody signed in", "MiB", before);
    let browser = Browser::sign_in(&target.output()).await?;
    for (name, path) in PAGES {
        let took = browser.get(path).await?;
        report.less_is_better(&format!("{name}, first"), "ms", took);
    }
    for (name, path) in PAGES {
        let quiet = read(&browser, path, 1, size.rounds).await?;
        report.less_is_better(&format!("{name}, half"), "ms", quiet.at(50));
        report.at_most(
            LATENCY_BUDGET_MS,
            &format!("{name}, 95 of 100"),
            "ms",
            quiet.at(95),
        );
        report.less_is_better(&format!("{name}, 99 of 100"), "ms", quiet.at(99));
        let together = read(&browser, path, READERS, size.rounds).await?;
        let title = format!("{name}, {READERS} at once, 95");
        report.less_is_better(&title, "ms", together.at(95));
    }
    let changing = tokio::spawn(change(target.client().await?));
    for (name, path) in PAGES {
        let busy = read(&browser, path, 1, size.rounds).await?;
        let title = format!("{name}, changing, 95");
        report.at_most(LATENCY_BUDGET_MS, &title, "ms", busy.at(95));
    }
    changing.abort();
    let after = target.memory()?;
    report.less_is_better("memory, one signed in", "MiB", after);
    report.less_is_better("memory of who is signed in", "MiB", after - before);
    Ok(())
}

/// Latencies in milliseconds, sorted.
struct Times(Vec<f64>);

impl Times {
    /// A percentile.
    fn at(&self, percent: usize) -> f64 {
        let place = (self.0.len() * percent).div_ceil(100);
        let place = place.clamp(1, self.0.len().max(1)) - 1;
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// Requests a page repeatedly.
async fn read(
    browser: &Browser,
    path: &str,
    readers: usize,
    rounds: usize,
) -> anyhow::Result<Times> {
    let reading = (0..readers).map(|_| async {
        let mut times = Vec::new();
        for _ in 0..rounds.div_ceil(readers) {
            times.push(browser.get(path).await?);
        }
        anyhow::Ok(times)
    });
    let mut times: Vec<f64> = try_join_all(reading).await?.concat();
    times.sort_by(f64::total_cmp);
    Ok(Times(times))
}

/// Changes nodes and pods continuously, as happens in large clusters.
async fn change(client: Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let few = ListParams::default().limit(100);
    let node_names: Vec<String> = nodes.list(&few).await?.iter().map(Node::name_any).collect();
    let pod_names: Vec<String> = pods.list(&few).await?.iter().map(Pod::name_any).collect();
    let started = Instant::now();
    for round in 0usize.. {
        let at = started.elapsed().as_millis().to_string();
        let note = Patch::Merge(json!({ "metadata": { "annotations": { "bench/at": at } } }));
        let params = PatchParams::default();
        if let Some(name) = node_names.get(round % node_names.len().max(1)) {
            nodes.patch(name, &params, &note).await?;
        }
        if let Some(name) = pod_names.get(round % pod_names.len().max(1)) {
            pods.patch(name, &params, &note).await?;
        }
        tokio::time::sleep(CHANGE_INTERVAL).await;
    }
    Ok(())
}
