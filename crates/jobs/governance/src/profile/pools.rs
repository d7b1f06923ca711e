//! The MachineConfigPools that select a MachineConfig, and the settings in force there.

use machinery::selector::LabelSelector;
use serde_json::{Value, json};

use super::kinds::{MACHINE_CONFIG, MACHINE_CONFIG_POOL};
use crate::snapshot::Snapshot;

/// The label by which pools select MachineConfigs.
pub(super) const ROLE: &str = "machineconfiguration.openshift.io/role";

/// A MachineConfigPool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its number of nodes, if reported.
    machines: Option<i64>,
    /// The kernel arguments of its nodes, if visible.
    arguments: Option<Vec<&'a str>>,
    /// The last selected MachineConfig that sets `psi`, with the value.
    last_psi: Option<(Order<'a>, &'a str)>,
}

/// The merge order of MachineConfigs: those of `worker` first, each by name.
///
/// Custom pools override `worker`, although names alone would sort otherwise (`MergeMachineConfigs` in
/// pkg/controller/common/helpers.go of the Machine Config Operator).
type Order<'a> = (bool, &'a str);

impl<'a> Pool<'a> {
    /// Whether it reports that it has no nodes.
    pub(super) fn is_empty(&self) -> bool {
        self.machines == Some(0)
    }

    /// Whether PSI is enabled on its nodes.
    pub(super) fn has_psi(&self) -> bool {
        let arguments = self.arguments.iter().flatten().copied();
        psi(arguments) == Some("1")
    }

    /// The MachineConfig that disables PSI after `ours`, which is of role `worker`.
    pub(super) fn psi_overridden(&self, ours: &str) -> Option<&'a str> {
        let (order, value) = self.last_psi?;
        (order > (false, ours) && value != "1").then_some(order.1)
    }
}

/// The value of the kernel argument `psi`; the last one counts.
fn psi<'a>(arguments: impl DoubleEndedIterator<Item = &'a str>) -> Option<&'a str> {
    let mut named = arguments
        .rev()
        .filter_map(|argument| argument.split_once('='));
    named
        .find(|(name, _)| *name == "psi")
        .map(|(_, value)| value)
}

/// The pools that select MachineConfigs with these labels. Custom pools select those of `worker` as well, so there may
/// be several.
pub(super) fn taking<'a>(snapshot: &'a Snapshot, labels: &Value) -> Vec<Pool<'a>> {
    let labels = labels.as_object();
    let pools = snapshot.list(MACHINE_CONFIG_POOL).filter_map(|pool| {
        let selector = pool.data.pointer("/spec/machineConfigSelector");
        // An invalid selector selects nothing: the pool does not render at all.
        let selector = LabelSelector::from_label_selector_object(selector?).ok()?;
        let takes = selector.matches(|key| labels?.get(key)?.as_str());
        takes.then(|| Pool {
            name: pool.metadata.name.as_deref().unwrap_or_default(),
            machines: pool
                .data
                .pointer("/status/machineCount")
                .and_then(Value::as_i64),
            arguments: arguments_in_force(snapshot, &pool.data),
            last_psi: last_psi(snapshot, &selector),
        })
    });
    pools.collect()
}

/// The last selected MachineConfig that sets `psi`, with the value.
fn last_psi<'a>(snapshot: &'a Snapshot, selector: &LabelSelector) -> Option<(Order<'a>, &'a str)> {
    let configs = snapshot.list(MACHINE_CONFIG).filter_map(|config| {
        let label = |key: &str| {
            config
                .metadata
                .labels
                .as_ref()?
                .get(key)
                .map(String::as_str)
        };
        let order = (
            label(ROLE) != Some("worker"),
            config.metadata.name.as_deref()?,
        );
        let value = psi(kernel_arguments(&config.data))?;
        selector.matches(label).then_some((order, value))
    });
    configs.max()
}

/// The kernel arguments of the configuration that all nodes of a pool have reached.
fn arguments_in_force<'a>(snapshot: &'a Snapshot, pool: &Value) -> Option<Vec<&'a str>> {
    // The status, not the spec: the pool writes it when all of its nodes have the configuration.
    let rendered = pool.pointer("/status/configuration/name")?.as_str()?;
    let rendered = snapshot.get(MACHINE_CONFIG, "", rendered)?;
    Some(kernel_arguments(&rendered.data).collect())
}

