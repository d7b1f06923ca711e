//! In-process imports: real disks from real registries and web servers, where pods are simulated.
//!
//! The disk of a volume is `<folder>/<namespace>/<volume>/disk.img`. A partial disk is beside it, and resumed after a
//! restart where the image allows that. A finished disk has a result file beside it, so that a restart before the
//! status is written does not import again.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::cdi::DataVolume;
use api::golden::Sniffing;
use golden_images::cdi::data_volume::{Importer, Report, State};
use golden_images::cdi::failure::{Failure, Reason};
use golden_images::cdi::outcome::Outcome;
use importer::{Progress, Request, Unfinished, Watch};
use oci::resolve::{Chosen, usual_architecture};
use parking_lot::Mutex;
use runtime::{Key, Manager, Queue};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, oneshot};
use tracing::warn;

use super::Task;
use crate::images::cdi::registries::Registries;
use crate::images::cdi::{Folder, disks};

/// Concurrent imports; others queue.
// Each uses up to 64 MiB and several threads, in a process that also runs the controllers.
const MAX_CONCURRENT_IMPORTS: usize = 2;
/// Minimum interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Time for a cancelled import of the same volume to unlock its file.
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Polling interval of that lock.
const UNLOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Imports of this process, shared by clones.
#[derive(Clone)]
pub(in crate::images::cdi) struct InProcess {
    shared: Arc<Shared>,
}

struct Shared {
    manager: Manager,
    registries: Registries,
    folder: Folder,
    slots: Semaphore,
    running: Mutex<HashMap<Key, Running>>,
    volumes: Queue<Key>,
}

/// A started import.
struct Running {
    /// uid of the DataVolume: another one may have the same name.
    uid: Option<String>,
    attempt: u32,
    state: State,
    /// Cancels the import when dropped.
    _stop: oneshot::Sender<()>,
}

/// Result of an import with a finished disk.
#[derive(Serialize, Deserialize)]
struct FinishedImport {
    uid: Option<String>,
    url: String,
    outcome: Outcome,
}

impl InProcess {
    pub(super) fn new(
        manager: &Manager,
        registries: Registries,
        folder: &Folder,
        volumes: &Queue<Key>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                manager: manager.clone(),
                registries,
                folder: folder.clone(),
                slots: Semaphore::new(MAX_CONCURRENT_IMPORTS),
                running: Mutex::default(),
                volumes: volumes.clone(),
            }),
        }
    }

    pub(super) fn state(&self, volume: &DataVolume) -> Option<Importer> {
        let running = self.shared.running.lock();
        let running = running.get(&Key::of(&volume.metadata))?;
        (running.uid == volume.metadata.uid).then(|| Importer {
            attempt: running.attempt,
            state: running.state.clone(),
        })
    }

    pub(super) fn start(&self, task: Task) {
        let key = Key::of(&task.volume.metadata);
        let (stop, stopped) = oneshot::channel();
        let running = Running {
            uid: task.volume.metadata.uid.clone(),
            attempt: task.attempt,
            state: State::Scheduled,
            _stop: stop,
        };
        self.shared.running.lock().insert(key, running);
        let shared = Arc::clone(&self.shared);
        self.shared.manager.spawn(async move {
            shared.run(task, stopped).await;
        });
    }

    pub(super) fn remove(&self, key: &Key) -> bool {
        self.shared.running.lock().remove(key).is_some()
    }
}

impl Shared {
    async fn run(self: Arc<Self>, task: Task, mut stopped: oneshot::Receiver<()>) {
        let run = {
            let shared = Arc::clone(&self);
            let task = &task;
            async move {
                // The semaphore is never closed.
                let _slot = shared.slots.acquire().await;
                shared.set_state(task, State::Running(None));
                Arc::clone(&shared).import(task).await
            }
        };
        let outcome = tokio::select! {
            outcome = run => outcome,
            _ = &mut stopped => return,
        };
        let state = match outcome {
            Ok(report) => State::Succeeded(report),
            Err(failure) => State::Failed(failure),
        };
        self.set_state(&task, state);
    }

    /// Records the progress and enqueues the DataVolume.
    fn set_state(&self, task: &Task, state: State) {
        let key = Key::of(&task.volume.metadata);
        if let Some(running) = self.running.lock().get_mut(&key)
            && running.uid == task.volume.metadata.uid
            // A cancelled attempt may report once more while its successor is already running.
            && running.attempt == task.attempt
        {
            running.state = state;
        }
        self.volumes.add(key);
    }

