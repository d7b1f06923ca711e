//! Governance: plan, review, apply and monitor VirtPlatformConfigs.
//!
//! ```text
//! gather: caches of the configuration, its targets and inputs, the history
//!   decide: governance::decide --> status, next action, events
//!     apply: dry runs, server-side apply under a lock, history entries
//!       report: status, events, metrics
//! ```
//!
//! Every decision is pure and lives in the crate `governance`. All state is in the status of the object: a reconcile
//! that is interrupted at any point resumes from there.

mod admission;
mod advertise;
mod approvals;
mod audit;
mod carry_out;
pub mod cluster;
pub mod history;
mod in_flight;
mod notifications;
pub mod preview;
mod profiles;
mod remediation;
mod report;
mod target;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::governance::decide::{
    Batch, Decision, DecisionInputs, Executed, Execution, Following, NextStep, decide, drafted,
    held, probes, recorded,
};
use ::governance::{Profile, Registry, Snapshot, prototype, status_patch};
use api::advisor::{Action, VirtPlatformConfig};
use jiff::Timestamp;
use kube::api::{NotUsed, Object};
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use runtime::{
    Cache, Error, Key, Manager, Next, OptionalKindChange, OptionalKinds, Queue, Reconcile, Writer,
};
use tracing::warn;

use crate::genuine::GenuineWatch;
use approvals::Approvals;
use cluster::NamedObjects;
use history::History;
pub(crate) use notifications::DeliveryMetrics;
pub(crate) use profiles::ProfileReport;
use profiles::{ProfileController, Profiles};
pub(crate) use report::Report;

/// Name of the controller in logs, events, metrics and managed fields.
pub const COMPONENT: &str = "medley-governance";

pub use api::advisor::WEBHOOK;

/// Upper bound of decide/apply rounds in one reconcile, so that one configuration cannot starve the others. A plan
/// takes a handful.
const MAX_ROUNDS_PER_RECONCILE: usize = 64;

/// Give a missing CRD this long before logging that it is not installed.
const CRD_WAIT_BEFORE_WARNING: Duration = Duration::from_secs(5);

/// Start without the kinds of other operators that are not listed by then. Profiles that use one report it.
const KIND_WAIT: Duration = Duration::from_secs(10);
/// Delay of a reconcile while it is not known which PlatformProfiles exist.
const UNKNOWN_PROFILE_DELAY: Duration = Duration::from_millis(200);

/// Status writes of consecutive items are batched within this window.
// The status of a long plan is a megabyte, which takes the API server a few hundred milliseconds to patch, and the next
// decision about the whole plan some more: with half of this window, both would be a third of the time.
const STATUS_BATCH_WINDOW: Duration = Duration::from_secs(1);

/// Settings of the governance controller.
#[derive(Clone)]
pub struct Options {
    /// Built-in profiles that a configuration may name. Those of PlatformProfiles are added.
    pub registry: Registry,
    /// Version of the operator, recorded in statuses.
    pub version: String,
    /// Namespace of the operator, where the history is kept.
    pub namespace: String,
    /// The client for receivers of notifications: its address rules, proxies and CAs apply to them, too.
    pub client: oci::Client,
    /// The number of entries of the audit log to keep.
    pub audit_entries: u64,
}

/// Entries of the audit log that are kept unless configured otherwise: at a kilobyte each, ten megabytes.
pub const AUDIT_ENTRIES: u64 = 10_000;

impl Options {
    /// The standard profiles, and the optional ones that are enabled.
    pub fn new(options: &crate::Options) -> Result<Self, Error> {
        let registry = Registry::standard(&options.profiles)
            .map_err(|error| Error::Invalid(format!("enabling profiles: {error}")))?;
        Ok(Self {
            registry,
            version: options.version.clone(),
            namespace: options.namespace.clone(),
            client: options.registries.client().clone(),
            audit_entries: options.audit_entries,
        })
    }
}

