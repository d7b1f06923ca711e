//! Verifies that the disks in use are for their architectures, while CDI imports them.
//!
//! ```text
//! caches --golden_images::verify--> questions --registry--> verdicts --> status of the policy, metric, event
//! ```
//!
//! Nothing of CDI is written. Medley's own imports are verified when they are made, so this does nothing then.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::golden::{GoldenImagePolicy, NAME, Verification};
use api::mode::Mode;
use cluster_view::policies;
use golden_images::cdi::cron::Claim;
use golden_images::overview::OverviewInputs;
use golden_images::policy::status::with_verifications;
use golden_images::verify::{Check, Outcome, Question, Step, Verdict, checks, is_final, judge};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use parking_lot::Mutex;
use runtime::{Error, Key, Manager, Next, OptionalKindChange, Queue, Reconcile, kind_of};

use super::COMPONENT;
use super::registries::Registries;
use super::report::Report;
use super::view::{ImportView, open_architecture};
use crate::images::layer::LayerWatch;
use crate::status;

/// After this time a registry that did not answer is asked again. Long, because nothing depends on the answer.
const RETRY_INTERVAL: Duration = Duration::from_mins(10);

/// Starts the controller. It has one key, as it reports all disks in one status.
pub(super) fn start(
    manager: &Manager,
    view: &ImportView,
    layer: &LayerWatch,
    registries: &Registries,
    report: &Report,
) {
    let queue: Queue<Key> = Queue::new();
    let key = Key::new("", NAME);
    let enqueue = {
        let queue = queue.clone();
        move || queue.add(key.clone())
    };
    let changed = enqueue.clone();
    view.crons.on_change(move |_| changed());
    let changed = enqueue.clone();
    view.sources.on_change(move |_| changed());
    let changed = enqueue.clone();
    view.nodes.on_change(move |change| {
        let before = change.old.as_deref().and_then(open_architecture);
        if before != change.new.as_deref().and_then(open_architecture) {
            changed();
        }
    });
    let changed = enqueue.clone();
    manager
        .optional_kinds()
        .on_change(move |change: &OptionalKindChange<'_>| {
            if *change.kind() == kind_of::<GoldenImagePolicy>() {
                changed();
            }
        });
    layer.on_change(enqueue.clone());
    enqueue();
    let verifier = Verifier {
        view: view.clone(),
        layer: layer.clone(),
        registries: registries.clone(),
        report: report.clone(),
        known: Mutex::default(),
        mismatches: Mutex::default(),
    };
    manager.start(verifier, &queue, 1);
}

struct Verifier {
    view: ImportView,
    layer: LayerWatch,
    registries: Registries,
    report: Report,
    /// The verdicts of registries, and when they were asked.
    known: Mutex<HashMap<Question, (Timestamp, Verdict)>>,
    /// DataSources and digests that an event was emitted for.
    mismatches: Mutex<BTreeSet<(String, String, Option<String>)>>,
}

impl Reconcile for Verifier {
    fn name(&self) -> &'static str {
        "medley-images-cdi-verify"
    }

    async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
        let mode = self.layer.mode().await?;
        if mode.ownership.mode != Mode::Assist {
            self.known.lock().clear();
            self.mismatches.lock().clear();
            self.report.verifications(&[]);
            self.write(None).await?;
            return Ok(mode.next());
        }
        let checks = self.checks().await?;
        let mut all = Vec::new();
        let mut is_settled = true;
        for check in &checks {
            let verdict = match &check.step {
                Step::Decided(verdict) => verdict.clone(),
                Step::Ask(question) => self.verdict(question).await,
            };
            is_settled &= is_final(&verdict);
            let verdict = check.with_recorded_contents(verdict);
            all.push(check.reported(&verdict));
        }
        self.forget_all_but(&checks);
        self.warn(&checks, &all);
        self.report.verifications(&all);
        self.write(Some(all)).await?;
        Ok(match mode.next() {
            Next::After(time) => Next::After(time.min(RETRY_INTERVAL)),
            Next::Wait if is_settled => Next::Wait,
            Next::Wait => Next::After(RETRY_INTERVAL),
        })
    }
}

