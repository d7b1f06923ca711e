//! The configuration in the `KubeVirt` object, as far as it is implemented.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::{Value, json};

// `ParallelMigrationsPerClusterDefault` and its neighbours in KubeVirt's `pkg/virt-config/virt-config.go`.
const PARALLEL_MIGRATIONS: usize = 5;
const PARALLEL_OUTBOUND_MIGRATIONS: usize = 2;
const DRAIN_TAINT: &str = "kubevirt.io/drain";

/// CPU models that KubeVirt considers obsolete by default. Each also as `-v1`.
const OBSOLETE: [&str; 17] = [
    "486",
    "pentium",
    "pentium2",
    "pentium3",
    "pentiumpro",
    "coreduo",
    "n270",
    "core2duo",
    "Conroe",
    "athlon",
    "phenom",
    "qemu64",
    "qemu32",
    "kvm64",
    "kvm32",
    "Opteron_G1",
    "Opteron_G2",
];

/// The configuration of KubeVirt.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Config {
    spec: Value,
}

impl Config {
    /// Reads the configuration of an object; without one, all defaults apply.
    pub(super) fn of(object: Option<&DynamicObject>) -> Self {
        let spec = object.and_then(|object| object.data.pointer("/spec/configuration").cloned());
        Self {
            spec: spec.unwrap_or_default(),
        }
    }

    /// Default CPU model of instances.
    pub(super) fn cpu_model(&self) -> &str {
        match self.text("/cpuModel") {
            "" => "host-model",
            model => model,
        }
    }

    /// Default architecture of instances.
    pub(super) fn architecture(&self) -> &str {
        match self.text("/architectureConfiguration/defaultArchitecture") {
            "" => "amd64",
            arch => arch,
        }
    }

    /// Default eviction strategy of instances.
    pub(super) fn eviction_strategy(&self) -> Option<&str> {
        Some(self.text("/evictionStrategy")).filter(|text| !text.is_empty())
    }

    /// Node selector added to all instances.
    pub(super) fn node_selectors(&self) -> BTreeMap<String, String> {
        let found = self.spec.pointer("/developerConfiguration/nodeSelectors");
        let found = found.and_then(|found| serde_json::from_value(found.clone()).ok());
        found.unwrap_or_default()
    }

    /// Virtual CPUs per physical CPU.
    pub(super) fn allocation_ratio(&self) -> i64 {
        let found = self
            .spec
            .pointer("/developerConfiguration/cpuAllocationRatio");
        found
            .and_then(Value::as_i64)
            // The default is `DefaultCPUAllocationRatio`. The requests of launchers are divided by it,
            // so that zero would panic.
            .filter(|it| *it > 0)
            .unwrap_or(10)
    }

    /// Maximum number of concurrent migrations, in the cluster and from one node.
    pub(super) fn parallel_migrations(&self) -> (usize, usize) {
        let number = |name: &str, default: usize| {
            let found = self.spec.pointer(&format!("/migrations/{name}"));
            let found = found.and_then(Value::as_u64);
            found.and_then(|it| it.try_into().ok()).unwrap_or(default)
        };
        (
            number("parallelMigrationsPerCluster", PARALLEL_MIGRATIONS),
            number(
                "parallelOutboundMigrationsPerNode",
                PARALLEL_OUTBOUND_MIGRATIONS,
            ),
        )
    }

    /// The configuration of a migration, as the instance shows it: what is configured, and the defaults.
    // The defaults are those of `defaultClusterConfig` in KubeVirt's `pkg/virt-config/virt-config.go`.
    pub(super) fn migrations(&self) -> Value {
        let mut all = json!({
            "allowAutoConverge": false,
            "allowPostCopy": false,
            "allowWorkloadDisruption": false,
            "bandwidthPerMigration": "0",
            "completionTimeoutPerGiB": 150,
            "nodeDrainTaintKey": DRAIN_TAINT,
            "parallelMigrationsPerCluster": PARALLEL_MIGRATIONS,
            "parallelOutboundMigrationsPerNode": PARALLEL_OUTBOUND_MIGRATIONS,
            "progressTimeout": 150,
            "unsafeMigrationOverride": false,
        });
        let configured = self.spec.get("migrations").and_then(Value::as_object);
        for (name, value) in configured.into_iter().flatten() {
            all[name] = value.clone();
        }
        all
    }

    /// Key of the taint that evacuates the instances of a node.
    pub(super) fn drain_taint(&self) -> &str {
        match self.text("/migrations/nodeDrainTaintKey") {
            "" => DRAIN_TAINT,
            key => key,
        }
    }

    /// Whether nodes get no label for a model. As in KubeVirt only the key counts: a model listed
    /// with `false` is obsolete as well, and a configured list replaces the built-in one.
    pub(super) fn hides(&self, model: &str) -> bool {
        let plain = model.strip_suffix("-v1").unwrap_or(model);
        self.obsolete()
            .map_or_else(|| OBSOLETE.contains(&plain), |own| own.contains_key(model))
    }

    /// Whether the configured list has a model. The built-in list does not count.
    pub(super) fn calls_obsolete(&self, model: &str) -> bool {
        self.obsolete().is_some_and(|own| own.contains_key(model))
    }

    /// The configured list as Go prints it.
    pub(super) fn obsolete_as_printed(&self) -> String {
        let all = self.obsolete().into_iter().flatten();
        let entries: Vec<String> = all.map(|(model, on)| format!("{model}:{on}")).collect();
        format!("map[{}]", entries.join(" "))
    }

    fn obsolete(&self) -> Option<&serde_json::Map<String, Value>> {
        self.spec.get("obsoleteCPUModels")?.as_object()
    }

    fn text(&self, pointer: &str) -> &str {
        let found = self.spec.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
