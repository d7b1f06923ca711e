//! The cluster a command connects to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use http::Uri;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use machinery::time::parse_duration;
use runtime::client::{self, Overrides};
use tower::BoxError;
use tower::util::{MapFutureLayer, MapRequestLayer, option_layer};

use crate::otlp;

/// Client configuration of a kubeconfig file.
pub(crate) fn config_at(path: &Path, options: &KubeConfigOptions) -> anyhow::Result<Config> {
    let what = || format!("reading the kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(what)?;
    client::check_names(&kubeconfig, options).with_context(what)?;
    client::in_kubeconfig(&kubeconfig, options).with_context(what)
}

/// The kubeconfig flags, named as in kubectl.
#[derive(Debug, Clone, Args)]
pub(crate) struct KubeconfigArguments {
    /// Path to the kubeconfig file.
    /// [default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod]
    #[arg(long, value_name = "PATH", env = "MEDLEY_KUBECONFIG", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Name of the kubeconfig context.
    /// [default: the current context]
    #[arg(long, value_name = "NAME", env = "MEDLEY_CONTEXT", global = true)]
    context: Option<String>,
}

impl KubeconfigArguments {
    /// A client for the cluster.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        built(self.config().await?, None).await
    }

    /// Client configuration of the cluster, with credentials.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        self.config_with(options, None).await
    }

    /// The same for other options; with a server, a kubeconfig is not needed.
    async fn config_with(
        &self,
        options: KubeConfigOptions,
        server: Option<Uri>,
    ) -> anyhow::Result<Config> {
        let path = self.kubeconfig.clone();
        let is_default =
            options.context.is_none() && options.cluster.is_none() && options.user.is_none();
        // Files, which may be on a network file system.
        let reading = tokio::task::spawn_blocking(move || match (&path, server) {
            (Some(path), _) => config_at(path, &options),
            // Not `usual`, which takes no context and falls back to the service account of the pod.
            (None, _) if !is_default => {
                let what = "reading the kubeconfig";
                let kubeconfig = Kubeconfig::read().context(what)?;
                client::check_names(&kubeconfig, &options).context(what)?;
                client::in_kubeconfig(&kubeconfig, &options).context(what)
            }
            (None, None) => client::usual()
                .context("finding a cluster; name one with --kubeconfig PATH or $KUBECONFIG"),
            (None, Some(server)) => {
                let usual = client::in_usual_kubeconfig(&options);
                Ok(usual.unwrap_or_else(|_| Config::new(server)))
            }
        });
        reading.await.context("reading the kubeconfig")?
    }
}

/// Heading of the flags that all commands with a cluster have.
pub(crate) const CONNECTION: &str = "Connection";

/// Connection flags, with the names and the meaning that they have in kubectl.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    #[command(flatten)]
    kubeconfig: KubeconfigArguments,

    /// Name of the kubeconfig cluster to use.
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = CONNECTION)]
    cluster: Option<String>,

    /// Name of the kubeconfig user to use.
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = CONNECTION)]
    user: Option<String>,

    /// Address of the API server.
    #[arg(short, long, value_name = "URL", hide_short_help = true, help_heading = CONNECTION)]
    server: Option<Uri>,

    /// Bearer token for authentication to the API server.
    #[arg(long, value_name = "TOKEN", hide_short_help = true, help_heading = CONNECTION)]
    token: Option<String>,

    /// Path to a file with the certificates of the API server's certificate authority.
    #[arg(long, value_name = "PATH", hide_short_help = true, help_heading = CONNECTION)]
    certificate_authority: Option<PathBuf>,

    /// Do not verify the certificate of the API server. Connections are insecure.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", hide_short_help = true, help_heading = CONNECTION)]
    #[arg(conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: Option<bool>,

    /// Server name to verify the certificate of the API server with.
    /// [default: the host of the server]
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = CONNECTION)]
    tls_server_name: Option<String>,

    /// Username to impersonate: a user, or a service account as
    /// system:serviceaccount:NAMESPACE:NAME.
    #[arg(id = "as", long = "as", value_name = "USER", hide_short_help = true, help_heading = CONNECTION)]
    impersonate: Option<String>,

    /// Group to impersonate. Can be repeated.
    #[arg(id = "as_group", long = "as-group", value_name = "GROUP", hide_short_help = true, help_heading = CONNECTION)]
    #[arg(requires = "as")]
    impersonate_groups: Vec<String>,

    /// UID to impersonate.
    #[arg(id = "as_uid", long = "as-uid", value_name = "UID", hide_short_help = true, help_heading = CONNECTION)]
    #[arg(requires = "as")]
    impersonate_uid: Option<String>,

    /// Length of time to wait for the response to a request, such as 5s or 2m; 0 waits without a
    /// limit.
    #[arg(long, value_name = "DURATION", value_parser = duration, hide_short_help = true, help_heading = CONNECTION)]
    #[arg(default_value = "0")]
    request_timeout: Duration,
}

