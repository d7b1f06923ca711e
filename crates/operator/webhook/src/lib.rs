//! Admission webhooks: approval of VirtPlatformConfig plans, placement of pods, CPU models, and golden images where
//! Medley replaces upstream operators.
//!
//! ```text
//! AdmissionReview --review--> Admission + may the user approve? (SubjectAccessReview)
//!       |                          |
//!       |        governance::admission::admit --> allowed with a patch, or denied with a reason
//!       |-pods---> placement::admit --> the same
//!       `-images-> golden_images::{hco, ssp, cdi}::admission, golden_images::vm --> the same
//! ```
//!
//! The webhook keeps no state of its own: decisions go into the object under admission. While the approval webhook is
//! registered but down, VirtPlatformConfigs cannot be changed. The image webhooks fail open: the controllers report
//! invalid objects later.

mod access;
mod authority;
mod callers;
mod cpu;
mod error;
mod health;
mod images;
mod placement;
mod publish;
mod register;
mod review;
mod serve;
mod trust;
mod watches;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use runtime::access::EndpointAuthorizer;
use runtime::metrics::Described;
use serving::certificates::{Files, Tls};
use serving::stopped;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;

pub use authority::Authorities;
pub use callers::{Caller, ClientCa, ClientVerification};
pub use error::Error;
pub use health::Health;
pub use images::Layer;
pub use placement::PlacementSettings;
pub use register::{WebhookAddress, register};
pub use review::answer;
pub use trust::{Certificates, Trust};

use callers::Callers;
use cpu::CpuModels;
use health::Registration;
use publish::Publisher;
use register::{cpu_models_differ, register_cpu_models, register_images, registered};
use review::Reviewer;
use trust::LoadedCertificate;

/// Path of the webhook for approvals and images.
pub const PATH: &str = "/admit";
/// Delay before a failed registration is retried.
const REGISTRATION_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How often the registration is verified.
// A difference counts when it is seen twice, and kubelet by default needs three failed probes, ten seconds apart: a
// registration that was deleted by hand takes this replica out of its Service after about a minute.
const REGISTRATION_CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// A running webhook; it stops when dropped.
#[derive(Debug)]
pub struct WebhookServer {
    address: SocketAddr,
    reviewer: Reviewer,
    health: Health,
    trust: Option<Trust>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl WebhookServer {
    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CA that the API server has to trust, if Medley issued the certificate.
    pub fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// The URL on this host.
    pub fn url(&self) -> String {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        format!("https://{}{PATH}", SocketAddr::new(ip, self.address.port()))
    }

    /// Waits a while for the node cache of CPU models. Reviews that arrive earlier are rejected and retried.
    async fn follow_nodes(&self) {
        if let Err(refusal) = self.reviewer.cpu_models.watch().await {
            warn!(message = refusal.message, "cannot choose CPU models yet");
        }
    }

    /// Sets how pods are placed. Without it, all registries are accessed with the pull secrets of pods. Call before the
    /// first review: later calls have no effect.
    pub fn use_placement(&self, settings: PlacementSettings) {
        self.reviewer.placements.use_settings(settings);
    }

    /// Whether a placement controller is known to run, so that pods may be gated.
    pub fn gates_pods(&self) -> bool {
        self.reviewer.placements.controller() == Some(::placement::Controller::Running)
    }

    /// Restricts metrics to callers that the cluster authorizes.
    pub fn guard_metrics(&self, authorizer: EndpointAuthorizer) {
        // Only the first call has an effect.
        let _ = self.reviewer.metrics_authorizer.set(authorizer);
    }

    /// Stops accepting reviews, and answers those in flight. Not ready from here on.
    pub async fn stop(mut self) {
        self.health.drain();
        // An error means that the server has stopped already.
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Metrics of the webhook besides the common ones.
pub fn metrics() -> Vec<Described> {
    placement::described()
}

/// Settings of the webhook.
#[derive(Debug)]
pub struct Settings {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Additional address for metrics.
    pub metrics: Option<SocketAddr>,
    /// The serving certificate there; by default that of the webhook.
    pub metrics_files: Option<Files>,
    /// Serving certificate.
    pub certificates: Certificates,
    /// Verification of callers.
    pub callers: ClientVerification,
    /// Health of the webhook, served here and on other sockets.
    pub health: Health,
}

/// Serves reviews, without verifying callers.
pub async fn serve(
    client: Client,
    address: SocketAddr,
    certificates: Certificates,
) -> Result<WebhookServer, Error> {
    let settings = Settings {
        address,
        metrics: None,
        metrics_files: None,
        certificates,
        callers: ClientVerification::default(),
        health: Health::default(),
    };
    serve_with(client, settings).await
}

/// Serves reviews.
pub async fn serve_with(client: Client, settings: Settings) -> Result<WebhookServer, Error> {
    let Settings {
        address,
        metrics,
        metrics_files,
        certificates,
        callers,
        health,
    } = settings;
    let LoadedCertificate {
        tls,
        renewing,
        trust,
    } = certificates.load()?;
    let callers = Callers::new(callers);
    // Before the socket is bound: a review that arrives without a known CA would be answered as unverified, and pods
    // would be gated that need not be.
    callers.load(&client).await?;
    let bind = async |address: SocketAddr| {
        let bound = TcpListener::bind(address).await;
        bound.map_err(|source| Error::Listen { address, source })
    };
    let listener = bind(address).await?;
    let metrics = match metrics {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let address = listener
        .local_addr()
        .map_err(|source| Error::Listen { address, source })?;
    let (stop, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut over = stopping.clone();
    let following = callers.clone().follow(client.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = stopped(&mut over) => {}
            ((), ()) = futures::future::join(renewing, following) => {}
        }
    });
    let reviewer = Reviewer::new(client, callers);
    health.serving(reviewer.clone());
    if let Some(listener) = metrics {
        let (metrics_tls, following) = match metrics_files {
            Some(files) => {
                let tls = Tls::new(files.pair())?;
                (tls.clone(), tls.follow(files).boxed())
            }
            None => (tls.clone(), futures::future::ready(()).boxed()),
        };
        let mut over = stopping.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stopped(&mut over) => {}
                () = following => {}
            }
        });
        let (tls, reviewer) = (metrics_tls, reviewer.clone());
        tasks.spawn(serve::listen_metrics(
            listener,
            tls,
            reviewer,
            stopping.clone(),
        ));
    }
    let listening = serve::listen(listener, tls, reviewer.clone(), health.clone(), stopping);
    tasks.spawn(listening);
    Ok(WebhookServer {
        address,
        reviewer,
        health,
        trust,
        stop,
        tasks,
    })
}

