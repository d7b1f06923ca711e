mod plans;
mod rollouts;
mod sizes;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::{Value, json};

use super::decide::{Plan, decide};
use super::sets::replicas;

const NOW: &str = "2026-01-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A deployment of three pods of an image, with `change` merged into it.
fn deployment(change: &Value) -> Deployment {
    let mut object = json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "d", "generation": 1, "annotations": {} },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 },
            },
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "paused": false,
            "template": template("one"),
        },
        "status": {},
    });
    for (path, value) in change.as_object().unwrap() {
        *object.pointer_mut(path).unwrap() = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "image": image }] },
    })
}

/// Fixture with one deployment, whose ReplicaSets follow at once.
struct Fixture {
    deployment: Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    busy: HashSet<String>,
}

impl Fixture {
    fn new(deployment: Deployment) -> Self {
        Self {
            deployment,
            sets: Vec::new(),
            busy: HashSet::new(),
        }
    }

    fn plan(&self) -> Plan {
        self.plan_at(now())
    }

    fn plan_at(&self, now: Timestamp) -> Plan {
        decide(&self.deployment, &self.sets, &self.busy, now).unwrap()
    }

    /// Applies a plan as the API server would.
    fn apply(&mut self, plan: Plan) {
        self.deployment = plan.deployment;
        for update in plan.update {
            let known = self
                .sets
                .iter_mut()
                .find(|set| set.metadata.uid == update.set.metadata.uid);
            *known.unwrap() = Arc::new(update.set);
        }
        self.sets.retain(|set| {
            let uid = &set.metadata.uid;
            !plan.delete.iter().any(|gone| &gone.metadata.uid == uid)
        });
        if let Some(mut set) = plan.create {
            let number = self.sets.len();
            set.metadata.uid = set.metadata.name.clone();
            set.metadata.creation_timestamp =
                serde_json::from_value(json!(format!("2026-01-01T10:00:0{number}Z"))).unwrap();
            self.sets.push(Arc::new(set));
        }
    }

    /// Scales ReplicaSets to their desired size; `available` returns how many pods of the set with
    /// that index are available.
    fn settle(&mut self, available: impl Fn(usize, i32) -> i32) {
        for (number, set) in self.sets.iter_mut().enumerate() {
            let set = Arc::make_mut(set);
            let there = replicas(set);
            let available = available(number, there);
            let status = set.status.get_or_insert_default();
            status.replicas = there;
            status.ready_replicas = Some(available);
            status.available_replicas = Some(available);
            status.terminating_replicas = Some(0);
            status.observed_generation = Some(1);
        }
    }

    fn sizes(&self) -> Vec<i32> {
        self.sets.iter().map(|set| replicas(set)).collect()
    }

    /// Repeats with all pods available until the plan is empty.
    fn run(&mut self) {
        for _ in 0..200 {
            self.settle(|_, there| there);
            let plan = self.plan();
            let done = plan.create.is_none()
                && plan.update.is_empty()
                && plan.delete.is_empty()
                && plan.deployment == self.deployment;
            if done {
                return;
            }
            self.apply(plan);
        }
        panic!("no end in sight: {:?}", self.sizes());
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let mut object = serde_json::to_value(&self.deployment).unwrap();
        change(&mut object);
        self.deployment = serde_json::from_value(object).unwrap();
        self.deployment.metadata.generation = self.deployment.metadata.generation.map(|it| it + 1);
    }

    fn set_image(&mut self, image: &str) {
        self.change(|object| object["spec"]["template"] = template(image));
    }

    fn condition(&self, kind: &str) -> Option<(String, String, String)> {
        let status = self.deployment.status.as_ref()?;
        let found = super::status::find(status, kind)?;
        Some((
            found.status.clone(),
            found.reason.clone()?,
            found.message.clone()?,
        ))
    }
}
