//! `medley snapshot`: a cluster in a file, and a copy of it from there.
//!
//! The file is lines of JSON: first a [header](format::Header), then one object per line, CRDs
//! first. It is compressed if its name ends in `.gz`. Objects are [redacted](crate::redact).

mod filter;
pub(crate) mod format;
mod take;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Save a cluster to a file from which `medley up --from` starts a copy.
///
/// Reads everything that you may list, except events, leases and the data of Secrets. Values of
/// ConfigMaps and environment variables, passwords, tokens, keys, last-applied configurations and the
/// user data of virtual machines are redacted as in `medley gather`. Redactions and unreadable
/// resources are printed and recorded in the file.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// File to write; compressed if its name ends with `.gz`.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Takes a snapshot.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let taken = take::take(&client, &arguments.output).await?;
        exit::print(&taken.to_string())
    })
}

/// Whether the file name asks for compression.
pub(crate) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "gz")
}
