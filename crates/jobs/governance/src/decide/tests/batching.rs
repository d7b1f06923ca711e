//! Driving the simulated operator item by item, and in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::advisor::{Action, Impact, Phase, ProfileOptions};
use jiff::Timestamp;
use serde_json::json;

use super::Simulation;
use super::profiles::config_map;
use super::world::{Killed, MAX_ROUNDS, Reconciled};
use crate::decide::{Batch, Decision, Execution, Following, NextStep};
use crate::intent::{Intent, Intents};
use crate::profile::kinds::{
    CONFIG_MAP, DEPLOYMENT, HYPER_CONVERGED, KUBE_DESCHEDULER, MACHINE_CONFIG, MACHINE_CONFIG_POOL,
};
use crate::profile::{KindUse, Prerequisite, Profile, ProfileInfo, Refusal};
use crate::record::Record;
use crate::snapshot::Snapshot;

impl Simulation {
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Applies items until one has to wait, as the operator does within its batch window.
    pub(super) fn run_batch(
        &mut self,
        decided_on: &Snapshot,
        records: &[Record],
        mut execution: Execution,
    ) -> Result<Decision, Killed> {
        let mut before = decided_on.clone();
        let mut batch = Batch::begin(&self.inputs(decided_on, records));
        loop {
            let result = self.carry_out(&execution)?;
            let snapshot = shared(self.cluster.snapshot(), &before);
            let inputs = self.inputs(&snapshot, records);
            execution = match batch.executed(&inputs, &before, &execution, result) {
                Following::End(decision) => return Ok(*decision),
                Following::Decide => return Ok(batch.end()),
                Following::Item(next) => *next,
            };
            self.followed += 1;
            self.config.status = Some(batch.status().clone());
            before = snapshot;
        }
    }

    /// Drives the configuration until an item is about to be executed.
    pub(super) fn run_until_execution(&mut self) -> Execution {
        for _ in 0..MAX_ROUNDS {
            if let NextStep::Execute(execution) = self.decision().todo {
                return *execution;
            }
            let step = self.step().unwrap();
            assert!(matches!(step, Reconciled::Continues), "no item is executed");
        }
        panic!("no item is executed: {:?}", self.trail);
    }
}

/// A snapshot that shares the objects that are as before, as a cache does.
fn shared(mut snapshot: Snapshot, before: &Snapshot) -> Snapshot {
    for of in [
        CONFIG_MAP,
        DEPLOYMENT,
        HYPER_CONVERGED,
        KUBE_DESCHEDULER,
        MACHINE_CONFIG,
        MACHINE_CONFIG_POOL,
    ] {
        let Some(mut kind) = snapshot.kind(of).cloned() else {
            continue;
        };
        if let Some(known) = before.kind(of) {
            kind.definition.clone_from(&known.definition);
        }
        for ((namespace, name), object) in &mut kind.objects {
            if let Some(known) = before.get(of, namespace, name).filter(|it| *it == object) {
                *object = Arc::clone(known);
            }
        }
        snapshot.insert(of, kind);
    }
    snapshot
}

/// A profile of many objects that counts how often it is asked for them.
struct Many {
    names: Vec<&'static str>,
    asked: AtomicUsize,
}

impl Profile for Many {
    fn about(&self) -> &ProfileInfo {
        &ProfileInfo {
            name: "many",
            description: "Many objects",
            category: "tests",
            impact_summary: "Low",
            impact: Impact::Low,
            documentation_url: "",
            advertised: false,
        }
    }

    fn uses(&self) -> &[KindUse] {
        &[]
    }

    fn prerequisites(&self, _: &ProfileOptions) -> Vec<Prerequisite> {
        Vec::new()
    }

    fn intents(&self, _: &ProfileOptions, _: &Snapshot) -> Result<Intents, Refusal> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let items = self.names.iter().map(|name| Intent {
            name,
            target: config_map(name),
            desired: json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "namespace": "there" }, "data": { "ours": "wanted" },
            }),
            managed: vec!["data.ours".to_owned()],
            impact: Impact::Low,
            message: String::new(),
            depends_on: Vec::new(),
        });
        Ok(Intents {
            items: items.collect(),
            ..Intents::default()
        })
    }
}

/// A decision about the whole plan for each of its items would be quadratic.
#[test]
fn long_plan_is_not_decided_again_for_each_item() {
    let names = (0..100).map(|index| &*format!("map-{index:03}").leak());
    let profile = Arc::new(Many {
        names: names.collect(),
        asked: AtomicUsize::new(0),
    });
    let mut world = Simulation::steps();
    world.config.spec.profile = "many".to_owned();
    world.profile = Some(Arc::clone(&profile) as Arc<dyn Profile>);
    world.batches = true;
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, profile.names);
    assert_eq!(world.followed, 99);
    let asked = profile.asked.load(Ordering::Relaxed);
    assert!(asked < 10, "the profile was asked {asked} times");
}
