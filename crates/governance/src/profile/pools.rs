//! The pools of nodes that take a MachineConfig, and what is in force there.

use machinery::selector::LabelSelector;
use serde_json::Value;

use super::kinds::{MACHINE_CONFIG, MACHINE_CONFIG_POOL};
use crate::snapshot::Snapshot;

/// The label that says which pools take a MachineConfig.
pub(super) const ROLE: &str = "machineconfiguration.openshift.io/role";

/// A pool of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// How many nodes it has, if it says so.
    machines: Option<i64>,
    /// The kernel arguments that its nodes run with, if that can be seen.
    arguments: Option<Vec<&'a str>>,
}

impl Pool<'_> {
    /// Whether it says that it has no nodes.
    pub(super) fn is_empty(&self) -> bool {
        self.machines == Some(0)
    }

    /// The value of a kernel argument; the last one counts.
    fn argument(&self, key: &str) -> Option<&str> {
        let arguments = self.arguments.as_ref()?.iter().rev();
        let mut named = arguments.filter_map(|argument| argument.split_once('='));
        named.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Whether its nodes account for pressure.
    pub(super) fn has_psi(&self) -> bool {
        self.argument("psi") == Some("1")
    }
}

/// The pools that take MachineConfigs with these labels. Pools of one's own take those of `worker`,
/// too, so there may be several.
pub(super) fn taking<'a>(snapshot: &'a Snapshot, labels: &Value) -> Vec<Pool<'a>> {
    let takes = |pool: &Value| {
        let selector = pool.pointer("/spec/machineConfigSelector");
        let selector = LabelSelector::from_label_selector_object(selector.unwrap_or(&Value::Null));
        // A selector that cannot be read selects nothing: the pool does not render at all.
        let labels = labels.as_object();
        selector.is_ok_and(|selector| selector.matches(|key| labels?.get(key)?.as_str()))
    };
    let pools = snapshot.list(MACHINE_CONFIG_POOL);
    pools
        .filter(|pool| takes(&pool.data))
        .map(|pool| Pool {
            name: pool.metadata.name.as_deref().unwrap_or_default(),
            machines: pool
                .data
                .pointer("/status/machineCount")
                .and_then(Value::as_i64),
            arguments: arguments_in_force(snapshot, &pool.data),
        })
        .collect()
}

/// The kernel arguments of the configuration that all nodes of a pool have reached.
fn arguments_in_force<'a>(snapshot: &'a Snapshot, pool: &Value) -> Option<Vec<&'a str>> {
    let rendered = pool.pointer("/status/configuration/name")?.as_str()?;
    let rendered = snapshot.get(MACHINE_CONFIG, "", rendered)?;
    Some(kernel_arguments(&rendered.data).collect())
}

/// The kernel arguments of a MachineConfig. An entry may hold several.
pub(super) fn kernel_arguments(config: &Value) -> impl Iterator<Item = &str> {
    let entries = config
        .pointer("/spec/kernelArguments")
        .and_then(Value::as_array);
    let entries = entries.into_iter().flatten().filter_map(Value::as_str);
    entries.flat_map(str::split_whitespace)
}

/// The pools that matter: those with nodes, unless there are none.
pub(super) fn populated<'p, 'a>(pools: &'p [Pool<'a>]) -> Vec<&'p Pool<'a>> {
    let with_nodes: Vec<_> = pools.iter().filter(|pool| !pool.is_empty()).collect();
    if with_nodes.is_empty() {
        pools.iter().collect()
    } else {
        with_nodes
    }
}

/// What is wrong with the pools that are to take a MachineConfig, if anything.
pub(super) fn warning(pools: &[Pool<'_>], config: &str, role: &str) -> Option<String> {
    if pools.is_empty() {
        return Some(format!(
            "MachineConfig '{config}' is taken by no node: there is no MachineConfigPool whose \
             machineConfigSelector matches {ROLE}={role}"
        ));
    }
    pools.iter().all(Pool::is_empty).then(|| {
        format!(
            "MachineConfig '{config}' is taken by no node: {} without nodes; on compact clusters nodes \
             are in MachineConfigPool 'master', which does not take it",
            named(pools.iter())
        )
    })
}

/// Pools in words: `MachineConfigPool 'worker'`.
pub(super) fn named<'p, 'a: 'p>(pools: impl IntoIterator<Item = &'p Pool<'a>>) -> String {
    let names: Vec<String> = pools
        .into_iter()
        .map(|pool| format!("'{}'", pool.name))
        .collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("MachineConfigPool{plural} {}", names.join(", "))
}
