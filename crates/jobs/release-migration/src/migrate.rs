//! Asking a cluster to become multi-arch: what is asked, and when it is better not to.

#[cfg(test)]
mod tests;

use api::openshift::ClusterVersion;
use serde_json::{Value, json};

/// Said when it was asked.
pub const REQUESTED: &str = "Requested update to multi cluster architecture";
/// Said when it had been asked before.
pub const ALREADY_REQUESTED: &str =
    "info: Update to multi cluster architecture has already been requested";

/// What comes of a wish.
#[derive(Debug, Clone, PartialEq)]
pub enum Migration {
    /// This is to be merged into the ClusterVersion.
    Ask(Value),
    /// It was asked before.
    AlreadyRequested,
    /// There is nothing to do: the cluster is multi-arch.
    AlreadyMulti {
        /// The version that it has.
        version: String,
    },
}

/// Why it is better not to ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrateError {
    /// The cluster does not say which version it has.
    #[error(
        "the cluster has no current version: status.desired.version of ClusterVersion version is empty"
    )]
    NoVersion,
    /// Something is wrong, or an update is under way.
    #[error("{0}\n\nIf you want to upgrade anyway, use --allow-upgrade-with-warnings.")]
    Warned(String),
    /// The service that knows updates has none: the request would be ignored in silence.
    #[error(
        "the cluster cannot learn of the multi-arch release of its version: RetrievedUpdates is False ({0}), and the request would be ignored in silence; set a channel and an upstream that has it, or use --allow-upgrade-with-warnings"
    )]
    NoUpdates(String),
}

/// Decides what to ask of a cluster. `force` skips the cluster's own checks, `anyway` those made here.
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
    let asked = version.spec.desired_update.as_ref();
    if asked.is_some_and(|it| it.architecture == "Multi" && it.version == desired.version) {
        return Ok(Migration::AlreadyRequested);
    }
    // Upstream asks nevertheless, and nothing comes of it.
    if desired.architecture == "Multi" {
        return Ok(Migration::AlreadyMulti {
            version: desired.version,
        });
    }
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
        "image": "",
        "force": force,
    } } })))
}

/// What speaks against an update.
fn warning(version: &ClusterVersion) -> Option<String> {
    let holds = |kind: &str| version.condition(kind).filter(|it| it.is_true());
    let told = |it: &api::openshift::Condition| {
        if it.reason.is_empty() {
            it.message.clone()
        } else {
            format!("\n\n  Reason: {}\n  Message: {}\n\n", it.reason, it.message)
        }
    };
    if let Some(invalid) = holds("Invalid") {
        return Some(format!(
            "the cluster version object is invalid, you must correct the invalid state first: {}",
            told(invalid)
        ));
    }
    if let Some(failing) = holds("Failing") {
        return Some(format!(
            "the cluster is experiencing an upgrade-blocking error: {}",
            told(failing)
        ));
    }
    holds("Progressing")
        .map(|progressing| format!("the cluster is already upgrading: {}", told(progressing)))
}

/// Why the cluster does not know of updates.
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