/// Registers the webhooks; returns when reviews can be answered. Registers them again when the CA changes.
pub async fn register_webhooks(
    client: &Client,
    trust: &Trust,
    webhook_address: &WebhookAddress,
    webhooks: &Webhooks,
    running: &mut WebhookServer,
) -> Result<(), Error> {
    running.health.expect_registration();
    let mut trust = trust.clone();
    if webhooks.cpu_models {
        // Before the registration: with `failurePolicy: Fail`, the API server sends launcher pods from the moment it
        // is written, and without the node cache each of them would be rejected.
        running.follow_nodes().await;
    }
    let cpu_models = running.reviewer.cpu_models.clone();
    register_fixed(
        client,
        &trust.current(),
        webhook_address,
        webhooks,
        &cpu_models,
    )
    .await?;
    if let Some(settings) = &webhooks.placement {
        let placements = &running.reviewer.placements;
        placements.use_settings(settings.clone());
        placements.register(client, &trust, webhook_address).await?;
    }
    running.health.register(Registration::Current);
    let (client, webhook_address, webhooks) =
        (client.clone(), webhook_address.clone(), webhooks.clone());
    let mut stopping = running.stop.subscribe();
    let verifying = verify_registration(
        client.clone(),
        trust.clone(),
        webhook_address.clone(),
        webhooks.clone(),
        cpu_models.clone(),
        running.health.clone(),
    );
    let registering = async move {
        loop {
            trust.changed().await;
            while let Err(error) = register_fixed(
                &client,
                &trust.current(),
                &webhook_address,
                &webhooks,
                &cpu_models,
            )
            .await
            {
                warn!(%error, "cannot register the webhooks again; retrying");
                tokio::time::sleep(REGISTRATION_RETRY_DELAY).await;
            }
        }
    };
    running.tasks.spawn(async move {
        tokio::select! {
            () = stopped(&mut stopping) => {}
            () = registering => {}
            () = verifying => {}
        }
    });
    Ok(())
}