/// The pools that select MachineConfigs with these labels, as expressions see them: how many nodes they have, and the
/// MachineConfigs they select in merge order. What is not known is absent.
pub(super) fn described(snapshot: &Snapshot, labels: &Value) -> Vec<Value> {
    let labels = labels.as_object();
    let pools = snapshot.list(MACHINE_CONFIG_POOL).filter_map(|pool| {
        let selector = pool.data.pointer("/spec/machineConfigSelector");
        let selector = LabelSelector::from_label_selector_object(selector?).ok()?;
        if !selector.matches(|key| labels?.get(key)?.as_str()) {
            return None;
        }
        let mut described = json!({
            "name": pool.metadata.name.as_deref().unwrap_or_default(),
            "configs": selected(snapshot, &selector),
        });
        let machines = pool.data.pointer("/status/machineCount");
        if let Some(machines) = machines.and_then(Value::as_i64) {
            described["machines"] = json!(machines);
        }
        if let Some(arguments) = arguments_in_force(snapshot, &pool.data) {
            described["arguments"] = json!(arguments);
        }
        Some(described)
    });
    pools.collect()
}

/// The MachineConfigs that a selector selects, in merge order.
fn selected(snapshot: &Snapshot, selector: &LabelSelector) -> Vec<Value> {
    let configs = snapshot.list(MACHINE_CONFIG).filter_map(|config| {
        let labels = config.metadata.labels.as_ref();
        let label = |key: &str| labels?.get(key).map(String::as_str);
        let worker = label(ROLE) == Some("worker");
        let order: Order<'_> = (!worker, config.metadata.name.as_deref()?);
        let arguments: Vec<&str> = kernel_arguments(&config.data).collect();
        let described = json!({ "name": order.1, "worker": worker, "arguments": arguments });
        selector.matches(label).then_some((order, described))
    });
    let mut configs: Vec<_> = configs.collect();
    configs.sort_by(|(a, _), (b, _)| a.cmp(b));
    configs.into_iter().map(|(_, described)| described).collect()
}

/// The kernel arguments of a MachineConfig. An entry may hold several.
pub(super) fn kernel_arguments(config: &Value) -> impl DoubleEndedIterator<Item = &str> {
    let entries = config
        .pointer("/spec/kernelArguments")
        .and_then(Value::as_array);
    let entries = entries.into_iter().flatten().filter_map(Value::as_str);
    entries.flat_map(str::split_whitespace)
}

/// The pools with nodes, or all if none has any.
pub(super) fn populated<'p, 'a>(pools: &'p [Pool<'a>]) -> Vec<&'p Pool<'a>> {
    let with_nodes: Vec<_> = pools.iter().filter(|pool| !pool.is_empty()).collect();
    if with_nodes.is_empty() {
        pools.iter().collect()
    } else {
        with_nodes
    }
}

/// The warning if no node receives the MachineConfig.
pub(super) fn warning(pools: &[Pool<'_>], config: &str, role: &str) -> Option<String> {
    if pools.is_empty() {
        return Some(format!(
            "MachineConfig '{config}' is taken by no node: there is no MachineConfigPool whose \
             machineConfigSelector matches {ROLE}={role}"
        ));
    }
    pools.iter().all(Pool::is_empty).then(|| {
        format!(
            "MachineConfig '{config}' is taken by no node: {} without nodes. On compact clusters nodes \
             are in MachineConfigPool 'master', which does not take it: add worker nodes, or create a \
             copy of it yourself under another name with the label {ROLE}=master (all control plane \
             nodes reboot for it, one after the other)",
            named(pools.iter())
        )
    })
}

/// The names of pools as text: `MachineConfigPool 'worker'`.
pub(super) fn named<'p, 'a: 'p>(pools: impl IntoIterator<Item = &'p Pool<'a>>) -> String {
    let names: Vec<String> = pools
        .into_iter()
        .map(|pool| format!("'{}'", pool.name))
        .collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("MachineConfigPool{plural} {}", names.join(", "))
}