/// Starts the controller; returns once its caches have synced.
pub async fn start(manager: &Manager, options: Options) -> Result<(), Error> {
    let configs = manager.cache::<VirtPlatformConfig>();
    let foreign = manager.optional_kinds();
    let history = Arc::new(History::follow(manager, &options.namespace));
    let approvals = Approvals::follow(manager, &options.namespace);
    let named = NamedObjects::watch(manager, &options.registry);
    // Before the first write: the prototype's operator may run already.
    let prototype = GenuineWatch::follow(manager, prototype::OPERATOR).await;
    if tokio::time::timeout(CRD_WAIT_BEFORE_WARNING, configs.synced())
        .await
        .is_err()
    {
        warn!(
            "cannot list VirtPlatformConfigs; waiting for their CustomResourceDefinition, which the manifests install"
        );
        configs.synced().await;
    }
    // Before the first decision: a plan that a policy forbids must not run because the policy was not listed yet.
    approvals.synced().await;
    history.synced().await;
    named.answered().await;
    let queue: Queue<Key> = Queue::new();
    let profiles = Profiles::new(options.registry.clone());
    ProfileController::new(manager, profiles.clone(), queue.clone())
        .start(manager)
        .await;
    let controller = GovernanceController {
        client: manager.client(),
        configs: configs.clone(),
        approvals,
        foreign: foreign.clone(),
        named,
        history,
        prototype,
        report: Report::new(manager),
        profiles,
        options: options.clone(),
    };
    // The leader creates missing configurations now, so that they exist when this returns; a follower queues them for
    // when it leads, and beside the prototype's operator they are queued for when that stops.
    let alone = controller.prototype.running(Timestamp::now()).is_none();
    if manager.fence().is_leader() && alone {
        advertise::ensure_all(
            &controller.client,
            &controller.profiles.registry(),
            &configs,
            foreign,
        )
        .await;
    } else {
        for profile in controller.profiles.registry().iter() {
            queue.add(Key::new("", profile.about().name));
        }
    }
    for config in configs.list() {
        controller.follow(&config.spec.profile);
    }
    // Before `synced`, so that the first reconcile of remediation sees the checks an earlier process left paused.
    remediation::follow(foreign);
    // Not `synced`: a kind that cannot be listed concerns the profiles that use it, and no other.
    if tokio::time::timeout(KIND_WAIT, foreign.answered())
        .await
        .is_err()
    {
        warn!(kinds = ?foreign.unsynced(), "cannot list kinds of other operators; profiles that use them wait");
    }
    watch_dependencies(&controller, &queue);
    remediation::start(manager, &configs);
    let client = controller.options.client.clone();
    notifications::start(manager, &configs, client, &controller.options.namespace).await;
    audit::start(
        manager,
        &configs,
        &controller.history,
        controller.options.audit_entries,
    );
    // The queue never hands one key to two workers. Four are enough: there is one configuration per profile.
    manager.start(controller, &queue, 4);
    Ok(())
}

/// Enqueues a VirtPlatformConfig when the object itself, a kind its profile uses, or the approval webhook changes.
///
/// Foreign kinds are matched by group and kind only: profiles name a handful, and a wrong wake-up costs one cached
/// read.
fn watch_dependencies(controller: &GovernanceController, queue: &Queue<Key>) {
    let enqueue = queue.clone();
    controller.configs.on_change(move |change| {
        if let Some(config) = change.object() {
            enqueue.add(Key::of(&config.metadata));
        }
    });
    let (enqueue, configs, profiles) = (
        queue.clone(),
        controller.configs.clone(),
        controller.profiles.clone(),
    );
    let enqueue_users = move |group: &str, kind: &str| {
        for config in configs.list() {
            let concerned = config.spec.action != Action::Ignore
                && profiles.get(&config.spec.profile).is_some_and(|profile| {
                    let mut uses = profile.uses().iter();
                    uses.any(|uses| uses.of.group == group && uses.of.kind == kind)
                });
            if concerned {
                enqueue.add(Key::of(&config.metadata));
            }
        }
    };
    let enqueue = enqueue_users.clone();
    controller
        .foreign
        .on_change(move |change: &OptionalKindChange<'_>| {
            enqueue(&change.kind().group, &change.kind().kind);
        });
    controller
        .named
        .on_change(move |uses| enqueue_users(uses.of.group, uses.of.kind));
    let (enqueue, configs) = (queue.clone(), controller.configs.clone());
    controller.approvals.on_change(move || {
        for config in configs.list() {
            enqueue.add(Key::of(&config.metadata));
        }
    });
    let (enqueue, configs, profiles) = (
        queue.clone(),
        controller.configs.clone(),
        controller.profiles.clone(),
    );
    controller.prototype.on_change(move || {
        for config in configs.list() {
            enqueue.add(Key::of(&config.metadata));
        }
        for profile in profiles.registry().iter() {
            enqueue.add(Key::new("", profile.about().name));
        }
    });
}

struct GovernanceController {
    client: Client,
    configs: Cache<VirtPlatformConfig>,
    approvals: Approvals,
    foreign: OptionalKinds,
    named: NamedObjects,
    history: Arc<History>,
    prototype: GenuineWatch,
    report: Report,
    profiles: Profiles,
    options: Options,
}

