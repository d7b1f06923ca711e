//! Polling registries and web servers, once for all DataImportCrons with the same source.
//!
//! ```text
//! cron is due --ask--> queue of requests --> registry, web server --> result --> all crons of that source
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use api::cdi::DataImportCron;
use golden_images::cdi::failure::Failure;
use golden_images::cdi::poll::{Image, Manifest, PollQuery, PollResult, question, questions};
use golden_images::list::normal;
use importer::look;
use jiff::{SignedDuration, Timestamp};
use oci::resolve::{self, Entry, Inspection, OS, choose, inspect};
use parking_lot::Mutex;
use platform::Source;
use runtime::{Error, Key, Manager, Next, Queue, Reconcile};

use super::registries::{Registries, SourceAccess};
use super::report::Report;
use super::view::ImportView;

/// Concurrent requests.
// A poll waits for its registry; a few in parallel keep a slow one from delaying the others.
const WORKERS: usize = 4;
/// Label with the checksum of the disk, which the images of containerdisks have.
const CONTENT_LABEL: &str = "shasum";

/// Key of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PollRequest(PollQuery);

impl fmt::Display for PollRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.0.url, self.0.namespace)
    }
}

/// Result of a poll.
#[derive(Debug, Clone)]
struct CachedPoll {
    at: Timestamp,
    image: Result<Arc<Image>, Failure>,
}

/// Requests and their results; clones share them.
#[derive(Clone)]
pub(super) struct Polls {
    queue: Queue<PollRequest>,
    answers: Arc<Mutex<HashMap<PollQuery, CachedPoll>>>,
}

impl Polls {
    /// Starts the worker.
    pub(super) fn start(
        manager: &Manager,
        view: &ImportView,
        registries: Registries,
        report: &Report,
        crons: &Queue<Key>,
    ) -> Self {
        let polls = Self {
            queue: Queue::new(),
            answers: Arc::default(),
        };
        let poller = Poller {
            view: view.clone(),
            registries,
            report: report.clone(),
            answers: Arc::clone(&polls.answers),
            crons: crons.clone(),
        };
        manager.start(poller, &polls.queue, WORKERS);
        polls
    }

    /// Polls the source of a DataImportCron; all crons of that source get the result.
    pub(super) fn ask(&self, cron: &DataImportCron) {
        if let Some(question) = question(cron) {
            self.queue.add(PollRequest(question));
        }
    }

    /// The last result for a DataImportCron.
    pub(super) fn answer(&self, cron: &DataImportCron) -> Option<PollResult> {
        let answer = self.answers.lock().get(&question(cron)?).cloned()?;
        let image = answer.image;
        Some(PollResult {
            at: answer.at,
            answer: image.and_then(|image| image.pick(cron.spec.architecture())),
        })
    }
}

struct Poller {
    view: ImportView,
    registries: Registries,
    report: Report,
    answers: Arc<Mutex<HashMap<PollQuery, CachedPoll>>>,
    crons: Queue<Key>,
}

impl Reconcile<PollRequest> for Poller {
    fn name(&self) -> &'static str {
        "medley-images-cdi-poll"
    }

    async fn reconcile(&self, PollRequest(question): &PollRequest) -> Result<Next, Error> {
        let image = self.poll(question).await;
        self.report.count_poll(image.as_ref().err());
        let answer = CachedPoll {
            at: self.now(question),
            image: image.map(Arc::new),
        };
        let crons = self.view.crons.list();
        let polling = questions(crons.iter().map(|it| &**it));
        {
            let mut answers = self.answers.lock();
            answers.insert(question.clone(), answer);
            // Sources that no cron names any more; otherwise a user who edits a URL
            // repeatedly would fill the memory with old results.
            answers.retain(|known, _| polling.contains_key(known));
        }
        for cron in polling.get(question).into_iter().flatten() {
            self.crons.add(Key::new(&cron.namespace, &cron.name));
        }
        // Crons ask again when they are due.
        Ok(Next::Wait)
    }
}

impl Poller {
    /// Time of a result: timestamps of the API have a resolution of one second, and a result is recognised by its time.
    fn now(&self, question: &PollQuery) -> Timestamp {
        let before = self.answers.lock().get(question).map(|it| it.at);
        let after = before.and_then(|it| it.checked_add(SignedDuration::from_secs(1)).ok());
        let now = Timestamp::now();
        match after {
            Some(after) if after > now => after,
            _ => now,
        }
    }

    async fn poll(&self, question: &PollQuery) -> Result<Image, Failure> {
        let reached = self.registries.reach(question).await?;
        let failed = |error: resolve::Error| importer::Error::from(error).failure();
        if let Source::Web(address) = &reached.source {
            // An unchanged file costs a 304 response.
            let found = look(&reached.client, address, &reached.keyring, &reached.web).await;
            return found.map_err(|error| error.failure())?.image();
        }
        let image = open(&reached, &reached.source).await.map_err(failed)?;
        let name = reached.source.to_string();
        let found = inspect(&image, &name).await.map_err(failed)?;
        platforms(&reached, &found).await.map_err(failed)
    }
}

async fn open(reached: &SourceAccess, source: &Source) -> Result<oci::Image, resolve::Error> {
    let keyring = Arc::clone(&reached.keyring);
    Ok(oci::Image::open(source, &reached.client, keyring).await?)
}

/// The manifest of every architecture; of several variants, the one that an importer would choose.
async fn platforms(reached: &SourceAccess, found: &Inspection) -> Result<Image, resolve::Error> {
    let linux = || found.platforms.iter().filter(|it| it.platform.os == OS);
    let architectures: BTreeSet<String> = linux()
        .map(|it| normal(&it.platform.architecture))
        .filter(|it| !it.is_empty())
        .collect();
    let mut platforms = BTreeMap::new();
    for architecture in architectures {
        let of = |it: &&Entry| normal(&it.platform.architecture) == architecture;
        let mut entries: Vec<_> = linux().filter(of).collect();
        if entries.len() > 1
            && let Some(reference) = reached.source.reference()
        {
            // Pinned to the digest seen above, in case the tag moves meanwhile; the manifests are cached.
            let pinned = Source::Registry(reference.with_digest(found.digest.clone()));
            let image = open(reached, &pinned).await?;
            let chosen = choose(&image, &found.image, &architecture).await?;
            entries.retain(|it| it.digest == chosen.digest);
        }
        if let Some(entry) = entries.first() {
            let labels = entry.details.as_ref().map(|it| &it.labels);
            let manifest = Manifest {
                digest: entry.digest.to_string(),
                content: labels.and_then(|it| it.get(CONTENT_LABEL)).cloned(),
            };
            platforms.insert(architecture, manifest);
        }
    }
    Ok(Image {
        digest: found.digest.to_string(),
        is_index: found.is_index,
        platforms,
    })
}
