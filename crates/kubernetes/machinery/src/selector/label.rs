//! Requirements on labels.

use std::fmt;

use serde_json::{Map, Value};

use super::parse;
use crate::field::{ErrorList, FieldError, Path, aggregate};
use crate::json::go_quote;
use crate::names::{is_qualified_name, is_valid_label_value};

/// How a requirement relates a label to its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `in`
    In,
    /// `notin`
    NotIn,
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`
    NotEquals,
    /// The bare key.
    Exists,
    /// `!` and the key.
    DoesNotExist,
    /// `>`, integers only.
    GreaterThan,
    /// `<`, integers only.
    LessThan,
}

/// What one label has to be like.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// A requirement, if key, operator and values go together; `path` is where it was written
    /// (`labels.NewRequirement`).
    pub fn new(
        key: &str,
        operator: Operator,
        values: Vec<String>,
        path: &Path,
    ) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        errors.extend(check_key(key, &path.child("key")));
        let values_path = path.child("values");
        // Go prints the list that is not there as null.
        let shown = || {
            if values.is_empty() {
                Value::Null
            } else {
                Value::from(values.clone())
            }
        };
        let complaint = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals
                if values.len() != 1 =>
            {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        errors.extend(complaint.map(|text| FieldError::invalid(&values_path, shown(), text)));
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (index, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    errors.invalid(
                        &values_path.index(index),
                        value.as_str(),
                        "for 'Gt', 'Lt' operators, the value must be an integer",
                    );
                }
            }
        }
        for (index, value) in values.iter().enumerate() {
            let complaints = is_valid_label_value(value);
            if !complaints.is_empty() {
                let place = values_path.index(index).key(key);
                errors.invalid(&place, value.as_str(), complaints.join("; "));
            }
        }
        if errors.is_empty() {
            Ok(Self {
                key: key.to_owned(),
                operator,
                values,
            })
        } else {
            Err(errors)
        }
    }

    /// The label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How label and values relate.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, as given.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether the label, if there is one, is as required.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            // An object without the label matches `!=` and `notin`; users who want the label add `,key`.
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self
                .compare(label)
                .is_some_and(|(label, than)| label > than),
            Operator::LessThan => self
                .compare(label)
                .is_some_and(|(label, than)| label < than),
        }
    }

    fn compare(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

/// A complaint about a malformed label key, as a field error at `path`.
pub(super) fn check_key(key: &str, path: &Path) -> Option<FieldError> {
    let complaints = is_qualified_name(key);
    (!complaints.is_empty()).then(|| FieldError::invalid(path, key, complaints.join("; ")))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = self.values.clone();
        values.sort();
        let values = values.join(",");
        let key = &self.key;
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Requirements that all have to hold; none select everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Sorted by key. `None` selects nothing at all.
    requirements: Option<Vec<Requirement>>,
}

impl LabelSelector {
    /// The selector that matches every object.
    pub fn everything() -> Self {
        Self::new(Vec::new())
    }

    /// The selector that matches no object.
    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// The selector of these requirements.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        // Stable, as upstream's `ByKey`: requirements of one key keep the order in which they were written.
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            requirements: Some(requirements),
        }
    }

    /// Reads the form used in queries: `env in (a,b),!old,tier!=web`.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text).map(Self::new)
    }

    /// Reads a `metav1.LabelSelector` object; null selects nothing, an empty object everything.
    pub fn from_label_selector_object(selector: &Value) -> Result<Self, String> {
        if selector.is_null() {
            // `LabelSelectorAsSelector` in `apimachinery/pkg/apis/meta/v1/helpers.go`: an unset selector of a
            // workload must not select every pod.
            return Ok(Self::nothing());
        }
        let invalid = |errors: Vec<FieldError>| aggregate(&errors);
        let mut requirements = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(
                Requirement::new(key, Operator::Equals, values, &Path::root()).map_err(invalid)?,
            );
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let operator = match text_at(expression, "operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let other = go_quote(other);
                    return Err(format!("{other} is not a valid label selector operator"));
                }
            };
            let key = text_at(expression, "key");
            let values = strings_at(expression, "values");
            requirements
                .push(Requirement::new(key, operator, values, &Path::root()).map_err(invalid)?);
        }
        Ok(Self::new(requirements))
    }

    /// The selector that asks for exactly these labels, unchecked (`labels.SelectorFromSet`).
    pub fn from_labels(labels: &Map<String, Value>) -> Self {
        let equals = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        };
        Self::new(labels.iter().map(equals).collect())
    }

    /// Whether the labels that `lookup` finds are as required.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|all| all.iter().all(|one| one.matches(lookup(&one.key))))
    }

    /// Whether these labels are as required.
    pub fn matches_labels(&self, labels: &Map<String, Value>) -> bool {
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }

    /// Whether the labels of this object are as required.
    pub fn matches_object(&self, object: &Value) -> bool {
        // Asked of every object there is: a pointer would be taken apart each time.
        let labels = object.get("metadata").and_then(|it| it.get("labels"));
        self.matches(|key| labels?.get(key)?.as_str())
    }

    /// Whether every object is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for LabelSelector {
    /// `labels.Selector.String()`; a selector that selects nothing prints like one that selects all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// The text of a member, empty if there is none.
pub(crate) fn text_at<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a list member, empty if there is none.
pub(crate) fn strings_at(object: &Value, name: &str) -> Vec<String> {
    let list = object.get(name).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
