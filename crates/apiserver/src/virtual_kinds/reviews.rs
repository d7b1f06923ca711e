//! Questions about users: who is this, and may they.

use machinery::field::{FieldError, Path};
use machinery::meta;
use machinery::status::Status;
use machinery::time::format_time;
use serde_json::{Value, json};

use crate::auth::{AUTHENTICATED, UserInfo};
use crate::rest::Context;

/// A user as the authentication API shows it.
fn user_object(user: &UserInfo) -> Value {
    let mut object = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        object["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        object["extra"] = json!(user.extra);
    }
    object
}

/// TokenReview: whose token this is.
pub(super) fn token(context: &Context, mut review: Value) -> Result<Value, Status> {
    let token = review
        .pointer("/spec/token")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences: Vec<String> = review
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .map(|list| {
            list.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    let state = &context.state;
    review["status"] =
        match state
            .authenticator
            .by_token(&state.store, token, &audiences, context.now)
        {
            Ok((user, audiences)) => {
                json!({"authenticated": true, "user": user_object(&user), "audiences": audiences})
            }
            Err(why) => json!({"user": {}, "error": why}),
        };
    Ok(review)
}

/// SelfSubjectReview: who am I. What was sent makes no difference.
pub(super) fn own_identity(context: &Context) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {"creationTimestamp": format_time(context.now)},
        "status": {"userInfo": user_object(&context.user)},
    })
}

/// SelfSubjectAccessReview: may I.
pub(super) fn own_access(context: &Context, mut review: Value) -> Result<Value, Status> {
    refuse(&subject_errors(&review["spec"]))?;
    review["status"] = json!({"allowed": context.user.is_in(AUTHENTICATED)});
    Ok(review)
}

/// SelfSubjectRulesReview: what may I.
pub(super) fn own_rules(mut review: Value) -> Value {
    review["status"] = json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    });
    review
}

/// SubjectAccessReview and LocalSubjectAccessReview: may they.
pub(super) fn access(mut review: Value) -> Result<Value, Status> {
    let spec = &review["spec"];
    let named = spec["user"].as_str().is_some_and(|user| !user.is_empty())
        || spec["groups"]
            .as_array()
            .is_some_and(|groups| !groups.is_empty());
    let mut errors = subject_errors(spec);
    if !named {
        let why = "at least one of user or group must be specified";
        let path = Path::new("spec").child("user");
        errors.push(FieldError::invalid(&path, "", why));
    }
    if review["kind"] == "LocalSubjectAccessReview" {
        errors.extend(local_errors(&review));
    }
    refuse(&errors)?;
    let groups = spec["groups"].as_array().cloned().unwrap_or_default();
    let anonymous =
        spec["user"] == "system:anonymous" || groups.contains(&"system:unauthenticated".into());
    review["status"] = json!({"allowed": !anonymous});
    Ok(review)
}

/// Exactly one of a resource and a path is asked about.
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

/// A local review is about resources of its own namespace.
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

/// Errors quote upstream's internal type, whose fields have no JSON names.
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
