//! The components of the cluster besides its API server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ::apiserver::ApiServer;
use ::apiserver::auth::{MASTERS, UserInfo};
use ::apiserver::pki::Identity;
use ::fleet::operators::Installed;
use ::governance::Registry;
use ::webhook::{ClientCa, ClientVerification, PlacementSettings, WebhookServer};
use anyhow::Context as _;
use controllers::Registries;
use controllers::images::cdi::{Folder, Imports};
use egress::ProxySettings;
use http::header::{HeaderValue, USER_AGENT};
use jiff::Timestamp;
use kube::Client;
use oci::{Keyring, Network, Roots, Routes, Settings};
use parking_lot::Mutex;
use platform::{AddressPolicy, AddressRange};
use runtime::Manager;
use serving::certificates::Authority;
use tower::ServiceExt as _;
use tracing::warn;

use crate::images::registry::AddressArguments;
use crate::version;

/// Namespace of Medley's own objects.
pub(crate) const NAMESPACE: &str = "medley-system";

/// How long the cluster waits for placement to work. It is usable without.
const GATES_TIMEOUT: Duration = Duration::from_secs(10);
const GATES_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Which components to run.
pub(crate) struct Options {
    /// The initial nodes.
    pub(crate) fleet: Option<::fleet::Fleet>,
    /// The simulated third-party operators.
    pub(crate) operators: Option<Installed>,
    /// Whether there is a registry with boot images.
    pub(crate) registry: bool,
    /// How much faster than in reality the simulation runs.
    pub(crate) speed: f64,
    /// Directory of the disks of golden images.
    pub(crate) disks: PathBuf,
    /// Addresses that controllers and the console may connect to besides the demo registry.
    pub(crate) addresses: AddressArguments,
}

/// The running controllers and the fleet.
pub(crate) struct Cluster {
    manager: Manager,
    medley: Manager,
    /// The admission webhooks, until they are stopped.
    check: Mutex<Option<WebhookServer>>,
    registry: Option<SocketAddr>,
    addresses: AddressPolicy,
    registries: oci::Client,
}

impl Cluster {
    /// Starts everything; the cluster can be used when this returns.
    pub(crate) async fn start(
        server: &ApiServer,
        root_ca: &str,
        options: Options,
    ) -> anyhow::Result<Self> {
        let manager = Manager::for_lab(client(server, "kube-controller-manager"));
        let settings = controlplane::Options {
            root_ca: root_ca.to_owned(),
        };
        // Before the fleet: pods need the service account `default`, which these controllers
        // create.
        controlplane::start(&manager, &settings).await;
        let imports = Imports::InProcess(Folder::new(options.disks));
        let given = options.addresses;
        let options = ::fleet::Options {
            clients: ::fleet::Clients {
                scheduler: client(server, "kube-scheduler"),
                kubelet: client(server, "kubelet"),
                storage: client(server, "csi-provisioner"),
                operators: client(server, "fleet-operators"),
            },
            fleet: options.fleet,
            operators: options.operators,
            registry: options.registry,
            speed: options.speed,
            ..::fleet::Options::new(manager.client())
        };
        let started = ::fleet::start(&manager, options)
            .await
            .context("starting the fleet")?;
        // The demo registry is on loopback: only its port is allowed there.
        let demo = started.registry.map(AddressRange::from);
        let addresses = given.policy_with(demo);
        let registries = registries(started.registry, &addresses)?;
        let shared = registries.client().clone();
        let admin = manager.client();
        let (medley, check) = work(server, &admin, imports, registries, &addresses).await?;
        Ok(Self {
            manager,
            medley,
            check: Mutex::new(Some(check)),
            registry: started.registry,
            addresses,
            registries: shared,
        })
    }

    /// Address of the registry with boot images.
    pub(crate) fn registry(&self) -> Option<SocketAddr> {
        self.registry
    }

    /// Addresses that are allowed when objects name a server.
    pub(crate) fn addresses(&self) -> &AddressPolicy {
        &self.addresses
    }

    /// The client of registries.
    pub(crate) fn registries(&self) -> &oci::Client {
        &self.registries
    }

    /// A client to read the state of the cluster.
    pub(crate) fn client(&self) -> Client {
        self.manager.client()
    }

    /// Stops everything gracefully.
    pub(crate) async fn stop(&self) {
        // Medley first, the control plane last: a controller that is stopping must still find its
        // API, and its webhook.
        self.medley.stop().await;
        let check = self.check.lock().take();
        if let Some(check) = check {
            check.stop().await;
        }
        self.manager.stop().await;
    }
}

