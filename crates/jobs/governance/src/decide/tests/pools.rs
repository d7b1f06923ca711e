//! MachineConfigPools that roll out on demand, and the waits for them.

use api::advisor::TargetRef;
use serde_json::json;

use super::Simulation;

fn pool(name: &str) -> TargetRef {
    TargetRef {
        api_version: "machineconfiguration.openshift.io/v1".to_owned(),
        kind: "MachineConfigPool".to_owned(),
        name: name.to_owned(),
        namespace: None,
    }
}

impl Simulation {
    /// A pool that selects worker MachineConfigs, and is up to date.
    pub(super) fn pool(&mut self, name: &str, machines: i64) {
        let patch = json!({
            "spec": {
                "machineConfigSelector": { "matchLabels": {
                    "machineconfiguration.openshift.io/role": "worker",
                } },
                "configuration": { "name": "rendered-0", "source": [] },
            },
            "status": { "machineCount": machines },
        });
        self.edit(&pool(name), "operator", &patch);
        self.roll_out(name, machines);
    }

    /// The pool renders the live MachineConfigs, and this many of its nodes are updated.
    pub(crate) fn roll_out(&mut self, name: &str, updated: i64) {
        let live = self.cluster.get(&pool(name)).unwrap();
        let machines = live["status"]["machineCount"].as_i64().unwrap();
        let sources: Vec<_> = self
            .cluster
            .content()
            .into_iter()
            .filter(|object| object["kind"] == "MachineConfig")
            .map(|object| json!({ "name": object["metadata"]["name"] }))
            .collect();
        let rendered = format!("rendered-{}", sources.len());
        let done = updated >= machines;
        let condition = |kind: &str, holds: bool| json!({ "type": kind, "status": if holds { "True" } else { "False" } });
        let mut status = json!({
            "updatedMachineCount": updated.min(machines),
            "readyMachineCount": updated.min(machines),
            "conditions": [condition("Updated", done), condition("Updating", !done)],
        });
        if done {
            status["configuration"] = json!({ "name": rendered });
        }
        let patch = json!({
            "spec": { "configuration": { "name": rendered, "source": sources } },
            "status": status,
        });
        self.edit(&pool(name), "operator", &patch);
    }

    pub(super) fn pause_pool(&mut self, name: &str, paused: bool) {
        self.edit(
            &pool(name),
            "admin",
            &json!({ "spec": { "paused": paused } }),
        );
    }
}
