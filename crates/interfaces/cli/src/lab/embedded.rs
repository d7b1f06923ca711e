//! The embedded API server on this host: its data directory, keys, socket and kubeconfig.

mod data;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::apiserver::auth::{MASTERS, StaticTokens};
use ::apiserver::pki::{Authority, Identity};
use ::apiserver::serve::{self, ServeError};
use ::apiserver::store::Store;
use ::apiserver::{ApiServer, Options as ServerOptions, kubeconfig};
use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;

use crate::host;

/// Where the kubeconfig is written when there is no data directory.
const MEMORY_KUBECONFIG: &str = "medley.kubeconfig";

/// Data directory, address and kubeconfig of the embedded server.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// Directory for the objects and keys of the cluster, created if missing.
    /// [default: $XDG_DATA_HOME/medley, or ~/.local/share/medley]
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data: Option<PathBuf>,

    /// Keep objects and keys in memory only; they are lost when the server stops.
    #[arg(long)]
    memory: bool,

    /// Address to listen on; port 0 chooses a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,

    /// Path to write the kubeconfig to, readable by its owner only. With --memory, it is removed when
    /// the server stops.
    /// [default: kubeconfig in the data directory; with --memory: ./medley.kubeconfig]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

/// [`PlaceArguments`] with the defaults applied.
pub(crate) struct Place {
    /// `None` keeps everything in memory.
    pub(crate) data: Option<PathBuf>,
    pub(crate) listen: SocketAddr,
    pub(crate) kubeconfig: PathBuf,
}

impl PlaceArguments {
    /// Keeps everything in memory unless a directory is named.
    pub(crate) fn memory_by_default(&mut self) {
        self.memory |= self.data.is_none();
    }

    /// Applies the defaults.
    pub(crate) fn complete(self) -> anyhow::Result<Place> {
        let data = match (self.memory, self.data) {
            (true, _) => None,
            (false, Some(folder)) => Some(folder),
            (false, None) => Some(data_folder()?),
        };
        let kubeconfig = match (self.kubeconfig, &data) {
            (Some(path), _) => path,
            (None, Some(folder)) => folder.join("kubeconfig"),
            (None, None) => PathBuf::from(MEMORY_KUBECONFIG),
        };
        Ok(Place {
            data,
            listen: self.listen,
            kubeconfig,
        })
    }
}

impl Place {
    /// Fails if the directory already holds a cluster.
    pub(crate) fn must_be_new(&self) -> anyhow::Result<()> {
        match &self.data {
            Some(folder) if data::exists(folder) => anyhow::bail!(
                "the directory {} already holds a cluster, and a copy would mix with it; name a new directory with --data DIR",
                folder.display()
            ),
            _ => Ok(()),
        }
    }
}

/// A server with an open store and socket that does not accept connections yet.
pub(crate) struct Embedded {
    place: Place,
    started: Started,
    listener: TcpListener,
    authority: Authority,
    url: String,
}

impl Embedded {
    /// Opens the data directory and the socket, and starts the server.
    pub(crate) async fn open(
        place: Place,
        tokens: StaticTokens,
        service_accounts: bool,
    ) -> anyhow::Result<Self> {
        // The store first: its lock keeps a second server out of the directory.
        let (store, authority) = match &place.data {
            Some(folder) => data::open(folder)?,
            None => (
                Store::memory(),
                Authority::generate().context("creating the server's keys")?,
            ),
        };
        // Bound before the server starts: the kubeconfig and the endpoints of the Service
        // `kubernetes` contain the port, which the system may have chosen.
        let listener = bind(place.listen).await?;
        let listening = listener.local_addr().context("reading the local address")?;
        let address = host::reachable(listening);
        let identity = authority
            .server(&host::server_names(place.listen.ip()))
            .context("creating the server's certificate")?;
        let started = Settings {
            store,
            token_key: authority
                .token_key()
                .context("reading the key of service account tokens")?,
            issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
            tokens,
            service_accounts,
            advertised: address,
            identity,
            client_authorities: vec![authority.certificate().to_owned()],
        }
        .start()
        .await?;
        Ok(Self {
            place,
            started,
            listener,
            authority,
            url: format!("https://{address}"),
        })
    }

    /// The server, for clients in this process.
    pub(crate) fn server(&self) -> &ApiServer {
        &self.started.server
    }

    /// The CA certificate of the server, in PEM.
    pub(crate) fn root_ca(&self) -> &str {
        self.authority.certificate()
    }

