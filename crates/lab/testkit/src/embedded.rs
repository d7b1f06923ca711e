//! The embedded server in the test's process.

use std::net::Ipv4Addr;

use anyhow::Context as _;
use apiserver::auth::{MASTERS, StaticTokens};
use apiserver::pki::Authority;
use apiserver::store::Store;
use apiserver::{ApiServer, Options, kubeconfig, serve};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::cluster::WEBHOOK_CALLER;
use crate::served::ServedCluster;

pub(crate) struct Embedded {
    pub(crate) server: ApiServer,
    pub(crate) store: Store,
    authority: Authority,
}

impl Embedded {
    /// Starts the server; with `controlled` it relies on controllers.
    pub(crate) async fn start(controlled: bool) -> anyhow::Result<Self> {
        let store = Store::memory();
        let authority = Authority::generate().context("making keys")?;
        let options = Options {
            store: store.clone(),
            token_key: authority.token_key().context("making a token key")?,
            issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
            tokens: StaticTokens::default(),
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: 6443,
            service_accounts: controlled,
        };
        let server = ApiServer::start(options)
            .await
            .context("starting the embedded server")?;
        Ok(Self {
            server,
            store,
            authority,
        })
    }

    pub(crate) fn present_to_webhooks(&self) -> anyhow::Result<()> {
        let identity = self.authority.client(WEBHOOK_CALLER, "tests");
        let identity = identity.context("making a certificate")?;
        let presented = self.server.present_to_webhooks(identity);
        presented.map_err(anyhow::Error::msg)
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) fn root_ca(&self) -> &str {
        self.authority.certificate()
    }

    /// Serves the API on a socket.
    pub(crate) async fn serve(&self) -> anyhow::Result<ServedCluster> {
        let folder = TempDir::new().context("making a folder for a kubeconfig")?;
        let listener = serve::listen((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let url = format!(
            "https://{}",
            listener.local_addr().context("asking for a port")?
        );
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let identity = self
            .authority
            .server(&names)
            .context("making a certificate")?;
        let tls = serve::tls_config(&identity, &[self.authority.certificate().to_owned()])?;
        let admin = self
            .authority
            .client("admin", MASTERS)
            .context("making a certificate")?;
        let path = folder.path().join("kubeconfig");
        let text = kubeconfig::kubeconfig(&url, self.authority.certificate(), &admin);
        kubeconfig::write(&path, &text).context("writing a kubeconfig")?;
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(serve::serve(
            self.server.clone(),
            listener,
            tls,
            async move {
                // The sender is only dropped, never used.
                let _ = stopped.await;
            },
        ));
        Ok(ServedCluster {
            url,
            kubeconfig: path,
            folder,
            _stop: Some(stop),
        })
    }
}
