//! The console of an operator in a cluster: its address, certificate, session keys and identity
//! provider.

use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;

use ::console::{Console, Issuer, Options, ProviderSettings, SessionKeys};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kube::Client;
use runtime::Manager;
use serving::certificates::{Files, Tls};
use tracing::info;

use crate::console;

/// Flags of the console.
#[derive(Debug, Args)]
pub(super) struct ConsoleArguments {
    /// Address for the web console. Users sign in with their own credentials; the console has no
    /// permissions of its own.
    /// [default: no console]
    #[arg(long, value_name = "ADDR", env = "MEDLEY_CONSOLE")]
    console: Option<SocketAddr>,

    /// Comma-separated host names of the console, besides IP addresses and localhost.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(env = "MEDLEY_CONSOLE_HOST", requires = "console")]
    console_host: Vec<String>,

    /// Set cookies as Secure, for a console behind a proxy that terminates TLS.
    #[arg(long, env = "MEDLEY_CONSOLE_BEHIND_TLS", requires = "console")]
    console_behind_tls: bool,

    /// Serving certificate of the console, in PEM; reloaded when the file changes.
    #[arg(long, value_name = "PATH", env = "MEDLEY_CONSOLE_TLS_CERT")]
    #[arg(requires_all = ["console", "console_tls_key"])]
    console_tls_cert: Option<PathBuf>,

    /// Private key of the serving certificate of the console, in PEM.
    #[arg(long, value_name = "PATH", env = "MEDLEY_CONSOLE_TLS_KEY")]
    #[arg(requires = "console_tls_cert")]
    console_tls_key: Option<PathBuf>,

    /// Encrypt sessions with keys that are kept in this Secret of the operator's namespace, so that
    /// they survive restarts and continue on any replica. The Secret is created if missing; keys
    /// are rotated daily.
    #[arg(long, value_name = "NAME", env = "MEDLEY_CONSOLE_SESSION_SECRET")]
    #[arg(requires = "console", conflicts_with = "console_session_key")]
    console_session_secret: Option<String>,

    /// Encrypt sessions with keys in this file: 32 random bytes in base64 on each line. The first
    /// encrypts, all decrypt; reloaded when the file changes.
    /// [default: a key in memory, whose sessions end with the process]
    #[arg(long, value_name = "PATH", env = "MEDLEY_CONSOLE_SESSION_KEY")]
    #[arg(requires = "console")]
    console_session_key: Option<PathBuf>,

    #[command(flatten)]
    provider: ProviderArguments,
}

/// The identity provider of the console.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_field_names,
    reason = "they are the names of flags, whose prefix tells those of the console from others"
)]
struct ProviderArguments {
    /// Let users sign in at this OpenID Connect provider. The API server has to accept its ID
    /// tokens for the same client.
    #[arg(long, value_name = "URL", env = "MEDLEY_CONSOLE_OIDC_ISSUER")]
    #[arg(requires_all = ["console", "console_oidc_client_id"])]
    #[arg(conflicts_with = "console_oauth")]
    console_oidc_issuer: Option<String>,

    /// Let users sign in at the OAuth server of the cluster; the console needs an OAuthClient.
    #[arg(long, value_name = "SERVER", env = "MEDLEY_CONSOLE_OAUTH", value_enum)]
    #[arg(requires_all = ["console", "console_oidc_client_id"])]
    console_oauth: Option<OauthServer>,

    /// Client ID of the console at the identity provider.
    #[arg(long, value_name = "ID", env = "MEDLEY_CONSOLE_OIDC_CLIENT_ID")]
    #[arg(requires = "console")]
    console_oidc_client_id: Option<String>,

    /// File with the client secret of the console; read again for every use.
    /// [default: a public client]
    #[arg(
        long,
        value_name = "PATH",
        env = "MEDLEY_CONSOLE_OIDC_CLIENT_SECRET_FILE"
    )]
    #[arg(requires = "console_oidc_client_id")]
    console_oidc_client_secret_file: Option<PathBuf>,

    /// Comma-separated scopes to request. With offline_access, most providers let the console renew
    /// tokens before they expire.
    /// [default: openid,profile,email; user:full with --console-oauth]
    #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
    #[arg(
        env = "MEDLEY_CONSOLE_OIDC_SCOPES",
        requires = "console_oidc_client_id"
    )]
    console_oidc_scopes: Vec<String>,

    /// File with the CA certificates of the identity provider, in PEM.
    /// [default: those of the system]
    #[arg(long, value_name = "PATH", env = "MEDLEY_CONSOLE_OIDC_CA")]
    #[arg(requires = "console_oidc_client_id")]
    console_oidc_ca: Option<PathBuf>,
}

/// OAuth servers that are part of a cluster.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum OauthServer {
    /// The OAuth server of OpenShift.
    Openshift,
}

