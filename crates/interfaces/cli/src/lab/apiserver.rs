//! `medley apiserver`: the embedded API server without controllers.

use std::path::PathBuf;

use clap::Args;

use crate::lab::embedded::{Embedded, PlaceArguments, read_tokens};
use crate::{exit, process};

/// Run the embedded Kubernetes API server, without controllers or nodes.
///
/// Writes an administrator kubeconfig and prints one line when it is ready. Stops on Ctrl-C and
/// SIGTERM. It is meant for development and tests; do not use it as a production control plane. RBAC
/// applies as in any cluster.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: PlaceArguments,

    /// File with bearer tokens, one per line, as in kube-apiserver: token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let tokens = arguments
        .token_auth_file
        .as_deref()
        .map(read_tokens)
        .transpose()?
        .unwrap_or_default();
    let place = arguments.place.complete()?;
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        let embedded = Embedded::open(place, tokens, false).await?;
        embedded.write_kubeconfig()?;
        exit::print(&format!(
            "ready: {} (kubeconfig: {})\n",
            embedded.url(),
            embedded.kubeconfig().display()
        ))?;
        embedded.serve(stop).await;
        Ok(())
    })
}
