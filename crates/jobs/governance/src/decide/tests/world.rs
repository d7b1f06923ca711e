//! A configuration in a simulated cluster, driven as the operator drives it: the decision is written before its step is
//! taken, and the result afterwards. The operator can be killed after every effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::advisor::{
    Action, FailurePolicy, Impact, Item, ItemState, Operation, Phase, ProfileOptions, TargetRef,
    VirtPlatformConfig, VirtPlatformConfigSpec, VirtPlatformConfigStatus,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::profiles::Steps;
use crate::approval::Policy;
use crate::decide::{
    Decision, DecisionInputs, Executed, Execution, ItemExecution, NextStep, Notice, decide,
    drafted, executed, recorded,
};
use crate::exchange::{Next, Request, Response};
use crate::plan::{self, DryRun, Preview};
use crate::profile::kinds::{
    CONFIG_MAP, HYPER_CONVERGED, KUBE_DESCHEDULER, MACHINE_CONFIG, MACHINE_CONFIG_POOL,
};
use crate::profile::{Profile, Registry};
use crate::record::{PlanResult, Record};
use crate::recorder::Recorder;
use crate::values;

/// A profile of the program.
fn built_in(name: &str) -> Arc<dyn Profile> {
    let registry = Registry::standard::<&str>(&[]).unwrap();
    Arc::clone(registry.get(name).unwrap())
}

/// More rounds than any plan takes: a run that needs more does not converge.
pub(super) const MAX_ROUNDS: usize = 64;

/// The result of a reconcile.
pub(super) enum Reconciled {
    Continues,
    /// The time to requeue.
    Converged(Option<Timestamp>),
}

/// The operator was killed.
#[derive(Debug)]
pub(super) struct Killed;

/// An item that was written.
#[derive(Debug, Clone)]
pub(super) struct Written {
    /// The digest in the status at the time.
    pub(super) digest: String,
    pub(super) item: String,
    /// The applied object and its target.
    pub(super) content: Value,
    /// The impact of the plan.
    pub(super) impact: Impact,
    /// The revision of the history entry.
    pub(super) revision: i64,
    pub(super) recorded: bool,
}

/// The effective content of an item.
fn content(item: &Item) -> Value {
    json!([
        item.target_ref,
        item.target_uid,
        item.operation,
        item.desired_state,
        item.managed_fields,
        item.base,
    ])
}

/// The simulated cluster, operator and configuration.
#[derive(Clone)]
pub(crate) struct Simulation {
    pub(crate) config: VirtPlatformConfig,
    pub(crate) profile: Option<Arc<dyn Profile>>,
    pub(crate) cluster: Cluster,
    pub(super) records: Vec<Record>,
    pub(super) policies: Vec<Policy>,
    pub(super) recorder: Recorder,
    pub(super) version: String,
    pub(crate) now: Timestamp,
    /// Targets that the server refuses to write, with the error.
    pub(crate) refusals: BTreeMap<String, String>,
    /// An edit by another manager between the plan and the write.
    pub(super) overtaken: Option<(TargetRef, Value)>,
    /// The items that were written, in order.
    pub(super) written: Vec<String>,
    /// The same, with the state that each write was based on.
    pub(super) log: Vec<Written>,
    /// The items of each digest while it was in the status.
    pub(super) published: BTreeMap<String, BTreeMap<String, Value>>,
    /// The phases that were written, in order.
    pub(super) trail: Vec<Phase>,
    pub(super) notices: Vec<Notice>,
    /// Number of effects so far, and the one after which the operator is killed.
    pub(super) effects: usize,
    /// Whether items are applied in batches, and how many followed another one without a decision of their own.
    pub(super) batches: bool,
    pub(super) followed: usize,
    pub(crate) kill_after: Option<usize>,
}

impl Simulation {
    fn new(profile: Arc<dyn Profile>) -> Self {
        let name = profile.about().name;
        let spec = VirtPlatformConfigSpec {
            profile: name.to_owned(),
            ..VirtPlatformConfigSpec::default()
        };
        let mut config = VirtPlatformConfig::new(name, spec);
        config.metadata.generation = Some(1);
        Self {
            config,
            profile: Some(profile),
            cluster: Cluster::default(),
            records: Vec::new(),
            policies: Vec::new(),
            recorder: Recorder::Untrusted("there is none".to_owned()),
            version: "v0.1.30".to_owned(),
            // A Wednesday. The clock is finer than the timestamps of a status.
            now: "2026-07-01T12:00:00.25Z".parse().unwrap(),
            refusals: BTreeMap::new(),
            overtaken: None,
            written: Vec::new(),
            log: Vec::new(),
            published: BTreeMap::new(),
            trail: Vec::new(),
            notices: Vec::new(),
            effects: 0,
            batches: false,
            followed: 0,
            kill_after: None,
        }
    }

