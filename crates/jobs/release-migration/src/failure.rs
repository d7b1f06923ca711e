//! Why a release is not complete: reasons, their effects on the update, and how several are combined.

#[cfg(test)]
mod tests;

use std::fmt;

use machinery::json::go_quote;
use serde::{Serialize, Serializer};

/// The effect of a failure on the update, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Effect {
    /// Reported only, without an effect.
    Report,
    /// The update continues.
    None,
    /// The update fails if it lasts for 40 minutes.
    FailAfterInterval,
    /// The update fails.
    Fail,
}

/// Why an update does not progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The manifest of an operator declares no versions.
    NoVersions,
    /// An operator does not report Available=True.
    NotAvailable,
    /// An operator does not report Degraded=False.
    Degraded,
    /// An operator does not report the expected versions.
    Updating,
    /// Nodes of a MachineConfigPool that is to be waited for are not updated.
    Pool,
    /// A required object does not exist.
    NotFound,
    /// The cluster-version operator reports a failure of its own.
    ClusterVersion,
    /// The cluster-version operator may not have applied every manifest.
    Manifests,
    /// Several of these.
    Multiple,
}

impl Reason {
    /// The condition reason, for one operator or several.
    pub fn word(self, several: bool) -> &'static str {
        match (self, several) {
            (Self::NoVersions, false) => "ClusterOperatorNoVersions",
            (Self::NoVersions, true) => "ClusterOperatorsNoVersions",
            (Self::NotAvailable, false) => "ClusterOperatorNotAvailable",
            (Self::NotAvailable, true) => "ClusterOperatorsNotAvailable",
            (Self::Degraded, false) => "ClusterOperatorDegraded",
            (Self::Degraded, true) => "ClusterOperatorsDegraded",
            (Self::Updating, false) => "ClusterOperatorUpdating",
            (Self::Updating, true) => "ClusterOperatorsUpdating",
            (Self::Pool, false) => "MachineConfigPoolUpdating",
            (Self::Pool, true) => "MachineConfigPoolsUpdating",
            (Self::NotFound, _) => "UpdatePayloadResourceNotFound",
            (Self::ClusterVersion, _) => "ClusterVersionFailing",
            (Self::Manifests, _) => "ManifestsUpdating",
            (Self::Multiple, _) => "MultipleErrors",
        }
    }

    /// The predicate after the operator names in a message.
    fn predicate(self, several: bool) -> &'static str {
        match (self, several) {
            (Self::NoVersions, false) => "does not declare expected versions",
            (Self::NoVersions, true) => "do not declare expected versions",
            (Self::NotAvailable, false) => "is not available",
            (Self::NotAvailable, true) => "are not available",
            (Self::Degraded, false) => "is degraded",
            (Self::Degraded, true) => "are degraded",
            (Self::Updating, false) => "is updating versions",
            (Self::Updating, true) => "are updating versions",
            (
                Self::Pool
                | Self::NotFound
                | Self::ClusterVersion
                | Self::Manifests
                | Self::Multiple,
                _,
            ) => "",
        }
    }
}

/// Why an update does not progress, with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    reason: Reason,
    names: Vec<String>,
    effect: Effect,
    message: String,
    parts: Vec<Self>,
}

impl Failure {
    /// A failure of one operator.
    pub fn of_operator(reason: Reason, name: &str, effect: Effect) -> Self {
        Self {
            reason,
            names: vec![name.to_owned()],
            effect,
            message: format!("Cluster operator {name} {}", reason.predicate(false)),
            parts: Vec::new(),
        }
    }

    /// A missing operator. `number` is that of its manifest, starting at 1.
    pub fn not_found(name: &str, number: usize, total: usize) -> Self {
        Self {
            reason: Reason::NotFound,
            names: vec![name.to_owned()],
            effect: Effect::Fail,
            message: format!(
                "Could not update clusteroperator {} ({number} of {total}): resource may have been deleted",
                go_quote(name)
            ),
            parts: Vec::new(),
        }
    }

    /// A failure of MachineConfigPools, by name. `None` if there are none.
    pub fn of_pools(names: &[&str]) -> Option<Self> {
        if names.is_empty() {
            return None;
        }
        let names: Vec<String> = names
            .iter()
            .map(|name| format!("machine config pool {name}"))
            .collect();
        let verb = if names.len() > 1 { "are" } else { "is" };
        Some(Self {
            reason: Reason::Pool,
            message: format!("{} {verb} updating", names.join(", ")),
            names,
            effect: Effect::None,
            parts: Vec::new(),
        })
    }

