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

use machinery::field::Path;
use serde_json::Value;

use crate::builtin::value::{Read, indexed};

/// Containers of every sort with the field they are under.
pub(crate) const CONTAINER_FIELDS: [&str; 3] =
    ["initContainers", "containers", "ephemeralContainers"];

/// All containers of a pod spec, each with its path.
pub(crate) fn containers<'a>(
    path: &Path,
    spec: &'a Value,
) -> impl Iterator<Item = (Path, &'a Value)> {
    CONTAINER_FIELDS
        .into_iter()
        .flat_map(move |field| indexed(&path.child(field), spec.items(field)))
}

/// Whether an init container is a sidecar.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}
