//! The console of `medley up`.

use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use ::console::Console;
use anyhow::Context as _;
use kube::Client;
use kube::config::KubeConfigOptions;
use platform::AddressPolicy;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::config_at;
use crate::console::{listen, options};
use crate::output::remark;

/// Default address.
const STANDARD: &str = "127.0.0.1:8080";

/// Value of `up --console`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// No console.
    None,
    /// At this address; an address in use is an error.
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
                .map_err(|_| format!("expected an address such as {STANDARD}, or none")),
        }
    }
}

/// The running console of `up`.
pub(crate) struct Running {
    url: String,
    link: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts the console. Without an explicit address, a busy default port means no console: the
    /// cluster works without it, and `medley console` opens one on any port.
    pub(crate) async fn start(
        choice: Option<Choice>,
        kubeconfig: &Path,
        admin: Client,
        namespace: &str,
        addresses: AddressPolicy,
        registries: oci::Client,
    ) -> anyhow::Result<Option<Self>> {
        let bound = match choice {
            Some(Choice::None) => return Ok(None),
            Some(Choice::At(address)) => listen(address, "--console").await?,
            None => {
                let standard = STANDARD.parse().context("parsing the address")?;
                match listen(standard, "--console").await {
                    Ok(bound) => bound,
                    Err(error) => {
                        remark(&format!("The console is not available: {error:#}"));
                        return Ok(None);
                    }
                }
            }
        };
        let (listener, url) = bound;
        let config = config_at(kubeconfig, &KubeConfigOptions::default())?;
        let console = Console::new(options(config, namespace.to_owned(), addresses, registries));
        let link = console.link(admin);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async {
                // A dropped sender stops the server, too.
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

    /// The lines about the console in the welcome text.
    pub(crate) fn text(&self) -> String {
        format!(
            "The console is at {}. This link signs in as administrator, once and within ten minutes;\n`medley console` prints another:\n\n  {}{}\n",
            self.url, self.url, self.link
        )
    }

    /// Stops the console; requests in flight get a moment to finish.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        // The task only ends early when the process does.
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
