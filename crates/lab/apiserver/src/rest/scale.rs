//! The scale subresource (`autoscaling/v1 Scale`).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Response, StatusCode};
use jiff::Timestamp;
use machinery::apply::{self, FieldSet, PathElement, ScaleHandler, Schema, TypeRef, Versions};
use machinery::field::{FieldError, Path};
use machinery::gvk::GroupVersionKind;
use machinery::json;
use machinery::jsonpath::SimplePath;
use machinery::meta;
use machinery::patch::{JsonPatch, decode_merge_patch, merge_patch};
use machinery::status::Status;
use machinery::table::{Column, IncludeObject, Row, Table};
use machinery::time::age;
use serde_json::{Value, json};

use super::body::Content;
use super::context::Context;
use super::patch::{APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH};
use super::represent::{include_object, respond_shaped, set_version};
use super::update::{Changed, Lens, UpdateJob, update_object};
use crate::builtin::labels;
use crate::kind::{Part, ScalePaths};
use crate::negotiate::{Representation, Shape};
use crate::request::{Verb, WriteKind, WriteOptions};
use crate::resource::Resource;
use crate::respond::{self, Body};
use crate::types;

/// The version of all scales.
const SCALE_VERSION: &str = "autoscaling/v1";

/// GET, PUT and PATCH of `/scale`.
pub(crate) async fn scale(
    context: &Context,
    resource: &Resource,
    paths: &ScalePaths,
    namespace: &str,
    name: &str,
    content: &Content,
) -> Result<Response<Body>, Status> {
    // Before the write: an unsupported representation must not lead to one.
    let representation = context.representation(resource)?;
    let entry = context.entry(resource, namespace, name)?;
    let live = resource.read(&entry)?;
    if context.info.verb == Verb::Get {
        let scale = scale_of(resource, paths, &live);
        return answer(context, resource, scale, representation);
    }
    let kind = match (context.info.verb, content.media_type.as_str()) {
        (Verb::Update, _) => WriteKind::Update,
        (_, APPLY_PATCH) => WriteKind::Apply,
        _ => WriteKind::Patch,
    };
    let options = WriteOptions::parse(&context.query, kind)?;
    let write = ScaleWrite {
        context,
        resource,
        paths,
        content,
        options: &options,
        manager: context.manager(&options.field_manager),
    };
    let part = Part::Other("scale");
    let job = UpdateJob {
        lens: Some(&write),
        ..UpdateJob::new(resource, namespace, name, part, options.dry_run).requested()
    };
    let updated = update_object(context, &job, &|live| write.change(live))
        .await?
        .into_object(resource)?;
    let scale = scale_of(resource, paths, &updated);
    answer(context, resource, scale, representation)
}

/// A scale in the requested form. It has its own table, not that of the kind.
fn answer(
    context: &Context,
    resource: &Resource,
    scale: Value,
    representation: Representation,
) -> Result<Response<Body>, Status> {
    if representation.shape != Shape::Table {
        return respond_shaped(context, resource, StatusCode::OK, scale, representation);
    }
    let include = include_object(context)?;
    let mut table = scale_table(&scale, resource.custom.is_some(), include, context.now);
    set_version(&mut table, representation);
    let form = context.form(representation);
    Ok(respond::value(StatusCode::OK, &table, form))
}

/// The table of a scale. For custom resources the name column is marked as a name, and zeros are
/// omitted.
fn scale_table(scale: &Value, custom: bool, include: IncludeObject, now: Timestamp) -> Value {
    let replicas = |part: &str| match scale[part].get("replicas") {
        Some(replicas) => replicas.clone(),
        None if custom => Value::Null,
        None => 0.into(),
    };
    let created = scale.pointer("/metadata/creationTimestamp");
    let cells = vec![
        meta::name(scale).into(),
        replicas("spec"),
        replicas("status"),
        age(created.and_then(Value::as_str), now).into(),
    ];
    let name = Column::object_name();
    let table = Table {
        columns: vec![
            if custom { name } else { name.with_format("") },
            Column::new("Desired", "integer", "How many replicas there should be"),
            Column::new("Available", "integer", "How many replicas there are"),
            Column::age(),
        ],
        rows: vec![Row::new(cells, scale, include)],
        resource_version: meta::resource_version(scale).to_owned(),
        ..Table::default()
    };
    table.into_value()
}

/// A write to a scale, which is retried when it loses a race.
struct ScaleWrite<'a> {
    context: &'a Context,
    resource: &'a Resource,
    paths: &'a ScalePaths,
    content: &'a Content,
    options: &'a WriteOptions,
    manager: String,
}

impl Lens for ScaleWrite<'_> {
    fn kind(&self) -> GroupVersionKind {
        GroupVersionKind::new("autoscaling", "v1", "Scale")
    }

    fn show(&self, object: &Value) -> Value {
        scale_of(self.resource, self.paths, object)
    }

    fn put(&self, live: &Value, after: &Value) -> Result<Value, Status> {
        let internal = |why: &dyn std::fmt::Display| Status::internal(&why.to_string());
        let path = self.path()?;
        let owners = self.owners(live, &path)?;
        let replicas = checked_replicas(self.resource, after)?;
        let mut object = live.clone();
        // A scale without a version applies to any version.
        let version = meta::resource_version(after);
        if !version.is_empty() {
            meta::set_resource_version(&mut object, version);
        }
        if !path.set(&mut object, replicas.into()) {
            let why = format!("{} is not inside objects", self.paths.spec_replicas);
            return Err(internal(&why));
        }
        let fields = owners
            .to_parent(after.pointer("/metadata/managedFields"))
            .map_err(|error| internal(&error))?;
        match fields {
            Some(fields) => meta::set(&mut object, "managedFields", fields),
            None => {
                meta::remove(&mut object, "managedFields");
            }
        }
        Ok(object)
    }
}

