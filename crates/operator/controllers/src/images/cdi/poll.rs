//! Asking registries and web servers: once for all DataImportCrons that ask the same.
//!
//! ```text
//! cron: "is it time?" --ask--> queue of questions --> registry, web server --> answer --> all crons that asked
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use api::cdi::DataImportCron;
use golden_images::cdi::failure::Failure;
use golden_images::cdi::poll::{Image, Manifest, Polled, Question, question, questions};
use golden_images::list::normal;
use importer::{Inspection, choose, inspect, look};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use platform::Source;
use runtime::{Error, Key, Manager, Next, Queue, Reconcile};

use super::registries::{Reached, Registries};
use super::report::Report;
use super::world::World;

/// Registries asked at the same time.
const WORKERS: usize = 4;
/// Where an image says what its disk holds: images of containerdisks do.
const CONTENT_LABEL: &str = "shasum";
/// What container disks are images for.
const OS: &str = "linux";

/// A question in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Asked(Question);

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.0.url, self.0.namespace)
    }
}

/// What came of a question.
#[derive(Debug, Clone)]
struct Answer {
    at: Timestamp,
    image: Result<Arc<Image>, Failure>,
}

/// Questions and their answers; clones share them.
#[derive(Clone)]
pub(super) struct Polls {
    queue: Queue<Asked>,
    answers: Arc<Mutex<HashMap<Question, Answer>>>,
}

impl Polls {
    /// Starts to answer questions.
    pub(super) fn start(
        manager: &Manager,
        world: &World,
        registries: Registries,
        report: &Report,
        crons: &Queue<Key>,
    ) -> Self {
        let polls = Self {
            queue: Queue::new(),
            answers: Arc::default(),
        };
        let poller = Poller {
            world: world.clone(),
            registries,
            report: report.clone(),
            answers: Arc::clone(&polls.answers),
            crons: crons.clone(),
        };
        manager.start(poller, &polls.queue, WORKERS);
        polls
    }

    /// Has the registry of a DataImportCron asked; those who ask the same are told, too.
    pub(super) fn ask(&self, cron: &DataImportCron) {
        if let Some(question) = question(cron) {
            self.queue.add(Asked(question));
        }
    }

    /// What the registry of a DataImportCron said last.
    pub(super) fn answer(&self, cron: &DataImportCron) -> Option<Polled> {
        let answer = self.answers.lock().get(&question(cron)?).cloned()?;
        let image = answer.image;
        Some(Polled {
            at: answer.at,
            answer: image.and_then(|image| image.pick(cron.spec.architecture())),
        })
    }
}

struct Poller {
    world: World,
    registries: Registries,
    report: Report,
    answers: Arc<Mutex<HashMap<Question, Answer>>>,
    crons: Queue<Key>,
}

impl Reconcile<Asked> for Poller {
    fn name(&self) -> &'static str {
        "medley-images-cdi-poll"
    }

    async fn reconcile(&self, Asked(question): &Asked) -> Result<Next, Error> {
        let image = self.look(question).await;
        self.report.polled(image.as_ref().err());
        let answer = Answer {
            at: self.now(question),
            image: image.map(Arc::new),
        };
        let crons = self.world.crons.list();
        let asking = questions(crons.iter().map(|it| &**it));
        {
            let mut answers = self.answers.lock();
            answers.insert(question.clone(), answer);
            answers.retain(|known, _| asking.contains_key(known));
        }
        for cron in asking.get(question).into_iter().flatten() {
            self.crons.add(Key::new(&cron.namespace, &cron.name));
        }
        // Who wants to know again says so.
        Ok(Next::Wait)
    }
}

impl Poller {
    /// The time of an answer: objects keep whole seconds, and no two answers may have the same.
    fn now(&self, question: &Question) -> Timestamp {
        let before = self.answers.lock().get(question).map(|it| it.at);
        let after = before.and_then(|it| it.checked_add(SignedDuration::from_secs(1)).ok());
        let now = Timestamp::now();
        match after {
            Some(after) if after > now => after,
            _ => now,
        }
    }

    async fn look(&self, question: &Question) -> Result<Image, Failure> {
        let reached = self.registries.reach(question).await?;
        let failed = |error: importer::Error| error.failure();
        if let Source::Web(address) = &reached.source {
            // One that has not changed since the last time costs an empty answer.
            let found = look(&reached.client, address, &reached.keyring, &reached.web).await;
            return found.map_err(failed)?.image();
        }
        let image = open(&reached, &reached.source).await.map_err(failed)?;
        let name = reached.source.to_string();
        let found = inspect(&image, &name).await.map_err(failed)?;
        platforms(&reached, &found).await.map_err(failed)
    }
}

async fn open(reached: &Reached, source: &Source) -> Result<oci::Image, importer::Error> {
    let keyring = Arc::clone(&reached.keyring);
    Ok(oci::Image::open(source, &reached.client, keyring).await?)
}

/// The manifest of every architecture. Where there are several for one (variants), the one counts that
/// an importer would take.
async fn platforms(reached: &Reached, found: &Inspection) -> Result<Image, importer::Error> {
    let linux = || found.platforms.iter().filter(|it| it.platform.os == OS);
    let architectures: BTreeSet<String> = linux()
        .map(|it| normal(&it.platform.architecture))
        .filter(|it| !it.is_empty())
        .collect();
    let mut platforms = BTreeMap::new();
    for architecture in architectures {
        let of = |it: &&importer::Entry| normal(&it.platform.architecture) == architecture;
        let mut entries: Vec<_> = linux().filter(of).collect();
        if entries.len() > 1
            && let Some(reference) = reached.source.reference()
        {
            // What the tag stood for a moment ago, which is all in the cache.
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
