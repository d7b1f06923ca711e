//! The MachineConfigPools that select a MachineConfig, and the settings in force there.

use kube_core::DynamicObject;
use machinery::selector::LabelSelector;
use serde_json::{Value, json};

use super::kinds::{MACHINE_CONFIG, MACHINE_CONFIG_POOL};
use crate::snapshot::Snapshot;

/// The label by which pools select MachineConfigs.
const ROLE: &str = "machineconfiguration.openshift.io/role";

/// A MachineConfigPool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pool {
    /// Its number of nodes, if reported.
    machines: Option<i64>,
}

/// The merge order of MachineConfigs: those of `worker` first, each by name.
///
/// Custom pools override `worker`, although names alone would sort otherwise (`MergeMachineConfigs` in
/// pkg/controller/common/helpers.go of the Machine Config Operator).
type Order<'a> = (bool, &'a str);

impl Pool {
    /// Whether it reports that it has no nodes.
    pub(super) fn is_empty(&self) -> bool {
        self.machines == Some(0)
    }
}

/// The pools that select MachineConfigs with these labels. Custom pools select those of `worker` as well, so there may
/// be several.
pub(super) fn taking(snapshot: &Snapshot, labels: &Value) -> Vec<Pool> {
    let machines = |pool: &DynamicObject| {
        let machines = pool.data.pointer("/status/machineCount");
        machines.and_then(Value::as_i64)
    };
    matching(snapshot, labels)
        .map(|(pool, _)| Pool {
            machines: machines(pool),
        })
        .collect()
}

/// The objects of these pools, with their selectors.
fn matching<'a>(
    snapshot: &'a Snapshot,
    labels: &'a Value,
) -> impl Iterator<Item = (&'a DynamicObject, LabelSelector)> {
    let labels = labels.as_object();
    snapshot.list(MACHINE_CONFIG_POOL).filter_map(move |pool| {
        let selector = pool.data.pointer("/spec/machineConfigSelector");
        // An invalid selector selects nothing: the pool does not render at all.
        let selector = LabelSelector::from_label_selector_object(selector?).ok()?;
        let takes = selector.matches(|key| labels?.get(key)?.as_str());
        takes.then_some((&**pool, selector))
    })
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
    let pools = matching(snapshot, labels).map(|(pool, selector)| {
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
        described
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
    configs.sort_by_key(|(order, _)| *order);
    configs
        .into_iter()
        .map(|(_, described)| described)
        .collect()
}

/// The kernel arguments of a MachineConfig. An entry may hold several.
fn kernel_arguments(config: &Value) -> impl DoubleEndedIterator<Item = &str> {
    let entries = config
        .pointer("/spec/kernelArguments")
        .and_then(Value::as_array);
    let entries = entries.into_iter().flatten().filter_map(Value::as_str);
    entries.flat_map(str::split_whitespace)
}