impl ClusterArguments {
    /// A client for the cluster.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let config = self.config().await?;
        let timeout = self.request_timeout();
        built(config, timeout).await
    }

    /// The limit of a request.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        Some(self.request_timeout).filter(|it| !it.is_zero())
    }

    /// Client configuration of the cluster, with credentials.
    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.kubeconfig.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let server = self.server.clone().map(with_scheme).transpose()?;
        let kubeconfig = &self.kubeconfig;
        let mut config = kubeconfig.config_with(options, server.clone()).await?;
        let authority = match &self.certificate_authority {
            Some(path) => {
                let what = || format!("reading --certificate-authority {}", path.display());
                Some(tokio::fs::read(path).await.with_context(what)?)
            }
            None => None,
        };
        let overrides = Overrides {
            server,
            tls_server_name: self.tls_server_name.clone(),
            certificate_authority: authority,
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            token: self.token.clone().map(Into::into),
            impersonate: self.impersonate.clone(),
            impersonate_uid: self.impersonate_uid.clone(),
            impersonate_groups: self.impersonate_groups.clone(),
        };
        let applied = overrides.apply(&mut config);
        applied.context("using the connection flags")?;
        Ok(config)
    }
}

async fn built(config: Config, timeout: Option<Duration>) -> anyhow::Result<Client> {
    // A credential plugin may wait for a login in a browser.
    let building = tokio::task::spawn_blocking(move || client_with(config, timeout));
    let built = building.await;
    built.context("creating a client for the cluster")?
}

/// The URL of `--server`, which may be a host and port alone.
fn with_scheme(server: Uri) -> anyhow::Result<Uri> {
    if server.scheme().is_some() {
        return Ok(server);
    }
    // As in client-go (`rest.DefaultServerURL`) for a kubeconfig with TLS settings; plain HTTP has to be asked for.
    let url = format!("https://{}", server.to_string().trim_end_matches('/'));
    let parsed = url.parse();
    parsed.with_context(|| format!("--server {server}: expected a URL, such as https://HOST:6443"))
}

/// Parses a flag that is a duration, as kubectl does: whole seconds, or a number with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let parsed = parse_duration(text).ok();
    let parsed = parsed.and_then(|it| Duration::try_from(it).ok());
    parsed.ok_or_else(|| {
        "expected an integer in seconds, or a number with a unit, such as 1s, 2m or 3h; 0 for no limit".to_owned()
    })
}

/// How much longer than a request a read may take.
const READ_TIMEOUT_MARGIN: Duration = Duration::from_secs(1);

/// A client whose requests are part of the current trace.
pub(crate) fn client(config: Config) -> anyhow::Result<Client> {
    client_with(config, None)
}

/// The same with a time limit for each request. Watches are exempt once they are answered: they end, and are begun
/// again, when nothing was read for that long.
fn client_with(mut config: Config, timeout: Option<Duration>) -> anyhow::Result<Client> {
    if let Some(limit) = timeout {
        // Later than the limit of the response, whose message names the flag.
        config.read_timeout = Some(limit + READ_TIMEOUT_MARGIN);
        // A failed request is not repeated: the limit is for all attempts.
        config.default_retry = false;
    }
    let builder = client::builder(config).context("creating a client for the cluster")?;
    let limited = timeout.map(|limit| {
        MapFutureLayer::new(move |response| async move {
            match tokio::time::timeout(limit, response).await {
                Ok(response) => response,
                Err(_) => Err(BoxError::from(format!(
                    "no response within {limit:?} (--request-timeout)"
                ))),
            }
        })
    });
    let traced = MapRequestLayer::new(otlp::propagate);
    Ok(builder
        .with_layer(&option_layer(limited))
        .with_layer(&traced)
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_kubectl() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for wrong in ["", "-1", "-1s", "five", "1y"] {
            let message = duration(wrong).unwrap_err();
            assert!(message.contains("such as 1s"), "{wrong}: {message}");
        }
    }

    #[test]
    fn server_without_scheme_means_tls() {
        let server = |text: &str| with_scheme(text.parse().unwrap()).unwrap().to_string();
        assert_eq!(server("https://a:6443"), "https://a:6443/");
        assert_eq!(server("http://a:8080"), "http://a:8080/");
        assert_eq!(server("a:6443"), "https://a:6443/");
    }
}
