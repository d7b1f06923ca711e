//! `medley status`: all five jobs at a glance, as a tree.
//!
//! Everything is read from the cluster with the permissions of the current user: the operator need
//! not run. A job whose CRDs are not installed is Off; one that cannot be read is Unknown. Neither
//! hides the others.

mod cpu;
mod governance;
mod images;
mod placement;
mod release;
mod render;
mod tree;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};

use self::tree::{Job, State};
use crate::cluster::ClusterArguments;
use crate::output::{Data, Format, FormatParser, OutputForm, TemplateArguments};
use crate::terminal::{self, Colour};
use crate::{exit, process};

/// The jobs of Medley.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Name {
    /// Plans for third-party operators.
    Governance,
    /// Boot images for every architecture.
    Images,
    /// CPU models of virtual machines.
    Cpu,
    /// Migration of the cluster to a release.
    Release,
    /// Pods and the nodes that can run them.
    Placement,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The tree with untruncated messages.
    Wide,
    Json,
    Yaml,
}

impl OutputForm for Form {
    fn data(self) -> Option<Data> {
        match self {
            Self::Wide => None,
            Self::Json => Some(Data::Json),
            Self::Yaml => Some(Data::Yaml),
        }
    }
}

/// Show the state of Medley's five jobs and their objects as a tree.
///
/// A job is Ready, is Progressing, needs Attention, is Off because its CRDs are not installed, or is
/// Unknown because it cannot be read. Ready objects are only counted, unless you use --all.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Jobs to show.
    /// [default: all]
    #[arg(value_enum, value_name = "JOB")]
    jobs: Vec<Name>,

    /// Also show ready objects.
    #[arg(long)]
    all: bool,

    /// Exit with 1 unless every job shown is Ready or Off.
    #[arg(long)]
    gate: bool,

    /// When to use colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Colour,

    /// Output format; also jsonpath=TEMPLATE, jsonpath-file=FILE, jsonpath-as-json=TEMPLATE,
    /// custom-columns=HEADER:PATH,... and custom-columns-file=FILE.
    /// [default: a tree as wide as the terminal]
    #[arg(short, long, value_parser = FormatParser::<Form>::new())]
    output: Option<Format<Form>>,

    #[command(flatten)]
    template: TemplateArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let jobs = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        // An unreachable API server is an error, not a cluster of unknown state.
        client
            .apiserver_version()
            .await
            .context("reading the version of the cluster")?;
        anyhow::Ok(read_state(&client, &arguments.jobs).await)
    })?;
    let text = if let Some(format) = arguments.output.as_ref().and_then(Format::data) {
        format.write(&data(&jobs), &arguments.template)?
    } else {
        let width = terminal::width().filter(|_| arguments.output.is_none());
        rendered(&jobs, arguments.all, width, arguments.color.is_on())
    };
    exit::print(&text)?;
    // After the output, so that the log of a pipeline shows what the gate has failed for.
    let open = jobs.iter().filter(|it| !it.state.is_settled());
    let open: Vec<String> = open
        .filter_map(|it| Some((it.name.to_possible_value()?, it.state)))
        .map(|(name, state)| format!("{} is {state}", name.get_name()))
        .collect();
    if arguments.gate && !open.is_empty() {
        bail!("not everything is ready: {}", open.join(", "));
    }
    Ok(())
}

/// Reads the state of the given jobs, or of all if none is given.
pub(crate) async fn read_state(client: &Client, wanted: &[Name]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for name in Name::value_variants() {
        if wanted.is_empty() || wanted.contains(name) {
            jobs.push(read_job(client, *name).await);
        }
    }
    jobs
}

async fn read_job(client: &Client, name: Name) -> Job {
    let result = match name {
        Name::Governance => governance::read_state(client).await,
        Name::Images => images::read_state(client).await,
        Name::Cpu => cpu::read_state(client).await,
        Name::Release => release::read_state(client).await,
        Name::Placement => placement::read_state(client).await,
    };
    // One job that cannot be read must not hide the others.
    result.unwrap_or_else(|error| Job {
        state: State::Unknown,
        message: format!("{error:#}"),
        ..Job::new(name)
    })
}

/// The jobs as JSON.
pub(crate) fn data(jobs: &[Job]) -> Value {
    json!({ "kind": "List", "items": jobs })
}

/// The jobs as plain text, without a terminal.
pub(crate) fn text(jobs: &[Job]) -> String {
    rendered(jobs, true, None, false)
}

fn rendered(jobs: &[Job], all: bool, width: Option<usize>, colours: bool) -> String {
    let now = Timestamp::now();
    let options = render::DisplayOptions {
        all,
        width,
        colours,
        now,
    };
    render::render(jobs, &options)
}

impl Name {
    fn title(self) -> &'static str {
        match self {
            Self::Governance => "Governance",
            Self::Images => "Golden images",
            Self::Cpu => "CPU models",
            Self::Release => "Release migration",
            Self::Placement => "Placement",
        }
    }
}