impl Verifier {
    /// What has to be verified, from the caches.
    async fn checks(&self) -> Result<Vec<Check>, Error> {
        let view = &self.view;
        let crons = owned(view.crons.list());
        let sources = owned(view.sources.list());
        let namespaces = crons.iter().filter_map(ResourceExt::namespace);
        let namespaces = namespaces.chain(sources.iter().filter_map(ResourceExt::namespace));
        let namespaces: BTreeSet<String> = namespaces.collect();
        let (mut imports, mut claims, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
        for namespace in &namespaces {
            imports.extend(owned(view.volumes.in_namespace(namespace)));
            let found = view.claims.in_namespace(namespace);
            claims.extend(found.iter().map(|it| Claim::from(&**it)));
            snapshots.extend(view.snapshots(namespace).await?);
        }
        let policy = view.policy().await?;
        let inputs = OverviewInputs {
            crons: &crons,
            sources: &sources,
            imports: &imports,
            claims: &claims,
            snapshots: &snapshots,
            policy: &policy,
            now: Timestamp::now(),
        };
        Ok(checks(&inputs, &view.architectures()))
    }

    /// The verdict of the registry; asked once for each digest, and again later if it did not answer.
    async fn verdict(&self, question: &Question) -> Verdict {
        let now = Timestamp::now();
        let known = self.known.lock().get(question).cloned();
        if let Some((at, verdict)) = known {
            let retry = SignedDuration::try_from(RETRY_INTERVAL).unwrap_or(SignedDuration::MAX);
            if is_final(&verdict) || now.duration_since(at) < retry {
                return verdict;
            }
        }
        let answer = match self.registries.reach(&question.query).await {
            Ok(reached) => {
                let (client, keyring) = (&reached.client, &reached.keyring);
                importer::verify::ask(client, keyring, &reached.source, question).await
            }
            Err(failure) => Err(failure),
        };
        let verdict = judge(question, &answer);
        let entry = (Timestamp::now(), verdict.clone());
        self.known.lock().insert(question.clone(), entry);
        verdict
    }

    /// Drops the verdicts on digests that are not in use any more.
    fn forget_all_but(&self, checks: &[Check]) {
        let mut known = self.known.lock();
        known.retain(|question, _| {
            checks
                .iter()
                .any(|it| matches!(&it.step, Step::Ask(asked) if **asked == *question))
        });
    }

    /// Emits an event for each new mismatch.
    fn warn(&self, checks: &[Check], all: &[Verification]) {
        let mut found = BTreeSet::new();
        let mut known = self.mismatches.lock();
        for (check, verification) in checks.iter().zip(all) {
            if verification.result != Outcome::Mismatch.as_str() {
                continue;
            }
            let (namespace, name) = (&check.namespace, &check.data_source);
            let key = (namespace.clone(), name.clone(), check.digest.clone());
            let cron = check.cron.as_ref();
            if let Some(cron) = cron.and_then(|it| self.view.crons.get(namespace, it))
                && !known.contains(&key)
            {
                let of = &check.architecture;
                let message = format!(
                    "the disk of {name} is not for {of}: {}",
                    verification.message
                );
                self.report.warn_mismatch(&cron, &message);
            }
            found.insert(key);
        }
        *known = found;
    }

    /// Writes the status of the policy, if there is one.
    async fn write(&self, verifications: Option<Vec<Verification>>) -> Result<(), Error> {
        let kinds = self.view.manager.optional_kinds();
        let found = policies::cached::<GoldenImagePolicy>(kinds).await?;
        let Some(policy) = found else {
            return Ok(());
        };
        let wanted = with_verifications(&policy, verifications, Timestamp::now());
        if policy.status.clone().unwrap_or_default() == wanted {
            return Ok(());
        }
        let kind = kind_of::<GoldenImagePolicy>();
        status::write(kinds, &kind, &policy.metadata, &wanted, COMPONENT).await
    }
}

fn owned<K: Clone>(all: Vec<Arc<K>>) -> Vec<K> {
    all.into_iter().map(Arc::unwrap_or_clone).collect()
}
