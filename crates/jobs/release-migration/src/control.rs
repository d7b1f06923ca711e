//! What Medley holds of the release of a cluster, and what is said of it.
//!
//! ```text
//! ClusterVersion, releases that are kept --aim--> which release
//!   its files --Loaded, or Trouble
//!     operators, pools --judge--> Judged --status--> ReleasePolicy: conditions, rows, history
//!                                        --own-----> ClusterVersion, where nobody else keeps it
//!                                        --notices-> events
//! ```
//!
//! Where a cluster version operator keeps the ClusterVersion, Medley looks on and has an opinion of its
//! own: that one may claim completion before operators have reported their images. Where nobody does,
//! Medley does, by the same rules and in the same words.

mod aim;
mod judge;
mod loaded;
mod notices;
mod own;
mod owner;
mod pools;
mod rows;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::openshift::{ClusterOperator, ClusterVersion, ClusterVersionStatus, MachineConfigPool};
use api::release::{Mode, ReleasePolicy, ReleasePolicyStatus};
use jiff::Timestamp;

pub use aim::{Aim, Kept, observed, owned};
pub use loaded::{Loaded, Trouble, TroubleKind};
pub use notices::Notice;
pub use owner::{Owners, owners};
pub use rows::Tally;

/// What is known when a release is judged.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The policy, and what was said before.
    pub policy: &'a ReleasePolicy,
    /// What the cluster says that it runs; none if it does not.
    pub version: Option<&'a ClusterVersion>,
    /// Whether ClusterVersion and ClusterOperator are kinds of this cluster.
    pub installed: bool,
    /// Which release counts.
    pub aim: &'a Aim,
    /// Its files.
    pub wanted: Result<&'a Loaded, &'a Trouble>,
    /// The files of the release that the cluster runs, if that is another one.
    pub current: Option<&'a Loaded>,
    /// The releases that the cluster keeps.
    pub kept: &'a [Kept],
    /// What operators say.
    pub operators: &'a BTreeMap<String, ClusterOperator>,
    /// Pools of machines.
    pub pools: &'a [MachineConfigPool],
    /// Who else writes the ClusterVersion.
    pub owners: &'a Owners,
    /// Why Medley may not write it, if it was refused.
    pub forbidden: Option<&'a str>,
    /// The architecture of whoever reads releases: what is for one is for this one.
    pub architecture: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// What is to be said.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Of the policy.
    pub status: ReleasePolicyStatus,
    /// Of the ClusterVersion, if Medley keeps it.
    pub version: Option<ClusterVersionStatus>,
    /// What has happened since the last time.
    pub notices: Vec<Notice>,
    /// How operators fare, in numbers.
    pub tally: Tally,
    /// When something is to be said though nothing happens.
    pub next: Option<Timestamp>,
}

/// Whether Medley keeps the ClusterVersion: if it is to, and nobody else does.
pub fn keeps(policy: &ReleasePolicy, owners: &Owners) -> bool {
    policy.spec.mode == Mode::Own && owners.of_status.is_empty()
}

/// Judges.
pub fn decide(facts: &Facts<'_>) -> Decision {
    // The API keeps no parts of seconds; a time that has some would never be what was written.
    let now = Timestamp::from_second(facts.now.as_second()).unwrap_or(facts.now);
    let facts = &Facts { now, ..*facts };
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
    let judged = judge::judge(facts, version, before, keeps);
    let status = status::status(facts, before, &judged, keeps);
    Decision {
        notices: notices::notices(before, &status),
        tally: Tally::of(&judged, &status),
        version: keeps.then(|| own::status(facts, version, &judged)),
        next: judged.waits.next_limit(now),
        status,
    }
}
