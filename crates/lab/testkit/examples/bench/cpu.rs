//! CPU model choice for a large cluster, without an API server: decisions compared with a scan of
//! all nodes, the effect of node changes on every virtual machine, and the cost of updating the
//! index.
//!
//! The scan is the reference implementation of the tests.

mod cluster;
#[path = "../../../../jobs/cpu-models/tests/properties/scan.rs"]
mod scan;

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context as _;
use cpu_models::what_if::{Scenario, what_if};
use cpu_models::{Index, Policy, Survey, decide};

use crate::report::Report;
use cluster::Cluster;

/// Budget of a decision, in microseconds.
const DECISION_BUDGET_US: f64 = 50.0;
/// Budget of a question about every virtual machine, in milliseconds.
const QUESTION_BUDGET_MS: f64 = 1000.0;
/// Number of decisions by scan: each visits every node.
const SCANNED: usize = 20;
/// Number of decisions without shared results.
const ALONE: usize = 2_000;
/// Copies of the index, to measure its size.
const COPIES: usize = 8;
/// Number of node changes.
const CHANGES: usize = 1_000;

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// Number of virtual machines.
    pub(crate) machines: usize,
}

/// Runs all measurements.
pub(crate) fn measure(size: Size, report: &mut Report) -> anyhow::Result<()> {
    let cluster = Cluster::new(size.nodes, size.machines);
    let policy = Policy::default();
    report.column("index");
    let started = Instant::now();
    let mut index = Index::new(cluster.nodes.iter().cloned());
    let name = format!("index of {} nodes", size.nodes);
    report.less_is_better(&name, "ms", started.elapsed().as_secs_f64() * 1e3);
    // The allocator reuses freed memory; several copies exceed it.
    let before = resident()?;
    let copies = vec![index.clone(); COPIES];
    let grown = (resident()? - before) / counted(copies.len());
    drop(copies);
    report.less_is_better("memory of the index", "MiB", grown);

    let started = Instant::now();
    let mut survey = Survey::new(&index, &policy);
    let mut named = 0_usize;
    for running in &cluster.machines {
        let verdict = survey.choose(&running.machine, &running.node);
        named += usize::from(verdict.model() != "host-model");
    }
    let all = started.elapsed().as_secs_f64();
    anyhow::ensure!(named * 2 > size.machines, "{named} machines got a model");
    report.at_most(
        DECISION_BUDGET_US,
        "decision, of all",
        "us",
        all * 1e6 / counted(size.machines),
    );
    report.more_is_better("decisions, of all", "/s", counted(size.machines) / all);
    drop(survey);
    let started = Instant::now();
    for running in cluster.machines.iter().take(ALONE) {
        black_box(decide(&index, &policy, &running.machine, &running.node));
    }
    let alone = started.elapsed().as_secs_f64() / counted(ALONE.min(size.machines));
    report.less_is_better("decision, alone", "us", alone * 1e6);

    question(&cluster, &index, &policy, report)?;
    follow(&cluster, &mut index, report);

    report.column("scan");
    let scan = scan::Scan::new(cluster.nodes.iter().cloned());
    let index = Index::new(cluster.nodes.iter().cloned());
    let started = Instant::now();
    let picked: Vec<String> = cluster.machines[..SCANNED.min(size.machines)]
        .iter()
        .zip(&cluster.wishes)
        .map(|(running, wish)| scan.choose(&policy, wish, &running.node))
        .collect();
    let scanned = started.elapsed().as_secs_f64() / counted(picked.len());
    for (model, running) in picked.iter().zip(&cluster.machines) {
        let decision = decide(&index, &policy, &running.machine, &running.node);
        anyhow::ensure!(decision.verdict.model() == model, "scan and index differ");
    }
    report.less_is_better("decision, of all", "us", scanned * 1e6);
    report.more_is_better("decisions, of all", "/s", 1.0 / scanned);
    report.less_is_better("decision, alone", "us", scanned * 1e6);
    Ok(())
}

/// The effect of one node fewer, one node more and another policy on every virtual machine.
fn question(
    cluster: &Cluster,
    index: &Index,
    policy: &Policy,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut fewer = index.clone();
    fewer.remove(&cluster.nodes[0].name);
    let mut more = index.clone();
    let mut new = cluster.nodes[0].clone();
    "new".clone_into(&mut new.name);
    more.upsert(&new);
    let spec = serde_json::json!({ "threshold": { "support": "60%" } });
    let spec = serde_json::from_value(spec).context("reading a policy")?;
    let (strict, _) = Policy::read(&spec);
    let now = Scenario { index, policy };
    for (name, then) in [
        (
            "what if a node goes",
            Scenario {
                index: &fewer,
                policy,
            },
        ),
        (
            "what if a node comes",
            Scenario {
                index: &more,
                policy,
            },
        ),
        (
            "what if the policy changes",
            Scenario {
                index,
                policy: &strict,
            },
        ),
    ] {
        let started = Instant::now();
        let outcome = what_if(now, then, &cluster.machines);
        report.at_most(
            QUESTION_BUDGET_MS,
            name,
            "ms",
            started.elapsed().as_secs_f64() * 1e3,
        );
        anyhow::ensure!(outcome.before.machines as usize == cluster.machines.len());
    }
    Ok(())
}

/// Changes of single nodes: a label added and removed, a node added and removed.
fn follow(cluster: &Cluster, index: &mut Index, report: &mut Report) {
    let mut changed: Vec<_> = cluster.nodes.iter().take(CHANGES).cloned().collect();
    for node in &mut changed {
        node.unschedulable = true;
        node.labels.insert("changed".to_owned(), "true".to_owned());
    }
    let started = Instant::now();
    for node in &changed {
        index.upsert(node);
    }
    let each = started.elapsed().as_secs_f64() / counted(changed.len());
    report.less_is_better("a node changes", "us", each * 1e6);
    let started = Instant::now();
    for node in &changed {
        index.remove(&node.name);
        index.upsert(node);
    }
    let each = started.elapsed().as_secs_f64() / counted(changed.len());
    report.less_is_better("a node goes and comes", "us", each * 1e6);
}

fn counted(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Resident memory of this process, in MiB.
fn resident() -> anyhow::Result<f64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kib: f64 = kib.context("VmRSS is missing")?.trim().parse()?;
    Ok(kib / 1024.0)
}
