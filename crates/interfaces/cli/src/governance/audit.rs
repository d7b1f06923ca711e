//! `medley audit`: exports and verifies the audit log.

use std::path::{Path, PathBuf};

use ::governance::audit::{Entry, LABEL, LABEL_VALUE, parse, read_segment, verify};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::ListParams;
use kube::{Api, Client};

use super::source::HistoryArguments;
use crate::cluster::ClusterArguments;
use crate::output::plural;
use crate::{exit, process};

/// Export and verify the audit log: plans, approvals, and items with the values before and after.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Export(ExportArguments),
    Verify(VerifyArguments),
}

/// Print the audit log as JSON lines.
///
/// Every entry has the SHA-256 hash of the one before, so that a copy can be verified anywhere. Fails if the log
/// in the cluster is not intact.
#[derive(Debug, Args)]
struct ExportArguments {
    /// Start with the entry of this number, to continue an earlier export.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    from: u64,

    #[command(flatten)]
    history: HistoryArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Check that no entry of the audit log was changed, removed or inserted.
///
/// Without --filename, the log in the cluster is checked.
#[derive(Debug, Args)]
struct VerifyArguments {
    /// Exported log to check; - reads standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    /// Hash of an entry that the log has to contain, from an earlier check: entries that were cut off at the end leave
    /// no other trace.
    #[arg(long, value_name = "HASH")]
    head: Option<String>,

    #[command(flatten)]
    history: HistoryArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Runs `medley audit ...`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        match &arguments.command {
            Command::Export(arguments) => export(arguments).await,
            Command::Verify(arguments) => check(arguments).await,
        }
    })
}

async fn export(arguments: &ExportArguments) -> anyhow::Result<()> {
    let client = arguments.cluster.client().await?;
    let log = read(&client, &arguments.history.history_namespace).await?;
    verify(&log, None).context("the audit log in the cluster is not intact")?;
    let lines = log.iter().filter(|entry| entry.sequence >= arguments.from);
    exit::print(&lines.map(|entry| entry.line() + "\n").collect::<String>())
}

async fn check(arguments: &VerifyArguments) -> anyhow::Result<()> {
    let log = if let Some(path) = &arguments.filename {
        parse(&text(path)?).with_context(|| format!("reading {}", path.display()))?
    } else {
        let client = arguments.cluster.client().await?;
        read(&client, &arguments.history.history_namespace).await?
    };
    let summary = verify(&log, arguments.head.as_deref())?;
    if summary.entries == 0 {
        bail!("the audit log is empty: there is nothing to verify");
    }
    let last = summary.first + summary.entries - 1;
    let count = usize::try_from(summary.entries).unwrap_or(usize::MAX);
    let pruned = if summary.first > 1 {
        "Entries before the first one were deleted by the retention (medley run --audit-entries).\n"
    } else {
        ""
    };
    exit::print(&format!(
        "{count} entr{} intact, {} to {last}\n{pruned}Head: {}\n",
        if plural(count).is_empty() {
            "y is"
        } else {
            "ies are"
        },
        summary.first,
        summary.head
    ))
}

fn text(path: &Path) -> anyhow::Result<String> {
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.with_context(|| format!("reading {}", path.display()))
}

/// The log in the cluster, in order.
async fn read(client: &Client, namespace: &str) -> anyhow::Result<Vec<Entry>> {
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(&format!("{LABEL}={LABEL_VALUE}"));
    let listed = api.list(&params).await;
    let mut segments = listed
        .with_context(|| format!("listing the audit log in namespace {namespace}"))?
        .items;
    segments.sort_by_key(|segment| segment.revision);
    let data = segments.iter().filter_map(|segment| segment.data.as_ref());
    Ok(data.flat_map(|data| read_segment(&data.0)).collect())
}
