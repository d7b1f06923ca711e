//! `medley status`: all five jobs at a glance, as a tree.
//!
//! Everything is read from the cluster now, by whoever asks: the operator need not run. A job whose kinds
//! are not installed is off, and said to be; one that may not be looked at is unknown. Neither hides the
//! others.

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
use serde_json::{Value, json};

use self::tree::{Job, State};
use crate::cluster::ClusterArguments;
use crate::governance::output::Data;
use crate::terminal::{self, Colour};
use crate::{exit, process};

/// What Medley does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Plans for operators that others own.
    Governance,
    /// Boot images for every architecture.
    Images,
    /// CPU models of virtual machines.
    Cpu,
    /// The way of the cluster to a release.
    Release,
    /// Pods and the nodes that can run them.
    Placement,
}

/// Forms of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The tree with all its words, however wide that is.
    Wide,
    Json,
    Yaml,
}

/// Show all five jobs as a tree: what is well, what is under way, what needs attention, with conditions.
///
/// A job is Ready, Progressing, needs Attention, is Off because its kinds are not installed, or Unknown
/// because it may not be looked at. What is ready is counted and not shown, unless --all asks for it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these jobs.
    /// [default: all]
    #[arg(value_enum, value_name = "JOB")]
    jobs: Vec<Name>,

    /// Show also what is well.
    #[arg(long)]
    all: bool,

    /// Fail unless every job that is shown is Ready or Off.
    #[arg(long)]
    gate: bool,

    /// When to use colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Colour,

    /// Form of the output; a tree as wide as the terminal if absent.
    #[arg(short, long, value_enum)]
    output: Option<Form>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Shows.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let jobs = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        // Whoever cannot be reached is no cluster where all is unknown.
        client
            .apiserver_version()
            .await
            .context("asking the cluster for its version")?;
        anyhow::Ok(look(&client, &arguments.jobs).await)
    })?;
    let text = match arguments.output {
        Some(Form::Json) => Data::Json.write(&data(&jobs))?,
        Some(Form::Yaml) => Data::Yaml.write(&data(&jobs))?,
        form => render::render(
            &jobs,
            &render::Look {
                all: arguments.all,
                width: terminal::width().filter(|_| form.is_none()),
                colours: arguments.color.is_on(),
                now: Timestamp::now(),
            },
        ),
    };
    exit::print(&text)?;
    let open = jobs.iter().filter(|it| !it.state.is_settled());
    let open: Vec<String> = open
        .map(|it| format!("{} is {}", it.name, it.state))
        .collect();
    if arguments.gate && !open.is_empty() {
        bail!("not everything is ready: {}", open.join(", "));
    }
    Ok(())
}

/// Looks at jobs; at all of them, if none is named.
pub(crate) async fn look(client: &Client, wanted: &[Name]) -> Vec<Job> {
    let wants = |name: Name| wanted.is_empty() || wanted.contains(&name);
    let mut jobs = Vec::new();
    for name in Name::value_variants() {
        if wants(*name) {
            jobs.push(look_at(client, *name).await);
        }
    }
    jobs
}

async fn look_at(client: &Client, name: Name) -> Job {
    let looked = match name {
        Name::Governance => governance::look(client).await,
        Name::Images => images::look(client).await,
        Name::Cpu => cpu::look(client).await,
        Name::Release => release::look(client).await,
        Name::Placement => placement::look(client).await,
    };
    looked.unwrap_or_else(|error| Job {
        state: State::Unknown,
        message: format!("{error:#}"),
        ..Job::new(name)
    })
}

/// As programs read it.
pub(crate) fn data(jobs: &[Job]) -> Value {
    json!({ "kind": "List", "items": jobs })
}

/// As people read it where there is no terminal.
pub(crate) fn text(jobs: &[Job]) -> String {
    render::render(
        jobs,
        &render::Look {
            all: true,
            width: None,
            colours: false,
            now: Timestamp::now(),
        },
    )
}

impl Name {
    /// How the job is called on the command line and in data.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Governance => "governance",
            Self::Images => "images",
            Self::Cpu => "cpu",
            Self::Release => "release",
            Self::Placement => "placement",
        }
    }

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