    /// Three steps on an empty cluster with a pool of ten nodes.
    pub(crate) fn steps() -> Self {
        let mut world = Self::new(Arc::new(Steps { logic: 1 }));
        world.cluster.install(CONFIG_MAP, "v1", None);
        world.cluster.install(MACHINE_CONFIG, "v1", None);
        world.cluster.install(MACHINE_CONFIG_POOL, "v1", None);
        world.pool("worker", 10);
        world
    }

    /// Load-aware rebalancing on a cluster with a descheduler, as in the examples of the proposal.
    pub(crate) fn load_aware() -> Self {
        let mut world = Self::new(built_in("load-aware-rebalancing"));
        world.cluster.install(MACHINE_CONFIG, "v1", None);
        world.cluster.install(MACHINE_CONFIG_POOL, "v1", None);
        world.cluster.install(KUBE_DESCHEDULER, "v1", None);
        world.cluster.install(HYPER_CONVERGED, "v1beta1", None);
        world.pool("worker", 10);
        world.edit(
            &descheduler(),
            "",
            &json!({ "spec": { "deschedulingIntervalSeconds": 30, "mode": "Predictive" } }),
        );
        world.migrations(5);
        world
    }

    /// Higher density on a cluster with virtualization in its default configuration.
    pub(super) fn density() -> Self {
        let mut world = Self::new(built_in("virt-higher-density"));
        world.cluster.install(MACHINE_CONFIG, "v1", None);
        world.cluster.install(MACHINE_CONFIG_POOL, "v1", None);
        world.cluster.install(HYPER_CONVERGED, "v1beta1", None);
        world.pool("worker", 10);
        world.migrations(5);
        world
    }

    /// Sets the migration limit of the HyperConverged.
    pub(crate) fn migrations(&mut self, limit: i64) {
        let patch = json!({ "spec": { "liveMigrationConfig": {
            "parallelMigrationsPerCluster": limit,
        } } });
        self.edit(&hyper_converged(), "admin", &patch);
    }

    /// A manager edits an object.
    pub(crate) fn edit(&mut self, target: &TargetRef, who: &str, patch: &Value) {
        self.cluster.edit(target, who, patch, self.now);
    }

    /// A user edits the spec.
    pub(crate) fn spec(&mut self, change: impl FnOnce(&mut VirtPlatformConfigSpec)) {
        let before = self.config.spec.clone();
        change(&mut self.config.spec);
        if self.config.spec != before {
            let generation = self.config.metadata.generation.as_mut();
            *generation.unwrap() += 1;
        }
    }

    pub(crate) fn action(&mut self, action: Action) {
        self.spec(|spec| spec.action = action);
    }

    pub(crate) fn options(&mut self, change: impl FnOnce(&mut api::advisor::LoadAware)) {
        self.spec(|spec| {
            let options = spec.options.get_or_insert_with(ProfileOptions::default);
            change(options.load_aware.get_or_insert_with(Default::default));
        });
    }