    /// URL for clients.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Path of the kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.place.kubeconfig
    }

    /// The data directory; `None` if in memory.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.place.data.as_deref()
    }

    /// Writes an administrator kubeconfig.
    pub(crate) fn write_kubeconfig(&self) -> anyhow::Result<()> {
        let admin = self
            .authority
            .client("admin", MASTERS)
            .context("creating a client certificate")?;
        let text = kubeconfig::kubeconfig(&self.url, self.authority.certificate(), &admin);
        kubeconfig::write(&self.place.kubeconfig, &text).with_context(|| {
            format!(
                "writing the kubeconfig {}; choose another path with --kubeconfig",
                self.place.kubeconfig.display()
            )
        })
    }

    /// Deletes the data of a cluster that was just created, after a failed start.
    pub(crate) async fn discard(self) {
        // Closed before it is deleted, so that the writer does not create files in the folder
        // again.
        self.started.store.close().await;
        if let Some(folder) = &self.place.data {
            data::discard(folder);
        }
    }

    /// Serves until `stop` completes.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()> + Send) {
        self.started.serve(self.listener, stop).await;
        if self.place.data.is_none() {
            // The keys in it are gone with the process. A missing file was moved by the user.
            let _ = std::fs::remove_file(&self.place.kubeconfig);
        }
    }
}

/// Reads a token file.
pub(crate) fn read_tokens(path: &Path) -> anyhow::Result<StaticTokens> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading the token file {}", path.display()))?;
    StaticTokens::parse(&text).with_context(|| format!("reading the token file {}", path.display()))
}

/// Binds a socket; the error names the flag to change.
pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    serve::listen(address).await.map_err(|error| {
        let hint = match &error {
            ServeError::Listen { source, .. } => match source.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "; another process uses the port: choose one with --listen ADDR, or any free one with port 0"
                }
                std::io::ErrorKind::PermissionDenied => {
                    "; ports below 1024 are for root: choose another with --listen ADDR"
                }
                std::io::ErrorKind::AddrNotAvailable => {
                    "; this host has no such address: choose one of its own with --listen ADDR"
                }
                _ => "",
            },
            ServeError::Tls(_) => "",
        };
        anyhow::anyhow!("{:#}{hint}", anyhow::Error::new(error))
    })
}

/// Configuration of a server with a socket.
pub(crate) struct Settings {
    pub(crate) store: Store,
    pub(crate) token_key: ::apiserver::auth::SigningKey,
    pub(crate) issuer: String,
    pub(crate) tokens: StaticTokens,
    /// Whether pods require a service account; then a controller has to create them.
    pub(crate) service_accounts: bool,
    /// Address that kubeconfigs point to.
    pub(crate) advertised: SocketAddr,
    pub(crate) identity: Identity,
    /// CA certificates that client certificates are verified against.
    pub(crate) client_authorities: Vec<String>,
}

/// A running server without a socket.
pub(crate) struct Started {
    server: ApiServer,
    store: Store,
    tls: serve::ServerConfig,
}

impl Settings {
    /// Starts the server.
    pub(crate) async fn start(self) -> anyhow::Result<Started> {
        let tls = serve::tls_config(&self.identity, &self.client_authorities)?;
        let server = ApiServer::start(ServerOptions {
            store: self.store.clone(),
            token_key: self.token_key,
            issuer: self.issuer,
            tokens: self.tokens,
            host: self.advertised.ip().to_string(),
            port: self.advertised.port(),
            service_accounts: self.service_accounts,
        })
        .await
        .context("starting the server")?;
        Ok(Started {
            server,
            store: self.store,
            tls,
        })
    }
}

impl Started {
    /// Serves until `stop` completes, then closes the store with all writes flushed.
    pub(crate) async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        let store = self.store.clone();
        // Closing the store ends the watches, which would otherwise keep their connections open.
        let stopped = async move {
            stop.await;
            store.close().await;
        };
        serve::serve(self.server, listener, self.tls, stopped).await;
        self.store.close().await;
    }
}

/// The data directory of the program: `$XDG_DATA_HOME/medley` or `~/.local/share/medley`.
fn data_folder() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    // The XDG base directory specification requires relative paths to be ignored.
    let base = match given.filter(|path| path.is_absolute()) {
        Some(base) => base,
        None => std::env::home_dir()
            .filter(|home| home.is_absolute())
            .map(|home| home.join(".local/share"))
            .context("there is no home directory for the data; name a directory with --data, or use --memory")?,
    };
    Ok(base.join("medley"))
}
