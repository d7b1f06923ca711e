//! The labels of nodes and pods, and what a CPU is in labels.

use std::collections::BTreeMap;

use super::config::Config;
use crate::model::Cpu;

/// Models an instance can have on a node.
pub(super) const CPU_MODEL: &str = "cpu-model.node.kubevirt.io/";
/// Models known on a node: what host-model migrations ask for.
pub(super) const CPU_MODEL_MIGRATION: &str = "cpu-model-migration.node.kubevirt.io/";
/// Features of a CPU.
pub(super) const CPU_FEATURE: &str = "cpu-feature.node.kubevirt.io/";
/// The model of the CPU itself.
pub(super) const HOST_MODEL: &str = "host-model-cpu.node.kubevirt.io/";
/// Features an instance with that model has beyond it.
pub(super) const HOST_MODEL_FEATURES: &str = "host-model-required-features.node.kubevirt.io/";
/// Who made the CPU.
pub(super) const CPU_VENDOR: &str = "cpu-vendor.node.kubevirt.io/";
/// Its clock.
pub(super) const CPU_TIMER: &str = "cpu-timer.node.kubevirt.io/";
/// Machine types.
pub(super) const MACHINE_TYPE: &str = "machine-type.node.kubevirt.io/";
/// On nodes whose own model an administrator calls obsolete.
pub(super) const OBSOLETE_HOST_MODEL: &str = "node-labeller.kubevirt.io/obsolete-host-model";
/// Annotation of nodes that are not to be labelled, whatever its value.
pub(super) const SKIP_NODE: &str = "node-labeller.kubevirt.io/skip-node";
/// Whether virt-handler is heard of on a node.
pub(super) const SCHEDULABLE: &str = "kubevirt.io/schedulable";

/// What a pod is.
pub(super) const APP: &str = "kubevirt.io";
/// The value of [`APP`] on launchers.
pub(super) const LAUNCHER: &str = "virt-launcher";
/// On pods: the uid of the instance.
pub(super) const CREATED_BY: &str = "kubevirt.io/created-by";
/// Annotation of pods: the name of the instance.
pub(super) const DOMAIN: &str = "kubevirt.io/domain";
/// On pods: the uid of the migration they were made for.
pub(super) const MIGRATION_JOB: &str = "kubevirt.io/migrationJobUID";
/// Annotation of pods: the name of that migration.
pub(super) const MIGRATION_JOB_NAME: &str = "kubevirt.io/migrationJobName";
/// On instances: the node they are going to.
pub(super) const MIGRATION_TARGET: &str = "kubevirt.io/migrationTargetNodeName";
/// Annotation of migrations: the node they empty.
pub(super) const EVACUATION: &str = "kubevirt.io/evacuationMigration";
/// On instances: the node they are on.
pub(super) const NODE_NAME: &str = "kubevirt.io/nodeName";
/// On instances and pods: the name of the machine.
pub(super) const MACHINE_NAME: &str = "vm.kubevirt.io/name";

/// What the labeller takes away before it labels anew. That it leaves the vendor is an old flaw of
/// KubeVirt's: a node that comes back with a CPU of somebody else says that it has both.
const REMOVED: [&str; 7] = [
    CPU_MODEL,
    CPU_MODEL_MIGRATION,
    CPU_FEATURE,
    HOST_MODEL,
    HOST_MODEL_FEATURES,
    CPU_TIMER,
    MACHINE_TYPE,
];

/// What libvirt says about a CPU on nodes of this architecture, in labels: nothing elsewhere than on
/// amd64 and s390x.
pub(super) fn of_cpu(cpu: &Cpu, arch: &str, config: &Config) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    if !matches!(arch, "amd64" | "s390x") {
        return labels;
    }
    let mut put = |domain: &str, name: &str, value: &str| {
        labels.insert(format!("{domain}{name}"), value.to_owned());
    };
    for model in cpu.models.iter().filter(|model| !config.hides(model)) {
        put(CPU_MODEL, model, "true");
    }
    let known = cpu.models.iter().chain(&cpu.known_models);
    for model in known
        .chain([&cpu.model])
        .filter(|model| !config.hides(model))
    {
        put(CPU_MODEL_MIGRATION, model, "true");
    }
    for feature in &cpu.features {
        put(CPU_FEATURE, feature, "true");
    }
    put(HOST_MODEL, &cpu.model, "true");
    for feature in &cpu.required_features {
        put(HOST_MODEL_FEATURES, feature, "true");
    }
    put(CPU_VENDOR, &cpu.vendor, "true");
    for machine in &cpu.machine_types {
        put(MACHINE_TYPE, machine, "true");
    }
    if let Some(frequency) = cpu.tsc_frequency {
        put(CPU_TIMER, "tsc-frequency", &frequency.to_string());
    }
    if let Some(scalable) = cpu.tsc_scalable {
        put(CPU_TIMER, "tsc-scalable", &scalable.to_string());
    }
    if config.calls_obsolete(&cpu.model) {
        put(OBSOLETE_HOST_MODEL, "", "true");
    }
    labels
}

/// The labels of a node after the labeller has been there.
pub(super) fn relabelled(
    old: &BTreeMap<String, String>,
    cpu: &Cpu,
    arch: &str,
    config: &Config,
) -> BTreeMap<String, String> {
    let mut labels = old.clone();
    labels.retain(|key, _| {
        key != OBSOLETE_HOST_MODEL && !REMOVED.iter().any(|domain| key.starts_with(domain))
    });
    labels.extend(of_cpu(cpu, arch, config));
    labels
}

/// The labels of a new node where nobody configured KubeVirt.
pub(crate) fn by_default(cpu: &Cpu, arch: &str) -> BTreeMap<String, String> {
    let mut labels = of_cpu(cpu, arch, &Config::default());
    labels.insert(SCHEDULABLE.to_owned(), "true".to_owned());
    labels
}

#[cfg(test)]
mod tests;
