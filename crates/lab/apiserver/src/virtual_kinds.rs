//! Virtual kinds, which are never stored: reviews, bindings, evictions, tokens.

mod binding;
mod eviction;
mod reviews;
mod token;

use std::sync::Arc;

use http::{Response, StatusCode};
use jiff::Timestamp;
use machinery::apply::{self, FieldSet, Schema, TypeRef, Versions};
use machinery::gvk::GroupVersionKind;
use machinery::json;
use machinery::status::Status;
use machinery::time::format_time;
use serde_json::{Value, json};

use crate::admission::{self, Attributes, Operation, Options, Target};
use crate::dispatch::no_such_method;
use crate::negotiate::Representation;
use crate::request::{ResourcePath, Verb, WriteKind, WriteOptions};
use crate::resource::Resource;
use crate::respond::{self, Body};
use crate::rest::{Content, Context};
use crate::subresources::Review;
use crate::types::{self, TypeId};

/// POST of a review, or of a binding by the deprecated path.
pub(crate) async fn review(
    context: &Context,
    review: Review,
    path: &ResourcePath,
    content: &Content,
) -> Result<Response<Body>, Status> {
    if context.info.verb != Verb::Create || !path.name.is_empty() {
        return Err(no_such_method());
    }
    let mut object = decode(review.group, review.kind, content)?;
    let asked = machinery::meta::name(&object).to_owned();
    if review.kind != "Binding" {
        own(context, review.group, review.kind, "", &mut object)?;
        if review.namespaced && machinery::meta::namespace(&object).is_empty() {
            machinery::meta::set_namespace(&mut object, &path.namespace);
        }
    }
    let target = Target {
        group: review.group,
        version: "v1",
        plural: review.plural,
        subresource: "",
        kind: GroupVersionKind::new(review.group, "v1", review.kind),
        resource: None,
        whole: true,
    };
    admitted(context, target, &path.namespace, &asked, &mut object).await?;
    match review.kind {
        "TokenReview" => Ok(answer(context, &reviews::token(context, object)?)),
        "SelfSubjectReview" => Ok(answer(context, &reviews::own_identity(context))),
        "SelfSubjectRulesReview" => Ok(answer(context, &reviews::access::rules(context, &object)?)),
        "Binding" => {
            let name = machinery::meta::name(&object).to_owned();
            binding::bind(context, &path.namespace, &name, &object).await
        }
        _ => Ok(answer(context, &reviews::access::access(context, object)?)),
    }
}

/// POST of a subresource.
pub(crate) async fn create_below(
    context: &Context,
    resource: &Resource,
    path: &ResourcePath,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let (namespace, name) = (path.namespace.as_str(), path.name.as_str());
    let (group, kind) = match path.subresource.as_str() {
        "binding" => ("", "Binding"),
        "eviction" => ("policy", "Eviction"),
        _ => ("authentication.k8s.io", "TokenRequest"),
    };
    let mut object = decode(group, kind, content)?;
    let below = GroupVersionKind::new(group, "v1", kind);
    let target = Target::below(resource, &path.subresource, below);
    admitted(context, target, namespace, name, &mut object).await?;
    match kind {
        "Binding" => binding::bind(context, namespace, name, &object).await,
        "Eviction" => eviction::evict(context, resource, namespace, name, &object).await,
        _ => {
            let issued = token::issue(context, resource, namespace, name, object)?;
            Ok(answer(context, &issued))
        }
    }
}

/// Runs admission for an object that is never stored; it counts as a create.
async fn admitted(
    context: &Context,
    target: Target<'_>,
    namespace: &str,
    name: &str,
    object: &mut Value,
) -> Result<(), Status> {
    let options = WriteOptions::parse(&context.query, WriteKind::Create)?;
    let attributes = Attributes {
        context,
        target,
        operation: Operation::Create,
        namespace,
        name,
        options: Options::Write("CreateOptions"),
        dry_run: options.dry_run,
    };
    // Although nothing is stored: policies guard evictions, bindings and token requests this way.
    admission::admit(&attributes, object, None).await?;
    admission::validate(&attributes, object, None).await
}

/// Records managed fields of an object that is only returned; upstream's create does so before it
/// knows that nothing will be stored.
fn own(
    context: &Context,
    group: &str,
    kind: &str,
    subresource: &str,
    object: &mut Value,
) -> Result<(), Status> {
    let options = WriteOptions::parse(&context.query, WriteKind::Create)?;
    let api_version = format!("{group}/v1");
    let Some(id) = types::table().kind(group, "v1", kind) else {
        return Ok(());
    };
    let request = apply::Request {
        versions: &OneVersion(id),
        manager: &context.manager(&options.field_manager),
        api_version: &api_version,
        kind,
        subresource,
        reset: &FieldSet::default(),
        now: context.now,
    };
    apply::update(&request, None, object);
    Ok(())
}

/// A kind with a single version.
struct OneVersion(TypeId);

impl Versions for OneVersion {
    fn merge_type(&self, _api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        Some((types::merge_schema(), types::merge_type(self.0)))
    }

    fn convert(&self, object: &Value, _api_version: &str) -> Option<Value> {
        Some(object.clone())
    }

    fn empty_object(&self, _api_version: &str) -> Option<Value> {
        types::decode_json(self.0, json!({}))
            .ok()
            .map(|decoded| decoded.object)
    }
}

fn answer(context: &Context, object: &Value) -> Response<Body> {
    let form = context.form(Representation::PLAIN);
    respond::value(StatusCode::CREATED, object, form)
}

/// The plain success status.
fn created(context: &Context) -> Response<Body> {
    let mut status = Status::success(machinery::status::Details::default());
    status.details = None;
    status.code = 201;
    respond::status(&status, context.form(Representation::PLAIN))
}

fn decode(group: &str, kind: &str, content: &Content) -> Result<Value, Status> {
    let refuse = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why}"
        ))
    };
    let mut object = content.document(refuse)?;
    let given = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or(kind)
        .to_owned();
    if !object.is_object() || given != kind {
        return Err(Status::bad_request(format!(
            "{given} in version \"v1\" cannot be handled as a {kind}: no kind {} is registered for this path",
            json::go_quote(&given)
        )));
    }
    object["kind"] = kind.into();
    let id = types::table()
        .kind(group, "v1", kind)
        .ok_or_else(|| Status::internal(&format!("{kind} is not in the table of types")))?;
    let decoded = types::decode_json(id, object).map_err(|why| {
        Status::bad_request(format!(
            "{kind} in version \"v1\" cannot be handled as a {kind}: {why}"
        ))
    })?;
    Ok(decoded.object)
}

/// Sets a condition of a pod; a condition that was true already keeps its time.
fn set_pod_condition(pod: &mut Value, mut condition: Value, now: Timestamp) {
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = format_time(now).into();
    let status = &mut pod["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    let Some(existing) = conditions
        .iter_mut()
        .find(|known| known["type"] == condition["type"])
    else {
        conditions.push(condition);
        return;
    };
    // As `UpdatePodCondition` does: the time says since when the condition has its status, not when
    // it was last written.
    if existing["status"] == condition["status"] {
        condition["lastTransitionTime"] = existing["lastTransitionTime"].clone();
    }
    *existing = condition;
}
