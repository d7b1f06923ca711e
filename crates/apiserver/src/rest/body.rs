//! Reading and decoding bodies.

use bytes::{Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use machinery::json;
use machinery::status::Status;
use serde_json::Value;

use super::context::Context;
use crate::negotiate::{JSON, OBJECT_BODIES, PROTOBUF, YAML};
use crate::request::FieldValidation;
use crate::resource::Resource;

/// Largest body that is read.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// A body and how it is written.
pub(crate) struct Content {
    /// Media type without parameters.
    pub(crate) media_type: String,
    /// The bytes.
    pub(crate) bytes: Bytes,
}

/// How much of a body over the limit is read and dropped, so that a client that writes first and
/// reads then gets to see the answer.
const DRAIN_LIMIT: usize = 64 * 1024 * 1024;

/// Reads a whole body, at most [`BODY_LIMIT`] bytes of it.
pub(crate) async fn read_limited<B>(body: B) -> Result<Bytes, Status>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    tokio::pin!(body);
    let mut bytes = BytesMut::new();
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Status::bad_request(format!("reading the request body: {}", error.into()))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        total += data.len();
        if total <= BODY_LIMIT {
            bytes.extend_from_slice(&data);
        } else if total > DRAIN_LIMIT {
            break;
        }
    }
    if total > BODY_LIMIT {
        Err(Status::too_large(BODY_LIMIT))
    } else {
        Ok(bytes.freeze())
    }
}

/// Decodes the body of a POST or PUT into an object of the resource's kind.
pub(crate) fn decode_object(
    context: &Context,
    resource: &Resource,
    content: &Content,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let gvk = &resource.info.gvk;
    let unrecognised = |why: &str| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            gvk.kind,
            summary(&content.bytes)
        ))
    };
    let (mut raw, mut findings) = match content.media_type.as_str() {
        JSON => {
            let decoded = json::decode(&content.bytes).map_err(|error| {
                // Numbers no float can hold are found only when the type is known.
                if error
                    .to_string()
                    .starts_with("json: cannot unmarshal number")
                {
                    return misfit(&gvk.kind, &gvk.version, &gvk.kind, &error.to_string());
                }
                unrecognised(&format!(
                    "couldn't get version/kind; json parse error: {error}"
                ))
            })?;
            (decoded.value, strict_findings(&decoded.duplicates, &[]))
        }
        YAML => {
            let decoded = json::decode_yaml(&content.bytes)
                .map_err(|error| unrecognised(&error.to_string()))?;
            (
                decoded.value,
                yaml_findings(decoded.strict_error.as_deref()),
            )
        }
        PROTOBUF if resource.custom.is_none() => {
            let object =
                crate::types::decode_protobuf(&content.bytes, Some(gvk)).map_err(|error| {
                    // no kind "K" is registered for version "V"
                    let mut quoted = error.split('"').skip(1).step_by(2);
                    match (error.starts_with("no kind "), quoted.next(), quoted.next()) {
                        (true, Some(kind), Some(version)) => {
                            let version = version.rsplit('/').next().unwrap_or_default();
                            let scheme = "in scheme \"pkg/api/legacyscheme/scheme.go:30\"";
                            misfit(kind, version, &gvk.kind, &format!("{error} {scheme}"))
                        }
                        _ => unrecognised(&error),
                    }
                })?;
            (object, Vec::new())
        }
        _ => return Err(Status::unsupported_media_type(&OBJECT_BODIES)),
    };
    let Some(fields) = raw.as_object_mut() else {
        let why = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of \
             type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}",
            json::go_type(&raw)
        );
        return Err(unrecognised(&why));
    };
    let text = |fields: &serde_json::Map<String, Value>, name: &str| {
        fields
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (mut api_version, mut kind) = (text(fields, "apiVersion"), text(fields, "kind"));
    if resource.custom.is_some() {
        if kind.is_empty() {
            let shown = String::from_utf8_lossy(&content.bytes);
            return Err(unrecognised(&format!(
                "Object 'Kind' is missing in '{shown}'"
            )));
        }
        if api_version.is_empty() {
            let shown = String::from_utf8_lossy(&content.bytes);
            return Err(unrecognised(&format!(
                "Object 'apiVersion' is missing in '{shown}'"
            )));
        }
    } else {
        if api_version.is_empty() {
            api_version = resource.api_version();
            fields.insert("apiVersion".into(), api_version.clone().into());
        }
        if kind.is_empty() {
            kind.clone_from(&gvk.kind);
            fields.insert("kind".into(), kind.clone().into());
        }
    }
    let version = api_version
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let unfit = |why: &str| misfit(&kind, &version, &gvk.kind, why);
    let unknown_kind = || {
        format!(
            "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            json::go_quote(&kind),
            json::go_quote(&api_version)
        )
    };
    let known = context.state.knows_kind(&api_version, &kind);
    if resource.custom.is_none() && !known {
        return Err(unfit(&unknown_kind()));
    }
    if api_version != resource.api_version() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    if resource.custom.is_none() && kind != gvk.kind {
        let why = format!(
            "converting (v1.{kind}) to (core.{}): unknown conversion",
            gvk.kind
        );
        return Err(unfit(&why));
    }
    let decoded = resource.strategy.decode(raw).map_err(|why| unfit(&why))?;
    context.warn_all(decoded.warnings);
    findings.extend(strict_findings(&[], &decoded.unknown));
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => context.warn_all(findings),
        FieldValidation::Strict if findings.is_empty() => {}
        FieldValidation::Strict => {
            return Err(unfit(&format!(
                "strict decoding error: {}",
                findings.join(", ")
            )));
        }
    }
    Ok(decoded.object)
}

/// A body whose type is known and does not do.
fn misfit(kind: &str, version: &str, expected: &str, why: &str) -> Status {
    let version = json::go_quote(version);
    Status::bad_request(format!(
        "{kind} in version {version} cannot be handled as a {expected}: {why}"
    ))
}

/// What the YAML reader has to say about keys given twice: a heading, then a line for each.
pub(crate) fn yaml_findings(text: Option<&str>) -> Vec<String> {
    text.into_iter()
        .flat_map(|text| text.lines().skip(1))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// What a strict decoder finds, in its words.
pub(crate) fn strict_findings(duplicates: &[String], unknown: &[String]) -> Vec<String> {
    let quoted = |what: &str, path: &String| format!("{what} field {}", json::go_quote(path));
    duplicates
        .iter()
        .map(|path| quoted("duplicate", path))
        .chain(unknown.iter().map(|path| quoted("unknown", path)))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The start of a body, for messages (`summarizeData`).
fn summary(bytes: &[u8]) -> String {
    const MOST: usize = 30;
    let cut = bytes.len() > MOST;
    let head = &bytes[..bytes.len().min(MOST)];
    let shown = match head.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => hex(head),
    };
    if cut { format!("{shown} ...") } else { shown }
}
