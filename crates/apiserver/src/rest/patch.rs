//! PATCH: JSON patch, merge patch, strategic merge patch, apply.

use http::{Response, StatusCode};
use machinery::field::{FieldError, Path};
use machinery::json;
use machinery::meta;
use machinery::patch::{
    JsonPatch, decode_merge_patch, decode_strategic_patch, go_print, merge_patch,
    strategic_merge_patch,
};
use machinery::status::{Details, Status};
use serde_json::Value;

use super::body::{Content, strict_findings, yaml_findings};
use super::context::Context;
use super::create::{create_object, fill_system_fields, match_namespace};
use super::ownership::Ownership;
use super::represent::object_response;
use super::update::{Changed, UpdateJob, check_name, update_object};
use crate::kind::Part;
use crate::request::{FieldValidation, WriteKind, WriteOptions};
use crate::resource::Resource;
use crate::respond::Body;

/// Media type of RFC 6902.
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
/// Media type of RFC 7396.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
/// Media type of strategic merge.
pub(crate) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
/// Media type of server-side apply.
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A patch that has been read.
enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

/// A patch and what a strict reader has to say about its text.
struct ReadPatch {
    patch: Patch,
    /// In the words of the answer.
    findings: Vec<String>,
    /// What the YAML reader has to say about keys given twice.
    strict_error: Option<String>,
}

impl ReadPatch {
    fn new(patch: Patch, duplicates: &[String]) -> Self {
        Self {
            patch,
            findings: strict_findings(duplicates, &[]),
            strict_error: None,
        }
    }
}

/// PATCH of an object or of its status.
pub(crate) async fn patch(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    name: &str,
    part: Part<'_>,
    content: &Content,
) -> Result<Response<Body>, Status> {
    check_media_type(resource, &content.media_type)?;
    let applies = content.media_type == APPLY_PATCH;
    let kind = if applies {
        WriteKind::Apply
    } else {
        WriteKind::Patch
    };
    let options = WriteOptions::parse(&context.query, kind)?;
    let read = read_patch(content, options.field_validation)?;
    let ownership = Ownership::new(context, resource, &options.field_manager, part);
    let exists = context
        .state
        .store
        .get(&resource.key(namespace, name))
        .is_some();
    if !exists {
        let (Patch::Apply(config), Part::Main) = (&read.patch, part) else {
            return Err(resource.not_found(name));
        };
        let object = applied_new(
            context, resource, namespace, name, config, &ownership, &options,
        )?;
        strict_apply(context, &read, &options)?;
        let created = create_object(context, resource, namespace, object, options.dry_run).await?;
        return object_response(context, resource, StatusCode::CREATED, created);
    }
    let job = UpdateJob {
        resource,
        namespace,
        name,
        part,
        dry_run: options.dry_run,
        uid_is_precondition: false,
    };
    let change = |live: &Value| {
        let mut object = match &read.patch {
            Patch::Apply(config) => {
                let merged =
                    ownership.apply(context, resource, Some(live), config, options.force)?;
                strict_apply(context, &read, &options)?;
                let mut object = resource
                    .strategy
                    .decode_applied(merged)
                    .map_err(|why| undecodable(&why))?;
                resource.strategy.default(&mut object);
                object
            }
            other => {
                let mut object = patched(context, resource, live, other, &read.findings, &options)?;
                resource.strategy.default(&mut object);
                ownership.update(context, resource, Some(live), &mut object);
                object
            }
        };
        match_namespace(resource, namespace, &mut object)?;
        if !meta::name(&object).is_empty() || !applies {
            check_name(name, &object)?;
        }
        Ok(Changed { object })
    };
    let updated = update_object(context, &job, &change).await?;
    object_response(context, resource, StatusCode::OK, updated.into_object())
}

fn undecodable(why: &str) -> Status {
    Status::plain_500(format!("failed to convert the merged object: {why}"))
}

fn check_media_type(resource: &Resource, media_type: &str) -> Result<(), Status> {
    let mut known = vec![JSON_PATCH, MERGE_PATCH];
    if resource.strategy.strategic().is_some() {
        known.push(STRATEGIC_PATCH);
    }
    known.push(APPLY_PATCH);
    if known.contains(&media_type) {
        return Ok(());
    }
    if resource.custom.is_none() {
        // No route takes it.
        let status = Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        return Err(status.with_details(Details::default()));
    }
    Err(Status::unsupported_media_type(&known))
}

