//! Validation of access reviews.

use machinery::field::{FieldError, Path};
use machinery::meta;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::builtin::labels;

/// Checks a review of any kind.
pub(super) fn review(review: &Value) -> Result<(), Status> {
    let spec = &review["spec"];
    let kind = meta::kind(review);
    let mut errors = subject_errors(spec);
    if kind != "SelfSubjectAccessReview" && !names_anybody(spec) {
        let why = "at least one of user or group must be specified";
        let path = Path::new("spec").child("user");
        errors.push(FieldError::invalid(&path, "", why));
    }
    let path = Path::new("spec").child("resourceAttributes");
    let resource = &spec["resourceAttributes"];
    errors.extend(selector_errors(
        resource,
        "fieldSelector",
        &path,
        field_errors,
    ));
    errors.extend(selector_errors(
        resource,
        "labelSelector",
        &path,
        labels::check_requirement,
    ));
    let local = kind == "LocalSubjectAccessReview";
    if !has_no_metadata(review, local) {
        let why = if local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        let shown = review["metadata"].clone();
        errors.push(FieldError::invalid(&Path::new("metadata"), shown, why));
    }
    if local {
        errors.extend(local_errors(review));
    }
    refuse(&errors)
}

fn names_anybody(spec: &Value) -> bool {
    let groups = spec["groups"].as_array();
    spec["user"].as_str().is_some_and(|user| !user.is_empty())
        || groups.is_some_and(|groups| !groups.is_empty())
}

/// Exactly one of resource and path attributes has to be set.
fn subject_errors(spec: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let error = match (
        given(spec, "resourceAttributes"),
        given(spec, "nonResourceAttributes"),
    ) {
        (Some(_), Some(asked)) => FieldError::invalid(
            &path.child("nonResourceAttributes"),
            internal_form(asked),
            "cannot be specified in combination with resourceAttributes",
        ),
        (None, None) => FieldError::invalid(
            &path.child("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => return Vec::new(),
    };
    vec![error]
}

/// A selector is either raw or a list of requirements.
fn selector_errors(
    resource: &Value,
    field: &str,
    path: &Path,
    check: fn(&Path, &Value) -> Vec<FieldError>,
) -> Vec<FieldError> {
    let path = path.child(field);
    let Some(selector) = given(resource, field) else {
        return Vec::new();
    };
    let raw = selector["rawSelector"].as_str().unwrap_or_default();
    let requirements = selector["requirements"].as_array();
    let requirements = requirements.map(Vec::as_slice).unwrap_or_default();
    let mut errors = Vec::new();
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(&path.child("rawSelector"), raw, why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(&path.child("requirements"), why));
    }
    for (i, requirement) in requirements.iter().enumerate() {
        errors.extend(check(&path.child("requirements").index(i), requirement));
    }
    errors
}

/// Unknown operators are accepted: a newer client may have more of them.
fn field_errors(path: &Path, requirement: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if requirement["key"].as_str().unwrap_or_default().is_empty() {
        let why = "must be specified";
        errors.push(FieldError::required(&path.child("key"), why));
    }
    errors.extend(labels::check_values(path, requirement));
    errors
}

/// Reviews are not stored, so their metadata has to be empty.
fn has_no_metadata(review: &Value, local: bool) -> bool {
    let metadata = review["metadata"].as_object().into_iter().flatten();
    metadata
        .filter(|(field, value)| !value.is_null() && *field != "managedFields")
        .all(|(field, _)| local && field == "namespace")
}

/// A local review has to be for resources of its own namespace.
fn local_errors(review: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &review["spec"];
    if let Some(asked) = given(spec, "resourceAttributes") {
        let namespace = asked["namespace"].as_str().unwrap_or_default();
        if namespace != meta::namespace(review) {
            let path = Path::new("spec")
                .child("resourceAttributes")
                .child("namespace");
            errors.push(FieldError::invalid(
                &path,
                namespace,
                "must match metadata.namespace",
            ));
        }
    }
    if let Some(asked) = given(spec, "nonResourceAttributes") {
        let path = Path::new("spec").child("nonResourceAttributes");
        let why = "disallowed on this kind of request";
        errors.push(FieldError::invalid(&path, internal_form(asked), why));
    }
    errors
}

fn given<'a>(spec: &'a Value, field: &str) -> Option<&'a Value> {
    spec.get(field).filter(|value| !value.is_null())
}

/// Errors contain upstream's internal type, whose fields have no JSON names.
fn internal_form(asked: &Value) -> Value {
    let text = |field: &str| asked[field].as_str().unwrap_or_default().to_owned();
    json!({"Path": text("path"), "Verb": text("verb")})
}

/// The decoded object has lost its kind by the time upstream names it in the error.
fn refuse(errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid_as("authorization.k8s.io", "", "", errors))
    }
}
