//! Which nodes a pod or a volume may use, as the scheduler decides it
//! (`component-helpers/scheduling/corev1`): node selectors, node affinity, taints.

mod selector;
mod taints;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::field::{FieldError, Path, aggregate};
use crate::selector::LabelSelector;

pub use selector::{FieldExpression, NodeSelector, Term};
pub use taints::{tolerates, untolerated_taint};

/// Expressions that make no sense.
#[derive(Debug, Clone, PartialEq)]
pub struct AffinityErrors(pub Vec<FieldError>);

impl fmt::Display for AffinityErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&aggregate(&self.0))
    }
}

impl std::error::Error for AffinityErrors {}

/// What a pod demands of its node: `nodeSelector` and required node affinity, both.
#[derive(Debug, Clone)]
pub struct RequiredNodeAffinity {
    labels: LabelSelector,
    affinity: Option<NodeSelector>,
}

impl RequiredNodeAffinity {
    /// The demands of a pod with this spec. Errors in expressions come up when they matter.
    pub fn of_pod_spec(spec: &Value) -> Self {
        let labels = spec.get("nodeSelector").and_then(Value::as_object);
        let affinity = spec
            .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
            .filter(|selector| selector.is_object());
        Self {
            labels: labels.map_or_else(LabelSelector::everything, LabelSelector::from_labels),
            affinity: affinity.map(|selector| NodeSelector::new(selector, &Path::root())),
        }
    }

    /// Whether `node` will do.
    pub fn matches(&self, node: &Value) -> Result<bool, AffinityErrors> {
        if !self.labels.matches_object(node) {
            return Ok(false);
        }
        self.affinity
            .as_ref()
            .map_or(Ok(true), |affinity| affinity.matches(node))
    }
}

/// What a pod would like of its node: preferred node affinity.
#[derive(Debug, Clone)]
pub struct PreferredNodeAffinity {
    terms: Vec<(i64, Term)>,
}

impl PreferredNodeAffinity {
    /// The preferred terms of a pod spec. Terms without weight or requirements are skipped.
    pub fn of_pod_spec(spec: &Value) -> Result<Self, AffinityErrors> {
        let wishes = spec
            .pointer("/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution")
            .and_then(Value::as_array);
        let (mut terms, mut errors) = (Vec::new(), Vec::new());
        for (index, wish) in wishes.into_iter().flatten().enumerate() {
            let weight = wish
                .get("weight")
                .and_then(Value::as_i64)
                .unwrap_or_default();
            let preference = wish.get("preference").unwrap_or(&Value::Null);
            // `NewPreferredSchedulingTerms` skips both: a weight of 0 cannot change a
            // score, and an empty term matches nothing.
            if weight == 0 || Term::is_empty(preference) {
                continue;
            }
            match Term::new(preference, &Path::root().index(index)) {
                Ok(term) => terms.push((weight, term)),
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() {
            Ok(Self { terms })
        } else {
            Err(AffinityErrors(errors))
        }
    }

    /// The weights of the terms that match `node`, added up.
    pub fn score(&self, node: &Value) -> i64 {
        self.terms
            .iter()
            .filter(|(_, term)| term.matches(node))
            .fold(0, |sum, (weight, _)| sum.saturating_add(*weight))
    }
}

/// Whether a volume with this spec can be used on a node with these labels.
///
/// Only labels count here: terms over fields hold on every node (`volume.CheckNodeAffinity`).
pub fn volume_matches(spec: &Value, node: &Value) -> Result<bool, AffinityErrors> {
    let Some(required) = spec
        .pointer("/nodeAffinity/required")
        .filter(|it| it.is_object())
    else {
        return Ok(true);
    };
    let labels = node
        .pointer("/metadata/labels")
        .cloned()
        .unwrap_or_default();
    // Upstream builds a node from labels alone, too; with a name, terms over `metadata.name` would begin to count.
    let nameless = serde_json::json!({ "metadata": { "labels": labels } });
    NodeSelector::new(required, &Path::root()).matches(&nameless)
}