    pub(super) fn annotate(&mut self, name: &str, value: &str) {
        let annotations = self.config.metadata.annotations.get_or_insert_default();
        annotations.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn pass(&mut self, time: SignedDuration) {
        self.now = self.now.checked_add(time).unwrap();
    }

    pub(crate) fn status(&self) -> VirtPlatformConfigStatus {
        self.config.status.clone().unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.status().phase.unwrap()
    }

    pub(super) fn digest(&self) -> String {
        self.status().plan_digest.unwrap()
    }

    pub(super) fn item(&self, name: &str) -> Item {
        let items = self.status().items;
        let names: Vec<_> = items.iter().map(|item| item.name.clone()).collect();
        let item = items.into_iter().find(|item| item.name == name);
        item.unwrap_or_else(|| panic!("no item {name} among {names:?}"))
    }

    pub(super) fn states(&self) -> Vec<ItemState> {
        self.status().items.iter().map(|item| item.state).collect()
    }

    pub(crate) fn condition(&self, kind: &str) -> Condition {
        let conditions = self.status().conditions;
        let found = crate::conditions::get(&conditions, kind).cloned();
        found.unwrap_or_else(|| panic!("no condition {kind}"))
    }

    /// Status and reason of a condition.
    pub(crate) fn status_and_reason(&self, kind: &str) -> (String, String) {
        let condition = self.condition(kind);
        (condition.status, condition.reason)
    }

    /// A value of an object.
    pub(super) fn live(&self, target: &TargetRef, pointer: &str) -> Value {
        let object = self.cluster.get(target).unwrap_or_default();
        object.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Drives the configuration until it converges; returns the time to requeue.
    pub(crate) fn run(&mut self) -> Option<Timestamp> {
        self.trail.clear();
        self.drive().unwrap()
    }

    /// As [`Simulation::run`], but the operator is killed after the n-th effect and restarted. Returns whether it was
    /// killed.
    pub(super) fn run_with_kill(&mut self, after: usize) -> bool {
        self.kill_after = Some(self.effects + after);
        let killed = self.drive().is_err();
        self.kill_after = None;
        self.run();
        killed
    }

    /// Drives the configuration; returns whether it converged before the operator was killed.
    pub(crate) fn run_until_killed(&mut self) -> bool {
        self.drive().is_ok()
    }

    fn drive(&mut self) -> Result<Option<Timestamp>, Killed> {
        for _ in 0..MAX_ROUNDS {
            if let Reconciled::Converged(wake) = self.step()? {
                self.check_conditions();
                return Ok(wake);
            }
        }
        panic!("never rests: {:?}, {:#?}", self.trail, self.status());
    }

    fn facts(&self) -> (crate::Snapshot, Vec<Record>) {
        let ignored = self.config.spec.action == Action::Ignore;
        let snapshot = if ignored {
            crate::Snapshot::default()
        } else {
            self.cluster.snapshot()
        };
        (snapshot, self.records.clone())
    }

    /// One reconcile, as in the operator.
    pub(super) fn step(&mut self) -> Result<Reconciled, Killed> {
        let (snapshot, records) = self.facts();
        let decision = self.ask(&snapshot, &records, decide);
        let todo = decision.todo.clone();
        self.write(decision)?;
        let next = match todo {
            NextStep::Rest(wake) => return Ok(Reconciled::Converged(wake)),
            NextStep::Again => return Ok(Reconciled::Continues),
            NextStep::Preview(draft) => {
                let previews: Vec<_> = draft.items.iter().map(|item| self.preview(item)).collect();
                self.ask(&snapshot, &records, |facts| {
                    drafted(facts, draft, &previews)
                })
            }
            NextStep::Record(record) => {
                let revision = record.revision;
                assert!(
                    self.records.iter().all(|known| known.revision != revision),
                    "revision {revision} is written twice"
                );
                self.records.push(read_again(&*record));
                self.effect()?;
                self.ask(&snapshot, &records, |facts| recorded(facts, revision))
            }
            NextStep::Close(revision, outcome) => {
                let mut records = self.records.iter_mut();
                let record = records.find(|record| record.revision == revision).unwrap();
                // A later attempt at a plan that failed may get further.
                let failed = record.outcome.as_ref().is_none_or(|known| {
                    known.result != outcome.result
                        && matches!(
                            known.result,
                            PlanResult::Failed | PlanResult::CompletedWithErrors
                        )
                });
                assert!(failed, "revision {revision} is closed twice");
                record.outcome = Some(outcome);
                self.effect()?;
                return Ok(Reconciled::Continues);
            }
            NextStep::Execute(execution) if self.batches => {
                let stored = self.config.status.clone();
                let decision = self.run_batch(&snapshot, &records, *execution);
                // In the operator, too, only the decision at the end is written.
                self.config.status = stored;
                decision?
            }
            NextStep::Execute(execution) => {
                let result = self.carry_out(&execution)?;
                let (snapshot, _) = self.facts();
                let index = execution.index;
                self.ask(&snapshot, &records, |facts| executed(facts, index, result))
            }
        };
        let todo = next.todo.clone();
        self.write(next)?;
        Ok(match todo {
            NextStep::Rest(wake) => Reconciled::Converged(wake),
            NextStep::Again => Reconciled::Continues,
            other => panic!("the operator does not do what follows from what it did: {other:?}"),
        })
    }

    fn ask(
        &self,
        snapshot: &crate::Snapshot,
        records: &[Record],
        question: impl FnOnce(&DecisionInputs<'_>) -> Decision,
    ) -> Decision {
        question(&self.inputs(snapshot, records))
    }

    pub(super) fn inputs<'a>(
        &'a self,
        snapshot: &'a crate::Snapshot,
        records: &'a [Record],
    ) -> DecisionInputs<'a> {
        DecisionInputs {
            config: &self.config,
            profile: self.profile.as_deref(),
            snapshot,
            records,
            policies: &self.policies,
            recorder: &self.recorder,
            version: &self.version,
            now: self.now,
        }
    }

    /// The current decision, without its effects.
    pub(super) fn decision(&self) -> Decision {
        let (snapshot, records) = self.facts();
        self.ask(&snapshot, &records, decide)
    }

    fn effect(&mut self) -> Result<(), Killed> {
        self.effects += 1;
        if self.kill_after == Some(self.effects) {
            return Err(Killed);
        }
        Ok(())
    }

    fn write(&mut self, decision: Decision) -> Result<(), Killed> {
        let changed = self.config.status.as_ref() != Some(&decision.status);
        if changed {
            self.config.status = Some(read_again(&decision.status));
            self.publish();
            let phase = self.phase();
            if self.trail.last() != Some(&phase) {
                self.trail.push(phase);
            }
        }
        self.notices.extend(decision.notices);
        if changed { self.effect() } else { Ok(()) }
    }

    fn preview(&mut self, item: &Item) -> Preview {
        let snapshot = self.cluster.snapshot();
        let kind = snapshot.kind_of(&item.target_ref);
        let (mut dry_run, mut request) = DryRun::start(item, kind);
        loop {
            let response = self.cluster.answer(&item.target_ref, request, self.now);
            match dry_run.next(response) {
                Next::Send(next) => request = next,
                Next::Finished(preview) => return preview,
                Next::GiveUp(why) => panic!("{why}"),
            }
        }
    }

    pub(super) fn carry_out(&mut self, execution: &Execution) -> Result<Executed, Killed> {
        let item = &execution.item;
        let target = &item.target_ref;
        if let Some((target, patch)) = self.overtaken.take() {
            self.edit(&target, "somebody", &patch);
        }
        let live = self.cluster.get(target);
        let config = self.config.metadata.name.clone().unwrap();
        let snapshot = self.cluster.snapshot();
        let kind = snapshot.kind_of(target);
        let (mut steps, mut request) = ItemExecution::start(execution, &config, kind);
        let mut wrote = false;
        let result = loop {
            let writes = request != Request::Read;
            let persists = writes
                && !matches!(
                    request,
                    Request::Apply { dry_run: true, .. } | Request::Merge { dry_run: true, .. }
                );
            if writes && !wrote {
                self.check_order(execution);
                self.check_lock(execution, live.as_ref());
            }
            wrote |= writes;
            let response = match self.refusals.get(&target.name) {
                Some(why) if writes => Response::Rejected(why.clone()),
                _ => self.cluster.answer(target, request, self.now),
            };
            match steps.next(response) {
                Next::Send(next) => {
                    request = next;
                    if persists {
                        self.effect()?;
                    }
                }
                Next::Finished(result @ (Executed::Done | Executed::Kept(_))) if wrote => {
                    break result;
                }
                Next::Finished(result) => return Ok(result),
                Next::GiveUp(why) => panic!("{why}"),
            }
        };
        self.written.push(item.name.clone());
        let status = self.status();
        let digest = status.plan_digest.clone().unwrap_or_default();
        let mut records = self.records.iter();
        let open = records.find(|record| {
            let outcome = record.outcome.as_ref().map(|outcome| outcome.result);
            // Of a plan that is tried again.
            let again = status.retry.is_some()
                && matches!(
                    outcome,
                    Some(PlanResult::Failed | PlanResult::CompletedWithErrors)
                );
            (outcome.is_none() || again) && record.plan_digest == digest
        });
        self.log.push(Written {
            item: item.name.clone(),
            content: content(item),
            impact: plan::worst(&status.items).unwrap(),
            revision: open
                .expect("an entry of the history before the first item")
                .revision,
            recorded: self.recorder.is_trusted(),
            digest,
        });
        self.effect()?;
        Ok(result)
    }

    /// Records the content of a digest; the same digest never has another content.
    fn publish(&mut self) {
        let status = self.status();
        let Some(digest) = status.plan_digest else {
            return;
        };
        let items: BTreeMap<_, _> = status
            .items
            .iter()
            .map(|item| (item.name.clone(), content(item)))
            .collect();
        // A plan applied by hand is adopted, and not offered for approval.
        if matches!(
            status.phase,
            Some(Phase::ReviewRequired | Phase::InProgress)
        ) {
            let known = self
                .published
                .entry(digest)
                .or_insert_with(|| items.clone());
            assert_eq!(*known, items, "one digest stands for two plans");
        }
    }

    /// An item is executed only after all items before it have finished.
    fn check_order(&self, execution: &Execution) {
        let status = self.status();
        let approved = self.config.spec.approval.clone().unwrap_or_default().items;
        let approved = crate::approval::closure(&status.items, &approved).unwrap_or_default();
        for before in &status.items[..execution.index] {
            let ended = match before.state {
                ItemState::Completed => true,
                ItemState::Failed => self.config.spec.failure_policy == FailurePolicy::Continue,
                ItemState::Pending => !approved.contains(&before.name),
                ItemState::InProgress => false,
            };
            assert!(ended, "{} overtakes {before:#?}", execution.item.name);
        }
    }

    /// The target is as recorded in the plan, unless locks are bypassed.
    fn check_lock(&self, execution: &Execution, live: Option<&Value>) {
        let item = &execution.item;
        if self.config.spec.bypass_optimistic_lock || item.operation == Operation::Restore {
            return;
        }
        let now = live.map(|live| values::managed(live, &item.managed_fields).unwrap());
        assert_eq!(now, item.base, "the lock of {} is stale", item.name);
    }

    /// Exactly one phase condition is true, that of the phase, with the current generation.
    fn check_conditions(&self) {
        let status = self.status();
        let phases: BTreeSet<&str> = Phase::ALL.iter().map(|phase| phase.as_str()).collect();
        let of_phases = status
            .conditions
            .iter()
            .filter(|condition| phases.contains(condition.type_.as_str()));
        let mut holding = Vec::new();
        for condition in of_phases {
            assert_eq!(
                condition.observed_generation, self.config.metadata.generation,
                "{condition:?}"
            );
            if condition.status == "True" {
                holding.push(condition.type_.clone());
            }
        }
        assert_eq!(holding, [self.phase().as_str()]);
        assert_eq!(status.observed_generation, self.config.metadata.generation);
    }

    /// Reconciles again, later: nothing is written and nothing is executed.
    pub(super) fn check_rest(&mut self) {
        let (before, effects) = (self.status(), self.effects);
        let now = self.now;
        self.pass(SignedDuration::from_secs(7));
        let decision = self.decision();
        assert!(
            matches!(decision.todo, NextStep::Rest(_)),
            "{:?}: {:?}",
            self.phase(),
            decision.todo
        );
        assert_eq!(decision.status, before);
        assert_eq!(decision.notices, [], "{:?}", self.phase());
        self.now = now;
        assert_eq!(self.effects, effects);
    }
}

/// An object as it is read back: timestamps lose their fractions in the API.
fn read_again<T: Serialize + DeserializeOwned>(written: &T) -> T {
    serde_json::from_value(serde_json::to_value(written).unwrap()).unwrap()
}

pub(super) fn descheduler() -> TargetRef {
    TargetRef {
        api_version: "operator.openshift.io/v1".to_owned(),
        kind: "KubeDescheduler".to_owned(),
        name: "cluster".to_owned(),
        namespace: Some("openshift-kube-descheduler-operator".to_owned()),
    }
}

pub(super) fn hyper_converged() -> TargetRef {
    TargetRef {
        api_version: "hco.kubevirt.io/v1beta1".to_owned(),
        kind: "HyperConverged".to_owned(),
        name: "kubevirt-hyperconverged".to_owned(),
        namespace: Some("openshift-cnv".to_owned()),
    }
}
