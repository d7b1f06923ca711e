//! The release controller: evaluates the release of a cluster and reports the result.
//!
//! ```text
//! ClusterVersion, releases that are kept --aim--> which release
//!   its files --Loaded, or Trouble
//!     operators, pools --judge--> Judged --status--> ReleasePolicy: conditions, rows, history
//!                                        --own-----> ClusterVersion, unless another manager writes it
//!                                        --notices-> events
//! ```
//! Where a cluster-version operator maintains the ClusterVersion, Medley only observes and reports its own verdict: the
//! operator may claim completion before operators have reported their images. Without one, Medley maintains the
//! ClusterVersion, with the same rules and messages.

mod cluster_version;
mod evaluation;
mod loaded;
mod notices;
mod owner;
mod pools;
mod release_target;
mod rows;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::openshift::{ClusterOperator, ClusterVersion, ClusterVersionStatus, MachineConfigPool};
use api::release::{Mode, ReleasePolicy, ReleasePolicyStatus};
use jiff::Timestamp;

pub use loaded::{LoadedRelease, PayloadFailure, PayloadFailureKind};
pub use notices::Notice;
pub use owner::{OPERATOR, Owners, owners, ownership};
pub use release_target::{ReleaseTarget, StoredRelease, observed, owned};
pub use rows::Tally;

/// The inputs of a reconcile.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseInputs<'a> {
    /// The policy with its former status.
    pub policy: &'a ReleasePolicy,
    /// The ClusterVersion, if there is one.
    pub version: Option<&'a ClusterVersion>,
    /// Whether the ClusterVersion and ClusterOperator CRDs are installed.
    pub installed: bool,
    /// The target release.
    pub aim: &'a ReleaseTarget,
    /// Its files.
    pub wanted: Result<&'a LoadedRelease, &'a PayloadFailure>,
    /// The files of the current release, if that is another one.
    pub current: Option<&'a LoadedRelease>,
    /// The releases stored in the cluster.
    pub kept: &'a [StoredRelease],
    /// The live ClusterOperators.
    pub operators: &'a BTreeMap<String, ClusterOperator>,
    /// The live MachineConfigPools.
    pub pools: &'a [MachineConfigPool],
    /// Other writers of the ClusterVersion status.
    pub owners: &'a Owners,
    /// The RBAC error, if a write of the ClusterVersion status was forbidden.
    pub forbidden: Option<&'a str>,
    /// The architecture of this process: a single-architecture release is for this one.
    pub architecture: &'a str,
    /// The current time.
    pub now: Timestamp,
}

/// The results of a reconcile.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The status of the policy.
    pub status: ReleasePolicyStatus,
    /// The status of the ClusterVersion, if Medley maintains it.
    pub version: Option<ClusterVersionStatus>,
    /// The events to emit.
    pub notices: Vec<Notice>,
    /// Counts for the metrics.
    pub tally: Tally,
    /// When to requeue without a watch event.
    pub next: Option<Timestamp>,
}

/// Whether Medley maintains the ClusterVersion: the policy requests it, no other manager does, and the cluster version
/// operator does not run.
pub fn keeps(policy: &ReleasePolicy, owners: &Owners) -> bool {
    policy.spec.mode == Mode::Own && owners.is_free()
}

/// Evaluates the release and computes all statuses.
pub fn decide(facts: &ReleaseInputs<'_>) -> Decision {
    // The API stores whole seconds; fractions would cause a permanent diff.
    let now = Timestamp::from_second(facts.now.as_second()).unwrap_or(facts.now);
    let facts = &ReleaseInputs { now, ..*facts };
    let nothing = ReleasePolicyStatus::default();
    let before = facts.policy.status.as_ref().unwrap_or(&nothing);
    let Some(version) = facts.version else {
        let status = status::absent(facts, before);
        return Decision {
            notices: notices::notices(before, &status),
            tally: Tally::default(),
            version: None,
            next: None,
            status,
        };
    };
    let keeps = keeps(facts.policy, facts.owners);
    let judged = evaluation::judge(facts, version, before, keeps);
    let status = status::status(facts, before, &judged, keeps);
    Decision {
        notices: notices::notices(before, &status),
        tally: Tally::of(&judged, &status),
        version: keeps.then(|| cluster_version::status(facts, version, &judged)),
        // No watch event arrives when a limit passes, and conditions change then.
        next: judged.waits.next_limit(now),
        status,
    }
}
