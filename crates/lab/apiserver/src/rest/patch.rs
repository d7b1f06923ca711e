//! PATCH: JSON patch, merge patch and strategic merge patch; apply has its own module.

use http::Response;
use machinery::field::{FieldError, Path};
use machinery::json;
use machinery::meta;
use machinery::patch::{
    JsonPatch, PatchError, decode_merge_patch, decode_strategic_patch, go_print, merge_patch,
    strategic_merge_patch,
};
use machinery::status::{Details, Status};
use serde_json::Value;

use super::apply::apply;
use super::body::{Content, strict_findings};
use super::context::Context;
use super::create::match_namespace;
use super::ownership::Ownership;
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
    if content.media_type == APPLY_PATCH {
        return apply(context, resource, namespace, name, part, content).await;
    }
    let options = WriteOptions::parse(&context.query, WriteKind::Patch)?;
    let strict = options.field_validation != FieldValidation::Ignore;
    let edit = Edit::read(content, strict).map_err(|error| error.status())?;
    let ownership = Ownership::new(context, resource, &options.field_manager, part);
    let job = UpdateJob::new(resource, namespace, name, part, options.dry_run).requested();
    let change = |live: &Value| {
        let mut object = edited(context, resource, live, &edit, options.field_validation)?;
        // Defaults before ownership: a field that the patch removed and the default restores counts
        // as unchanged.
        resource.strategy.default(&mut object);
        ownership.update(context, resource, Some(live), &mut object);
        match_namespace(resource, namespace, &mut object)?;
        check_name(name, &object)?;
        Ok(Changed { object })
    };
    let updated = update_object(context, &job, &change).await?;
    updated.response(context, resource)
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
        // No route accepts it.
        let status = Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        return Err(status.with_details(Details::default()));
    }
    Err(Status::unsupported_media_type(&known))
}

/// A parsed patch, and the strict decoding errors of its text.
struct Edit {
    kind: EditKind,
    findings: Vec<String>,
}

enum EditKind {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

impl Edit {
    fn read(content: &Content, strict: bool) -> Result<Self, PatchError> {
        Ok(match content.media_type.as_str() {
            JSON_PATCH => {
                let patch = JsonPatch::decode(&content.bytes, strict)?;
                Self {
                    findings: patch.findings.clone(),
                    kind: EditKind::Json(patch),
                }
            }
            STRATEGIC_PATCH => {
                let decoded = decode_strategic_patch(&content.bytes)?;
                let findings = strict_findings(&decoded.duplicates, &[]);
                Self {
                    findings,
                    kind: EditKind::Strategic(decoded.value),
                }
            }
            _ => {
                let decoded = decode_merge_patch(&content.bytes, strict)?;
                let findings = strict_findings(&decoded.duplicates, &[]);
                Self {
                    findings,
                    kind: EditKind::Merge(decoded.value),
                }
            }
        })
    }

    /// The patched object, not decoded yet.
    fn make(&self, resource: &Resource, live: &Value) -> Result<Value, Status> {
        let made = match (&self.kind, resource.strategy.strategic()) {
            (EditKind::Json(patch), _) => patch.apply(live.clone()),
            (EditKind::Merge(patch), _) => {
                let mut made = live.clone();
                merge_patch(&mut made, patch).map(|()| made)
            }
            (EditKind::Strategic(patch), Some(kind)) => strategic_merge_patch(live, patch, kind),
            // Rejected before by its media type.
            (EditKind::Strategic(_), None) => Ok(live.clone()),
        };
        made.map_err(|error| error.status())
    }

    /// The error for an invalid result. It contains the result, or the patch itself where upstream
    /// has nothing else; the result is computed again, as errors are rare.
    fn refused(&self, resource: &Resource, live: &Value, why: &str) -> Status {
        let (shown, why) = match &self.kind {
            EditKind::Strategic(patch) => (go_print(patch), converter_words(why)),
            _ => match self.make(resource, live) {
                Ok(made) => (json::to_string(&made), why.to_owned()),
                Err(status) => return status,
            },
        };
        let error = FieldError::invalid(&Path::new("patch"), shown, why);
        Status::invalid_as("", "", "", &[error])
    }
}

/// Applies a patch and decodes the result.
fn edited(
    context: &Context,
    resource: &Resource,
    live: &Value,
    edit: &Edit,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let made = edit.make(resource, live)?;
    let refused = |why: &str| edit.refused(resource, live, why);
    if !made.is_object() {
        return Err(refused("json: the patched document is not an object"));
    }
    if resource.custom.is_none() {
        same_type(context, resource, &made).map_err(|why| refused(&why))?;
    }
    let decoded = resource
        .strategy
        .decode(made)
        .map_err(|why| refused(&why))?;
    context.warn_all(decoded.warnings);
    let mut findings = edit.findings.clone();
    findings.extend(strict_findings(&[], &decoded.unknown));
    match validation {
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

/// A patch must not change the kind of an object.
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

/// A strategic merge is converted rather than decoded, and the converter's type errors are shorter.
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
