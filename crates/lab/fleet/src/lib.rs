//! A simulated fleet: nodes that are not alike, a scheduler, kubelets, storage, other people's
//! operators and a registry, so that a laptop shows what a mixed cluster does.
//!
//! ```text
//! fleet.yaml --model--> Node objects --nodes--> leases, status
//!                                    \--scheduler--> bindings
//!                                     \--kubelet--> statuses of pods, deletions
//! claims ----------------storage--> volumes, snapshots
//! configurations -------operators--> nodes that take them on, conditions
//! revisions, releases ---registry--> images of boot disks and operators
//! ```
//!
//! Everything is said through the API: nodes and pods live in the cluster, and what is simulated
//! about them is in annotations ([`names`]).

pub mod commands;
mod hash;
mod kubelet;
mod machines;
mod memory;
pub mod model;
pub mod names;
mod nodes;
pub mod operators;
mod pace;
pub mod registry;
mod scheduler;
pub mod storage;

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use runtime::{Error, Manager};

pub use kubelet::{EverythingRuns, Outcome, Runtime};
pub use model::Fleet;

/// Who writes what: each client says who it is.
#[derive(Clone)]
pub struct Clients {
    /// Binds pods to nodes.
    pub scheduler: Client,
    /// Speaks for nodes and the pods on them.
    pub kubelet: Client,
    /// Provisions volumes.
    pub storage: Client,
    /// Speaks for other people's operators.
    pub operators: Client,
}

/// How a fleet is run.
#[derive(Clone)]
pub struct Options {
    /// Who writes what.
    pub clients: Clients,
    /// The nodes to register, unless they have been registered before; the storage classes of the
    /// simulated driver come with them. Nodes that are in the cluster
    /// and say that they are simulated are kept alive in any case.
    pub fleet: Option<Fleet>,
    /// How many times as fast as in reality simulated things happen.
    pub speed: f64,
    /// What becomes of containers.
    pub runtime: Arc<dyn Runtime>,
    /// Whether nodes ask registries on this machine what images are for, and refuse those that are not for
    /// them.
    pub pulls: bool,
    /// The other people's operators to install and run.
    pub operators: Option<operators::Installed>,
    /// Whether to run a registry on this machine, with images of boot disks. With releases there is one in
    /// any case, with their images.
    pub registry: bool,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Where the registry with boot images is.
    pub registry: Option<SocketAddr>,
}

impl Options {
    /// A fleet at the speed of reality, with one client for everything.
    pub fn new(client: Client) -> Self {
        Self {
            clients: Clients {
                scheduler: client.clone(),
                kubelet: client.clone(),
                storage: client.clone(),
                operators: client,
            },
            fleet: None,
            speed: 1.0,
            runtime: Arc::new(EverythingRuns),
            pulls: true,
            operators: None,
            registry: false,
        }
    }
}

/// Starts nodes, scheduler, kubelets, storage, operators and the registry; they run until the manager
/// stops.
pub async fn start(manager: &Manager, options: Options) -> Result<Started, Error> {
    if !options.speed.is_finite() || options.speed <= 0.0 {
        return Err(Error::Invalid(format!(
            "the speed of a fleet is {}, but must be a number greater than 0",
            options.speed
        )));
    }
    let Clients {
        scheduler,
        kubelet,
        storage,
        operators,
    } = options.clients;
    nodes::start(manager, &kubelet, options.fleet.as_ref()).await?;
    let storage = storage::Options {
        client: storage,
        speed: options.speed,
        classes: options.fleet.is_some(),
    };
    storage::start(manager, storage).await?;
    scheduler::start(manager, scheduler).await;
    let puller = options.pulls.then(kubelet::Puller::default);
    kubelet::start(manager, kubelet, options.speed, options.runtime, puller).await;
    let releases = options.operators.is_some_and(|it| it.release);
    let opened = if options.registry || releases {
        Some(registry::Opened::new(&operators).await?)
    } else {
        None
    };
    let offer = match &opened {
        Some(opened) if releases => {
            let place = opened.address.to_string();
            Some(operators::release::Offer::new(&place)?)
        }
        _ => None,
    };
    if let Some(installed) = &options.operators {
        operators::install_with(&operators, installed, offer.as_ref()).await?;
        if installed.virtual_machines
            && let Some(fleet) = &options.fleet
        {
            machines::register(&operators, fleet).await?;
        }
        operators::start(manager, operators.clone(), options.speed).await;
    }
    let Some(opened) = opened else {
        return Ok(Started { registry: None });
    };
    let address = opened.address;
    let shelf = offer.map(operators::release::Offer::shelf);
    let shelf = shelf.unwrap_or_default();
    opened
        .start(manager, &operators, shelf, options.registry)
        .await?;
    Ok(Started {
        registry: options.registry.then_some(address),
    })
}
