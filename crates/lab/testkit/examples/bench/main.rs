//! Benchmarks of the API server and the controllers: `cargo xtask bench`.
//!
//! The same load runs, one after the other, on the released binary with a data folder and, if
//! `KUBEBUILDER_ASSETS` names them, on etcd (with fsync enabled) and kube-apiserver. Only the
//! ratios within one run on one host are meaningful.

mod console;
mod cpu;
mod cri;
mod fleet;
mod governance;
mod idle;
mod images;
mod load;
mod placement;
mod release;
mod report;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::report::Report;
use crate::target::Target;

/// As in the binary: parts of it are measured in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench --",
    about = "Measures the server as clients see it"
)]
struct Arguments {
    /// Path of the medley binary.
    #[arg(hide = true)]
    medley: PathBuf,
    /// Benchmark to run.
    #[arg(long, value_enum, default_value_t = Part::Api)]
    part: Part,
    /// Number of nodes. [default: 5000, 10000 for CPU models, and 1000 for placement]
    #[arg(long)]
    nodes: Option<usize>,
    /// Number of virtual machines. [default: 100000, and 10000 for the console]
    #[arg(long)]
    machines: Option<usize>,
    /// Number of requests per console page.
    #[arg(long, default_value_t = 200)]
    reads: usize,
    /// Number of pods to schedule.
    #[arg(long, default_value_t = 20_000)]
    pods: usize,
    /// Seconds per throughput measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Number of objects in the list benchmark.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// Number of governed objects; the same number is left ungoverned.
    #[arg(long, default_value_t = 1_000)]
    governed: usize,
    /// Number of edits of governed objects.
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// Size of the imported disk in MiB.
    #[arg(long, default_value_t = 2048)]
    disk: u64,
    /// Number of imports per side; the best counts.
    #[arg(long, default_value_t = 3)]
    imports: usize,
    /// Number of boot images.
    #[arg(long, default_value_t = 200)]
    images: usize,
    /// Number of operators in the release.
    #[arg(long, default_value_t = 100)]
    operators: usize,
    /// Number of manifests in the release.
    #[arg(long, default_value_t = 2_000)]
    manifests: usize,
    /// Number of evaluations of the release, each after a report of an operator.
    #[arg(long, default_value_t = 1_000)]
    looks: usize,
    /// Size of the image pulled through the CRI, in MiB.
    #[arg(long, default_value_t = 512)]
    image: usize,
    /// Number of layers of that image.
    #[arg(long, default_value_t = 8)]
    layers: usize,
    /// Number of pulls per side; the best counts.
    #[arg(long, default_value_t = 3)]
    pulls: usize,
    /// Number of concurrent watches.
    #[arg(long, default_value_t = 200)]
    watchers: usize,
}

/// Available benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The API server alone.
    Api,
    /// A whole cluster: nodes, controllers, scheduler.
    Fleet,
    /// A configuration with many governed objects.
    Governance,
    /// Boot images: imports, inspections, polls, decisions, and convergence of a large cluster.
    Images,
    /// CPU models: decisions, questions about all virtual machines, changes of nodes.
    Cpu,
    /// Placement: admission latency, and requests to registries.
    Placement,
    /// A release: cost of evaluating all operators, and latency of a single image change.
    Release,
    /// Pulls through the CRI, from a registry to files.
    Cri,
    /// The pages of the console of a large cluster.
    Console,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut report = Report::default();
    if arguments.part == Part::Fleet {
        let size = fleet::Size {
            nodes: arguments.nodes.unwrap_or(5_000),
            pods: arguments.pods,
        };
        fleet::medley(&arguments.medley, size, &mut report).await?;
        if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
            fleet::genuine(&PathBuf::from(assets), size, &mut report).await?;
        }
        return report.print();
    }
    if arguments.part == Part::Governance {
        let size = governance::Size {
            governed: arguments.governed,
            rounds: arguments.rounds,
        };
        let target = Target::medley(&arguments.medley).await?;
        governance::measure(&target, size, &mut report).await?;
        drop(target);
        if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
            let target = Target::genuine(&PathBuf::from(assets)).await?;
            governance::measure(&target, size, &mut report).await?;
        }
        return report.print();
    }
    if arguments.part == Part::Images {
        let size = images::Size {
            disk: arguments.disk << 20,
            imports: arguments.imports.max(1),
            images: arguments.images,
            nodes: arguments.nodes.unwrap_or(5_000),
        };
        images::measure(&arguments.medley, size, &mut report).await?;
        return report.print();
    }
    if arguments.part == Part::Cpu {
        let size = cpu::Size {
            nodes: arguments.nodes.unwrap_or(10_000),
            machines: arguments.machines.unwrap_or(100_000),
        };
        cpu::measure(size, &mut report)?;
        return report.print();
    }
    if arguments.part == Part::Console {
        let size = console::Size {
            nodes: arguments.nodes.unwrap_or(5_000),
            pods: arguments.pods,
            machines: arguments.machines.unwrap_or(10_000),
            images: arguments.images,
            rounds: arguments.reads.max(1),
        };
        console::measure(&arguments.medley, size, &mut report).await?;
        return report.print();
    }
    if arguments.part == Part::Placement {
        let size = placement::Size {
            nodes: arguments.nodes.unwrap_or(1_000),
            span: Duration::from_secs(arguments.seconds.max(1)),
        };
        placement::measure(&arguments.medley, size, &mut report).await?;
        return report.print();
    }
    if arguments.part == Part::Cri {
        let size = cri::Size {
            bytes: arguments.image << 20,
            layers: arguments.layers,
            pulls: arguments.pulls,
        };
        cri::measure(&arguments.medley, size, &mut report).await?;
        return report.print();
    }
    if arguments.part == Part::Release {
        let size = release::Size {
            operators: arguments.operators.max(1),
            manifests: arguments.manifests,
            rounds: arguments.looks.max(1),
        };
        release::measure(size, &mut report)?;
        Box::pin(release::flips(size, &mut report)).await?;
        return report.print();
    }
    measure(
        &arguments,
        Target::medley(&arguments.medley).await?,
        &mut report,
    )
    .await?;
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let target = Target::genuine(&PathBuf::from(assets)).await?;
        measure(&arguments, target, &mut report).await?;
    }
    report.print()
}

async fn measure(arguments: &Arguments, target: Target, report: &mut Report) -> anyhow::Result<()> {
    let span = Duration::from_secs(arguments.seconds);
    report.column(target.name);
    report.less_is_better("ready", "ms", target.ready.as_secs_f64() * 1e3);
    tokio::time::sleep(Duration::from_secs(2)).await;
    report.less_is_better("idle memory", "MiB", target.memory()?);
    for clients in [1, 16] {
        let rate = load::creates(&target, clients, span).await?;
        report.more_is_better(&format!("creates, {clients} client(s)"), "/s", rate);
    }
    let rate = load::applies(&target, 16, span).await?;
    report.more_is_better("applies, 16 client(s)", "/s", rate);
    load::fill(&target, "list", arguments.objects).await?;
    let list = load::list(&target, arguments.objects).await?;
    report.less_is_better(
        &format!("list of {} objects", arguments.objects),
        "ms",
        list.as_secs_f64() * 1e3,
    );
    let rate = load::fan_out(&target, arguments.watchers).await?;
    report.more_is_better(
        &format!("events to {} watchers", arguments.watchers),
        "/s",
        rate,
    );
    report.less_is_better("memory afterwards", "MiB", target.memory()?);
    Ok(())
}
