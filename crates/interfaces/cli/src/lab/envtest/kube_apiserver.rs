//! The embedded server under the flags of kube-apiserver.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use ::apiserver::auth::StaticTokens;
use ::apiserver::pki::{Authority, Identity};
use ::apiserver::store::Store;
use anyhow::Context as _;

use super::flags::Flags;
use crate::lab::embedded::{Settings, bind, read_tokens};
use crate::{exit, host, process};

/// envtest runs `kube-apiserver --help` and searches the output for `--insecure-port`, which no supported version has.
const HELP: &str = "\
Usage:
  kube-apiserver [flags]    serves the Kubernetes API; objects are kept in memory

Flags, besides those of kube-apiserver that are accepted and ignored:
      --advertise-address ip              address in the Endpoints of the service kubernetes
      --bind-address ip                   address to listen on (default 0.0.0.0)
      --cert-dir string                   folder with apiserver.crt and apiserver.key
      --client-ca-file string             authorities of client certificates
      --secure-port int                   port to listen on (default 6443)
      --service-account-issuer strings    issuer of service account tokens
      --tls-cert-file string              certificate of the server
      --tls-private-key-file string       its key
      --token-auth-file string            static bearer tokens
      --version                           print the version
  -h, --help                              print this text
";

/// Serves on `--bind-address` and `--secure-port` until SIGTERM or SIGINT.
///
/// Also honoured: `--cert-dir`, `--tls-cert-file`, `--tls-private-key-file`, `--client-ca-file`,
/// `--token-auth-file`, `--advertise-address` and `--service-account-issuer`. The server signs
/// tokens with a key of its own, so the key files for service accounts are ignored, and so are the
/// flags of components that the embedded server lacks.
pub(super) fn run(line: &[OsString]) -> anyhow::Result<()> {
    let flags = Flags::parse(line);
    if flags.has_help() {
        return exit::print(HELP);
    }
    if flags.get("version").is_some() {
        return exit::print(&format!("Kubernetes {}\n", ::apiserver::GIT_VERSION));
    }
    process::build_runtime()?.block_on(serve(&flags))
}

async fn serve(flags: &Flags) -> anyhow::Result<()> {
    let stop = process::stop_signal()?;
    let ip = address(flags, "bind-address")?.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let port = flags.get("secure-port").unwrap_or("6443");
    let port: u16 = port
        .parse()
        .with_context(|| format!("--secure-port is {port:?}, expected a port"))?;
    let authority = Authority::generate().context("creating the server's keys")?;
    let identity = identity(flags, &authority, ip)?;
    let client_authorities = match flags.get("client-ca-file") {
        Some(path) => vec![read(Path::new(path), "--client-ca-file")?],
        None => vec![authority.certificate().to_owned()],
    };
    let tokens = match flags.get("token-auth-file") {
        Some(path) => read_tokens(Path::new(path))?,
        None => StaticTokens::default(),
    };
    let listener = bind(SocketAddr::new(ip, port)).await?;
    let listening = listener.local_addr().context("reading the local address")?;
    let advertised = match address(flags, "advertise-address")? {
        Some(ip) => SocketAddr::new(ip, listening.port()),
        None => host::reachable(listening),
    };
    let settings = Settings {
        store: Store::memory(),
        token_key: authority
            .token_key()
            .context("reading the key of service account tokens")?,
        issuer: flags
            .first("service-account-issuer")
            .unwrap_or("https://kubernetes.default.svc.cluster.local")
            .to_owned(),
        tokens,
        // As under envtest, where the plugin is disabled: no controller creates the account
        // `default`, and no pod could be created.
        service_accounts: false,
        advertised,
        identity,
        client_authorities,
    };
    settings.start().await?.serve(listener, stop).await;
    Ok(())
}

fn address(flags: &Flags, name: &str) -> anyhow::Result<Option<IpAddr>> {
    let Some(text) = flags.get(name) else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .with_context(|| format!("--{name} is {text:?}, expected an IP address"))
}

/// The certificate named by flags, else the one in `--cert-dir` under kube-apiserver's file name,
/// else a new one.
fn identity(flags: &Flags, authority: &Authority, ip: IpAddr) -> anyhow::Result<Identity> {
    let named = flags
        .get("tls-cert-file")
        .zip(flags.get("tls-private-key-file"));
    if let Some((certificate, key)) = named {
        return Ok(Identity {
            certificate: read(Path::new(certificate), "--tls-cert-file")?,
            key: read(Path::new(key), "--tls-private-key-file")?,
        });
    }
    if let Some(folder) = flags.get("cert-dir").map(Path::new) {
        let (certificate, key) = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
        if certificate.exists() && key.exists() {
            return Ok(Identity {
                certificate: read(&certificate, "--cert-dir")?,
                key: read(&key, "--cert-dir")?,
            });
        }
    }
    authority
        .server(&host::server_names(ip))
        .context("creating the server's certificate")
}

fn read(path: &Path, flag: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {} ({flag})", path.display()))
}
