//! Admission checks: who may have a plan of a VirtPlatformConfig carried out, and who approved it; and
//! what images are made of, where ours stand in for upstream operators.
//!
//! ```text
//! AdmissionReview --review--> Admission + may the user approve? (SubjectAccessReview)
//!       |                          |
//!       |        governance::admission::admit --> allowed with a patch, or denied with a reason
//!       |-pods---> placement::admit --> the same
//!       `-images-> golden_images::{hco, ssp, cdi}::admission, golden_images::vm --> the same
//! ```
//!
//! Nothing is kept here: what is decided goes into the object that is under admission. When the check
//! is registered and does not run, nobody can change a VirtPlatformConfig. Images are made all the same:
//! what is wrong with them is told later then, by the controllers.

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

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use cluster_view::placement::Registries;
use kube::Client;
use runtime::access::Keeper;
use runtime::metrics::Described;
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
pub use register::{Reach, register};
pub use review::answer;
pub use trust::{Certificates, Trust};

use callers::Callers;
use health::Registration;
use publish::Publisher;
use register::{register_cpu_models, register_images, registered};
use review::Reviewer;
use trust::Loaded;

/// Where reviews are answered.
pub const PATH: &str = "/admit";
/// How long to wait before a registration that did not pass is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// How often to look whether the registration is still ours.
const VERIFY_REGISTRATION: Duration = Duration::from_secs(15);

/// A check that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    reviewer: Reviewer,
    health: Health,
    trust: Option<Trust>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whom the API server has to trust, where the certificate was made here.
    pub fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// Where this machine reaches it.
    pub fn url(&self) -> String {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        format!("https://{}{PATH}", SocketAddr::new(ip, self.address.port()))
    }

    /// Waits a while until the nodes have been seen that CPU models depend on. Questions that come earlier
    /// have to be asked again.
    async fn follow_nodes(&self) {
        if let Err(refusal) = self.reviewer.cpu_models.watch().await {
            warn!(message = refusal.message, "CPU models cannot be chosen yet");
        }
    }

    /// Has images of pods looked at in these registries. Without it, it is all that can be reached with
    /// what pods bring along. The first choice counts, before anybody asks.
    pub fn use_registries(&self, registries: Registries) {
        self.reviewer.placements.use_registries(registries);
    }

    /// Has metrics shown to those only whom the cluster allows it, from now on.
    pub fn guard_metrics(&self, keeper: Keeper) {
        // The first choice counts.
        let _ = self.reviewer.keeper.set(keeper);
    }

    /// Takes no more questions, and answers those that were asked. It is not ready from here on.
    pub async fn stop(mut self) {
        self.health.drain();
        // Nobody listens any more: then it has stopped already.
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The metrics of the check, besides what every process tells.
pub fn metrics() -> Vec<Described> {
    placement::described()
}

/// What a webhook is made of.
#[derive(Debug)]
pub struct Settings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where metrics are, besides there.
    pub metrics: Option<SocketAddr>,
    /// What it serves with.
    pub certificates: Certificates,
    /// How it tells the API server from other callers.
    pub callers: ClientVerification,
    /// What probes are answered from, on this socket and others.
    pub health: Health,
}

/// Answers reviews on a socket, without verifying callers.
pub async fn serve(
    client: Client,
    address: SocketAddr,
    certificates: Certificates,
) -> Result<Running, Error> {
    let settings = Settings {
        address,
        metrics: None,
        certificates,
        callers: ClientVerification::default(),
        health: Health::default(),
    };
    serve_with(client, settings).await
}

/// Answers reviews on a socket.
pub async fn serve_with(client: Client, settings: Settings) -> Result<Running, Error> {
    let Settings {
        address,
        metrics,
        certificates,
        callers,
        health,
    } = settings;
    let Loaded {
        tls,
        renewing,
        trust,
    } = certificates.load()?;
    let callers = Callers::new(callers);
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
        let (tls, reviewer) = (tls.clone(), reviewer.clone());
        tasks.spawn(serve::listen_metrics(
            listener,
            tls,
            reviewer,
            stopping.clone(),
        ));
    }
    let listening = serve::listen(listener, tls, reviewer.clone(), health.clone(), stopping);
    tasks.spawn(listening);
    Ok(Running {
        address,
        reviewer,
        health,
        trust,
        stop,
        tasks,
    })
}