    async fn import(self: Arc<Self>, task: &Task) -> Result<Report, Failure> {
        let meta = &task.volume.metadata;
        let folder = disks::folder(&self.folder.path, &Key::of(meta));
        let target = folder.join("disk.img");
        let done = folder.join("disk.json");
        let url = task.origin.question.url.clone();
        if let Some(known) = finished(&done, &target)
            && known.uid == meta.uid
            && known.url == url
            && let State::Succeeded(report) = Outcome::read(0, &known.outcome.write())
        {
            return Ok(report);
        }
        let failed = |error: std::io::Error| {
            let message = format!("making {}: {error}", folder.display());
            Failure::new(Reason::of_message(&message), message)
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(failed)?;
        let reached = self.registries.reach(&task.origin.question).await?;
        let requested = task.origin.architecture.clone();
        let architecture = if let Some(architecture) = &requested {
            architecture.clone()
        } else {
            let (client, keyring) = (&reached.client, &reached.keyring);
            let usual = usual_architecture(&reached.source, client, keyring).await;
            usual.map_err(|error| importer::Error::from(error).failure())?
        };
        let mut request = Request::new(
            reached.source,
            reached.client,
            &architecture,
            target.clone(),
        );
        request.keyring = reached.keyring;
        request.web = reached.web;
        request.limit = task.capacity;
        // The claim belongs to this DataVolume alone; what is in it is an earlier attempt.
        request.overwrite = true;
        request.unfinished = Unfinished::Keep;
        request.options.checkpoint_every = self.folder.checkpoint_every;
        request.sniff = requested.is_some() && task.sniffing == Sniffing::Refuse;
        let labels: Labels = Arc::default();
        let begun = Instant::now();
        let imported = loop {
            let watch = ProgressReporter {
                shared: Arc::clone(&self),
                task: task.clone(),
                labels: Arc::clone(&labels),
                reported: None,
            };
            let imported = importer::import(request.clone(), watch, std::future::pending()).await;
            match imported {
                // A cancelled import is about to release the lock.
                Err(importer::Error::Busy { .. }) if begun.elapsed() < UNLOCK_TIMEOUT => {
                    tokio::time::sleep(UNLOCK_POLL_INTERVAL).await;
                }
                imported => break imported,
            }
        };
        let imported = imported.map_err(|error| error.failure())?;
        let mut report = imported.report(std::mem::take(&mut *labels.lock()));
        if requested.is_some() && task.sniffing == Sniffing::Warn {
            report.sniffed = importer::boots_on(&target).map_err(|error| error.failure())?;
        }
        let known = FinishedImport {
            uid: meta.uid.clone(),
            url,
            outcome: Outcome::succeeded(report.clone()),
        };
        let written = serde_json::to_vec(&known).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|text| fs::write(&done, text)) {
            warn!(%error, path = %done.display(), "cannot record the result of an import; a restart would import it again");
        }
        Ok(report)
    }
}

/// The result of an earlier import, if its disk is complete.
fn finished(done: &Path, target: &Path) -> Option<FinishedImport> {
    let text = fs::read(done).ok()?;
    fs::metadata(target).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Labels of the image, once the manifest is chosen.
type Labels = Arc<Mutex<BTreeMap<String, String>>>;

/// Reports the progress of an import.
struct ProgressReporter {
    shared: Arc<Shared>,
    task: Task,
    labels: Labels,
    reported: Option<Instant>,
}

impl Watch for ProgressReporter {
    fn chosen(&mut self, chosen: &Chosen) {
        *self.labels.lock() = importer::volume_labels(chosen);
    }

    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        if self
            .reported
            .is_none_or(|reported| reported.elapsed() >= PROGRESS_INTERVAL)
        {
            self.reported = Some(Instant::now());
            let parts = progress.total.filter(|total| *total > 0).map(|total| {
                let parts = u128::from(progress.fetched) * 10_000 / u128::from(total);
                u16::try_from(parts.min(10_000)).unwrap_or(10_000)
            });
            self.shared.set_state(&self.task, State::Running(parts));
        }
        ControlFlow::Continue(())
    }
}
