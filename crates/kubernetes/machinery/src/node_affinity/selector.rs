//! `v1.NodeSelector`: terms of which one has to hold.

use serde_json::Value;

use super::AffinityErrors;
use crate::field::{FieldError, Path};
use crate::selector::{LabelSelector, Operator, Requirement, strings_at, text_at};

/// The operators labels can be compared with.
const LABEL_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
/// The operators fields can be compared with.
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

/// A parsed `v1.NodeSelector`.
#[derive(Debug, Clone)]
pub struct NodeSelector {
    terms: Vec<Result<Term, Vec<FieldError>>>,
}

impl NodeSelector {
    /// Parses the selector at `path`. Empty terms match nothing and are dropped.
    pub fn new(selector: &Value, path: &Path) -> Self {
        let path = path.child("nodeSelectorTerms");
        let terms = selector.get("nodeSelectorTerms").and_then(Value::as_array);
        let terms = terms
            .into_iter()
            .flatten()
            .enumerate()
            // kube-scheduler drops them before parsing
            // (`component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`), so a selector of empty terms only
            // matches no node instead of every node.
            .filter(|(_, term)| !Term::is_empty(term))
            .map(|(index, term)| Term::new(term, &path.index(index)))
            .collect();
        Self { terms }
    }

    /// The non-empty valid terms.
    pub fn terms(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter().flatten()
    }

    /// Everything that is wrong with the terms.
    pub fn errors(&self) -> Vec<FieldError> {
        self.terms
            .iter()
            .filter_map(|term| term.as_ref().err())
            .flatten()
            .cloned()
            .collect()
    }

    /// Whether a term matches `node`. Terms that make no sense are an error only if no other
    /// matches.
    pub fn matches(&self, node: &Value) -> Result<bool, AffinityErrors> {
        // Lazily, as upstream's `LazyErrorNodeSelector`: one invalid term must not hide another that matches.
        if self.terms.iter().flatten().any(|term| term.matches(node)) {
            return Ok(true);
        }
        let errors = self.errors();
        if errors.is_empty() {
            Ok(false)
        } else {
            Err(AffinityErrors(errors))
        }
    }
}

/// Expressions that all have to hold.
#[derive(Debug, Clone)]
pub struct Term {
    labels: LabelSelector,
    fields: Vec<FieldExpression>,
}

/// A field, its value, and whether it has to have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldExpression {
    field: String,
    value: String,
    equal: bool,
}

impl FieldExpression {
    /// The node that has to be meant, or must not be: its name, and which of the two. An expression
    /// over another field compares with nothing, for nodes have no other; `None` then.
    pub fn name(&self) -> Option<(&str, bool)> {
        (self.field == "metadata.name").then_some((self.value.as_str(), self.equal))
    }

    /// Whether it holds for a node of this name.
    pub fn matches(&self, name: &str) -> bool {
        let found = self.name().map_or("", |_| name);
        (found == self.value) == self.equal
    }
}

impl Term {
    /// What labels have to be like.
    pub fn labels(&self) -> &LabelSelector {
        &self.labels
    }

    /// What fields have to be like.
    pub fn fields(&self) -> &[FieldExpression] {
        &self.fields
    }

    /// Whether the term has no expressions.
    pub(super) fn is_empty(term: &Value) -> bool {
        expressions(term, "matchExpressions").is_empty()
            && expressions(term, "matchFields").is_empty()
    }

    /// Reads the term written at `path`.
    pub(super) fn new(term: &Value, path: &Path) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut requirements = Vec::new();
        let labels_path = path.child("matchExpressions");
        for (index, expression) in expressions(term, "matchExpressions").iter().enumerate() {
            match label_requirement(expression, &labels_path.index(index)) {
                Ok(requirement) => requirements.push(requirement),
                Err(found) => errors.extend(found),
            }
        }
        let mut fields = Vec::new();
        let fields_path = path.child("matchFields");
        for (index, expression) in expressions(term, "matchFields").iter().enumerate() {
            match field_expression(expression, &fields_path.index(index)) {
                Ok(field) => fields.push(field),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() {
            Ok(Self {
                labels: LabelSelector::new(requirements),
                fields,
            })
        } else {
            Err(errors)
        }
    }

    /// Whether every expression holds for `node`. A node without a name has no fields to compare.
    pub(super) fn matches(&self, node: &Value) -> bool {
        let name = node
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        self.labels.matches_object(node)
            && (name.is_empty() || self.fields.iter().all(|field| field.matches(name)))
    }
}

fn expressions<'a>(term: &'a Value, name: &str) -> &'a [Value] {
    term.get(name)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn label_requirement(expression: &Value, path: &Path) -> Result<Requirement, Vec<FieldError>> {
    let operator = match text_at(expression, "operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        other => return Err(vec![unsupported(path, other, &LABEL_OPERATORS)]),
    };
    let key = text_at(expression, "key");
    Requirement::new(key, operator, strings_at(expression, "values"), path)
}

fn field_expression(expression: &Value, path: &Path) -> Result<FieldExpression, FieldError> {
    let equal = match text_at(expression, "operator") {
        "In" => true,
        "NotIn" => false,
        other => return Err(unsupported(path, other, &FIELD_OPERATORS)),
    };
    let values = strings_at(expression, "values");
    // Fields are compared by a field selector, which has only `=` and `!=`, hence exactly one value.
    let [value] = values.as_slice() else {
        let shown = expression.get("values").cloned().unwrap_or_default();
        return Err(FieldError::invalid(
            &path.child("values"),
            shown,
            "must have one element",
        ));
    };
    let field = text_at(expression, "key").to_owned();
    Ok(FieldExpression {
        field,
        value: value.clone(),
        equal,
    })
}

fn unsupported(path: &Path, operator: &str, accepted: &[&str]) -> FieldError {
    FieldError::not_supported(&path.child("operator"), operator, accepted)
}
