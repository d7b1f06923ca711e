//! Conditions of a terminating namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::discovery::ApiResource;

/// The conditions in order, with reason and message for success.
const SUCCESS_CONDITIONS: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// Findings of an attempt.
#[derive(Debug, Default)]
pub(super) struct Findings {
    discovery: Option<String>,
    problems: Vec<String>,
    remaining: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Findings {
    /// Discovery failed.
    pub(super) fn undiscovered(&mut self, message: String) {
        self.discovery = Some(message);
    }

    /// A deletion failed.
    pub(super) fn problem(&mut self, message: Option<String>) {
        self.problems.extend(message);
    }

    /// Number of remaining objects of a kind, and how many of them each finalizer blocks.
    pub(super) fn remaining(
        &mut self,
        kind: &ApiResource,
        count: usize,
        finalizers: BTreeMap<String, usize>,
    ) {
        if count == 0 {
            return;
        }
        let name = format!("{}.{}", kind.plural, kind.group);
        self.remaining.insert(name, count);
        for (finalizer, count) in finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
        }
    }

    /// All errors, in one line.
    pub(super) fn problems(&self) -> Option<String> {
        let all: Vec<&str> = self
            .discovery
            .iter()
            .chain(&self.problems)
            .map(String::as_str)
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Reason and message of a condition that is true.
    fn failing(&self, condition: &str) -> Option<(&'static str, String)> {
        match condition {
            "NamespaceDeletionDiscoveryFailure" => {
                let message = self.discovery.clone()?;
                Some(("DiscoveryFailed", message))
            }
            "NamespaceDeletionContentFailure" if !self.problems.is_empty() => {
                let mut problems = self.problems.clone();
                problems.sort();
                let count = problems.len();
                let problems = problems.join(", ");
                let message =
                    format!("Failed to delete all resource types, {count} remaining: {problems}");
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" => {
                let all = list(&self.remaining, "has", "resource instances")?;
                let message = format!("Some resources are remaining: {all}");
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" => {
                let all = list(&self.finalizers, "in", "resource instances")?;
                let message =
                    format!("Some content in the namespace has finalizers remaining: {all}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// The conditions for these findings, merged into the current ones.
    pub(super) fn conditions(
        &self,
        old: &[NamespaceCondition],
        now: Timestamp,
    ) -> Vec<NamespaceCondition> {
        let mut conditions = old.to_vec();
        for (type_, reason, message) in SUCCESS_CONDITIONS {
            let (status, reason, message) = match self.failing(type_) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            let mut new = NamespaceCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: Some(Time(now)),
            };
            match conditions.iter_mut().find(|known| known.type_ == type_) {
                Some(known) => {
                    if known.status == new.status {
                        new.last_transition_time = known.last_transition_time.take();
                    }
                    *known = new;
                }
                None => conditions.push(new),
            }
        }
        conditions
    }
}

/// `configmaps. has 2 resource instances, ...`
fn list(counts: &BTreeMap<String, usize>, verb: &str, what: &str) -> Option<String> {
    let each = counts
        .iter()
        .map(|(name, count)| format!("{name} {verb} {count} {what}"));
    let mut all: Vec<String> = each.collect();
    // Sorted by the whole text, as upstream.
    all.sort();
    (!all.is_empty()).then(|| all.join(", "))
}

#[cfg(test)]
mod tests;