impl ProviderArguments {
    fn settings(self) -> anyhow::Result<Option<ProviderSettings>> {
        let (issuer, usual): (_, &[&str]) = match (self.console_oidc_issuer, self.console_oauth) {
            (Some(issuer), _) => (Issuer::Oidc(issuer), &["openid", "profile", "email"]),
            // The token has to allow what the user may do.
            (None, Some(OauthServer::Openshift)) => (Issuer::Openshift, &["user:full"]),
            (None, None) => return Ok(None),
        };
        let scopes = if self.console_oidc_scopes.is_empty() {
            usual.iter().map(|&scope| scope.to_owned()).collect()
        } else {
            self.console_oidc_scopes
        };
        let settings = ProviderSettings {
            issuer,
            client_id: self.console_oidc_client_id.unwrap_or_default(),
            client_secret: self.console_oidc_client_secret_file,
            scopes,
            authority: self.console_oidc_ca,
        };
        settings.validate()?;
        Ok(Some(settings))
    }
}

impl ConsoleArguments {
    /// Serves the console until the manager stops, if there is an address. `client` is that of the
    /// operator, for the Secret with the keys; users bring their own credentials.
    pub(super) async fn serve(
        self,
        manager: &Manager,
        client: &Client,
        options: Options,
    ) -> anyhow::Result<()> {
        let Some(address) = self.console else {
            return Ok(());
        };
        let keys = match (&self.console_session_secret, &self.console_session_key) {
            (Some(name), _) => {
                SessionKeys::of_secret(client.clone(), &options.namespace, name).await?
            }
            (None, Some(path)) => SessionKeys::of_file(path)?,
            (None, None) => SessionKeys::of_process(),
        };
        let files = match (&self.console_tls_cert, &self.console_tls_key) {
            (Some(certificate), Some(key)) => {
                let files = Files::open(certificate, key, Files::EVERY);
                Some(files.context("reading the certificate of the console")?)
            }
            _ => None,
        };
        let console = Console::new(Options {
            hosts: self.console_host,
            secure: self.console_behind_tls || files.is_some(),
            keys,
            provider: self.provider.settings()?,
            ..options
        });
        let (listener, mut url) = console::listen(address, "--console").await?;
        let tls = match files {
            None => None,
            Some(files) => {
                let tls = Tls::new(files.pair()).context("using the certificate of the console")?;
                manager.spawn(tls.clone().follow(files));
                url = url.replacen("http:", "https:", 1);
                Some(tls.of_listener())
            }
        };
        info!(url, "serving the console");
        manager.spawn(async move { console.serve(listener, tls, pending()).await });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        console: ConsoleArguments,
    }

    #[test]
    fn flags_that_belong_together_are_required() {
        Command::command().debug_assert();
        let console = ["medley", "--console", "127.0.0.1:0"];
        let oidc = ["--console-oidc-issuer", "https://id.example.com"];
        let id = ["--console-oidc-client-id", "medley"];
        for (flags, missing) in [
            (&["--console-tls-cert", "a"][..], "--console-tls-key"),
            (&["--console-tls-key", "a"], "--console-tls-cert"),
            (&oidc, "--console-oidc-client-id"),
            (
                &["--console-oauth", "openshift"],
                "--console-oidc-client-id",
            ),
            (&["--console-oidc-ca", "a"], "--console-oidc-client-id"),
        ] {
            let error = Command::try_parse_from(console.iter().chain(flags)).unwrap_err();
            assert!(error.to_string().contains(missing), "{error}");
        }
        let both = ["--console-session-secret=a", "--console-session-key=b"];
        for flags in [
            [&console[..], &both].concat(),
            [&console[..], &oidc, &id, &["--console-oauth=openshift"]].concat(),
            ["medley", "--console-session-secret=a"].to_vec(),
        ] {
            Command::try_parse_from(&flags).unwrap_err();
        }
    }

    #[test]
    fn scopes_depend_on_the_issuer() -> anyhow::Result<()> {
        let settings = |flags: &[&str]| -> anyhow::Result<ProviderSettings> {
            let console = [
                "medley",
                "--console=127.0.0.1:0",
                "--console-oidc-client-id=a",
            ];
            let command = Command::try_parse_from(console.iter().chain(flags))?;
            command.console.provider.settings()?.context("settings")
        };
        let oidc = "--console-oidc-issuer=https://id.example.com";
        assert_eq!(settings(&[oidc])?.scopes, ["openid", "profile", "email"]);
        let openshift = settings(&["--console-oauth=openshift"])?;
        assert_eq!(openshift.issuer, Issuer::Openshift);
        assert_eq!(openshift.scopes, ["user:full"]);
        let scopes = settings(&[oidc, "--console-oidc-scopes=openid,offline_access"])?.scopes;
        assert_eq!(scopes, ["openid", "offline_access"]);
        let error = settings(&["--console-oidc-issuer=http://id.example.com"]).unwrap_err();
        assert!(error.to_string().contains("id.example.com"), "{error}");
        Ok(())
    }
}
