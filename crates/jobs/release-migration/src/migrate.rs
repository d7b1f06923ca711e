//! Requests the migration of a cluster to multi-arch, unless something argues against it.

#[cfg(test)]
mod tests;

use api::openshift::ClusterVersion;
use serde_json::{Value, json};

/// Message after a request.
pub const REQUESTED: &str = "Requested update to multi cluster architecture";
/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Migration {
    /// The merge patch for the ClusterVersion.
    Ask(Value),
    /// The cluster is already multi-arch.
    AlreadyMulti {
        /// Its version.
        version: String,
    },
}

/// Why the migration is not requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrateError {
    /// The ClusterVersion reports no version.
    #[error(
        "the cluster has no current version: status.desired.version of ClusterVersion version is empty"
    )]
    NoVersion,
    /// It was already requested: an error with this message in `oc adm upgrade` as well.
    #[error("info: Update to multi cluster architecture has already been requested")]
    AlreadyRequested,
    /// The cluster has a problem, or an update is in progress.
    #[error("{0}\n\nIf you want to upgrade anyway, use --allow-upgrade-with-warnings.")]
    Warned(String),
    /// The update service has no updates: the request would be ignored silently.
    #[error(
        "the cluster cannot learn of the multi-arch release of its version: RetrievedUpdates is False ({0}), and the request would be ignored in silence; set a channel and an upstream that has it, or use --allow-upgrade-with-warnings"
    )]
    NoUpdates(String),
}

/// Computes the request for a cluster. `force` skips the cluster's own checks, `anyway` those made here.
pub fn migrate(
    version: &ClusterVersion,
    force: bool,
    anyway: bool,
) -> Result<Migration, MigrateError> {
    let status = version.status.as_ref();
    let desired = status.map(|it| it.desired.clone()).unwrap_or_default();
    if desired.version.is_empty() {
        return Err(MigrateError::NoVersion);
    }
    let request = version.spec.desired_update.as_ref();
    // At any version, as upstream.
    if request.is_some_and(|it| it.architecture == "Multi") {
        return Err(MigrateError::AlreadyRequested);
    }
    // Upstream sends the request nevertheless, without effect.
    if desired.architecture == "Multi" {
        return Ok(Migration::AlreadyMulti {
            version: desired.version,
        });
    }
    // The guards of `oc adm upgrade` (`checkForUpgrade` in pkg/cli/admin/upgrade/upgrade.go). The last one is ours:
    // without it the request is ignored without a message.
    if !anyway {
        if let Some(warning) = warning(version) {
            return Err(MigrateError::Warned(warning));
        }
        if let Some(why) = no_updates(version) {
            return Err(MigrateError::NoUpdates(why));
        }
    }
    Ok(Migration::Ask(json!({ "spec": { "desiredUpdate": {
        "architecture": "Multi",
        "version": desired.version,
        // Explicit, because this is a merge patch: an image of an earlier request would win over the architecture, and
        // the API rejects both together.
        "image": "",
        "force": force,
    } } })))
}

/// The conditions that argue against an update.
fn warning(version: &ClusterVersion) -> Option<String> {
    let holds = |kind: &str| version.condition(kind).filter(|it| it.is_true());
    let describe = |it: &api::openshift::Condition| {
        if it.reason.is_empty() {
            it.message.clone()
        } else {
            format!("\n\n  Reason: {}\n  Message: {}\n\n", it.reason, it.message)
        }
    };
    // Only the first, where `oc` lists all: an invalid object fails, and a failing one progresses, so the first is what
    // has to be repaired.
    if let Some(invalid) = holds("Invalid") {
        return Some(format!(
            "the cluster version object is invalid, you must correct the invalid state first: {}",
            describe(invalid)
        ));
    }
    if let Some(failing) = holds("Failing") {
        return Some(format!(
            "the cluster is experiencing an upgrade-blocking error: {}",
            describe(failing)
        ));
    }
    holds("Progressing").map(|progressing| {
        format!(
            "the cluster is already upgrading: {}",
            describe(progressing)
        )
    })
}

/// Why the cluster has no available updates.
fn no_updates(version: &ClusterVersion) -> Option<String> {
    let retrieved = version.condition("RetrievedUpdates")?;
    retrieved.is_false().then(|| {
        [retrieved.reason.as_str(), retrieved.message.as_str()]
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect::<Vec<_>>()
            .join(": ")
    })
}
