//! Validation of access reviews.

use machinery::field::{FieldError, Path};
use machinery::meta;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::builtin::value::Read as _;
use crate::builtin::{check, labels};
use crate::errors::Errors;

/// Checks a review of any kind.
pub(super) fn review(review: &Value) -> Result<(), Status> {
    let spec = review.at("spec");
    let kind = meta::kind(review);
    let mut errors = subject_errors(spec);
    let anonymous = spec.text("user").is_empty() && spec.items("groups").is_empty();
    if kind != "SelfSubjectAccessReview" && anonymous {
        let why = "at least one of user or group must be specified";
        errors.invalid(&Path::new("spec.user"), "", why);
    }
    let path = Path::new("spec.resourceAttributes");
    let resource = spec.at("resourceAttributes");
    errors += check::if_set(&path, resource, "fieldSelector", |path, selector| {
        selector_errors(path, selector, field_errors)
    });
    errors += check::if_set(&path, resource, "labelSelector", |path, selector| {
        selector_errors(path, selector, labels::check_requirement)
    });
    let local = kind == "LocalSubjectAccessReview";
    if !has_no_metadata(review, local) {
        let why = if local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        errors.invalid(&Path::new("metadata"), review.at("metadata").clone(), why);
    }
    if local {
        errors += local_errors(review);
    }
    // The decoded object has lost its kind by the time upstream names it in the error.
    errors.reject("authorization.k8s.io", "", "")
}

/// Exactly one of resource and path attributes has to be set.
fn subject_errors(spec: &Value) -> Errors {
    let other = spec.at("nonResourceAttributes");
    match (spec.has("resourceAttributes"), other.is_null()) {
        (true, false) => {
            let why = "cannot be specified in combination with resourceAttributes";
            let path = Path::new("spec.nonResourceAttributes");
            FieldError::invalid(&path, internal_form(other), why).into()
        }
        (false, true) => {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let path = Path::new("spec.resourceAttributes");
            FieldError::invalid(&path, Value::Null, why).into()
        }
        _ => Errors::new(),
    }
}

/// A selector is either raw or a list of requirements.
fn selector_errors(path: &Path, selector: &Value, check: fn(&Path, &Value) -> Errors) -> Errors {
    let raw = selector.text("rawSelector");
    let requirements = selector.count("requirements") > 0;
    let mut errors = Errors::new();
    if !raw.is_empty() && requirements {
        let why = "may not specified at the same time as requirements";
        errors.invalid(&path.child("rawSelector"), raw, why);
    }
    if raw.is_empty() && !requirements {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        errors.required(&path.child("requirements"), why);
    }
    for (path, requirement) in selector.each(path, "requirements") {
        errors += check(&path, requirement);
    }
    errors
}

/// Unknown operators are accepted: a newer client may have more of them.
fn field_errors(path: &Path, requirement: &Value) -> Errors {
    let mut errors = Errors::new();
    if requirement.text("key").is_empty() {
        errors.required(&path.child("key"), "must be specified");
    }
    errors += labels::check_values(path, requirement);
    errors
}

/// Reviews are not stored, so their metadata has to be empty.
fn has_no_metadata(review: &Value, local: bool) -> bool {
    let metadata = review.entries("metadata").into_iter();
    metadata
        .filter(|(field, value)| !value.is_null() && *field != "managedFields")
        .all(|(field, _)| local && field == "namespace")
}

/// A local review has to be for resources of its own namespace.
fn local_errors(review: &Value) -> Errors {
    let mut errors = Errors::new();
    let namespace = review.text("spec.resourceAttributes.namespace");
    if review.has("spec.resourceAttributes") && namespace != meta::namespace(review) {
        let path = Path::new("spec.resourceAttributes.namespace");
        errors.invalid(&path, namespace, "must match metadata.namespace");
    }
    let other = review.at("spec.nonResourceAttributes");
    if !other.is_null() {
        let path = Path::new("spec.nonResourceAttributes");
        errors.invalid(
            &path,
            internal_form(other),
            "disallowed on this kind of request",
        );
    }
    errors
}

/// Errors contain upstream's internal type, whose fields have no JSON names.
fn internal_form(attributes: &Value) -> Value {
    json!({"Path": attributes.text("path"), "Verb": attributes.text("verb")})
}