    /// A failure that the cluster-version operator reports in a condition.
    pub fn of_cluster_version(reason: &str, message: &str) -> Self {
        let reason = if reason.is_empty() {
            String::new()
        } else {
            format!(" ({reason})")
        };
        Self {
            reason: Reason::ClusterVersion,
            names: Vec::new(),
            effect: Effect::Fail,
            message: format!("the cluster version operator reports a failure{reason}: {message}"),
            parts: Vec::new(),
        }
    }

    /// Manifests that the cluster-version operator may not have applied. The message has no numbers: the status would
    /// change with each manifest.
    pub fn of_pending_manifests() -> Self {
        Self {
            reason: Reason::Manifests,
            names: vec!["manifests that are no ClusterOperators".to_owned()],
            effect: Effect::None,
            message:
                "the cluster version operator has not reported that it has applied every manifest"
                    .to_owned(),
            parts: Vec::new(),
        }
    }

    /// The reason.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The condition reason.
    pub fn word(&self) -> &'static str {
        self.reason.word(self.names.len() > 1)
    }

    /// The operators concerned, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The effect on the update.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// The combined failures, if there are several.
    pub fn parts(&self) -> &[Self] {
        &self.parts
    }

    /// Combines failures: into one of the same reason if all share it, else into one with all messages.
    pub fn combine(failures: Vec<Self>) -> Option<Self> {
        let first = failures.first()?;
        if failures.len() == 1 {
            return failures.into_iter().next();
        }
        let reason = first.reason;
        let alike = failures.iter().all(|failure| failure.reason == reason);
        // Upstream joins errors of one reason into a plural form (pkg/cvo/sync_worker.go); missing objects and pools
        // have none.
        if alike && !reason.predicate(true).is_empty() {
            let effect = failures.iter().map(|it| it.effect).max();
            let mut names: Vec<String> = failures.iter().flat_map(|it| it.names.clone()).collect();
            names.sort();
            return Some(Self {
                reason,
                effect: effect.unwrap_or(Effect::Fail),
                message: format!(
                    "Cluster operators {} {}",
                    names.join(", "),
                    reason.predicate(true)
                ),
                names,
                parts: failures,
            });
        }
        let mut messages: Vec<&str> = failures.iter().map(|it| it.message.as_str()).collect();
        messages.sort_unstable();
        messages.dedup();
        Some(Self {
            reason: Reason::Multiple,
            names: Vec::new(),
            effect: Effect::Fail,
            message: format!(
                "Multiple errors are preventing progress:\n* {}",
                messages.join("\n* ")
            ),
            parts: failures,
        })
    }

    /// The part that makes an update fail.
    pub fn failing(&self) -> Option<Self> {
        if self.reason != Reason::Multiple {
            return Some(self.clone());
        }
        // An operator that is merely updating must not appear in a message about a failure.
        let failing = self.parts.iter().filter(|it| it.effect != Effect::None);
        Self::combine(failing.cloned().collect())
    }

    /// Short message, to follow "Unable to apply V: ".
    pub fn summary(&self) -> String {
        let name = self.names.join(", ");
        match (self.reason, self.names.len()) {
            (Reason::ClusterVersion, _) => self.message.clone(),
            (Reason::NotFound, _) => "some resources could not be updated".to_owned(),
            (Reason::NotAvailable, 2..) => "some cluster operators are not available".to_owned(),
            (Reason::NoVersions | Reason::NotAvailable | Reason::Degraded, 1) => {
                format!(
                    "the cluster operator {name} {}",
                    self.reason.predicate(false)
                )
            }
            // The odd texts below are upstream's (`SummaryForReason` in pkg/payload/task.go), which has no words for
            // every reason.
            (_, 0) => format!("an unknown error has occurred: {}", self.word()),
            _ => format!("{name} has an unknown error: {}", self.word()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut out = serializer.serialize_struct("Failure", 4)?;
        out.serialize_field("reason", self.word())?;
        out.serialize_field("message", &self.message)?;
        out.serialize_field("effect", &self.effect)?;
        out.serialize_field("operators", &self.names)?;
        out.end()
    }
}
