//! Measures the server as clients see it: `cargo xtask bench`.
//!
//! The same load goes, one after the other, to the released binary with a data folder and, if
//! `KUBEBUILDER_ASSETS` names them, to etcd (which waits for the disk here, too) with
//! kube-apiserver. Only the ratios of one run on one machine mean anything.

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
    /// The binary.
    #[arg(hide = true)]
    medley: PathBuf,
    /// What is measured.
    #[arg(long, value_enum, default_value_t = Part::Api)]
    part: Part,
    /// Nodes of the fleet.
    /// [default: 5000, 10000 for CPU models, and 1000 for placement]
    #[arg(long)]
    nodes: Option<usize>,
    /// Virtual machines whose CPU models are chosen, or that run.
    /// [default: 100000, and 10000 for the console]
    #[arg(long)]
    machines: Option<usize>,
    /// How often each page of the console is asked for.
    #[arg(long, default_value_t = 200)]
    reads: usize,
    /// Pods that are scheduled on them.
    #[arg(long, default_value_t = 20_000)]
    pods: usize,
    /// Seconds for each measurement of a rate.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Objects in the list that is read.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// Objects that are governed, and as many beside them that are not.
    #[arg(long, default_value_t = 1_000)]
    governed: usize,
    /// Edits of governed objects.
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// Mebibytes of the disk that is imported.
    #[arg(long, default_value_t = 2048)]
    disk: u64,
    /// Imports of each kind; the best counts.
    #[arg(long, default_value_t = 3)]
    imports: usize,
    /// Boot images that are decided about.
    #[arg(long, default_value_t = 200)]
    images: usize,
    /// Operators of the release.
    #[arg(long, default_value_t = 100)]
    operators: usize,
    /// Manifests of the release.
    #[arg(long, default_value_t = 2_000)]
    manifests: usize,
    /// Looks at the release, each after an operator said something.
    #[arg(long, default_value_t = 1_000)]
    looks: usize,
    /// Mebibytes of the image that is pulled through the CRI.
    #[arg(long, default_value_t = 512)]
    image: usize,
    /// Its layers.
    #[arg(long, default_value_t = 8)]
    layers: usize,
    /// Pulls of it; the best counts.
    #[arg(long, default_value_t = 3)]
    pulls: usize,
    /// Watches that are open at the same time.
    #[arg(long, default_value_t = 200)]
    watchers: usize,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The API server alone.
    Api,
    /// A whole cluster: nodes, controllers, scheduler.
    Fleet,
    /// A configuration with many governed objects.
    Governance,
    /// Boot images: imports, looks, polls, decisions, and a large cluster that converges.
    Images,
    /// CPU models: decisions, questions about all machines, changes of nodes.
    Cpu,
    /// Placement: answers about pods, and what they cost registries.
    Placement,
    /// A release: what a look at all operators costs, and how soon a flip of one image is seen.
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
