//! A simulated fleet: heterogeneous nodes, a scheduler, kubelets, storage, third-party operators
//! and a registry, so that a laptop shows how a mixed cluster behaves.
//!
//! ```text
//! fleet.yaml --model--> Node objects --nodes--> leases, status
//!                                    \--scheduler--> bindings
//!                                     \--kubelet--> statuses of pods, deletions
//! claims ----------------storage--> volumes, snapshots
//! configurations -------operators--> nodes that apply them, conditions
//! revisions, releases ---registry--> images of boot disks and operators
//! ```
//!
//! All state is in the API server: nodes and pods are ordinary objects, and the simulated
//! properties are annotations on them ([`names`]).

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
mod schema;
pub mod storage;

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use runtime::{Error, Manager};

pub use kubelet::{EverythingRuns, Outcome, Runtime};
pub use model::Fleet;

/// One client per simulated component, each with its own identity.
#[derive(Clone)]
pub struct Clients {
    /// Binds pods to nodes.
    pub scheduler: Client,
    /// Writes nodes and the status of their pods.
    pub kubelet: Client,
    /// Provisions volumes.
    pub storage: Client,
    /// Writes on behalf of the third-party operators.
    pub operators: Client,
}

/// Configuration of a fleet.
#[derive(Clone)]
pub struct Options {
    /// Clients of the components.
    pub clients: Clients,
    /// Nodes to register, unless they were registered before, with the storage classes of the
    /// simulated driver. Nodes in the cluster that are annotated as simulated get heartbeats in any
    /// case.
    pub fleet: Option<Fleet>,
    /// Speed of simulated time, as a multiple of real time.
    pub speed: f64,
    /// Decides the outcome of containers.
    pub runtime: Arc<dyn Runtime>,
    /// Whether nodes check the platforms of images in registries on localhost, and fail to pull
    /// those that do not match.
    pub pulls: bool,
    /// The third-party operators to install and run.
    pub operators: Option<operators::Installed>,
    /// Whether to run a registry on localhost with images of boot disks. Releases start one in any
    /// case, with their own images.
    pub registry: bool,
}

/// The running fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Address of the registry with boot images.
    pub registry: Option<SocketAddr>,
}

impl Options {
    /// A fleet in real time, with one client for all components.
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
    // The order in which a cluster comes up: nodes before the scheduler, which would report "no
    // nodes available" for every pod, and storage before it, whose classes pods with claims depend
    // on.
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
        // Bound before the operators are installed, since their releases refer to images at its
        // address; it serves only after them.
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
