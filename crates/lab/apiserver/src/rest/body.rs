//! Bodies: reading and decoding.

use bytes::{Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use machinery::gvk::{GroupVersionKind, split_api_version};
use machinery::json;
use machinery::status::Status;
use serde_json::Value;

use super::context::Context;
use crate::negotiate::{JSON, OBJECT_BODIES, PROTOBUF, YAML};
use crate::request::FieldValidation;
use crate::resource::Resource;
use crate::types;

/// Maximum size of a body.
// `MaxRequestBodyBytes` in `apiserver/pkg/server/config.go`: twice the limit of etcd, because JSON
// is larger than the protobuf that upstream stores.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// A body and its media type.
pub(crate) struct Content {
    /// Media type without parameters.
    pub(crate) media_type: String,
    /// The bytes.
    pub(crate) bytes: Bytes,
}

impl Content {
    /// The document in the body, of any type; `unreadable` makes an error of the parser's.
    pub(crate) fn document(&self, unreadable: impl Fn(String) -> Status) -> Result<Value, Status> {
        match self.media_type.as_str() {
            JSON => match json::decode(&self.bytes) {
                Ok(decoded) => Ok(decoded.value),
                Err(error) => Err(unreadable(error.to_string())),
            },
            YAML => match json::decode_yaml(&self.bytes) {
                Ok(decoded) => Ok(decoded.value),
                Err(error) => Err(unreadable(error.to_string())),
            },
            PROTOBUF => types::decode_protobuf(&self.bytes, None).map_err(unreadable),
            _ => Err(Status::unsupported_media_type(&OBJECT_BODIES)),
        }
    }
}

/// How much of a body over the limit is read and dropped, so that a client that writes first and
/// reads afterwards gets the response.
const DRAIN_LIMIT: usize = 64 * 1024 * 1024;
/// Maximum bytes of the body of a rejected request that are drained, and for how long.
const IGNORED_LIMIT: usize = 256 << 10;
const IGNORED_TIME: std::time::Duration = std::time::Duration::from_secs(1);

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
        // Trailers have no meaning here.
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

/// Drains a little of an unused body (as much as Go's server does), so that the connection can be
/// reused. A slow client gets a new connection.
pub(crate) async fn drain<B>(body: B)
where
    B: HttpBody<Data = Bytes>,
{
    tokio::pin!(body);
    let all = async {
        let mut total = 0;
        while let Some(Ok(frame)) = body.frame().await {
            total += frame.data_ref().map_or(0, Bytes::len);
            if total > IGNORED_LIMIT {
                break;
            }
        }
    };
    // On timeout the connection is closed.
    let _ = tokio::time::timeout(IGNORED_TIME, all).await;
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
                let readable = type_of_unreadable(&content.bytes);
                match readable.filter(|_| resource.custom.is_some()) {
                    Some((version, kind)) => unfit(&version, &kind, &gvk.kind, error.message()),
                    None => unrecognised(&format!(
                        "couldn't get version/kind; json parse error: {error}"
                    )),
                }
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
            let object = types::decode_protobuf(&content.bytes, Some(gvk)).map_err(|error| {
                match types::unknown_protobuf_kind(&content.bytes, gvk) {
                    Some(given) => {
                        let why = unknown_kind(&given.api_version(), &given.kind);
                        unfit(&given.version, &given.kind, &gvk.kind, &why)
                    }
                    None => unrecognised(&error),
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
    let unfit = |why: &str| unfit(&version, &kind, &gvk.kind, why);
    let known = context.state.knows_kind(&api_version, &kind);
    if resource.custom.is_none() && !known {
        return Err(unfit(&unknown_kind(&api_version, &kind)));
    }
    if api_version != resource.api_version() {
        if resource.custom.is_some() && same_group_kind(gvk, &api_version, &kind) {
            // Without a schema for the version only the type and metadata are known.
            let known = ["apiVersion", "kind", "metadata"];
            let unknown: Vec<String> = fields
                .keys()
                .filter(|name| !known.contains(&name.as_str()))
                .cloned()
                .collect();
            findings.extend(strict_findings(&[], &unknown));
            report(context, validation, findings).map_err(|why| unfit(&why))?;
        }
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    if resource.custom.is_none() && kind != gvk.kind {
        let why = context.state.not_of_its_kind(&raw).unwrap_or_else(|| {
            format!(
                "converting (v1.{kind}) to (core.{}): unknown conversion",
                gvk.kind
            )
        });
        return Err(unfit(&why));
    }
    let decoded = resource.strategy.decode(raw).map_err(|why| unfit(&why))?;
    context.warn_all(decoded.warnings);
    findings.extend(strict_findings(&[], &decoded.unknown));
    report(context, validation, findings).map_err(|why| unfit(&why))?;
    Ok(decoded.object)
}

/// Reports strict decoding errors as the field validation requires.
fn report(
    context: &Context,
    validation: FieldValidation,
    findings: Vec<String>,
) -> Result<(), String> {
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            context.warn_all(findings);
            Ok(())
        }
        FieldValidation::Strict if findings.is_empty() => Ok(()),
        FieldValidation::Strict => Err(format!("strict decoding error: {}", findings.join(", "))),
    }
}

fn same_group_kind(gvk: &GroupVersionKind, api_version: &str, kind: &str) -> bool {
    let group = split_api_version(api_version).map(|(group, _)| group);
    group == Some(gvk.group.as_str()) && kind == gvk.kind
}

/// The error for an object of another kind.
fn unfit(version: &str, kind: &str, wanted: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "{kind} in version {} cannot be handled as a {wanted}: {why}",
        json::go_quote(version)
    ))
}

fn unknown_kind(api_version: &str, kind: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        json::go_quote(kind),
        json::go_quote(api_version)
    )
}

/// Version and kind of a document that failed to parse because of a number out of range; `None` for
/// invalid syntax.
fn type_of_unreadable(bytes: &[u8]) -> Option<(String, String)> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TypeMeta {
        api_version: String,
        kind: String,
    }
    let found: TypeMeta = serde_json::from_slice(bytes).ok()?;
    let version = found.api_version.rsplit('/').next().unwrap_or_default();
    Some((version.to_owned(), found.kind))
}

/// The YAML parser's errors about duplicate keys: a heading, then a line for each.
pub(crate) fn yaml_findings(text: Option<&str>) -> Vec<String> {
    text.into_iter()
        .flat_map(|text| text.lines().skip(1))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Strict decoding errors in Go's wording.
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
