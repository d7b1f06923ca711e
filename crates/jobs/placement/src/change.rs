//! Writes a placement into a pod.
//!
//! The terms of a required node affinity are ORed, so a condition that must always hold is added to every term. At
//! admission any change is possible. Later, while the pod is gated, the API server accepts additions only: expressions
//! appended to existing terms, no new terms, no RuntimeClass (`ValidatePodUpdate`, `validateNodeSelectorTermMutation`).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::decide::Placement;
use crate::fit::{Condition, Operator, Product};
use crate::names;

/// When a pod is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeStage {
    /// At admission, before it is stored.
    Admission,
    /// While it waits at the scheduling gate.
    Gated,
}

impl Placement {
    /// Writes the placement into the pod and returns whether the pod changed.
    pub fn write(&self, pod: &mut Value, moment: ChangeStage) -> bool {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
            return false;
        };
        let mut changed = match self.terms(spec, moment) {
            Some(terms) => set_terms(spec, terms),
            None => false,
        };
        changed |= self.prefer(spec);
        changed |= append(spec, "tolerations", self.tolerations.iter().cloned());
        // `runtimeClassName` is immutable once the pod is stored.
        if let (Some(class), ChangeStage::Admission) = (&self.runtime_class, moment) {
            let class = Value::from(class.as_str());
            let before = spec.insert("runtimeClassName".to_owned(), class.clone());
            changed |= before != Some(class);
        }
        changed
    }

    /// The new terms of the required node affinity; `None` if they do not change.
    fn terms(&self, spec: &Map<String, Value>, moment: ChangeStage) -> Option<Vec<Value>> {
        let selector = spec.get("nodeSelector").unwrap_or(&Value::Null);
        let required = spec
            .get("affinity")
            .and_then(|it| it.get("nodeAffinity"))
            .and_then(|it| it.get(REQUIRED))
            .filter(|it| !it.is_null());
        let Some(required) = required else {
            let all = self.narrowings(&json!({}), selector);
            // A term without expressions matches no node; here it means that the node selector suffices.
            return (!all.is_empty() && !all.iter().any(is_empty)).then_some(all);
        };
        let terms = required
            .get("nodeSelectorTerms")
            .and_then(Value::as_array)?;
        let all: Vec<Value> = match moment {
            ChangeStage::Admission => terms
                .iter()
                // Empty terms match no node, and must not start to match some.
                .filter(|term| !is_empty(term))
                .flat_map(|term| self.narrowings(term, selector))
                .collect(),
            // The API server accepts no additional terms: each existing term gets one product.
            ChangeStage::Gated => terms
                .iter()
                .map(|term| match self.product_for(term, selector) {
                    Some(product) if !is_empty(term) => narrowed(term, product, selector),
                    _ => term.clone(),
                })
                .collect(),
        };
        (!all.is_empty()).then_some(all)
    }

    /// The term combined with each product that does not contradict it.
    fn narrowings(&self, term: &Value, selector: &Value) -> Vec<Value> {
        let products = self.products.iter();
        products
            // Contradictory terms would be valid, and match no node; left out, the pod stays readable. noe appends its
            // own term instead (pkg/arch/hook.go), which is ORed and widens what the pod asked for.
            .filter(|product| !contradicts(term, product, selector))
            .map(|product| narrowed(term, product, selector))
            .collect()
    }

    /// The product for a term that can take only one: the one it already contains, else the compatible one with the
    /// most architectures. A term that contradicts all of them must never match, which any product ensures.
    fn product_for(&self, term: &Value, selector: &Value) -> Option<&Product> {
        let contained = |product: &&Product| {
            let mut conditions = product.conditions.iter();
            conditions.all(|condition| implied(term, condition, selector))
        };
        let value = |product: &&Product| {
            let architectures = product.on(names::ARCHITECTURE);
            let architectures = architectures.map_or(0, |condition| condition.values.len());
            (!contradicts(term, product, selector), architectures)
        };
        self.products.iter().find(contained).or_else(|| {
            // `max_by_key` returns the last maximum: reversed, the first.
            self.products.iter().rev().max_by_key(value)
        })
    }

    /// Appends preferred node affinity and returns whether there was any to append.
    fn prefer(&self, spec: &mut Map<String, Value>) -> bool {
        if self.preferred.is_empty() {
            return false;
        }
        let preferences = self.preferred.iter().map(|(architecture, weight)| {
            json!({
                "weight": weight,
                "preference": { "matchExpressions": [{
                    "key": names::ARCHITECTURE, "operator": "In", "values": [architecture],
                }] },
            })
        });
        node_affinity(spec).is_some_and(|affinity| append(affinity, PREFERRED, preferences))
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The term with those conditions of the product that it does not imply yet.
fn narrowed(term: &Value, product: &Product, selector: &Value) -> Value {
    let missing: Vec<Value> = product
        .conditions
        .iter()
        .filter(|condition| !implied(term, condition, selector))
        .map(|condition| json!(condition))
        .collect();
    let mut term = term.as_object().cloned().unwrap_or_default();
    append(&mut term, "matchExpressions", missing);
    Value::Object(term)
}

/// Whether a term has no expressions.
fn is_empty(term: &Value) -> bool {
    ["matchExpressions", "matchFields"].iter().all(|list| {
        term.get(list)
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty)
    })
}