impl ScaleWrite<'_> {
    /// The scale after the request.
    fn change(&self, live: &Value) -> Result<Changed, Status> {
        let owners = self.owners(live, &self.path()?)?;
        let mut before = self.show(live);
        if let Some(fields) = owners.to_subresource() {
            meta::set(&mut before, "managedFields", fields);
        }
        let object = self.changed_scale(&before)?;
        Ok(Changed { object })
    }

    /// The path of the replicas.
    fn path(&self) -> Result<SimplePath, Status> {
        SimplePath::parse(&self.paths.spec_replicas)
            .map_err(|error| Status::internal(&error.to_string()))
    }

    /// The owners of the replicas, in the object and in the scale.
    fn owners(&self, live: &Value, path: &SimplePath) -> Result<ScaleHandler, Status> {
        let elements: Vec<PathElement> = path.fields().map(PathElement::field).collect();
        let own = self.resource.api_version();
        let paths = BTreeMap::from([(own.clone(), Some(elements))]);
        ScaleHandler::new(live.pointer("/metadata/managedFields"), &own, paths)
            .map_err(|error| Status::internal(&error.to_string()))
    }

    fn tracking<'a>(&'a self, reset: &'a FieldSet) -> apply::Request<'a> {
        apply::Request {
            versions: &ScaleVersions,
            manager: &self.manager,
            api_version: SCALE_VERSION,
            kind: "Scale",
            subresource: "scale",
            reset,
            now: self.context.now,
        }
    }

    /// The requested scale, with its new owners.
    fn changed_scale(&self, before: &Value) -> Result<Value, Status> {
        let bytes = &self.content.bytes;
        // The status of a scale belongs to the controller; a client that sends it back does not own
        // it.
        let reset = FieldSet::of_fields(&["status"]);
        let mut scale = before.clone();
        match (self.context.info.verb, self.content.media_type.as_str()) {
            (Verb::Update, _) => {
                scale = self.put_scale()?;
                if scale.pointer("/metadata/managedFields").is_none()
                    && let Some(fields) = before.pointer("/metadata/managedFields")
                {
                    meta::set(&mut scale, "managedFields", fields.clone());
                }
            }
            (_, JSON_PATCH) => {
                scale = JsonPatch::decode(bytes, false)
                    .and_then(|patch| patch.apply(scale))
                    .map_err(|error| error.status())?;
            }
            // A scale has no lists: strategic merge and merge patch are the same here.
            (_, MERGE_PATCH | STRATEGIC_PATCH) => decode_merge_patch(bytes, false)
                .and_then(|patch| merge_patch(&mut scale, &patch.value))
                .map_err(|error| error.status())?,
            (_, APPLY_PATCH) => {
                let config = json::decode_yaml(bytes).map_err(|why| {
                    Status::bad_request(format!(
                        "error decoding YAML: error converting YAML to JSON: {why}"
                    ))
                })?;
                let request = self.tracking(&reset);
                let applied =
                    apply::apply(&request, Some(before), &config.value, self.options.force)
                        .map_err(Status::from)?;
                if self.resource.custom.is_some() {
                    // Upstream's converter for custom resources does not know the kind.
                    return Err(Status::plain_500(format!(
                        "failed to convert new object (/{}; {SCALE_VERSION}, Kind=Scale) to proper \
                         version: request to convert CR to an invalid group/version: {SCALE_VERSION}",
                        meta::name(before)
                    )));
                }
                return Ok(applied);
            }
            _ => {
                let known = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH];
                return Err(Status::unsupported_media_type(&known));
            }
        }
        apply::update(&self.tracking(&reset), Some(before), &mut scale);
        Ok(scale)
    }

    fn put_scale(&self) -> Result<Value, Status> {
        self.content.document(|why| {
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type Scale): {why}"
            ))
        })
    }
}

/// The one version of `Scale`.
struct ScaleVersions;

impl Versions for ScaleVersions {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        let scale = types::table().kind("autoscaling", "v1", "Scale")?;
        (api_version == SCALE_VERSION).then(|| (types::merge_schema(), types::merge_type(scale)))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        (api_version == SCALE_VERSION).then(|| object.clone())
    }
}

/// The scale of an object.
fn scale_of(resource: &Resource, paths: &ScalePaths, object: &Value) -> Value {
    let find = |path: &str| {
        SimplePath::parse(path)
            .ok()
            .and_then(|path| path.get(object).cloned())
    };
    let number = |path: &str| {
        find(path)
            .and_then(|value| value.as_i64())
            .unwrap_or_default()
    };
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if let Some(path) = &paths.label_selector {
        let selector = match find(path) {
            Some(Value::String(text)) => text,
            Some(selector @ Value::Object(_)) => selector_text(resource, &selector),
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
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn selector_text(resource: &Resource, selector: &Value) -> String {
    // The only kind whose selector is a plain map.
    let selector = match resource.info.gvk.kind.as_str() {
        "ReplicationController" => json!({"matchLabels": selector}),
        _ => selector.clone(),
    };
    labels::format(&selector).unwrap_or_default()
}

fn checked_replicas(resource: &Resource, scale: &Value) -> Result<i64, Status> {
    let name = meta::name(scale);
    let replicas = match scale.pointer("/spec/replicas") {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().ok_or_else(|| {
            Status::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal {} into Go \
                 struct field ScaleSpec.spec.replicas of type int32",
                json::go_type(value)
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
            (
                resource.info.gvk.group.as_str(),
                resource.info.gvk.kind.as_str(),
            )
        } else {
            ("autoscaling", "Scale")
        };
        return Err(Status::invalid_as(group, kind, name, &[error]));
    }
    Ok(replicas)
}
