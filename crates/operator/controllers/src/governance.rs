//! Governance: VirtPlatformConfigs are planned, reviewed, carried out and watched.
//!
//! ```text
//! gather: caches of the configuration, its targets and inputs, the history
//!   decide: governance::decide --> status, what to do, events
//!     apply: dry runs, server-side apply under a lock, entries of the history
//!       report: status, events, metrics
//! ```
//!
//! Every decision is pure and lives in the crate `governance`. The state is the status of the object:
//! a reconcile that ends anywhere is gone on with from there.

mod advertise;
mod approvals;
mod carry_out;
pub mod cluster;
pub mod history;
pub mod preview;
mod remediation;
mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::governance::decide::{
    Decision, Executed, Execution, Facts, Todo, decide, drafted, executed, recorded,
};
use ::governance::{Profile, Registry, Snapshot, status_patch};
use api::advisor::{Action, VirtPlatformConfig};
use jiff::Timestamp;
use kube::api::{NotUsed, Object, Patch, PatchParams};
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use runtime::{Cache, Error, Foreign, ForeignChange, Key, Manager, Next, Queue, Reconcile};
use serde_json::Value;
use tracing::warn;

use approvals::Approvals;
use history::History;
use report::Report;

/// What a controller of configurations is called: in logs, events and metrics.
pub const COMPONENT: &str = "medley-governance";

pub use api::advisor::WEBHOOK;

/// Steps of one configuration before others get their turn. A plan takes a handful.
const STEPS: usize = 64;

/// How long the kind itself may be missing at a start before somebody is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long items may be carried out before what came of them is written.
const TOGETHER: Duration = Duration::from_millis(500);

/// How governance is run.
#[derive(Clone)]
pub struct Options {
    /// The profiles that there are.
    pub registry: Registry,
    /// The version of the operator, as it is told in statuses.
    pub version: String,
    /// Where the history is kept.
    pub namespace: String,
}

impl Options {
    /// The standard profiles, and those that are switched on.
    pub fn new(options: &crate::Options) -> Result<Self, Error> {
        let registry = Registry::standard(&options.profiles)
            .map_err(|error| Error::Invalid(format!("switching on profiles: {error}")))?;
        Ok(Self {
            registry,
            version: options.version.clone(),
            namespace: options.namespace.clone(),
        })
    }
}

/// Starts to govern; returns when everything there is has been seen.
pub async fn start(manager: &Manager, options: Options) -> Result<(), Error> {
    let configs = manager.cache::<VirtPlatformConfig>();
    let foreign = manager.foreign();
    let history = History::follow(manager, &options.namespace);
    let approvals = Approvals::follow(manager, &options.namespace);
    if tokio::time::timeout(PATIENCE, configs.synced())
        .await
        .is_err()
    {
        warn!(
            "VirtPlatformConfigs cannot be listed: is their CustomResourceDefinition installed? It comes with the manifests; waiting for it"
        );
        configs.synced().await;
    }
    approvals.synced().await;
    history.synced().await;
    let queue: Queue<Key> = Queue::new();
    let controller = Governor {
        client: manager.client(),
        configs: configs.clone(),
        approvals,
        foreign: foreign.clone(),
        history,
        report: Report::new(manager),
        options: options.clone(),
    };
    // Who may write makes them now, so that all are there when this returns; the others when their turn comes.
    if manager.turn().is_now() {
        advertise::all(&controller.client, &options.registry, &configs).await;
    } else {
        for profile in options.registry.iter() {
            queue.add(Key::new("", profile.about().name));
        }
    }
    for config in configs.list() {
        controller.follow(&config.spec.profile);
    }
    remediation::follow(foreign);
    foreign.synced().await;
    subscribe(&controller, &queue);
    remediation::start(manager, &configs);
    // A configuration is looked at by one worker at a time; there are as many as profiles, at most.
    manager.start(controller, &queue, 4);
    Ok(())
}

/// Gives its metrics their names, and does nothing else.
pub(crate) fn declare(manager: &Manager) {
    drop(Report::new(manager));
}

