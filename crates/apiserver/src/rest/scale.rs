//! The scale subresource: one number in front of many kinds (`autoscaling/v1 Scale`).

use http::{Response, StatusCode};
use machinery::apply::scale as scale_fields;
use machinery::field::{FieldError, Path};
use machinery::json;
use machinery::jsonpath;
use machinery::meta;
use machinery::patch::{JsonPatch, decode_merge_patch, merge_patch};
use machinery::selector::LabelSelector;
use machinery::status::Status;
use serde_json::{Value, json};

use super::body::Content;
use super::context::Context;
use super::patch::{APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH};
use super::represent::ANY;
use super::update::{Changed, UpdateJob, update_object};
use crate::kind::{Part, ScalePaths};
use crate::negotiate::{JSON, OBJECT_BODIES, PROTOBUF, YAML};
use crate::request::{Verb, WriteKind, WriteOptions};
use crate::resource::Resource;
use crate::respond::{self, Body};

/// GET, PUT and PATCH of `/scale`.
pub(crate) async fn scale(
    context: &Context,
    resource: &Resource,
    paths: &ScalePaths,
    namespace: &str,
    name: &str,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let form = context.form(context.representation(ANY)?);
    let entry = context
        .state
        .store
        .get(&resource.key(namespace, name))
        .ok_or_else(|| resource.not_found(name))?;
    let live = resource.read(&entry)?;
    if context.info.verb == Verb::Get {
        return Ok(respond::value(StatusCode::OK, &scale_of(resource, paths, &live), form));
    }
    let kind = match (context.info.verb, content.media_type.as_str()) {
        (Verb::Update, _) => WriteKind::Update,
        (_, APPLY_PATCH) => WriteKind::Apply,
        _ => WriteKind::Patch,
    };
    let options = WriteOptions::parse(&context.query, kind)?;
    let manager = context.manager(&options.field_manager);
    let job = UpdateJob { resource, namespace, name, part: Part::Other("scale"), dry_run: options.dry_run };
    let change = |live: &Value| {
        let before = scale_of(resource, paths, live);
        let after = changed_scale(context, content, &before)?;
        let replicas = checked_replicas(resource, &after)?;
        let mut object = live.clone();
        if let Some(version) = after.pointer("/metadata/resourceVersion") {
            meta::metadata_mut(&mut object).insert("resourceVersion".into(), version.clone());
        }
        jsonpath::set_simple(&mut object, &paths.spec_replicas, replicas.into())
            .map_err(|why| Status::internal(&why.to_string()))?;
        let changed = before.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0) != replicas;
        if changed {
            scale_fields::record(&mut object, &paths.spec_replicas, &manager, &resource.api_version());
        }
        Ok(Changed { object })
    };
    let updated = update_object(context, &job, &change).await?.into_object();
    Ok(respond::value(StatusCode::OK, &scale_of(resource, paths, &updated), form))
}

/// The scale that an object shows.
fn scale_of(resource: &Resource, paths: &ScalePaths, object: &Value) -> Value {
    let number = |path: &str| {
        jsonpath::get_simple(object, path).and_then(Value::as_i64).unwrap_or_default()
    };
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if let Some(path) = &paths.label_selector {
        let selector = match jsonpath::get_simple(object, path) {
            Some(Value::String(text)) => text.clone(),
            Some(selector @ Value::Object(_)) => {
                selector_text(resource, selector)
            }
            _ => String::new(),
        };
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
    }
    let mut spec = json!({});
    let replicas = number(&paths.spec_replicas);
    if replicas != 0 {
        spec["replicas"] = replicas.into();
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn selector_text(resource: &Resource, selector: &Value) -> String {
    if resource.info.gvk.kind == "ReplicationController" {
        // The one kind whose selector is a plain map.
        return LabelSelector::from_label_selector_object(&json!({"matchLabels": selector}))
            .map(|selector| selector.to_string())
            .unwrap_or_default();
    }
    LabelSelector::from_label_selector_object(selector)
        .map(|selector| selector.to_string())
        .unwrap_or_default()
}

/// The scale the request asks for.
fn changed_scale(context: &Context, content: &Content, before: &Value) -> Result<Value, Status> {
    let unreadable = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type Scale): {why}"
        ))
    };
    if context.info.verb == Verb::Update {
        let given = match content.media_type.as_str() {
            JSON => json::decode(&content.bytes).map_err(|error| unreadable(error.to_string()))?.value,
            YAML => json::decode_yaml(&content.bytes).map_err(|error| unreadable(error.to_string()))?.value,
            PROTOBUF => crate::types::decode_protobuf(&content.bytes).map_err(unreadable)?,
            _ => return Err(Status::unsupported_media_type(&OBJECT_BODIES)),
        };
        return Ok(given);
    }
    let mut scale = before.clone();
    match content.media_type.as_str() {
        JSON_PATCH => JsonPatch::decode(&content.bytes)
            .and_then(|patch| patch.apply(&mut scale))
            .map_err(|error| error.status())?,
        // A scale has no lists: strategic merge and merge patch are the same here.
        MERGE_PATCH | STRATEGIC_PATCH => {
            let patch = decode_merge_patch(&content.bytes).map_err(|error| error.status())?;
            merge_patch(&mut scale, &patch.value);
        }
        APPLY_PATCH => {
            let applied = json::decode_yaml(&content.bytes)
                .map_err(|why| Status::bad_request(format!("error decoding YAML: {why}")))?;
            merge_patch(&mut scale, &applied.value);
        }
        _ => {
            return Err(Status::unsupported_media_type(&[
                JSON_PATCH,
                MERGE_PATCH,
                STRATEGIC_PATCH,
                APPLY_PATCH,
            ]));
        }
    }
    Ok(scale)
}

fn checked_replicas(resource: &Resource, scale: &Value) -> Result<i64, Status> {
    let name = meta::name(scale);
    let replicas = match scale.pointer("/spec/replicas") {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().ok_or_else(|| {
            Status::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal {} into Go \
                 struct field ScaleSpec.spec.replicas of type int32",
                super::body::go_type_name(value)
            ))
        })?,
    };
    if replicas < 0 {
        let custom = resource.custom.is_some();
        let (path, why) = if custom {
            (".spec.replicas", "should be a non-negative integer")
        } else {
            ("spec.replicas", "must be greater than or equal to 0")
        };
        let error = FieldError::invalid(&Path::new(path), replicas, why);
        let (group, kind) = if custom {
            (resource.info.gvk.group.as_str(), resource.info.gvk.kind.as_str())
        } else {
            ("autoscaling", "Scale")
        };
        return Err(Status::invalid_as(group, kind, name, &[error]));
    }
    Ok(replicas)
}
