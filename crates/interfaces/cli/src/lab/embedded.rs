//! The embedded server on this machine: its data folder, keys, socket and kubeconfig.

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

/// Where kubeconfigs go when there is no data folder.
const MEMORY_KUBECONFIG: &str = "medley.kubeconfig";

/// Where a server keeps things and is found.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
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
}

/// The same with everything filled in.
pub(crate) struct Place {
    /// `None` keeps everything in memory.
    pub(crate) data: Option<PathBuf>,
    pub(crate) listen: SocketAddr,
    pub(crate) kubeconfig: PathBuf,
}

impl PlaceArguments {
    /// Keeps everything in memory unless a folder is named.
    pub(crate) fn memory_by_default(&mut self) {
        self.memory |= self.data.is_none();
    }

    /// Fills in the defaults.
    pub(crate) fn complete(self) -> anyhow::Result<Place> {
        let data = match (self.memory, self.data) {
            (true, _) => None,
            (false, Some(folder)) => Some(folder),
            (false, None) => Some(host::data_folder()?),
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
    /// Refuses a folder that holds a cluster already.
    pub(crate) fn must_be_new(&self) -> anyhow::Result<()> {
        match &self.data {
            Some(folder) if data::exists(folder) => anyhow::bail!(
                "the folder {} holds a cluster already, which a copy would mix with; name a new folder with --data DIR",
                folder.display()
            ),
            _ => Ok(()),
        }
    }
}

/// A server that is open at its place, but answers nobody outside of the process yet.
pub(crate) struct Embedded {
    place: Place,
    started: Started,
    listener: TcpListener,
    authority: Authority,
    url: String,
}

impl Embedded {
    /// Opens the data folder and the socket, and starts the server.
    pub(crate) async fn open(
        place: Place,
        tokens: StaticTokens,
        service_accounts: bool,
    ) -> anyhow::Result<Self> {
        // The store first: it is what keeps a second server away from the folder.
        let (store, authority) = match &place.data {
            Some(folder) => data::open(folder)?,
            None => (
                Store::memory(),
                Authority::generate().context("making the server's keys")?,
            ),
        };
        let listener = bind(place.listen).await?;
        let listening = listener
            .local_addr()
            .context("asking for the own address")?;
        let address = host::reachable(listening);
        let identity = authority
            .server(&host::server_names(place.listen.ip()))
            .context("making the server's certificate")?;
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

    /// The certificate of the server's authority, in PEM.
    pub(crate) fn root_ca(&self) -> &str {
        self.authority.certificate()
    }

    /// Where clients find it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where the kubeconfig is.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.place.kubeconfig
    }

    /// Where things are kept; `None` if in memory.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.place.data.as_deref()
    }

    /// Writes a kubeconfig for an administrator.
    pub(crate) fn write_kubeconfig(&self) -> anyhow::Result<()> {
        let admin = self
            .authority
            .client("admin", MASTERS)
            .context("making a client certificate")?;
        let text = kubeconfig::kubeconfig(&self.url, self.authority.certificate(), &admin);
        kubeconfig::write(&self.place.kubeconfig, &text).with_context(|| {
            format!(
                "writing the kubeconfig {}; choose another place with --kubeconfig",
                self.place.kubeconfig.display()
            )
        })
    }

    /// Throws away what was written to a place that was new.
    pub(crate) async fn discard(self) {
        self.started.store.close().await;
        if let Some(folder) = &self.place.data {
            data::discard(folder);
        }
    }

    /// Serves until `stop`.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()> + Send) {
        self.started.serve(self.listener, stop).await;
        if self.place.data.is_none() {
            // The keys in it are gone with the process. Whoever moved it away meant to.
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

/// What a server with a socket is made of.
pub(crate) struct Settings {
    pub(crate) store: Store,
    pub(crate) token_key: ::apiserver::auth::SigningKey,
    pub(crate) issuer: String,
    pub(crate) tokens: StaticTokens,
    /// Whether pods need a service account, which something has to make then.
    pub(crate) service_accounts: bool,
    /// Address that clients are told to use.
    pub(crate) advertised: SocketAddr,
    pub(crate) identity: Identity,
    /// Certificates of the authorities whose client certificates are believed.
    pub(crate) client_authorities: Vec<String>,
}

/// A server that only needs a socket.
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
    /// Serves until `stop`. The store is closed afterwards, with all that was written.
    pub(crate) async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        let store = self.store.clone();
        // Closing the store ends the watches, which would hold their connections open otherwise.
        let stopped = async move {
            stop.await;
            store.close().await;
        };
        serve::serve(self.server, listener, self.tls, stopped).await;
        self.store.close().await;
    }
}
