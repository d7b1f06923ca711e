//! What lives in the cluster besides its API server.

use ::apiserver::ApiServer;
use ::apiserver::auth::{MASTERS, UserInfo};
use ::fleet::operators::Installed;
use anyhow::Context as _;
use chassis::Manager;
use http::header::{HeaderValue, USER_AGENT};
use kube::Client;
use tower::ServiceExt as _;

use crate::version;

/// Where Medley keeps what is its own.
const NAMESPACE: &str = "medley-system";

/// The running controllers and the fleet.
pub(crate) struct Cluster {
    manager: Manager,
    medley: Manager,
}

impl Cluster {
    /// Starts everything; the cluster can be used when this returns.
    pub(crate) async fn start(
        server: &ApiServer,
        root_ca: &str,
        fleet: Option<::fleet::Fleet>,
        operators: Option<Installed>,
        speed: f64,
    ) -> anyhow::Result<Self> {
        let manager = Manager::new(client(server, "kube-controller-manager"));
        let options = controlplane::Options {
            root_ca: root_ca.to_owned(),
        };
        controlplane::start(&manager, &options).await;
        let options = ::fleet::Options {
            clients: ::fleet::Clients {
                scheduler: client(server, "kube-scheduler"),
                kubelet: client(server, "kubelet"),
                storage: client(server, "csi-provisioner"),
                operators: client(server, "fleet-operators"),
            },
            fleet,
            operators,
            speed,
            ..::fleet::Options::new(manager.client())
        };
        ::fleet::start(&manager, options)
            .await
            .context("starting the fleet")?;
        let medley = Manager::new(client(server, "medley"));
        govern(&medley)
            .await
            .context("starting Medley's controllers")?;
        Ok(Self { manager, medley })
    }

    /// A client for whoever reports on the cluster.
    pub(crate) fn client(&self) -> Client {
        self.manager.client()
    }

    /// Stops everything; what has been begun is brought to its end.
    pub(crate) async fn stop(&self) {
        self.medley.stop().await;
        self.manager.stop().await;
    }
}

/// Starts what this is all about.
async fn govern(manager: &Manager) -> Result<(), chassis::Error> {
    operator::install(&manager.client(), NAMESPACE).await?;
    let options = operator::Options {
        jobs: operator::Job::ALL.iter().copied().collect(),
        namespace: NAMESPACE.to_owned(),
        profiles: Vec::new(),
        version: version::OPERATOR.to_owned(),
    };
    operator::start(manager, &options).await
}

/// A client in this process for a component of the control plane; managed fields show its name.
fn client(server: &ApiServer, component: &'static str) -> Client {
    let user = UserInfo::known(&format!("system:{component}"), &[MASTERS]);
    let service =
        server
            .as_user(user)
            .map_request(move |mut request: http::Request<kube::client::Body>| {
                request
                    .headers_mut()
                    .insert(USER_AGENT, HeaderValue::from_static(component));
                request
            });
    Client::new(service, "default")
}
