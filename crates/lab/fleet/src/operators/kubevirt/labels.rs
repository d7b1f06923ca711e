//! KubeVirt's labels and annotations, and the CPU labels of a node.

use std::collections::BTreeMap;

use super::config::Config;
use crate::model::Cpu;

/// CPU models usable by instances on a node.
pub(super) const CPU_MODEL: &str = "cpu-model.node.kubevirt.io/";
/// CPU models known on a node, which host-model migrations select.
pub(super) const CPU_MODEL_MIGRATION: &str = "cpu-model-migration.node.kubevirt.io/";
/// CPU features of a node.
pub(super) const CPU_FEATURE: &str = "cpu-feature.node.kubevirt.io/";
/// The host model of a node.
pub(super) const HOST_MODEL: &str = "host-model-cpu.node.kubevirt.io/";
/// Features of host-model instances beyond the named model.
pub(super) const HOST_MODEL_FEATURES: &str = "host-model-required-features.node.kubevirt.io/";
/// CPU vendor.
pub(super) const CPU_VENDOR: &str = "cpu-vendor.node.kubevirt.io/";
/// Time stamp counter of the CPU.
pub(super) const CPU_TIMER: &str = "cpu-timer.node.kubevirt.io/";
/// Machine types.
pub(super) const MACHINE_TYPE: &str = "machine-type.node.kubevirt.io/";
/// On nodes whose host model is configured as obsolete.
pub(super) const OBSOLETE_HOST_MODEL: &str = "node-labeller.kubevirt.io/obsolete-host-model";
/// Annotation of nodes that the labeller skips, with any value.
pub(super) const SKIP_NODE: &str = "node-labeller.kubevirt.io/skip-node";
/// Whether virt-handler sends heartbeats on a node.
pub(super) const SCHEDULABLE: &str = "kubevirt.io/schedulable";

/// Role of a pod.
pub(super) const APP: &str = "kubevirt.io";
/// The value of [`APP`] on launchers.
pub(super) const LAUNCHER: &str = "virt-launcher";
/// On pods: the uid of the instance.
pub(super) const CREATED_BY: &str = "kubevirt.io/created-by";
/// Annotation of pods: name of the instance.
pub(super) const DOMAIN: &str = "kubevirt.io/domain";
/// On pods: the UID of the migration whose target they are.
pub(super) const MIGRATION_JOB: &str = "kubevirt.io/migrationJobUID";
/// Annotation of pods: name of that migration.
pub(super) const MIGRATION_JOB_NAME: &str = "kubevirt.io/migrationJobName";
/// On migrations: name of the instance.
pub(super) const INSTANCE_OF_MIGRATION: &str = "kubevirt.io/vmi-name";
/// On instances: target node of a migration.
pub(super) const MIGRATION_TARGET: &str = "kubevirt.io/migrationTargetNodeName";
/// Annotation of migrations: the node being evacuated.
pub(super) const EVACUATION: &str = "kubevirt.io/evacuationMigration";
/// On instances: their current node.
pub(super) const NODE_NAME: &str = "kubevirt.io/nodeName";
/// On pods: host name of the guest.
pub(super) const GUEST_NAME: &str = "vm.kubevirt.io/name";
/// On pods: name of the instance.
pub(super) const INSTANCE_NAME: &str = "vmi.kubevirt.io/id";
/// Annotation of instances: generation of their virtual machine.
pub(super) const GENERATION: &str = "kubevirt.io/vm-generation";
/// Annotation of instances that have migrated, or are about to.
pub(super) const NON_ROOT: &str = "kubevirt.io/nonroot";
/// Annotation of migration targets: when the guest ran there.
pub(super) const TARGET_READY: &str = "kubevirt.io/migration-target-ready-timestamp";
/// Annotations of all objects of virt-controller, with [`VERSION`].
pub(super) const OBSERVED_VERSIONS: [&str; 2] = [
    "kubevirt.io/latest-observed-api-version",
    "kubevirt.io/storage-observed-api-version",
];
/// The version of KubeVirt's API.
pub(super) const VERSION: &str = "v1";
/// Condition and readiness gate of pods.
pub(super) const UNPAUSED: &str = "kubevirt.io/virtual-machine-unpaused";

/// Label prefixes removed before relabelling. The vendor is missing, as in KubeVirt: a node that
/// comes back with a CPU of another vendor has both vendor labels.
const REMOVED: [&str; 7] = [
    CPU_MODEL,
    CPU_MODEL_MIGRATION,
    CPU_FEATURE,
    HOST_MODEL,
    HOST_MODEL_FEATURES,
    CPU_TIMER,
    MACHINE_TYPE,
];

/// The machine type of instances that ask for none, which QEMU has on each host of the architecture.
pub(super) fn default_machine(arch: &str) -> &'static str {
    match arch {
        "arm64" => "virt",
        "s390x" => "s390-ccw-virtio",
        _ => "q35",
    }
}

/// Adds the default machine type to the labels of a node that has none.
pub(super) fn add_machine(labels: &mut BTreeMap<String, String>, arch: &str) {
    if matches!(arch, "amd64" | "arm64" | "s390x")
        && !labels.keys().any(|key| key.starts_with(MACHINE_TYPE))
    {
        let machine = default_machine(arch);
        labels.insert(format!("{MACHINE_TYPE}{machine}"), "true".to_owned());
    }
}

/// The CPU labels of a node of this architecture; other architectures than amd64 and s390x have only machine types.
pub(super) fn of_cpu(cpu: &Cpu, arch: &str, config: &Config) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for machine in &cpu.machine_types {
        labels.insert(format!("{MACHINE_TYPE}{machine}"), "true".to_owned());
    }
    add_machine(&mut labels, arch);
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

/// The labels of a node after relabelling.
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

/// The labels of a new node with KubeVirt's default configuration.
pub(crate) fn by_default(cpu: &Cpu, arch: &str) -> BTreeMap<String, String> {
    let mut labels = of_cpu(cpu, arch, &Config::default());
    labels.insert(SCHEDULABLE.to_owned(), "true".to_owned());
    labels
}

#[cfg(test)]
mod tests;
