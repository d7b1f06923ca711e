//! Choosing CPU models for a large cluster, without one: decisions beside those of a scan of all nodes, what
//! other nodes would change for every machine, and what it costs to follow a node.
//!
//! The scan is the one that the tests hold the decisions against.

#[path = "../../../../jobs/cpu-models/tests/properties/scan.rs"]
mod scan;
mod world;

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context as _;
use cpu_models::what_if::{World, what_if};
use cpu_models::{Index, Policy, Survey, decide};

use crate::report::Report;
use world::Cluster;

/// The most microseconds for a decision.
const DECISION: f64 = 50.0;
/// The most milliseconds for a question about every machine.
const QUESTION: f64 = 1000.0;
/// Decisions of the scan: each looks at every node.
const SCANNED: usize = 20;
/// Decisions that share nothing with others.
const ALONE: usize = 2_000;
/// Copies of the index, to see how large one is.
const COPIES: usize = 8;
/// Changes of nodes.
const CHANGES: usize = 1_000;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Nodes of the cluster.
    pub(crate) nodes: usize,
    /// Machines on them.
    pub(crate) machines: usize,
}

/// Measures all of it.
pub(crate) fn measure(size: Size, report: &mut Report) -> anyhow::Result<()> {
    let cluster = Cluster::new(size.nodes, size.machines);
    let policy = Policy::default();
    report.column("index");
    let started = Instant::now();
    let mut index = Index::new(cluster.nodes.iter().cloned());
    let name = format!("index of {} nodes", size.nodes);
    report.less_is_better(&name, "ms", started.elapsed().as_secs_f64() * 1e3);
    // What was freed before would be used again: several copies cannot all fit there.
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
        DECISION,
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

/// What a node fewer, a node more and another policy would change for every machine.
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
    let now = World { index, policy };
    for (name, then) in [
        (
            "what if a node goes",
            World {
                index: &fewer,
                policy,
            },
        ),
        (
            "what if a node comes",
            World {
                index: &more,
                policy,
            },
        ),
        (
            "what if the policy changes",
            World {
                index,
                policy: &strict,
            },
        ),
    ] {
        let started = Instant::now();
        let outcome = what_if(now, then, &cluster.machines);
        report.at_most(QUESTION, name, "ms", started.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(outcome.before.machines as usize == cluster.machines.len());
    }
    Ok(())
}

/// Changes of single nodes: a label that comes and goes, a node that does.
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

/// What this process holds, in MiB.
fn resident() -> anyhow::Result<f64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kib: f64 = kib.context("VmRSS is missing")?.trim().parse()?;
    Ok(kib / 1024.0)
}