fn read_patch(content: &Content, validation: FieldValidation) -> Result<ReadPatch, Status> {
    let strict = validation != FieldValidation::Ignore;
    let as_status = |error: machinery::patch::PatchError| error.status();
    match content.media_type.as_str() {
        JSON_PATCH => {
            let patch = JsonPatch::decode(&content.bytes, strict).map_err(as_status)?;
            let findings = patch.findings.clone();
            Ok(ReadPatch {
                patch: Patch::Json(patch),
                findings,
                strict_error: None,
            })
        }
        MERGE_PATCH => {
            let decoded = decode_merge_patch(&content.bytes, strict).map_err(as_status)?;
            Ok(ReadPatch::new(
                Patch::Merge(decoded.value),
                &decoded.duplicates,
            ))
        }
        STRATEGIC_PATCH => {
            let decoded = decode_strategic_patch(&content.bytes).map_err(as_status)?;
            Ok(ReadPatch::new(
                Patch::Strategic(decoded.value),
                &decoded.duplicates,
            ))
        }
        _ => {
            let decoded = json::decode_yaml(&content.bytes).map_err(|why| {
                Status::bad_request(format!(
                    "error decoding YAML: error converting YAML to JSON: {why}"
                ))
            })?;
            if decoded.value.is_null() {
                // Nothing decodes to an object of no type.
                return Err(Status::bad_request("invalid object type: /, Kind="));
            }
            if !decoded.value.is_object() {
                return Err(Status::bad_request(format!(
                    "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
                     unmarshal {} into Go value of type map[string]interface {{}}",
                    json::go_type(&decoded.value)
                )));
            }
            Ok(ReadPatch {
                strict_error: decoded.strict_error,
                ..ReadPatch::new(Patch::Apply(decoded.value), &decoded.duplicates)
            })
        }
    }
}

/// Keys given twice in an apply body; found only after conflicts, as upstream does.
fn strict_apply(context: &Context, read: &ReadPatch, options: &WriteOptions) -> Result<(), Status> {
    let Some(text) = read.strict_error.as_deref() else {
        return Ok(());
    };
    match options.field_validation {
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

/// Applies a patch other than apply and decodes what comes out.
fn patched(
    context: &Context,
    resource: &Resource,
    live: &Value,
    patch: &Patch,
    findings: &[String],
    options: &WriteOptions,
) -> Result<Value, Status> {
    let mut raw = live.clone();
    let shown = match patch {
        Patch::Json(operations) => {
            operations.apply(&mut raw).map_err(|error| error.status())?;
            None
        }
        Patch::Merge(patch) => {
            merge_patch(&mut raw, patch).map_err(|error| error.status())?;
            None
        }
        Patch::Strategic(patch) => {
            let Some(kind) = resource.strategy.strategic() else {
                return Err(Status::plain_500(
                    "strategic merge is not supported for custom resources",
                ));
            };
            raw = strategic_merge_patch(live, patch, kind).map_err(|error| error.status())?;
            Some(go_print(patch))
        }
        Patch::Apply(_) => live.clone().to_string().into(),
    };
    let shown = shown.unwrap_or_else(|| json::to_string(&raw));
    let refused = |why: &str| {
        let error = FieldError::invalid(&Path::new("patch"), shown.as_str(), why);
        Status::invalid_as("", "", "", &[error])
    };
    if !raw.is_object() {
        return Err(refused("json: the patched document is not an object"));
    }
    if resource.custom.is_none() {
        same_type(context, resource, &raw).map_err(|why| refused(&why))?;
    }
    let strategic = matches!(patch, Patch::Strategic(_));
    let decoded = resource.strategy.decode(raw).map_err(|why| {
        refused(&if strategic {
            converter_words(&why)
        } else {
            why
        })
    })?;
    context.warn_all(decoded.warnings);
    let mut findings = findings.to_vec();
    findings.extend(strict_findings(&[], &decoded.unknown));
    match options.field_validation {
        FieldValidation::Warn => context.warn_all(findings),
        FieldValidation::Strict if !findings.is_empty() => {
            return Err(refused(&format!(
                "strict decoding error: {}",
                findings.join(", ")
            )));
        }
        _ => {}
    }
    Ok(decoded.object)
}

/// An apply that creates.
fn applied_new(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    name: &str,
    config: &Value,
    ownership: &Ownership,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let merged = ownership.apply(context, resource, None, config, options.force)?;
    let mut object = resource
        .strategy
        .decode_applied(merged)
        .map_err(|why| undecodable(&why))?;
    resource.strategy.default(&mut object);
    let uid = meta::uid(&object);
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&resource.group_resource(), name, &why));
    }
    match_namespace(resource, namespace, &mut object)?;
    if meta::name(&object).is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    check_name(name, &object)?;
    meta::remove(&mut object, "resourceVersion");
    fill_system_fields(&mut object, context);
    Ok(object)
}

/// A patch may not make another kind of an object.
fn same_type(context: &Context, resource: &Resource, object: &Value) -> Result<(), String> {
    let (api_version, kind) = (meta::api_version(object), meta::kind(object));
    if api_version == resource.api_version() && kind == resource.info.gvk.kind {
        return Ok(());
    }
    if context.state.knows_kind(api_version, kind) {
        let own = &resource.info.gvk.kind;
        let unfit = context.state.not_of_its_kind(object);
        return Err(unfit.unwrap_or_else(|| {
            format!("converting (v1.{kind}) to (core.{own}): unknown conversion")
        }));
    }
    Err(format!(
        "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        json::go_quote(kind),
        json::go_quote(api_version)
    ))
}

/// A strategic merge is converted rather than decoded, and the converter says less about types.
fn converter_words(why: &str) -> String {
    match why.rsplit_once(" of type ") {
        Some((_, name))
            if name.starts_with("int") || name == "bool" || name.starts_with("float") =>
        {
            format!("unrecognized type: {name}")
        }
        _ => why.to_owned(),
    }
}
