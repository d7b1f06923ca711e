//! Clusters for the tests of profiles.

use std::sync::Arc;

use api::advisor::{Drift, DriftClass, ProfileOptions};
use serde_json::{Value, json};

use super::Profile;
use super::kinds::{
    CONFIG_MAP, HYPER_CONVERGED, KUBE_DESCHEDULER, MACHINE_CONFIG, MACHINE_CONFIG_POOL,
    MACHINE_CONFIGURATION, NODE_HEALTH_CHECK,
};
use crate::intent::{Intent, Intents};
use crate::snapshot::{GroupKind, Kind, Snapshot, whole};

/// Builder of a cluster.
#[derive(Debug, Clone)]
pub(super) struct ClusterFixture(Vec<(GroupKind, Kind)>);

impl ClusterFixture {
    /// A cluster with all kinds installed and nothing configured; CRDs are not readable.
    pub(super) fn new(hyper_converged: &str) -> Self {
        let installed = [
            (KUBE_DESCHEDULER, "v1"),
            (MACHINE_CONFIG, "v1"),
            (MACHINE_CONFIG_POOL, "v1"),
            (MACHINE_CONFIGURATION, "v1"),
            (HYPER_CONVERGED, hyper_converged),
            (NODE_HEALTH_CHECK, "v1alpha1"),
            (CONFIG_MAP, "v1"),
        ];
        let kind = |version: &str| Kind {
            version: version.to_owned(),
            plural: String::new(),
            definition: None,
            objects: std::collections::BTreeMap::new(),
        };
        Self(installed.map(|(of, version)| (of, kind(version))).into())
    }

    fn kind(&mut self, of: GroupKind) -> &mut Kind {
        let found = self.0.iter_mut().find(|(kind, _)| *kind == of);
        &mut found.expect("an installed kind").1
    }

    /// With an object, merged into the existing one.
    pub(super) fn with(mut self, of: GroupKind, object: &Value) -> Self {
        let text = |path: &str| {
            object
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let key = (
            text("/metadata/namespace").to_owned(),
            text("/metadata/name").to_owned(),
        );
        let kind = self.kind(of);
        let mut merged = kind
            .objects
            .get(&key)
            .map_or_else(|| json!({}), |live| whole(live));
        merge(&mut merged, object);
        merged["apiVersion"] = json!(format!("{}/{}", of.group, kind.version));
        merged["kind"] = json!(of.kind);
        let merged = serde_json::from_value(merged).expect("an object");
        kind.objects.insert(key, Arc::new(merged));
        self
    }

    /// With a descheduler CRD whose `spec` has this schema.
    pub(super) fn descheduler_schema(mut self, spec: &Value) -> Self {
        let definition = json!({
            "metadata": { "name": "kubedeschedulers.operator.openshift.io" },
            "spec": {
                "group": "operator.openshift.io",
                "names": { "kind": "KubeDescheduler", "plural": "kubedeschedulers" },
                "scope": "Namespaced",
                "versions": [
                    { "name": "v1beta1", "served": true, "storage": false, "schema": { "openAPIV3Schema": { "type": "object" } } },
                    { "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                        "type": "object", "properties": { "spec": spec },
                    }}},
                ],
            },
        });
        let definition = serde_json::from_value(definition).expect("a definition");
        self.kind(KUBE_DESCHEDULER).definition = Some(Arc::new(definition));
        self
    }

    /// With a pool that selects the MachineConfigs of these roles, and whose nodes run with these kernel arguments.
    pub(super) fn pool(
        self,
        name: &str,
        roles: &[&str],
        arguments: &[&str],
        machines: i64,
    ) -> Self {
        let rendered = format!("rendered-{name}-1");
        self.with(
            MACHINE_CONFIG_POOL,
            &json!({
                "metadata": { "name": name },
                "spec": { "machineConfigSelector": { "matchExpressions": [{
                    "key": "machineconfiguration.openshift.io/role", "operator": "In", "values": roles,
                }]}},
                "status": { "configuration": { "name": rendered }, "machineCount": machines },
            }),
        )
        .with(
            MACHINE_CONFIG,
            &json!({ "metadata": { "name": rendered }, "spec": { "kernelArguments": arguments } }),
        )
    }

    /// With a HyperConverged that has this `spec`.
    pub(super) fn hyper_converged(self, namespace: &str, spec: &Value) -> Self {
        self.with(
            HYPER_CONVERGED,
            &json!({
                "metadata": { "name": "kubevirt-hyperconverged", "namespace": namespace },
                "spec": spec,
            }),
        )
    }

    /// With all requested changes applied.
    pub(super) fn applied(self, wanted: &Intents) -> Self {
        wanted.items.iter().fold(self, |world, item| {
            let all: Vec<GroupKind> = world.0.iter().map(|(of, _)| *of).collect();
            let of = all.into_iter().find(|of| of.kind == item.target.kind);
            world.with(of.expect("an installed kind"), &item.desired)
        })
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (of, kind) in self.0.clone() {
            snapshot.insert(of, kind);
        }
        snapshot
    }

    /// The changes that a profile requests here.
    pub(super) fn wanted(&self, profile: &dyn Profile, options: &Value) -> Intents {
        profile
            .intents(&options_of(options), &self.snapshot())
            .expect("intents")
    }
}

pub(super) fn options_of(options: &Value) -> ProfileOptions {
    serde_json::from_value(options.clone()).expect("options")
}

/// The parts that are the same before and after applying.
pub(super) fn without_impact_and_message(wanted: &Intents) -> Vec<Intent> {
    let forget = |item: &Intent| Intent {
        impact: api::advisor::Impact::Low,
        message: String::new(),
        ..item.clone()
    };
    wanted.items.iter().map(forget).collect()
}

/// A manual edit.
pub(super) fn drift(path: &str, applied: Value, live: Option<Value>) -> Drift {
    Drift {
        item: "item".to_owned(),
        path: path.to_owned(),
        applied: Some(applied),
        live,
        manager: None,
        time: None,
        class: DriftClass::ExternalEdit,
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
