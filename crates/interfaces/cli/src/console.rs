//! `medley console`, and the console of `medley up` and `medley run`.

use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use ::console::{Console, Options};
use anyhow::Context as _;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use platform::AddressPolicy;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::ClusterArguments;
use crate::governance::output::remark;
use crate::images::registry::AddressArguments;
use crate::{exit, host, process, version};

/// Where the console of `up` is unless somebody says otherwise.
pub(crate) const STANDARD: &str = "127.0.0.1:8080";

/// Open the web console with your own rights: prints a link that signs you in.
///
/// The console runs in this process, with the credentials of your kubeconfig, and ends with it. Nothing
/// has to be installed in the cluster. The link works once and for ten minutes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// The namespace of the operator, where the history of plans is kept.
    #[arg(long, value_name = "NAME", default_value = "medley-system")]
    history_namespace: String,

    #[command(flatten)]
    cluster: ClusterArguments,

    #[command(flatten)]
    addresses: AddressArguments,
}

/// Serves until it is asked to stop.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        let config = arguments.cluster.config().await?;
        let client =
            Client::try_from(config.clone()).context("preparing to talk to the cluster")?;
        let (listener, url) = listen(arguments.listen, "--listen").await?;
        let console = Console::new(options(
            config,
            arguments.history_namespace.clone(),
            arguments.addresses.policy(),
        ));
        let link = console.link(client);
        exit::print(&format!(
            "Open this link; it signs you in once, within {} minutes:\n\n  {url}{link}\n\nCtrl-C ends the console.\n",
            Console::link_lifetime().as_secs() / 60
        ))?;
        console.serve(listener, None, stop).await;
        Ok(())
    })
}

/// What a console is told.
pub(crate) fn options(cluster: Config, namespace: String, addresses: AddressPolicy) -> Options {
    Options {
        cluster,
        namespace,
        hosts: Vec::new(),
        secure: false,
        version: format!("medley {}", version::OPERATOR),
        addresses,
    }
}

/// A socket, and how browsers on this machine reach it.
pub(crate) async fn listen(
    address: SocketAddr,
    flag: &str,
) -> anyhow::Result<(TcpListener, String)> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("listening on {address} for browsers; choose another address with {flag} ADDR, or any free one with port 0")
    })?;
    let address = listener
        .local_addr()
        .context("asking for the own address")?;
    Ok((listener, format!("http://{}", host::reachable(address))))
}

/// What `up --console` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// No console.
    None,
    /// At this address, or not at all.
    At(SocketAddr),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            address => address
                .parse()
                .map(Self::At)
                .map_err(|_| format!("an address such as {STANDARD} is needed, or none")),
        }
    }
}

/// The console of `up`, until it is stopped.
pub(crate) struct Running {
    url: String,
    link: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts it. Where nobody chose an address and the standard one is taken, there is none: the
    /// cluster is of use without it, and `medley console` opens one anywhere.
    pub(crate) async fn start(
        choice: Option<Choice>,
        kubeconfig: &Path,
        admin: Client,
        namespace: &str,
        addresses: AddressPolicy,
    ) -> anyhow::Result<Option<Self>> {
        let bound = match choice {
            Some(Choice::None) => return Ok(None),
            Some(Choice::At(address)) => listen(address, "--console").await?,
            None => {
                match listen(STANDARD.parse().context("reading an address")?, "--console").await {
                    Ok(bound) => bound,
                    Err(error) => {
                        remark(&format!("There is no console: {error:#}"));
                        return Ok(None);
                    }
                }
            }
        };
        let (listener, url) = bound;
        let kubeconfig = Kubeconfig::read_from(kubeconfig).context("reading the own kubeconfig")?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("reading the own kubeconfig")?;
        let console = Console::new(options(config, namespace.to_owned(), addresses));
        let link = console.link(admin);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async {
                // Who forgets to stop it stops it, too.
                let _ = stopped.await;
            };
            console.serve(listener, None, stopped).await;
        });
        Ok(Some(Self {
            url,
            link,
            stop,
            task,
        }))
    }

    /// What a new user reads of it.
    pub(crate) fn text(&self) -> String {
        format!(
            "The console is at {}. This link signs in as administrator, once and soon;\n`medley console` makes another:\n\n  {}{}\n",
            self.url, self.url, self.link
        )
    }

    /// Stops it; answers under way get a moment.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        // It only ends early when the process does.
        let _ = self.task.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_an_address_or_none() {
        assert_eq!("none".parse(), Ok(Choice::None));
        assert_eq!(
            STANDARD.parse(),
            Ok(Choice::At(([127, 0, 0, 1], 8080).into()))
        );
        assert!("8080".parse::<Choice>().unwrap_err().contains(STANDARD));
    }
}
