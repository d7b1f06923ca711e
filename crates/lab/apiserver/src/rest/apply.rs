//! Server-side apply of an object or of its status.

use http::{Response, StatusCode};
use machinery::json;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;

use super::body::{Content, yaml_findings};
use super::context::Context;
use super::create::{create_object, match_namespace, wipe_system_fields};
use super::ownership::Ownership;
use super::represent::object_response;
use super::update::{Changed, UpdateJob, check_name, update_object};
use crate::kind::Part;
use crate::request::{FieldValidation, WriteKind, WriteOptions};
use crate::resource::Resource;
use crate::respond::Body;

/// A configuration to apply.
struct Config {
    object: Value,
    /// The YAML parser's errors about duplicate keys.
    strict_error: Option<String>,
}

/// Applies a configuration; a missing object is created.
pub(super) async fn apply(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    name: &str,
    part: Part<'_>,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&context.query, WriteKind::Apply)?;
    let config = read(content)?;
    let ownership = Ownership::new(context, resource, &options.field_manager, part);
    // A closure, because a lost race merges again with the new live object; conflicts are then
    // found against that one.
    let merged = |live: Option<&Value>| {
        let merged = ownership.apply(context, resource, live, &config.object, options.force)?;
        // Duplicate keys are reported after conflicts, as upstream.
        report_duplicates(context, &config, options.field_validation)?;
        let mut object = resource.strategy.decode_applied(merged).map_err(|why| {
            Status::plain_500(format!("failed to convert the merged object: {why}"))
        })?;
        resource.strategy.default(&mut object);
        Ok::<_, Status>(object)
    };
    let exists = context
        .state
        .store
        .get(&resource.key(namespace, name))
        .is_some();
    if !exists {
        // Subresources do not create objects.
        if part != Part::Main {
            return Err(resource.not_found(name));
        }
        let object = new_object(resource, namespace, name, merged(None)?)?;
        // A PATCH is authorized as `patch`; creating through it needs `create` as well, as in
        // `handlers/patch.go`.
        context.authorize_creation()?;
        let created = create_object(context, resource, namespace, object, options.dry_run).await?;
        return object_response(context, resource, StatusCode::CREATED, created);
    }
    let job = UpdateJob::new(resource, namespace, name, part, options.dry_run).requested();
    let change = |live: &Value| {
        let mut object = merged(Some(live))?;
        match_namespace(resource, namespace, &mut object)?;
        // The name of an existing object may be omitted.
        if !meta::name(&object).is_empty() {
            check_name(name, &object)?;
        }
        Ok(Changed { object })
    };
    let updated = update_object(context, &job, &change).await?;
    updated.response(context, resource)
}

fn read(content: &Content) -> Result<Config, Status> {
    let decoded = json::decode_yaml(&content.bytes).map_err(|why| {
        Status::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: {why}"
        ))
    })?;
    if decoded.value.is_null() {
        // An empty body decodes to an object without type.
        return Err(Status::bad_request("invalid object type: /, Kind="));
    }
    if !decoded.value.is_object() {
        return Err(Status::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal \
             {} into Go value of type map[string]interface {{}}",
            json::go_type(&decoded.value)
        )));
    }
    Ok(Config {
        object: decoded.value,
        strict_error: decoded.strict_error,
    })
}

fn report_duplicates(
    context: &Context,
    config: &Config,
    validation: FieldValidation,
) -> Result<(), Status> {
    let Some(text) = config.strict_error.as_deref() else {
        return Ok(());
    };
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => context.warn_all(yaml_findings(Some(text))),
        FieldValidation::Strict => {
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {text}"
            )));
        }
    }
    Ok(())
}

/// Validation and initialization of a new object.
fn new_object(
    resource: &Resource,
    namespace: &str,
    name: &str,
    mut object: Value,
) -> Result<Value, Status> {
    let uid = meta::uid(&object);
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&resource.group_resource(), name, &why));
    }
    match_namespace(resource, namespace, &mut object)?;
    check_name(name, &object)?;
    meta::remove(&mut object, "resourceVersion");
    wipe_system_fields(&mut object);
    Ok(object)
}
