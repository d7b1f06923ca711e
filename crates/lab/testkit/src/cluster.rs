//! API servers for tests.

use std::path::Path;

use anyhow::Context as _;
use apiserver::auth::UserInfo;
use apiserver::store::Store;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use tower::ServiceExt as _;

use crate::embedded::Embedded;
use crate::genuine::{self, Fsync, Genuine};
use crate::lines::Lines;
use crate::served::ServedCluster;

/// Common name of the client certificate that the API server presents to webhooks.
pub const WEBHOOK_CALLER: &str = "kube-apiserver";

/// An API server for one test; dropped servers are stopped.
pub struct TestCluster {
    backend: Backend,
}

enum Backend {
    Embedded(Box<Embedded>),
    Genuine(Box<Genuine>),
}

impl TestCluster {
    /// Starts the embedded server, or kube-apiserver if `KUBEBUILDER_ASSETS` names it.
    pub async fn start() -> anyhow::Result<Self> {
        match genuine::assets() {
            Some(assets) => Self::genuine(&assets, Fsync::Off).await,
            None => Self::embedded().await,
        }
    }

    /// Starts a server that relies on controllers, as in a cluster: a pod needs its service
    /// account. For kube-apiserver, kube-controller-manager runs if `KUBEBUILDER_ASSETS` has it;
    /// unless [controllers run](Self::has_controllers), the caller starts them.
    pub async fn controlled() -> anyhow::Result<Self> {
        crate::install_crypto();
        let backend = match genuine::assets() {
            Some(assets) => {
                let genuine = Genuine::start(&assets, Fsync::Off, true).await?;
                Backend::Genuine(Box::new(genuine))
            }
            None => Backend::Embedded(Box::new(Embedded::start(true).await?)),
        };
        Ok(Self { backend })
    }

    /// Starts the embedded server regardless of the environment, for tests that access its
    /// internals.
    pub async fn embedded() -> anyhow::Result<Self> {
        crate::install_crypto();
        Ok(Self {
            backend: Backend::Embedded(Box::new(Embedded::start(false).await?)),
        })
    }

    /// Starts `etcd` and `kube-apiserver` from a folder.
    pub async fn genuine(assets: &Path, sync: Fsync) -> anyhow::Result<Self> {
        crate::install_crypto();
        Ok(Self {
            backend: Backend::Genuine(Box::new(Genuine::start(assets, sync, false).await?)),
        })
    }

    /// Process IDs of etcd and kube-apiserver; empty for the embedded server.
    pub fn process_ids(&self) -> Vec<u32> {
        match &self.backend {
            Backend::Embedded(_) => Vec::new(),
            Backend::Genuine(genuine) => genuine.process_ids(),
        }
    }

    /// Whether this is kube-apiserver.
    pub fn is_genuine(&self) -> bool {
        matches!(self.backend, Backend::Genuine(_))
    }

    /// Whether kube-controller-manager runs.
    pub fn has_controllers(&self) -> bool {
        match &self.backend {
            Backend::Embedded(_) => false,
            Backend::Genuine(genuine) => genuine.has_controllers(),
        }
    }

    /// The certificate authority of the server, in PEM.
    pub fn root_ca(&self) -> &str {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.root_ca(),
            Backend::Genuine(genuine) => genuine.root_ca(),
        }
    }

    /// Makes the server present a client certificate to webhooks, for [`WEBHOOK_CALLER`] and signed
    /// by its own [authority](Self::root_ca).
    pub fn present_to_webhooks(&self) -> anyhow::Result<()> {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.present_to_webhooks(),
            // Its AdmissionConfiguration has it from the start.
            Backend::Genuine(_) => Ok(()),
        }
    }

    /// A client certificate of the cluster for a user, and its key, in PEM.
    pub fn client_certificate(&self, user: &str) -> anyhow::Result<(String, String)> {
        let authority = match &self.backend {
            Backend::Embedded(embedded) => embedded.authority(),
            Backend::Genuine(genuine) => genuine.authority(),
        };
        let identity = authority.client(user, "tests");
        let identity = identity.context("making a certificate")?;
        Ok((identity.certificate, identity.key))
    }

    /// The store of the embedded server; `None` for kube-apiserver.
    pub fn store(&self) -> Option<&Store> {
        match &self.backend {
            Backend::Embedded(embedded) => Some(&embedded.store),
            Backend::Genuine(_) => None,
        }
    }

    /// A client with cluster-admin permissions.
    pub fn client(&self) -> Client {
        match &self.backend {
            Backend::Embedded(embedded) => {
                Client::new(embedded.server.as_user(UserInfo::admin()), "default")
            }
            Backend::Genuine(genuine) => Client::new(genuine.remote.clone(), "default"),
        }
    }

    /// A client for a user with groups; on kube-apiserver by impersonation.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> anyhow::Result<Client> {
        Ok(match &self.backend {
            Backend::Embedded(embedded) => Client::new(
                embedded.server.as_user(UserInfo::known(user, groups)),
                "default",
            ),
            Backend::Genuine(genuine) => {
                Client::new(genuine.remote.impersonating(user, groups)?, "default")
            }
        })
    }

    /// Sends a raw request as administrator, and reads the whole response.
    pub async fn request(&self, request: Request<Vec<u8>>) -> anyhow::Result<Response<Bytes>> {
        let (parts, body) = self.send(request).await?.into_parts();
        let body = body
            .collect()
            .await
            .map_err(|error| anyhow::anyhow!(error).context("reading the answer"))?
            .to_bytes();
        Ok(Response::from_parts(parts, body))
    }

    /// Sends a raw request as administrator, and reads the response line by line.
    pub async fn stream(&self, request: Request<Vec<u8>>) -> anyhow::Result<Lines> {
        Ok(Lines::new(self.send(request).await?))
    }

    async fn send(&self, request: Request<Vec<u8>>) -> anyhow::Result<Response<Answer>> {
        let what = format!("{} {}", request.method(), request.uri());
        let request = request.map(Body::from);
        match &self.backend {
            Backend::Embedded(embedded) => {
                let response = embedded
                    .server
                    .as_user(UserInfo::admin())
                    .handle(request)
                    .await;
                Ok(response.map(boxed))
            }
            Backend::Genuine(genuine) => genuine
                .remote
                .clone()
                .oneshot(request)
                .await
                .map_err(|error| anyhow::anyhow!(error).context(what)),
        }
    }

    /// Makes the server reachable on a socket for other programs.
    pub async fn serve(&self) -> anyhow::Result<ServedCluster> {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.serve().await,
            Backend::Genuine(genuine) => genuine.serve(),
        }
    }

    /// Creates a namespace with a unique name that begins with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> anyhow::Result<String> {
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let created = Api::all(self.client())
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("creating a namespace {prefix}-"))?;
        created.metadata.name.context("a namespace without a name")
    }
}

/// The body of all responses.
pub(crate) type Answer = UnsyncBoxBody<Bytes, tower::BoxError>;

/// Boxes bodies of different servers into one type.
pub(crate) fn boxed<B>(body: B) -> Answer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}
