//! Who writes the status of a ClusterVersion, by its managed fields.

use std::collections::BTreeSet;

use api::openshift::ClusterVersion;

/// What only one may keep.
const KEPT: [&str; 4] = ["f:desired", "f:history", "f:conditions", "f:versionHash"];

/// Others than Medley who write the status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    /// Those who keep what says which release the cluster runs.
    pub of_status: BTreeSet<String>,
    /// Whether somebody tells which updates there are. That one and Medley do not disturb each other.
    pub of_updates: bool,
}

/// Who they are. `own` is what Medley is called.
pub fn owners(version: &ClusterVersion, own: &str) -> Owners {
    let mut owners = Owners::default();
    for entry in version.metadata.managed_fields.iter().flatten() {
        let manager = entry.manager.as_deref().unwrap_or_default();
        let status = entry.fields_v1.as_ref().and_then(|it| it.0.get("f:status"));
        let Some(status) = status.filter(|_| manager != own) else {
            continue;
        };
        if KEPT.iter().any(|field| status.get(field).is_some()) {
            owners.of_status.insert(manager.to_owned());
        }
        owners.of_updates |= status.get("f:availableUpdates").is_some();
    }
    owners
}