/// Has everything told that a configuration depends on.
fn subscribe(controller: &Governor, queue: &Queue<Key>) {
    let told = queue.clone();
    controller.configs.on_change(move |change| {
        if let Some(config) = change.object() {
            told.add(Key::of(&config.metadata));
        }
    });
    let (told, configs, registry) = (
        queue.clone(),
        controller.configs.clone(),
        controller.options.registry.clone(),
    );
    controller
        .foreign
        .on_change(move |change: &ForeignChange<'_>| {
            let kind = change.kind();
            for config in configs.list() {
                let concerned = config.spec.action != Action::Ignore
                    && registry.get(&config.spec.profile).is_some_and(|profile| {
                        let mut uses = profile.uses().iter();
                        uses.any(|uses| uses.of.group == kind.group && uses.of.kind == kind.kind)
                    });
                if concerned {
                    told.add(Key::of(&config.metadata));
                }
            }
        });
    let (enqueue, configs) = (queue.clone(), controller.configs.clone());
    controller.approvals.on_change(move || {
        for config in configs.list() {
            enqueue.add(Key::of(&config.metadata));
        }
    });
}

struct Governor {
    client: Client,
    configs: Cache<VirtPlatformConfig>,
    approvals: Approvals,
    foreign: Foreign,
    history: History,
    report: Report,
    options: Options,
}

impl Reconcile for Governor {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        for _ in 0..STEPS {
            let Some(config) = self.configs.find(key) else {
                self.report.forget(&key.name);
                advertise::again(&self.client, &self.options.registry, &key.name).await?;
                return Ok(Next::Wait);
            };
            if config.metadata.deletion_timestamp.is_some() {
                return Ok(Next::Wait);
            }
            if let Some(next) = self.step(&config).await? {
                return Ok(next);
            }
        }
        // Others have waited long enough.
        Ok(Next::After(Duration::from_millis(1)))
    }
}

impl Governor {
    /// Declares interest in the kinds of a profile.
    fn follow(&self, profile: &str) {
        if let Some(profile) = self.options.registry.get(profile) {
            cluster::follow(&self.foreign, profile.uses());
        }
    }

    /// Takes one decision and does what it says; when to look again if that is all for now.
    async fn step(&self, config: &Arc<VirtPlatformConfig>) -> Result<Option<Next>, Error> {
        let profile = self.options.registry.get(&config.spec.profile);
        let snapshot = match profile {
            Some(profile) if config.spec.action != Action::Ignore => {
                cluster::gather(&self.foreign, profile.uses()).await?
            }
            _ => Snapshot::default(),
        };
        let records = self.history.of(&config.name_any());
        let (policies, recorder) = (self.approvals.policies(), self.approvals.recorder());
        let facts = Facts {
            config,
            profile: profile.map(|profile| &**profile),
            snapshot: &snapshot,
            records: &records,
            policies: &policies,
            recorder: &recorder,
            version: &self.options.version,
            now: Timestamp::now(),
        };
        let decision = decide(&facts);
        let todo = decision.todo.clone();
        let Some(config) = self.write(config, decision).await? else {
            return Ok(None);
        };
        let facts = Facts {
            config: &config,
            ..facts
        };
        let next = match todo {
            Todo::Rest(wake) => return Ok(Some(wake.map_or(Next::Wait, Next::at))),
            Todo::Again => return Ok(None),
            Todo::Preview(draft) => {
                let mut previews = Vec::new();
                for item in &draft.items {
                    previews.push(preview::preview(&self.client, &snapshot, item).await?);
                }
                drafted(&facts, draft, &previews)
            }
            Todo::Record(record) => {
                self.history.begin(&config, &record).await?;
                recorded(&facts, record.revision)
            }
            Todo::Close(revision, outcome) => {
                self.history
                    .close(&config.name_any(), revision, &outcome)
                    .await?;
                self.history.prune(&config).await?;
                return Ok(None);
            }
            Todo::Execute(execution) => match self.verify(&facts, &execution).await? {
                None => self.execute(&facts, *execution).await?,
                Some(decision) => decision,
            },
        };
        let todo = next.todo.clone();
        let written = self.write(&config, next).await?;
        Ok(match todo {
            Todo::Rest(wake) if written.is_some() => Some(wake.map_or(Next::Wait, Next::at)),
            _ => None,
        })
    }