impl Reconcile for GovernanceController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        for _ in 0..MAX_ROUNDS_PER_RECONCILE {
            let found = self.configs.find(key);
            // In each round: the operator may have been started in the middle of a plan.
            let running = self.prototype.running(Timestamp::now());
            let ownership = prototype::ownership(true, running.as_ref());
            self.report.report_owner(key, found.as_deref(), &ownership);
            if !ownership.manages() {
                let until = running.and_then(|running| running.until());
                return Ok(until.map_or(Next::Wait, Next::at));
            }
            let Some(config) = found else {
                self.report.forget(&key.name);
                self.history.close_all(&key.name, Timestamp::now()).await?;
                advertise::ensure(
                    &self.client,
                    &self.profiles.registry(),
                    &key.name,
                    &self.foreign,
                )
                .await?;
                return Ok(Next::Wait);
            };
            if config.metadata.deletion_timestamp.is_some() {
                return Ok(Next::Wait);
            }
            if let Some(next) = self.run_round(&config).await? {
                return Ok(next);
            }
        }
        // Requeue behind the other configurations.
        Ok(Next::After(Duration::from_millis(1)))
    }
}

impl GovernanceController {
    /// Starts watching the kinds that a profile uses.
    fn follow(&self, profile: &str) {
        if let Some(profile) = self.profiles.get(profile) {
            cluster::follow(&self.foreign, profile.uses());
        }
    }

    /// Runs one decide/apply round. `None` asks for another round; otherwise returns when to requeue.
    async fn run_round(&self, config: &Arc<VirtPlatformConfig>) -> Result<Option<Next>, Error> {
        if self.profiles.is_unknown(&config.spec.profile) {
            return Ok(Some(Next::After(UNKNOWN_PROFILE_DELAY)));
        }
        let profile = self.profiles.get(&config.spec.profile);
        let snapshot = match &profile {
            Some(profile) if config.spec.action != Action::Ignore => {
                cluster::gather(&self.foreign, &self.named, profile.uses()).await?
            }
            _ => Snapshot::default(),
        };
        let records = self.history.of(&config.name_any());
        let (policies, recorder) = (self.approvals.policies(), self.approvals.recorder());
        let facts = DecisionInputs {
            config,
            profile: profile.as_deref(),
            snapshot: &snapshot,
            records: &records,
            policies: &policies,
            recorder: &recorder,
            version: &self.options.version,
            now: Timestamp::now(),
        };
        // The status is written before the step is carried out: after a crash in between, the next process finds the
        // intent in the status and resumes it. The other way round, it would find a change without a plan.
        let decision = decide(&facts);
        let todo = decision.todo.clone();
        let Some(config) = self.write(config, decision).await? else {
            return Ok(None);
        };
        let facts = DecisionInputs {
            config: &config,
            ..facts
        };
        let next = match todo {
            NextStep::Rest(wake) => return Ok(Some(wake.map_or(Next::Wait, Next::at))),
            NextStep::Again => return Ok(None),
            NextStep::Preview(draft) => {
                let previews = preview::preview_all(&self.client, &snapshot, &draft.items).await?;
                drafted(&facts, draft, &previews)
            }
            NextStep::Record(record) => {
                self.history.begin(&config, &record).await?;
                recorded(&facts, record.revision)
            }
            NextStep::Close(revision, outcome) => {
                self.history
                    .close(&config.name_any(), revision, &outcome)
                    .await?;
                self.history.prune(&config).await?;
                return Ok(None);
            }
            NextStep::Execute(execution) => match self.verify(&facts, &execution).await? {
                None => self.execute(&facts, *execution).await?,
                Some(decision) => decision,
            },
        };
        let todo = next.todo.clone();
        let written = self.write(&config, next).await?;
        Ok(match todo {
            NextStep::Rest(wake) if written.is_some() => Some(wake.map_or(Next::Wait, Next::at)),
            _ => None,
        })
    }

