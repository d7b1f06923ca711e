//! Selectors of workloads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use machinery::field::{Path, aggregate};
use machinery::selector::{Operator, Requirement};
use runtime::Error;

/// A parsed selector.
pub(crate) type Selector = machinery::selector::LabelSelector;

/// Parses the selector of an object.
pub(crate) fn selector(written: &LabelSelector) -> Result<Selector, Error> {
    let path = Path::root().child("spec").child("selector");
    let require = |key: &str, operator, values| {
        Requirement::new(key, operator, values, &path)
            .map_err(|errors| Error::Invalid(aggregate(&errors)))
    };
    let mut requirements = Vec::new();
    for (key, value) in written.match_labels.iter().flatten() {
        requirements.push(require(key, Operator::Equals, vec![value.clone()])?);
    }
    for expression in written.match_expressions.iter().flatten() {
        let operator = match expression.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                return Err(Error::Invalid(format!(
                    "spec.selector: {other:?} is no operator; In, NotIn, Exists and DoesNotExist are"
                )));
            }
        };
        let values = expression.values.clone().unwrap_or_default();
        requirements.push(require(&expression.key, operator, values)?);
    }
    Ok(Selector::new(requirements))
}

/// Whether a selector matches an object.
pub(crate) fn matches(selector: &Selector, meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    selector.matches(|key| Some(labels?.get(key)?.as_str()))
}

/// Whether an object has all these labels.
pub(crate) fn matches_all(wanted: Option<&BTreeMap<String, String>>, meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    wanted
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value)))
}