    /// Decides again on what the API server answers instead of on caches, before an item that disturbs workloads: caches
    /// may lag, and there is no way back from a reboot. Another decision comes back if the item is not to be carried out.
    async fn verify(
        &self,
        facts: &Facts<'_>,
        execution: &Execution,
    ) -> Result<Option<Decision>, Error> {
        if !execution.is_disruptive() {
            return Ok(None);
        }
        let uses = facts.profile.map(Profile::uses).unwrap_or_default();
        let snapshot = cluster::look(&self.client, uses).await?;
        let (policies, recorder) = self.approvals.read(&self.client).await?;
        let decision = decide(&Facts {
            snapshot: &snapshot,
            policies: &policies,
            recorder: &recorder,
            now: Timestamp::now(),
            ..*facts
        });
        Ok(match &decision.todo {
            Todo::Execute(again) if again.index == execution.index => None,
            _ => Some(decision),
        })
    }

    /// Carries out an item, and those behind it that need not wait for it to become healthy: what
    /// comes of them is written together, so that a long plan is not written once for every item.
    ///
    /// A target that was reached bears our mark. Killed before anything is written, the next operator
    /// finds it there.
    async fn execute(
        &self,
        facts: &Facts<'_>,
        mut execution: Execution,
    ) -> Result<Decision, Error> {
        let begun = Instant::now();
        let name = facts.config.name_any();
        let mut config = facts.config.clone();
        let mut notices = Vec::new();
        loop {
            let started = Instant::now();
            let (result, written) =
                carry_out::carry_out(&self.client, facts.snapshot, &name, &execution).await?;
            if let Some(written) = written {
                cluster::saw(&self.foreign, &written).await;
            }
            if let Executed::Done = result {
                self.report.applied(&name, started.elapsed());
            }
            // What was written is to be seen in what is looked at next.
            let uses = facts.profile.map(Profile::uses).unwrap_or_default();
            let snapshot = cluster::gather(&self.foreign, uses).await?;
            let seen = Facts {
                snapshot: &snapshot,
                now: Timestamp::now(),
                ..*facts
            };
            let mut decision = executed(
                &Facts {
                    config: &config,
                    ..seen
                },
                execution.index,
                result,
            );
            notices.append(&mut decision.notices);
            if matches!(decision.todo, Todo::Again) && begun.elapsed() < TOGETHER {
                config.status = Some(std::mem::take(&mut decision.status));
                let next = decide(&Facts {
                    config: &config,
                    ..seen
                });
                if let Todo::Execute(following) = next.todo
                    && !following.is_disruptive()
                {
                    config.status = Some(next.status);
                    notices.extend(next.notices);
                    execution = *following;
                    continue;
                }
                decision.status = config.status.take().unwrap_or_default();
            }
            decision.notices = notices;
            return Ok(decision);
        }
    }

    /// Writes the status if it is another, and reports. Nothing comes back if somebody else has
    /// written since: what was to be done was decided without knowing that.
    async fn write(
        &self,
        config: &Arc<VirtPlatformConfig>,
        decision: Decision,
    ) -> Result<Option<Arc<VirtPlatformConfig>>, Error> {
        if config.status.as_ref() == Some(&decision.status) {
            self.report.decided(config, &decision);
            return Ok(Some(Arc::clone(config)));
        }
        let name = config.name_any();
        let patch = status_patch(config, &decision.status);
        let patch = serde_json::from_value(Value::Array(patch))
            .map_err(|error| Error::Invalid(format!("patching the status of {name}: {error}")))?;
        let api: Api<Answer> = Api::all_with(
            self.client.clone(),
            &ApiResource::erase::<VirtPlatformConfig>(&()),
        );
        let params = PatchParams {
            field_manager: Some(COMPONENT.to_owned()),
            ..PatchParams::default()
        };
        let answer = api
            .patch_status(&name, &params, &Patch::Json::<()>(patch))
            .await
            .map_err(Error::api(format!(
                "writing the status of VirtPlatformConfig {name}"
            )))?;
        self.report.decided(config, &decision);
        self.configs.saw(&answer).await;
        let written = self.configs.find(&Key::of(&config.metadata));
        Ok(written.filter(|written| written.resource_version() == answer.resource_version()))
    }
}

/// What is read of the answer to a write. The cache reads the object, and once is enough: a long plan
/// is a megabyte.
type Answer = Object<NotUsed, NotUsed>;