/// Has the API server ask what is checked; returns when it can be answered. It is told anew when it has to
/// trust somebody else.
pub async fn register_checks(
    client: &Client,
    trust: &Trust,
    reach: &Reach,
    checks: &Checks,
    running: &mut Running,
) -> Result<(), Error> {
    running.health.expect_registration();
    let mut trust = trust.clone();
    if checks.cpu_models {
        running.follow_nodes().await;
    }
    tell(client, &trust.current(), reach, checks).await?;
    if let Some(registries) = &checks.placement {
        let placements = &running.reviewer.placements;
        placements.use_registries(registries.clone());
        placements.register(client, &trust, reach).await?;
    }
    running.health.register(Registration::Current);
    let (client, reach, checks) = (client.clone(), reach.clone(), checks.clone());
    let mut stopping = running.stop.subscribe();
    let verifying = verify_registration(
        client.clone(),
        trust.clone(),
        reach.clone(),
        checks.registrations(),
        running.health.clone(),
    );
    let telling = async move {
        loop {
            trust.changed().await;
            while let Err(error) = tell(&client, &trust.current(), &reach, &checks).await {
                warn!(%error, "the checks cannot be registered anew; trying again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    };
    running.tasks.spawn(async move {
        tokio::select! {
            () = stopped(&mut stopping) => {}
            () = telling => {}
            () = verifying => {}
        }
    });
    Ok(())
}

/// Keeps the health informed of whether the API server asks here and trusts the certificate, for as long as it is
/// polled. A difference counts when it is seen twice: a registration that is being renewed differs for a moment.
async fn verify_registration(
    client: Client,
    trust: Trust,
    reach: Reach,
    names: Vec<&'static str>,
    health: Health,
) {
    let mut before = None;
    loop {
        tokio::time::sleep(VERIFY_REGISTRATION).await;
        match registered(&client, &names, &trust.peek(), &reach).await {
            Ok(None) => {
                before = None;
                health.register(Registration::Current);
            }
            Ok(Some(wrong)) if before.as_ref() == Some(&wrong) => {
                warn!(wrong, "the API server does not ask here; not ready");
                health.register(Registration::Wrong(wrong));
            }
            Ok(wrong) => before = wrong,
            // The API server cannot be asked: nothing is known to be wrong.
            Err(error) => warn!(%error, "the registration cannot be verified"),
        }
    }
}

/// Registers what depends on nothing but whom to trust.
async fn tell(
    client: &Client,
    authority: &str,
    reach: &Reach,
    checks: &Checks,
) -> Result<(), Error> {
    if checks.approvals {
        let publisher = Publisher::new(client, reach);
        publisher.announce(authority).await?;
        register(client, authority, reach).await?;
        publisher.settle(authority).await?;
    }
    if !checks.layers.is_empty() {
        register_images(client, authority, reach, &checks.layers).await?;
    }
    if checks.cpu_models {
        register_cpu_models(client, authority, reach).await?;
    }
    Ok(())
}

/// What is checked.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// Who may approve plans.
    pub approvals: bool,
    /// What these layers of images are made of.
    pub layers: Vec<Layer>,
    /// What CPU models depend on.
    pub cpu_models: bool,
    /// Where pods go, by what these registries say of their images.
    pub placement: Option<Registries>,
}

impl Checks {
    /// The names of what is registered for them.
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

/// Answers reviews of a cluster that runs on this machine, and has it ask: serves with certificates of
/// its own, and registers the URL. `127.0.0.1:0` takes any port. No caller is verified.
pub async fn start(client: Client, address: SocketAddr, checks: &Checks) -> Result<Running, Error> {
    start_verifying(client, address, checks, ClientVerification::default()).await
}

/// The same, with callers verified.
///
/// The registration outlives the process, and until the next start nobody can change a
/// VirtPlatformConfig: start this before anything that does.
pub async fn start_verifying(
    client: Client,
    address: SocketAddr,
    checks: &Checks,
    callers: ClientVerification,
) -> Result<Running, Error> {
    let names = vec!["localhost".to_owned(), address.ip().to_string()];
    let certificates = Certificates::self_made(&names)?;
    let settings = Settings {
        address,
        metrics: None,
        certificates,
        callers,
        health: Health::default(),
    };
    let mut running = serve_with(client.clone(), settings).await?;
    let trust = running.trust.clone().ok_or(Error::NoAuthority)?;
    let reach = Reach::Url(running.url());
    let checks = Checks {
        approvals: true,
        ..checks.clone()
    };
    register_checks(&client, &trust, &reach, &checks, &mut running).await?;
    Ok(running)
}
