//! `medley console`, and the options that every console of this program shares.

use std::net::SocketAddr;

use ::console::{Console, Options, SessionKeys};
use anyhow::Context as _;
use clap::Args;
use kube::Config;
use oci::Client;
use platform::AddressPolicy;
use tokio::net::TcpListener;

use crate::cluster::{self, KubeconfigArguments};
use crate::images::registry::{AddressArguments, NetworkArguments};
use crate::{exit, host, process, version};

/// Run the web console locally, with your own permissions, and print a sign-in link.
///
/// The console uses the credentials of your kubeconfig and installs nothing in the cluster. It stops
/// when you press Ctrl-C. The link works once, within ten minutes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Address to listen on; port 0 chooses a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Namespace of the operator, which keeps the history of plans there.
    #[arg(long, value_name = "NAME", default_value = "medley-system")]
    history_namespace: String,

    #[command(flatten)]
    cluster: KubeconfigArguments,

    #[command(flatten)]
    addresses: AddressArguments,

    #[command(flatten)]
    registry: NetworkArguments,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        let config = arguments.cluster.config().await?;
        let client = cluster::client(config.clone())?;
        let (listener, url) = listen(arguments.listen, "--listen").await?;
        let console = Console::new(options(
            config,
            arguments.history_namespace.clone(),
            arguments.addresses.policy(),
            arguments.registry.open_service(&arguments.addresses.policy())?,
        ));
        let link = console.link(client);
        exit::print(&format!(
            "Open this link; it signs you in once, within {} minutes:\n\n  {url}{link}\n\nPress Ctrl-C to stop the console.\n",
            Console::link_lifetime().as_secs() / 60
        ))?;
        console.serve(listener, None, stop).await;
        Ok(())
    })
}

/// Console options with the defaults of the CLI.
pub(crate) fn options(
    cluster: Config,
    namespace: String,
    addresses: AddressPolicy,
    registries: Client,
) -> Options {
    Options {
        cluster,
        namespace,
        hosts: Vec::new(),
        secure: false,
        version: format!("medley {}", version::OPERATOR),
        addresses,
        registries,
        keys: SessionKeys::of_process(),
        provider: None,
    }
}

/// A listening socket, and the URL for browsers on this machine.
pub(crate) async fn listen(
    address: SocketAddr,
    flag: &str,
) -> anyhow::Result<(TcpListener, String)> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("listening on {address} for the console; choose another address with {flag} ADDR, or any free port with port 0")
    })?;
    let address = listener.local_addr().context("reading the local address")?;
    Ok((listener, format!("http://{}", host::reachable(address))))
}
