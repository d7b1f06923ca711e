//! Pod specs and pod templates: what every workload kind shares.

pub(crate) mod container;
pub(crate) mod defaults;
pub(crate) mod probe;
pub(crate) mod scheduling;
pub(crate) mod security;
#[cfg(test)]
mod tests;
pub(crate) mod validate;
pub(crate) mod volume;
pub(crate) mod warnings;

use serde_json::Value;

use crate::builtin::value::Read;

/// Containers of every sort with the field they are under.
pub(crate) const CONTAINER_FIELDS: [&str; 3] =
    ["initContainers", "containers", "ephemeralContainers"];

/// Whether an init container is a sidecar.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}
