//! Why a cluster has not arrived at a release yet: reasons, what they mean for the update, and how
//! several become one.

#[cfg(test)]
mod tests;

use std::fmt;

use machinery::json::go_quote;
use serde::{Serialize, Serializer};

/// What a failure means for the update, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Effect {
    /// It is told, and changes nothing.
    Report,
    /// The update goes on.
    None,
    /// The update fails if it stays for 40 minutes.
    FailAfterInterval,
    /// The update fails.
    Fail,
}

/// Why an update does not get on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The manifest of an operator does not say which versions it is to report.
    NoVersions,
    /// An operator does not say that it can be used.
    NotAvailable,
    /// An operator does not say that nothing is wrong.
    Degraded,
    /// An operator has not arrived.
    Updating,
    /// Machines of a pool have not arrived, and are to be waited for.
    Pool,
    /// An object that has to be there is not.
    NotFound,
    /// Several of these.
    Multiple,
}

impl Reason {
    /// The word for conditions, of one operator or of several.
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
            (Self::Multiple, _) => "MultipleErrors",
        }
    }

    /// What is said of operators, behind their names.
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
            (Self::Pool | Self::NotFound | Self::Multiple, _) => "",
        }
    }
}

/// Why an update does not get on, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    reason: Reason,
    names: Vec<String>,
    effect: Effect,
    message: String,
    parts: Vec<Self>,
}

impl Failure {
    /// Of one operator.
    pub fn of_operator(reason: Reason, name: &str, effect: Effect) -> Self {
        Self {
            reason,
            names: vec![name.to_owned()],
            effect,
            message: format!("Cluster operator {name} {}", reason.predicate(false)),
            parts: Vec::new(),
        }
    }

    /// Of an operator that is not there. `number` is that of its manifest, from 1 on.
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

    /// Of pools of machines, by name. None, if there are none.
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

    /// Why.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Why, as conditions have it.
    pub fn word(&self) -> &'static str {
        self.reason.word(self.names.len() > 1)
    }

    /// The operators that it is about, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What it means for the update.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// What it is made of, if it is several.
    pub fn parts(&self) -> &[Self] {
        &self.parts
    }

    /// One failure of several: of the same reason, if all have the same, and else all their messages.
    pub fn combine(failures: Vec<Self>) -> Option<Self> {
        let first = failures.first()?;
        if failures.len() == 1 {
            return failures.into_iter().next();
        }
        let reason = first.reason;
        let alike = failures.iter().all(|failure| failure.reason == reason);
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

    /// What of it makes an update fail: of several, those that the update does not survive.
    pub fn failing(&self) -> Option<Self> {
        if self.reason != Reason::Multiple {
            return Some(self.clone());
        }
        let failing = self.parts.iter().filter(|it| it.effect != Effect::None);
        Self::combine(failing.cloned().collect())
    }

    /// In few words, for behind "Unable to apply V: ".
    pub fn summary(&self) -> String {
        let name = self.names.join(", ");
        match (self.reason, self.names.len()) {
            (Reason::NotFound, _) => "some resources could not be updated".to_owned(),
            (Reason::NotAvailable, 2..) => "some cluster operators are not available".to_owned(),
            (Reason::NoVersions | Reason::NotAvailable | Reason::Degraded, 1) => {
                format!(
                    "the cluster operator {name} {}",
                    self.reason.predicate(false)
                )
            }
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
