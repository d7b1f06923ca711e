//! Questions about users: who is this, and may they.

use machinery::field::{FieldError, Path};
use machinery::status::Status;
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
pub(super) fn token(context: &Context, mut review: Value) -> Value {
    let token = review
        .pointer("/spec/token")
        .and_then(Value::as_str)
        .unwrap_or_default();
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
    review
}

/// SelfSubjectReview: who am I.
pub(super) fn own_identity(context: &Context, mut review: Value) -> Value {
    review["status"] = json!({"userInfo": user_object(&context.user)});
    review
}

/// SelfSubjectAccessReview: may I.
pub(super) fn own_access(context: &Context, mut review: Value) -> Value {
    review["status"] = json!({"allowed": context.user.is_in(AUTHENTICATED)});
    review
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

/// SubjectAccessReview: may they.
pub(super) fn access(mut review: Value) -> Result<Value, Status> {
    let spec = &review["spec"];
    let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let named = spec["user"].as_str().is_some_and(|user| !user.is_empty())
        || spec["groups"]
            .as_array()
            .is_some_and(|groups| !groups.is_empty());
    let path = Path::new("spec");
    let mut errors = Vec::new();
    if has("resourceAttributes") == has("nonResourceAttributes") {
        let why = if has("resourceAttributes") {
            "cannot be specified in combination with resourceAttributes"
        } else {
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        };
        let field = if has("resourceAttributes") {
            "nonResourceAttributes"
        } else {
            "resourceAttributes"
        };
        errors.push(FieldError::invalid(&path.child(field), Value::Null, why));
    }
    if !named {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&path.child("user"), "", why));
    }
    if !errors.is_empty() {
        let kind = review["kind"].as_str().unwrap_or_default().to_owned();
        return Err(Status::invalid_as(
            "authorization.k8s.io",
            &kind,
            "",
            &errors,
        ));
    }
    let groups = spec["groups"].as_array().cloned().unwrap_or_default();
    let anonymous =
        spec["user"] == "system:anonymous" || groups.contains(&"system:unauthenticated".into());
    review["status"] = json!({"allowed": !anonymous});
    Ok(review)
}
