//! `medley apiserver`: the embedded API server alone.

mod data;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ::apiserver::auth::{MASTERS, StaticTokens};
use ::apiserver::pki::{Authority, Identity};
use ::apiserver::serve::{self, ServeError};
use ::apiserver::store::Store;
use ::apiserver::{ApiServer, Options as ServerOptions, kubeconfig};
use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;

use crate::{exit, host, runtime};

/// Where kubeconfigs go when there is no data folder.
const MEMORY_KUBECONFIG: &str = "medley.kubeconfig";

/// Run the embedded Kubernetes API server alone, without controllers or nodes.
///
/// Prints one line and writes a kubeconfig for an administrator as soon as it is ready. Stops on
/// SIGTERM and SIGINT. It is meant for development and tests, never as the control plane of a
/// cluster that matters: everyone who is authenticated may do everything.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for objects and keys, made if it is not there.
    /// [default: $XDG_DATA_HOME/medley, or ~/.local/share/medley]
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data: Option<PathBuf>,

    /// Keep everything in memory: objects and keys are gone when the server stops.
    #[arg(long)]
    memory: bool,

    /// Address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,

    /// Where to write the kubeconfig, readable by you alone. With --memory it is removed again
    /// on a clean stop.
    /// [default: kubeconfig in the data folder; with --memory: ./medley.kubeconfig]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// File with bearer tokens, a line each: token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
}

/// The arguments with everything filled in.
struct Options {
    /// `None` keeps everything in memory.
    data: Option<PathBuf>,
    listen: SocketAddr,
    kubeconfig: PathBuf,
    tokens: StaticTokens,
}

impl Options {
    fn complete(arguments: Arguments) -> anyhow::Result<Self> {
        let data = match (arguments.memory, arguments.data) {
            (true, _) => None,
            (false, Some(folder)) => Some(folder),
            (false, None) => Some(host::data_folder()?),
        };
        let kubeconfig = match (arguments.kubeconfig, &data) {
            (Some(path), _) => path,
            (None, Some(folder)) => folder.join("kubeconfig"),
            (None, None) => PathBuf::from(MEMORY_KUBECONFIG),
        };
        let tokens = arguments
            .token_auth_file
            .as_deref()
            .map(read_tokens)
            .transpose()?;
        Ok(Self {
            data,
            listen: arguments.listen,
            kubeconfig,
            tokens: tokens.unwrap_or_default(),
        })
    }
}

/// Reads a token file.
pub(crate) fn read_tokens(path: &Path) -> anyhow::Result<StaticTokens> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading the token file {}", path.display()))?;
    StaticTokens::parse(&text).with_context(|| format!("reading the token file {}", path.display()))
}

/// Runs the server until it is asked to stop.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let options = Options::complete(arguments)?;
    runtime::build()?.block_on(serve(options))
}

async fn serve(options: Options) -> anyhow::Result<()> {
    let stop = runtime::stop_signal()?;
    // The store first: it is what keeps a second server away from the folder.
    let (store, authority) = match &options.data {
        Some(folder) => data::open(folder)?,
        None => (
            Store::memory(),
            Authority::generate().context("making the server's keys")?,
        ),
    };
    let listener = bind(options.listen).await?;
    let address = host::reachable(
        listener
            .local_addr()
            .context("asking for the own address")?,
    );
    let identity = authority
        .server(&host::server_names(options.listen.ip()))
        .context("making the server's certificate")?;
    let url = format!("https://{address}");
    let running = Running {
        store,
        token_key: authority
            .token_key()
            .context("reading the key of service account tokens")?,
        issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
        tokens: options.tokens,
        advertised: address,
        identity,
        client_authorities: vec![authority.certificate().to_owned()],
    };
    let kubeconfig = options.kubeconfig;
    running
        .serve(listener, stop, || {
            let admin = authority
                .client("admin", MASTERS)
                .context("making a client certificate")?;
            let text = kubeconfig::kubeconfig(&url, authority.certificate(), &admin);
            kubeconfig::write(&kubeconfig, &text).with_context(|| {
                format!(
                    "writing the kubeconfig {}; choose another place with --kubeconfig",
                    kubeconfig.display()
                )
            })?;
            exit::print(&format!(
                "ready: {url} (kubeconfig: {})\n",
                kubeconfig.display()
            ))
        })
        .await?;
    if options.data.is_none() {
        // The keys in it are gone with the process. Whoever moved it away meant to.
        let _ = std::fs::remove_file(&kubeconfig);
    }
    Ok(())
}

/// A socket, or what to do about it.
pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    serve::listen(address).await.map_err(|error| {
        let hint = match &error {
            ServeError::Listen { source, .. } => match source.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "; another server has the port: choose one with --listen ADDR, or any free one with port 0"
                }
                std::io::ErrorKind::PermissionDenied => {
                    "; ports below 1024 are for root: choose another with --listen ADDR"
                }
                std::io::ErrorKind::AddrNotAvailable => {
                    "; this machine has no such address: choose one of its own with --listen ADDR"
                }
                _ => "",
            },
            ServeError::Tls(_) => "",
        };
        anyhow::anyhow!("{:#}{hint}", anyhow::Error::new(error))
    })
}

/// A server and its socket, ready to go.
pub(crate) struct Running {
    pub(crate) store: Store,
    pub(crate) token_key: ::apiserver::auth::SigningKey,
    pub(crate) issuer: String,
    pub(crate) tokens: StaticTokens,
    /// Address that clients are told to use.
    pub(crate) advertised: SocketAddr,
    pub(crate) identity: Identity,
    /// Certificates of the authorities whose client certificates are believed.
    pub(crate) client_authorities: Vec<String>,
}

impl Running {
    /// Serves until `stop`; `ready` is called when requests are answered. The store is closed
    /// afterwards, with all that was written.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
        ready: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let tls = serve::tls_config(&self.identity, &self.client_authorities)?;
        let host: IpAddr = self.advertised.ip();
        let server = ApiServer::start(ServerOptions {
            store: self.store.clone(),
            token_key: self.token_key,
            issuer: self.issuer,
            tokens: self.tokens,
            host: host.to_string(),
            port: self.advertised.port(),
            service_accounts: false,
        })
        .await
        .context("starting the server")?;
        ready()?;
        let store = self.store.clone();
        // Closing the store ends the watches, which would hold their connections open otherwise.
        let stopped = async move {
            stop.await;
            store.close().await;
        };
        serve::serve(server, listener, tls, stopped).await;
        self.store.close().await;
        Ok(())
    }
}