/// Keeps the health informed of the registration while it is polled. A difference counts when it is seen twice: a
/// registration that is being renewed differs for a moment.
async fn verify_registration(
    client: Client,
    trust: Trust,
    webhook_address: WebhookAddress,
    webhooks: Webhooks,
    cpu_models: CpuModels,
    health: Health,
) {
    let names = webhooks.registrations();
    let mut before = None;
    loop {
        tokio::time::sleep(REGISTRATION_CHECK_INTERVAL).await;
        if webhooks.cpu_models
            && let Err(error) =
                restore_cpu_models(&client, &trust.peek(), &webhook_address, &cpu_models).await
        {
            warn!(%error, "cannot restore the registration for CPU models; retrying");
        }
        match registered(&client, &names, &trust.peek(), &webhook_address).await {
            Ok(None) => {
                before = None;
                health.register(Registration::Current);
            }
            Ok(Some(wrong)) if before.as_ref() == Some(&wrong) => {
                warn!(
                    wrong,
                    "the registration does not match this webhook; not ready"
                );
                health.register(Registration::Wrong(wrong));
            }
            Ok(wrong) => before = wrong,
            // The API server is unreachable: the registration is not known to be wrong.
            Err(error) => warn!(%error, "cannot verify the registration"),
        }
    }
}

/// Registers the webhooks for CPU models again if their registration was deleted or edited, or the default model of the
/// cluster changed: without them, VMs with `best-match-model` would not start.
async fn restore_cpu_models(
    client: &Client,
    authority: &str,
    webhook_address: &WebhookAddress,
    cpu_models: &CpuModels,
) -> Result<(), Error> {
    let by_default = cpu_models.is_default().await;
    if let Some(difference) = cpu_models_differ(client, webhook_address, by_default).await? {
        warn!(difference, "restoring the registration for CPU models");
        register_cpu_models(client, authority, webhook_address, by_default).await?;
    }
    Ok(())
}

/// Registers the webhooks whose registration depends only on the CA and the default CPU model.
async fn register_fixed(
    client: &Client,
    authority: &str,
    webhook_address: &WebhookAddress,
    webhooks: &Webhooks,
    cpu_models: &CpuModels,
) -> Result<(), Error> {
    if webhooks.approvals {
        let publisher = Publisher::new(client, webhook_address);
        // Announce, register, settle: the operator compares the CA in the registration with the
        // published ones. In any other order it would see, for a moment, a registration that
        // trusts a foreign CA, and refuse to run plans.
        publisher.announce(authority).await?;
        register(client, authority, webhook_address).await?;
        publisher.settle(authority).await?;
    }
    if !webhooks.layers.is_empty() {
        register_images(client, authority, webhook_address, &webhooks.layers).await?;
    }
    if webhooks.cpu_models {
        let by_default = cpu_models.is_default().await;
        register_cpu_models(client, authority, webhook_address, by_default).await?;
    }
    Ok(())
}

/// Webhooks to register.
#[derive(Debug, Clone, Default)]
pub struct Webhooks {
    /// Approval of plans.
    pub approvals: bool,
    /// Golden images, by layer.
    pub layers: Vec<Layer>,
    /// CPU models.
    pub cpu_models: bool,
    /// Placement of pods.
    pub placement: Option<PlacementSettings>,
}

impl Webhooks {
    /// Names of the MutatingWebhookConfigurations.
    fn registrations(&self) -> Vec<&'static str> {
        let names = [
            (self.approvals, api::advisor::WEBHOOK),
            (!self.layers.is_empty(), api::golden::WEBHOOK),
            (self.cpu_models, api::cpu::WEBHOOK),
            (self.placement.is_some(), api::placement::WEBHOOK),
        ];
        let names = names.into_iter().filter(|(is, _)| *is);
        names.map(|(_, name)| name).collect()
    }
}

/// Serves and registers the webhooks of a cluster on this host, by URL and with a self-signed certificate.
/// `127.0.0.1:0` takes any port. Callers are not verified.
pub async fn start(
    client: Client,
    address: SocketAddr,
    webhooks: &Webhooks,
) -> Result<WebhookServer, Error> {
    start_verifying(client, address, webhooks, ClientVerification::default()).await
}

/// Like [`start`], with verified callers.
///
/// The registration outlives the process, and until the next start VirtPlatformConfigs cannot be changed: start this
/// before anything that changes them.
pub async fn start_verifying(
    client: Client,
    address: SocketAddr,
    webhooks: &Webhooks,
    callers: ClientVerification,
) -> Result<WebhookServer, Error> {
    let names = vec!["localhost".to_owned(), address.ip().to_string()];
    let certificates = Certificates::self_made(&names)?;
    let settings = Settings {
        address,
        metrics: None,
        metrics_files: None,
        certificates,
        callers,
        health: Health::default(),
    };
    let mut running = serve_with(client.clone(), settings).await?;
    let trust = running.trust.clone().ok_or(Error::NoAuthority)?;
    let webhook_address = WebhookAddress::Url(running.url());
    let webhooks = Webhooks {
        approvals: true,
        ..webhooks.clone()
    };
    register_webhooks(&client, &trust, &webhook_address, &webhooks, &mut running).await?;
    Ok(running)
}
