//! Who maintains the status of a ClusterVersion: other managers by its managedFields, and the cluster version operator.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::mode::{ModeInputs, ModeSetting, Ownership, decide};
use api::openshift::ClusterVersion;
use api::operators::{GenuineOperator, RunningOperator};
use api::release::{Mode, ReleasePolicy};

/// OpenShift's cluster version operator (`install/0000_00_cluster-version-operator_30_deployment.yaml` and
/// `pkg/start/start.go` of openshift/cluster-version-operator).
pub const OPERATOR: GenuineOperator = GenuineOperator {
    title: "the cluster version operator",
    deployment: "cluster-version-operator",
    lease: Some("version"),
    // Others name a Lease `version` as well.
    namespaces: &["openshift-cluster-version"],
};

/// The name of the controller in messages.
const COMPONENT: &str = "release";

/// The fields that only one manager may write.
const EXCLUSIVE_FIELDS: [&str; 4] = ["f:desired", "f:history", "f:conditions", "f:versionHash"];

/// Other managers that write the status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    /// Managers of the fields about the current release.
    pub of_status: BTreeSet<String>,
    /// Whether another manager writes the available updates. It does not conflict with Medley.
    pub of_updates: bool,
    /// The cluster version operator, if it runs. It writes the status sooner or later, also if it has not yet.
    pub operator: Option<RunningOperator>,
}

impl Owners {
    /// Whether no other manager maintains the fields about the current release.
    pub fn is_free(&self) -> bool {
        self.of_status.is_empty() && self.operator.is_none()
    }
}

/// The other managers, by the managedFields. `own` is Medley's field manager.
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

/// Who maintains the ClusterVersion. `policy` is absent before Medley has created it, and the ClusterVersion outside of
/// OpenShift.
pub fn ownership(policy: Option<&ReleasePolicy>, installed: bool, owners: &Owners) -> Ownership {
    let mode = policy.map(|policy| policy.spec.mode).unwrap_or_default();
    let mut found = decide(&ModeInputs {
        component: COMPONENT,
        setting: match mode {
            Mode::Own => ModeSetting::Auto,
            Mode::Observe => ModeSetting::Assist,
        },
        policy: "ReleasePolicy default",
        enabled: true,
        missing: (!installed).then_some("clusterversions.config.openshift.io"),
        running: owners.operator.as_ref(),
    });
    if mode == Mode::Observe && installed {
        let text = "ReleasePolicy default sets mode Observe, so release only reports";
        found.message = match &owners.operator {
            Some(running) => format!("{text}; {running}"),
            None => format!(
                "{text}; set spec.mode to Own to let it write where no cluster version operator does"
            ),
        };
    }
    // Outside of the cluster, as in HyperShift, only its writes show it.
    if let (true, None, Some(manager)) =
        (installed, &owners.operator, owners.of_status.iter().next())
    {
        found.mode = api::mode::Mode::Assist;
        found.owner = Some(manager.clone());
        if mode == Mode::Own {
            found.reason = api::mode::reasons::UPSTREAM_RUNS;
            found.message = foreign_owner(owners);
        }
    }
    found
}

/// Why the mode `Own` is refused.
pub(super) fn foreign_owner(owners: &Owners) -> String {
    if let Some(running) = &owners.operator {
        return format!(
            "spec.mode is Own, but {running}: Medley writes nothing there; set spec.mode to Observe"
        );
    }
    let managers: Vec<&str> = owners.of_status.iter().map(String::as_str).collect();
    format!(
        "spec.mode is Own, but according to the managed fields of ClusterVersion version, {} writes its status: Medley writes nothing there; set spec.mode to Observe, or stop the other manager and remove its entry from metadata.managedFields",
        managers.join(", ")
    )
}