/// Registries to inspect the images of pods in: all, with plain HTTP for the demo registry.
fn registries(demo: Option<SocketAddr>, addresses: &AddressPolicy) -> anyhow::Result<Registries> {
    let routes = match demo {
        Some(address) => Routes::direct().with_plain(address.to_string()),
        None => Routes::direct(),
    };
    let settings = Settings::for_service(Roots::of_system(), addresses.clone());
    let network = Network {
        routes,
        proxies: ProxySettings::from_env()?,
        ..Network::default()
    };
    let client = oci::Client::new(settings, network);
    Ok(Registries::new(client, Keyring::anonymous()))
}

/// Starts the admission webhooks and the controllers, with the RBAC of a real installation and
/// nothing more.
async fn work(
    server: &ApiServer,
    admin: &Client,
    imports: Imports,
    registries: Registries,
    addresses: &AddressPolicy,
) -> anyhow::Result<(Manager, WebhookServer)> {
    let options = controllers::Options {
        jobs: controllers::Job::ALL.iter().copied().collect(),
        namespace: NAMESPACE.to_owned(),
        profiles: Vec::new(),
        version: version::OPERATOR.to_owned(),
        imports,
        registries,
        addresses: addresses.clone(),
        audit_entries: controllers::governance::AUDIT_ENTRIES,
        payload_folders: Vec::new(),
    };
    let registry = Registry::standard(&options.profiles).context("choosing profiles")?;
    // CRDs, then permissions, then the webhook, then the controllers: each needs what is before it,
    // and the webhook must answer before a controller writes an object that it guards.
    controllers::install(admin, NAMESPACE)
        .await
        .context("installing the CRDs of Medley")?;
    controllers::grant(admin, NAMESPACE, &registry, &options.jobs)
        .await
        .context("installing the operator's RBAC")?;
    controllers::install_release_owner(admin, NAMESPACE)
        .await
        .context("enabling the operator to manage the release")?;
    let placement = PlacementSettings::new(options.registries.clone(), NAMESPACE);
    let check = ::webhook::start_verifying(
        client(server, "medley-webhook"),
        (Ipv4Addr::LOCALHOST, 0).into(),
        &crate::webhook::checks(&options.jobs, &placement),
        callers(server).context("creating the API server's client certificate for webhooks")?,
    )
    .await
    .context("starting the admission webhooks")?;
    let account = format!("system:serviceaccount:{NAMESPACE}:{}", controllers::ACCOUNT);
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let medley = Manager::for_lab(named(server, UserInfo::known(&account, &groups), "medley"));
    controllers::start(&medley, &options)
        .await
        .context("starting the controllers of Medley")?;
    wait_for_gates(&check).await;
    Ok((medley, check))
}

/// Waits until the webhook knows that the placement controller is running: pods created before are not gated.
async fn wait_for_gates(check: &WebhookServer) {
    let gates = async {
        while !check.gates_pods() {
            tokio::time::sleep(GATES_POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(GATES_TIMEOUT, gates).await.is_err() {
        warn!("the placement controller has not renewed its Lease; pods are not gated yet");
    }
}

/// Gives the API server a client certificate for webhooks, and returns how to verify it. The CA is
/// created for it alone and its key is dropped at once, so that no other process can obtain such a
/// certificate.
fn callers(server: &ApiServer) -> anyhow::Result<ClientVerification> {
    let now = Timestamp::now();
    let authority = Authority::make("medley-webhook-callers", now, Timestamp::MAX)?;
    let pair = authority.issue_client("kube-apiserver", now, Timestamp::MAX)?;
    let identity = Identity {
        certificate: String::from_utf8(pair.certificate)?,
        key: String::from_utf8(pair.key)?,
    };
    let presented = server.present_to_webhooks(identity);
    presented.map_err(anyhow::Error::msg)?;
    Ok(ClientVerification {
        authority: ClientCa::Pem(authority.certificate),
        ..ClientVerification::default()
    })
}

/// A client in this process for a component of the control plane; managed fields show its name.
fn client(server: &ApiServer, component: &'static str) -> Client {
    let user = UserInfo::known(&format!("system:{component}"), &[MASTERS]);
    named(server, user, component)
}

/// A client in this process for the user of the cluster's kubeconfig.
pub(crate) fn administrator(server: &ApiServer) -> Client {
    named(
        server,
        UserInfo::known("admin", &[MASTERS]),
        "medley-console",
    )
}

/// A client in this process for a user.
fn named(server: &ApiServer, user: UserInfo, component: &'static str) -> Client {
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
