//! Admission checks: who may have a plan of a VirtPlatformConfig carried out, and who approved it; and
//! what images are made of, where ours stand in for upstream operators.
//!
//! ```text
//! AdmissionReview --review--> Admission + may the user approve? (SubjectAccessReview)
//!       |                          |
//!       |        governance::admission::admit --> allowed with a patch, or denied with a reason
//!       |-pods---> placement::admit --> the same
//!       `-images-> golden::{hco, ssp, cdi}::admission, golden::vm --> the same
//! ```
//!
//! Nothing is kept here: what is decided goes into the object that is under admission. When the check
//! is registered and does not run, nobody can change a VirtPlatformConfig. Images are made all the same:
//! what is wrong with them is told later then, by the controllers.

mod access;
mod authority;
mod cpu;
mod error;
mod images;
mod placement;
mod publish;
mod register;
mod review;
mod serve;
mod trust;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use chassis::access::Keeper;
use chassis::metrics::Described;
use kube::Client;
use listener::stopped;
use placewatch::Registries;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;

pub use authority::Authorities;
pub use error::Error;
pub use images::Layer;
pub use register::{Reach, register};
pub use review::answer;
pub use trust::{Certificates, Trust};

use publish::Publisher;
use register::{register_cpu_models, register_images};
use review::Reviewer;
use trust::Loaded;

/// Where reviews are answered.
pub const PATH: &str = "/admit";
/// How long to wait before a registration that did not pass is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// A check that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    reviewer: Reviewer,
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

    /// Takes no more questions, and answers those that were asked.
    pub async fn stop(mut self) {
        // Nobody listens any more: then it has stopped already.
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The metrics of the check, besides what every process tells.
pub fn metrics() -> Vec<Described> {
    placement::described()
}

/// Answers reviews on a socket.
pub async fn serve(
    client: Client,
    address: SocketAddr,
    certificates: Certificates,
) -> Result<Running, Error> {
    let Loaded {
        tls,
        renewing,
        trust,
    } = certificates.load()?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| Error::Listen { address, source })?;
    let address = listener
        .local_addr()
        .map_err(|source| Error::Listen { address, source })?;
    let (stop, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut over = stopping.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = stopped(&mut over) => {}
            () = renewing => {}
        }
    });
    let reviewer = Reviewer::new(client);
    tasks.spawn(serve::listen(listener, tls, reviewer.clone(), stopping));
    Ok(Running {
        address,
        reviewer,
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
    let (client, reach, checks) = (client.clone(), reach.clone(), checks.clone());
    let mut stopping = running.stop.subscribe();
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
        }
    });
    Ok(())
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

/// Answers reviews of a cluster that runs on this machine, and has it ask: serves with certificates of
/// its own, and registers the URL. `127.0.0.1:0` takes any port.
///
/// The registration outlives the process, and until the next start nobody can change a
/// VirtPlatformConfig: start this before anything that does.
pub async fn start(client: Client, address: SocketAddr, checks: &Checks) -> Result<Running, Error> {
    let names = vec!["localhost".to_owned(), address.ip().to_string()];
    let certificates = Certificates::self_made(&names)?;
    let mut running = serve(client.clone(), address, certificates).await?;
    let trust = running.trust.clone().ok_or(Error::NoAuthority)?;
    let reach = Reach::Url(running.url());
    let checks = Checks {
        approvals: true,
        ..checks.clone()
    };
    register_checks(&client, &trust, &reach, &checks, &mut running).await?;
    Ok(running)
}
