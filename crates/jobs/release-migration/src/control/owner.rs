//! The writers of the status of a ClusterVersion, by its managedFields.

use std::collections::BTreeSet;

use api::openshift::ClusterVersion;

/// The fields that only one manager may write.
const EXCLUSIVE_FIELDS: [&str; 4] = ["f:desired", "f:history", "f:conditions", "f:versionHash"];

/// Other managers that write the status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    /// Managers of the fields about the current release.
    pub of_status: BTreeSet<String>,
    /// Whether another manager writes the available updates. It does not conflict with Medley.
    pub of_updates: bool,
}

/// The other managers. `own` is Medley's field manager.
pub fn owners(version: &ClusterVersion, own: &str) -> Owners {
    let mut owners = Owners::default();
    for entry in version.metadata.managed_fields.iter().flatten() {
        let manager = entry.manager.as_deref().unwrap_or_default();
        // By ownership and not by a Deployment: the cluster-version operator may run outside of the cluster, as in
        // HyperShift.
        let status = entry.fields_v1.as_ref().and_then(|it| it.0.get("f:status"));
        let Some(status) = status.filter(|_| manager != own) else {
            continue;
        };
        if EXCLUSIVE_FIELDS
            .iter()
            .any(|field| status.get(field).is_some())
        {
            owners.of_status.insert(manager.to_owned());
        }
        owners.of_updates |= status.get("f:availableUpdates").is_some();
    }
    owners
}
