//! The layer that imports: DataImportCrons, DataVolumes and DataSources.
//!
//! ```text
//! registry <--poll-- DataImportCron --cron--> DataVolume ---volume--> claim, importer --> disk
//!    one question for all architectures          |                      (executor: pods, or here)
//!                                                `--> DataSource --source--> status.source
//! ```
//!
//! What is to be done is decided in `golden_images::cdi`. The state is in the objects alone: whoever takes
//! over finds digests, failures and the time of the next try there, and half a disk where it was left.

mod asking;
mod cron;
mod disks;
mod executor;
mod follow;
mod poll;
mod pollers;
mod registries;
mod report;
mod source;
mod transfer;
mod volume;
mod world;

use std::path::PathBuf;

use platform::AddressPolicy;
use runtime::{Key, Manager, Queue};
use tracing::info;

use super::actions::Actions;
use asking::Asking;
use executor::Executor;
use poll::Polls;
use pollers::Pollers;
use registries::Registries;
use report::Report;
use world::World;

/// What the controllers of this layer are called: in logs, events, metrics and as field managers.
pub const COMPONENT: &str = "medley-images-cdi";

/// Who imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imports {
    /// A pod for every import, of this image of Medley.
    Pods {
        /// The image.
        image: String,
    },
    /// This process, which keeps the disks in a folder: where pods are not real.
    Here(Folder),
}

/// Where a process that imports keeps disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The folder; made when it is needed.
    pub path: PathBuf,
    /// Bytes of a layer after which it is written down where to go on.
    pub checkpoint_every: u64,
}

impl Folder {
    /// A folder, with the usual values.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            checkpoint_every: 64 << 20,
        }
    }
}

/// What the controllers share.
#[derive(Clone)]
struct Context {
    world: World,
    actions: Actions,
    report: Report,
    executor: Executor,
    asking: Asking,
    queues: Queues,
}

/// What is looked at next, by kind.
#[derive(Clone, Default)]
struct Queues {
    crons: Queue<Key>,
    volumes: Queue<Key>,
    sources: Queue<Key>,
}

/// Starts to import. If the kinds of CDI are not there, that is when they come; else this returns when
/// everything there is has been seen. `addresses` holds for the controllers and for the pods that they make.
pub async fn start(manager: &Manager, imports: &Imports, addresses: &AddressPolicy) {
    if world::is_installed(manager).await {
        return begin(manager, imports, addresses).await;
    }
    info!("the kinds of cdi.kubevirt.io are not installed: nothing is imported until they are");
    let (own, imports, addresses) = (manager.clone(), imports.clone(), addresses.clone());
    manager.spawn(async move {
        world::until_installed(&own).await;
        begin(&own, &imports, &addresses).await;
    });
}

/// Gives its metrics their names, and does nothing else.
pub(crate) fn declare(manager: &Manager) {
    drop(Report::new(manager));
}

async fn begin(manager: &Manager, imports: &Imports, addresses: &AddressPolicy) {
    let world = World::follow(manager).await;
    let queues = Queues::default();
    let report = Report::new(manager);
    let registries = Registries::new(world.clone(), addresses);
    let executor = match imports {
        Imports::Pods { image } => {
            Executor::pods(manager, world.clone(), image, addresses, &queues.volumes)
        }
        Imports::Here(folder) => {
            disks::start(manager, &world, folder.path.clone());
            Executor::here(manager, registries.clone(), folder, &queues.volumes)
        }
    };
    let pollers = match imports {
        Imports::Pods { image } => Some(Pollers::new(manager, image, &queues.crons)),
        Imports::Here(_) => None,
    };
    let polls = Polls::start(manager, &world, registries, &report, &queues.crons);
    let context = Context {
        asking: Asking::new(world.clone(), polls, pollers, &queues.crons),
        actions: Actions::new(manager, COMPONENT),
        world,
        report,
        executor,
        queues: queues.clone(),
    };
    context.executor.synced().await;
    follow::start(manager, &context);
    manager.start(cron::Controller(context.clone()), &queues.crons, 3);
    manager.start(volume::Controller(context.clone()), &queues.volumes, 3);
    manager.start(source::Controller(context), &queues.sources, 3);
}
