//! What the cluster-version operator reports about manifests that are no ClusterOperators.
//!
//! Medley watches ClusterOperators. Whether a Deployment or a CustomResourceDefinition of the release is applied is known
//! from the conditions of the ClusterVersion only: they fail, count the applied manifests, or claim completion.

#[cfg(test)]
mod tests;

use api::openshift::{ClusterVersion, Condition, UpdateHistory};

use crate::evaluate::Plan;
use crate::failure::Failure;

/// Beginning of the reasons of failures of ClusterOperators, which are evaluated from the operators themselves: the
/// condition is minutes late.
const OF_OPERATORS: &str = "ClusterOperator";

/// Whether a ClusterVersion claims completion of a release.
pub fn claims_completion(version: &ClusterVersion, image: &str) -> bool {
    let newest = version.history().first();
    newest.is_some_and(|it| it.is_completed() && it.image == image)
        && !version
            .condition("Progressing")
            .is_some_and(Condition::is_true)
}

/// The failure that the cluster-version operator reports, unless it is one of ClusterOperators alone.
pub fn failing(version: &ClusterVersion) -> Option<Failure> {
    let failing = version.condition("Failing").filter(|it| it.is_true())?;
    (!failing.reason.starts_with(OF_OPERATORS))
        .then(|| Failure::of_cluster_version(&failing.reason, &failing.message))
}

/// Manifests that may not be applied yet. `None` once the ClusterVersion claims completion, or if only ClusterOperators
/// are left of the manifests that it counts.
pub fn pending(version: &ClusterVersion, image: &str, plan: &Plan) -> Option<Failure> {
    let history = version.history();
    // In an installation manifests have no order, so their number does not show which are left.
    let is_update = history.iter().skip(1).any(UpdateHistory::is_completed)
        && history.first().is_some_and(|it| it.image == image);
    let is_applied = || {
        let progressing = version.condition("Progressing")?;
        let (done, total) = counted(&progressing.message)?;
        // Another total is that of another selection of manifests, whose order is unknown.
        (is_update && total == plan.total() && plan.leaves_only_operators(done)).then_some(())
    };
    if claims_completion(version, image) || is_applied().is_some() {
        return None;
    }
    Some(Failure::of_pending_manifests())
}

/// The numbers in `Working towards 4.18.0: 8 of 9 done (88% complete)`.
fn counted(message: &str) -> Option<(usize, usize)> {
    let (_, counts) = message.split_once(": ")?;
    let mut words = counts.split_ascii_whitespace();
    let done = words.next()?.parse().ok()?;
    let total = words.nth(1)?.parse().ok()?;
    (counts.split_ascii_whitespace().nth(1) == Some("of")).then_some((done, total))
}