/// The values that a term, or the node selector beside it, allows for a label; empty if neither restricts it.
fn allowed<'a>(term: &'a Value, key: &str, selector: &'a Value) -> Vec<BTreeSet<&'a str>> {
    let expressions = term.get("matchExpressions").and_then(Value::as_array);
    let text = |value: &'a Value, name: &str| value.get(name).and_then(Value::as_str);
    let pinned = expressions.into_iter().flatten().filter(|expression| {
        text(expression, "key") == Some(key) && text(expression, "operator") == Some("In")
    });
    let mut allowed: Vec<BTreeSet<&str>> = pinned
        .map(|expression| {
            let values = expression.get("values").and_then(Value::as_array);
            values
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect()
        })
        .collect();
    // The node selector is ANDed with every term, so what it implies need not be repeated.
    allowed.extend(text(selector, key).map(|value| BTreeSet::from([value])));
    allowed
}

/// Whether a condition holds on every node that a term matches.
fn implied(term: &Value, condition: &Condition, selector: &Value) -> bool {
    let allowed = allowed(term, condition.key, selector);
    let holds = |value: &&str| match condition.operator {
        Operator::In => condition.values.contains(*value),
        Operator::NotIn => !condition.values.contains(*value),
    };
    // An expression that is written already is not written twice: the webhook may be called again, and the gated pod is
    // decided repeatedly.
    allowed.iter().any(|values| values.iter().all(holds)) || written(term, condition)
}

/// Whether a term contains exactly this condition, written by an earlier call.
fn written(term: &Value, condition: &Condition) -> bool {
    let Some(expressions) = term.get("matchExpressions").and_then(Value::as_array) else {
        return false;
    };
    let this = json!(condition);
    expressions.contains(&this)
}

/// Whether no node can match both the term and the product.
fn contradicts(term: &Value, product: &Product, selector: &Value) -> bool {
    product.conditions.iter().any(|condition| {
        let holds = |value: &&str| match condition.operator {
            Operator::In => condition.values.contains(*value),
            Operator::NotIn => !condition.values.contains(*value),
        };
        let allowed = allowed(term, condition.key, selector);
        allowed.iter().any(|values| !values.iter().any(holds))
    })
}

/// Sets the terms of the required node affinity and returns whether they changed.
fn set_terms(spec: &mut Map<String, Value>, terms: Vec<Value>) -> bool {
    let required = node_affinity(spec).and_then(|affinity| object(affinity, REQUIRED));
    let Some(required) = required else {
        return false;
    };
    let before = required.get("nodeSelectorTerms").and_then(Value::as_array);
    let changed = before != Some(&terms);
    required.insert("nodeSelectorTerms".to_owned(), terms.into());
    changed
}

fn node_affinity(spec: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    object(object(spec, "affinity")?, "nodeAffinity")
}

/// The object field of this name, created if missing; `None` if the field has another type, which the API server
/// rejects.
fn object<'a>(
    parent: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    let value = parent.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

/// Appends to the list field of this name and returns whether there was anything to append.
fn append(
    parent: &mut Map<String, Value>,
    name: &str,
    more: impl IntoIterator<Item = Value>,
) -> bool {
    let mut more = more.into_iter().peekable();
    if more.peek().is_none() {
        return false;
    }
    let value = parent.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = json!([]);
    }
    let Some(list) = value.as_array_mut() else {
        return false;
    };
    list.extend(more);
    true
}
