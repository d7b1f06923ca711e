//! The import layer: DataImportCrons, DataVolumes and DataSources.
//!
//! ```text
//! registry <--poll-- DataImportCron --cron--> DataVolume ---volume--> claim, importer --> disk
//!    one request for all architectures           |                      (executor: pods, or in-process)
//!                                                `--> DataSource --source--> status.source
//! ```
//!
//! While CDI runs, all of these only wait, and [`verify`] checks what CDI has imported.
//!
//! Decisions are made in `golden_images::cdi`. All state is in the objects: after a failover the next leader finds
//! digests, failures and the time of the next attempt there, and resumes a partial disk.

mod cron;
mod disks;
mod executor;
mod follow;
mod poll;
mod pollers;
mod polling;
mod registries;
mod report;
mod source;
mod transfer;
mod verify;
mod view;
mod volume;

use std::path::PathBuf;

use oci::Client;
use platform::AddressPolicy;
use runtime::{Key, Manager, Queue};
use tracing::info;

use golden_images::layers::Layer;

use super::actions::Actions;
use super::layer::{LayerWatch, Managed};
use executor::Executor;
use executor::pods::PodWriter;
use poll::Polls;
use pollers::Pollers;
use polling::Polling;
use registries::Registries;
pub(crate) use report::Report;
use view::ImportView;

/// Name of the controllers in logs, events, metrics and managed fields.
pub const COMPONENT: &str = "medley-images-cdi";

/// How images are imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imports {
    /// One pod per import, with this image of Medley.
    Pods {
        /// The importer image.
        image: String,
    },
    /// In this process, which writes the disks to a folder: for clusters that simulate pods.
    InProcess(Folder),
}

/// Disk folder of a process that imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The folder; created on demand.
    pub path: PathBuf,
    /// Bytes of a layer between checkpoints of the import.
    pub checkpoint_every: u64,
}

impl Folder {
    /// A folder, with default settings.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            checkpoint_every: 64 << 20,
        }
    }
}

/// Shared by the controllers of this layer.
#[derive(Clone)]
struct Context {
    view: ImportView,
    layer: LayerWatch,
    actions: Actions,
    report: Report,
    executor: Executor,
    polling: Polling,
    queues: Queues,
}

/// Work queues, by kind.
#[derive(Clone, Default)]
struct Queues {
    crons: Queue<Key>,
    volumes: Queue<Key>,
    sources: Queue<Key>,
}

/// Starts the controllers. Returns once the caches have synced, or at once if CDI is not installed: the controllers
/// then start when it is. `addresses` applies to this process and to importer pods, and so does the network of `client`.
pub async fn start(
    manager: &Manager,
    imports: &Imports,
    addresses: &AddressPolicy,
    client: &Client,
) {
    let layer = LayerWatch::start(manager, Layer::Cdi, COMPONENT).await;
    if view::is_installed(manager).await {
        return begin(manager, layer, imports, addresses, client).await;
    }
    info!("CDI is not installed; waiting for its CustomResourceDefinitions");
    let (own, imports, addresses) = (manager.clone(), imports.clone(), addresses.clone());
    let client = client.clone();
    manager.spawn(async move {
        view::until_installed(&own).await;
        begin(&own, layer, &imports, &addresses, &client).await;
    });
}

async fn begin(
    manager: &Manager,
    layer: LayerWatch,
    imports: &Imports,
    addresses: &AddressPolicy,
    client: &Client,
) {
    let view = ImportView::follow(manager).await;
    let queues = Queues::default();
    let report = Report::new(manager);
    let registries = Registries::new(view.clone(), addresses, client);
    let executor = match imports {
        Imports::Pods { image } => {
            let (view, volumes) = (view.clone(), &queues.volumes);
            let pods = PodWriter::new(manager, &layer);
            Executor::pods(pods, view, &registries, image, addresses, volumes)
        }
        Imports::InProcess(folder) => {
            disks::start(manager, &view, folder.path.clone());
            Executor::in_process(manager, registries.clone(), folder, &queues.volumes)
        }
    };
    let pollers = match imports {
        Imports::Pods { image } => {
            let pods = PodWriter::new(manager, &layer);
            Some(Pollers::new(pods, image, &queues.crons))
        }
        Imports::InProcess(_) => None,
    };
    verify::start(manager, &view, &layer, &registries, &report);
    let polls = Polls::start(manager, &view, registries, &report, &queues.crons);
    let context = Context {
        polling: Polling::new(view.clone(), polls, pollers, &queues.crons),
        actions: Actions::new(manager, COMPONENT).only_by(&layer),
        layer: layer.clone(),
        view,
        report,
        executor,
        queues: queues.clone(),
    };
    // Before the handlers are registered: until the importer pods are listed, a running import looks as if it had not
    // started.
    context.executor.synced().await;
    follow::start(manager, &context);
    // While CDI runs, keys are dropped; `follow` enqueues all of them when it has stopped.
    let crons = Managed {
        watch: layer.clone(),
        controller: cron::Controller(context.clone()),
    };
    let volumes = Managed {
        watch: layer.clone(),
        controller: volume::Controller(context.clone()),
    };
    let sources = Managed {
        watch: layer,
        controller: source::Controller(context),
    };
    manager.start(crons, &queues.crons, 3);
    manager.start(volumes, &queues.volumes, 3);
    manager.start(sources, &queues.sources, 3);
}