    /// Decides again on live reads before an item that disrupts workloads: caches may lag, and a reboot cannot be
    /// undone. Returns the new decision if it no longer executes the item.
    async fn verify(
        &self,
        facts: &DecisionInputs<'_>,
        execution: &Execution,
    ) -> Result<Option<Decision>, Error> {
        // Live reads cost a list for each kind that the profile uses; only a reboot or a drain is worth that.
        if !execution.is_disruptive() {
            return Ok(None);
        }
        let uses = facts.profile.map(Profile::uses).unwrap_or_default();
        let snapshot = cluster::look(&self.client, uses).await?;
        // Policies again as well: an administrator who forbids a plan while it waits for its item expects that to
        // hold from the moment `kubectl apply` returned.
        let (policies, recorder) = self.approvals.read(&self.client).await?;
        let decision = decide(&DecisionInputs {
            snapshot: &snapshot,
            policies: &policies,
            recorder: &recorder,
            now: Timestamp::now(),
            ..*facts
        });
        let confirmed =
            matches!(&decision.todo, NextStep::Execute(again) if again.index == execution.index);
        if !confirmed {
            return Ok(Some(decision));
        }
        // Last, because what is in flight changes faster than anything above.
        let facts = DecisionInputs {
            policies: &policies,
            now: Timestamp::now(),
            ..*facts
        };
        let probes = probes(&facts, execution);
        let readings = in_flight::read(&self.client, &self.foreign, &probes).await;
        Ok(held(&facts, execution, &readings))
    }

    /// Applies an item, and the following ones that need not wait for it to become healthy. Their results share one
    /// status write, so that a long plan does not cost a write per item.
    ///
    /// An applied target carries our annotation: if the process dies before the status is written, the next one finds
    /// the item done.
    async fn execute(
        &self,
        facts: &DecisionInputs<'_>,
        mut execution: Execution,
    ) -> Result<Decision, Error> {
        let begun = Instant::now();
        let name = facts.config.name_any();
        let uses = facts.profile.map(Profile::uses).unwrap_or_default();
        let mut batch = Batch::begin(facts);
        let mut before: Option<Snapshot> = None;
        loop {
            let started = Instant::now();
            let (result, written) =
                carry_out::carry_out(&self.client, facts.snapshot, &name, &execution).await?;
            if let Some(written) = written {
                // Before the next `gather`: with a cache behind our own write, the batch
                // would find the old value and report drift.
                cluster::wait_for_cache(&self.foreign, &written).await;
            }
            if let Executed::Done | Executed::Kept(_) = result {
                self.report.record_apply(&name, started.elapsed());
            }
            // The next decision has to see this write.
            let snapshot = cluster::gather(&self.foreign, &self.named, uses).await?;
            let fresh = DecisionInputs {
                snapshot: &snapshot,
                now: Timestamp::now(),
                ..*facts
            };
            let decided_on = before.as_ref().unwrap_or(facts.snapshot);
            let following = batch.executed(&fresh, decided_on, &execution, result);
            // By time and not by number: a crash repeats at most a second of applies, which are idempotent.
            let is_over = begun.elapsed() >= STATUS_BATCH_WINDOW;
            execution = match following {
                Following::End(decision) => return Ok(*decision),
                Following::Item(_) | Following::Decide if is_over => return Ok(batch.end()),
                Following::Item(next) => *next,
                Following::Decide => {
                    let mut config = facts.config.clone();
                    config.status = Some(batch.status().clone());
                    let mut decision = decide(&DecisionInputs {
                        config: &config,
                        ..fresh
                    });
                    match std::mem::replace(&mut decision.todo, NextStep::Again) {
                        // A disruptive item starts with a status that was written: its wait can take
                        // an hour, and must survive the process.
                        NextStep::Execute(next) if !next.is_disruptive() => {
                            batch.resume(decision);
                            *next
                        }
                        _ => return Ok(batch.end()),
                    }
                }
            };
            before = Some(snapshot);
        }
    }

    /// Writes the status if it changed, and reports. Returns `None` if the object was modified meanwhile: the decision
    /// was based on an older version and must not be carried out.
    async fn write(
        &self,
        config: &Arc<VirtPlatformConfig>,
        decision: Decision,
    ) -> Result<Option<Arc<VirtPlatformConfig>>, Error> {
        if config.status.as_ref() == Some(&decision.status) {
            self.report.report_decision(config, &decision);
            return Ok(Some(Arc::clone(config)));
        }
        let resource = ApiResource::erase::<VirtPlatformConfig>(&());
        let api: Api<PatchedMeta> = Api::all_with(self.client.clone(), &resource);
        let writer = Writer::of_kind(api, &resource.kind, COMPONENT).shown_by(&self.configs);
        let patch = status_patch(config, &decision.status);
        let patched = writer.json_patch_status(&config.metadata, patch).await?;
        self.report.report_decision(config, &decision);
        let written = self.configs.find(&Key::of(&config.metadata));
        // The cache may already show a later version, in which the user changed the spec: the decision was made for
        // another object, so a new round begins.
        Ok(written.filter(|written| written.resource_version() == patched.resource_version()))
    }
}

/// The response to a status patch, without spec and status: the cache decodes the object anyway, and a long plan is a
/// megabyte.
type PatchedMeta = Object<NotUsed, NotUsed>;
