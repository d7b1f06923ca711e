//! The reviews of `authorization.k8s.io`.

mod selectors;
mod validate;

use std::borrow::Cow;

use machinery::status::Status;
use serde_json::{Value, json};

use crate::auth::{Attributes, ResourceAttributes, Rule, Target, UserInfo, missing_roles};
use crate::builtin::value::Read as _;
use crate::rest::Context;

/// SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview.
pub(in crate::virtual_kinds) fn access(
    context: &Context,
    mut review: Value,
) -> Result<Value, Status> {
    validate::review(&review)?;
    let spec = &review["spec"];
    let own = review["kind"] == "SelfSubjectAccessReview";
    let user = if own {
        Cow::Borrowed(&context.user)
    } else {
        Cow::Owned(subject(spec))
    };
    let decision = context.state.authorizer.authorize(&user, &attributes(spec));
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    // RBAC rules have no selectors; errors in them are reported all the same.
    let ignored = selectors::ignored(&spec["resourceAttributes"]);
    if !ignored.is_empty() {
        status["evaluationError"] = ignored.into();
    }
    review["status"] = status;
    Ok(review)
}

/// The user of a review, without implied groups.
fn subject(spec: &Value) -> UserInfo {
    let extra = spec.entries("extra").into_iter();
    UserInfo {
        name: spec.text("user").to_owned(),
        uid: spec.text("uid").to_owned(),
        groups: spec.strings("groups"),
        extra: extra
            .map(|(key, values)| (key.to_owned(), values.strings("")))
            .collect(),
    }
}

/// The attributes of a review.
fn attributes(spec: &Value) -> Attributes<'_> {
    let resource = &spec["resourceAttributes"];
    if resource.is_object() {
        let text = |field: &str| resource[field].as_str().unwrap_or_default();
        let target = ResourceAttributes {
            group: text("group"),
            plural: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
        };
        return Attributes::on(text("verb"), target);
    }
    let text = |field: &str| {
        spec["nonResourceAttributes"][field]
            .as_str()
            .unwrap_or_default()
    };
    Attributes {
        verb: text("verb").into(),
        target: Target::Path(text("path").into()),
    }
}

/// SelfSubjectRulesReview: the rules of the user in a namespace. The response is a new object.
pub(in crate::virtual_kinds) fn rules(context: &Context, review: &Value) -> Result<Value, Status> {
    let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (rules, missing) = context
        .state
        .authorizer
        .with_policy(|policy| policy.rules_for(&context.user, namespace));
    let on_resources = rules.iter().filter(|rule| !rule.resources.is_empty());
    let on_paths = rules.iter().filter(|rule| !rule.urls.is_empty());
    let resource_rules: Vec<Value> = on_resources
        .map(|rule| {
            let urls = Vec::new();
            Rule {
                urls,
                ..rule.clone()
            }
            .write()
        })
        .collect();
    let path_rules: Vec<Value> = on_paths
        .map(|rule| {
            let (verbs, urls) = (rule.verbs.clone(), rule.urls.clone());
            Rule {
                verbs,
                urls,
                ..Rule::default()
            }
            .write()
        })
        .collect();
    let mut status = json!({
        "resourceRules": resource_rules,
        "nonResourceRules": path_rules,
        "incomplete": false,
    });
    if !missing.is_empty() {
        status["evaluationError"] = missing_roles(&missing).into();
    }
    Ok(json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "metadata": {},
        "spec": {},
        "status": status,
    }))
}
