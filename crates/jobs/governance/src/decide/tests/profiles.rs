//! A profile of three steps with a variable planning logic: a MachineConfig that reboots nodes, and two plain objects,
//! one of which depends on an input.

use api::advisor::{Impact, Input, ProfileOptions, TargetRef};
use serde_json::{Value, json};

use crate::intent::{Intent, Intents};
use crate::profile::kinds::{CONFIG_MAP, MACHINE_CONFIG, MACHINE_CONFIG_POOL};
use crate::profile::{KindUse, Prerequisite, Profile, ProfileInfo, Refusal};
use crate::snapshot::Snapshot;

/// Three steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    /// The value that this version of the operator writes into the second object.
    pub(crate) logic: i64,
}

const ABOUT: ProfileInfo = ProfileInfo {
    name: "steps",
    description: "Three steps",
    category: "tests",
    impact_summary: "High",
    impact: Impact::High,
    documentation_url: "",
    advertised: false,
};

pub(crate) fn config_map(name: &str) -> TargetRef {
    TargetRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        namespace: Some("there".to_owned()),
    }
}

pub(crate) fn machine_config(name: &str) -> TargetRef {
    TargetRef {
        api_version: format!("{}/v1", MACHINE_CONFIG.group),
        kind: "MachineConfig".to_owned(),
        name: name.to_owned(),
        namespace: None,
    }
}

fn intent(name: &'static str, target: TargetRef, impact: Impact, part: &Value) -> Intent {
    let mut desired = json!({
        "apiVersion": target.api_version, "kind": target.kind,
        "metadata": { "name": target.name, "namespace": target.namespace },
    });
    if target.namespace.is_none() {
        desired["metadata"] = json!({
            "name": target.name, "labels": { "machineconfiguration.openshift.io/role": "worker" },
        });
    }
    let mut managed = Vec::new();
    for (field, value) in part.as_object().unwrap() {
        desired[field] = value.clone();
        managed.extend(
            value
                .as_object()
                .unwrap()
                .keys()
                .map(|key| format!("{field}.{key}")),
        );
    }
    Intent {
        name,
        target,
        desired,
        managed,
        impact,
        message: String::new(),
        depends_on: Vec::new(),
    }
}

impl Profile for Steps {
    fn about(&self) -> &ProfileInfo {
        &ABOUT
    }

    fn uses(&self) -> &[KindUse] {
        &[]
    }

    fn prerequisites(&self, _options: &ProfileOptions) -> Vec<Prerequisite> {
        vec![Prerequisite {
            of: CONFIG_MAP,
            version: "v1",
            remedy: "Please install it",
        }]
    }

    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal> {
        let options = options.load_aware.clone().unwrap_or_default();
        let interval = options.descheduling_interval_seconds.unwrap_or(60);
        let source = config_map("source");
        let raw = snapshot
            .target(&source)
            .and_then(|source| source.data.pointer("/data/limit").cloned());
        if raw == Some(json!("unreadable")) {
            return Err(Refusal::Unreadable("source makes no sense".to_owned()));
        }
        let derived = raw.clone().unwrap_or_else(|| json!(5));
        let mut wanted = Intents::default();
        if options.enable_psi_metrics.unwrap_or(true) {
            // Without nodes to reboot no workload is disrupted.
            let pools = snapshot.kind(MACHINE_CONFIG_POOL);
            let pools = pools.iter().flat_map(|kind| kind.objects.values());
            let machines = |pool: &std::sync::Arc<kube_core::DynamicObject>| {
                pool.data
                    .pointer("/status/machineCount")
                    .and_then(Value::as_i64)
            };
            let empty = pools.filter_map(machines).all(|machines| machines == 0);
            wanted.items.push(intent(
                "first",
                machine_config("first"),
                if empty { Impact::Low } else { Impact::High },
                &json!({ "spec": { "kernelArguments": ["psi=1"] } }),
            ));
        }
        wanted.items.push(intent(
            "second",
            config_map("second"),
            Impact::Low,
            &json!({ "data": { "interval": interval, "limit": derived, "logic": self.logic } }),
        ));
        let mut third = intent(
            "third",
            config_map("third"),
            Impact::Low,
            &json!({ "data": { "interval": interval } }),
        );
        third.depends_on = vec!["second"];
        wanted.items.push(third);
        wanted.inputs.push(Input {
            name: "limit".to_owned(),
            object: source,
            path: "data.limit".to_owned(),
            raw,
            derived,
        });
        Ok(wanted)
    }
}
