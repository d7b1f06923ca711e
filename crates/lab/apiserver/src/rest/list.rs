//! Lists in pages, each page from the same revision.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use bytes::Bytes;
use http::{Response, StatusCode};
use machinery::field::{FieldError, Path};
use machinery::json;
use machinery::status::Status;
use machinery::table::{Table, partial_object_metadata};
use serde_json::{Value, json};

use super::context::Context;
use super::represent::{go_list_type, include_object, set_version, table_of};
use super::selection::Selection;
use crate::negotiate::Shape;
use crate::request::{ListOptions, VersionMatch};
use crate::resource::Resource;
use crate::respond::{self, Body};
use crate::store::{Entry, StoreError};

/// Like Go's `base64.RawURLEncoding`, which ignores trailing bits.
const TOKEN: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// How long a read waits for a future revision.
// `blockTimeout` in `apiserver/pkg/storage/cacher/watch_cache.go`. In one process a version is
// never in the future, except for clients that carry it over from another server.
const FUTURE_VERSION_WAIT: Duration = Duration::from_secs(3);

/// One page of a collection.
pub(crate) struct Page {
    /// Its entries.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Damaged entries in its range. Selectors cannot be evaluated on them, so they match none.
    pub(crate) damaged: Vec<Arc<Entry>>,
    /// Its revision.
    pub(crate) revision: u64,
    /// Start of the next page, empty on the last.
    pub(crate) continue_token: String,
    /// Number of remaining entries, if known.
    pub(crate) remaining: Option<usize>,
}

/// GET of a collection.
pub(crate) async fn list(
    context: &Context,
    resource: &Resource,
    namespace: &str,
) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&context.query, false)?;
    let selection = Selection::parse(&options, resource)?;
    let representation = context.representation(resource)?;
    let page = page(context, resource, namespace, &options, &selection).await?;
    for entry in &page.damaged {
        context.warn(format!(
            "the stored object {:?} is damaged and left out; it can be deleted",
            entry.key
        ));
    }
    let form = context.form(representation);
    let mut metadata = serde_json::Map::new();
    metadata.insert("resourceVersion".into(), page.revision.to_string().into());
    if !page.continue_token.is_empty()
        // Lists of custom resources are unstructured in Go, and always have the field.
        || (resource.custom.is_some() && representation.shape == Shape::Object)
    {
        metadata.insert("continue".into(), page.continue_token.clone().into());
    }
    if let Some(remaining) = page.remaining {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }
    let metadata = Value::Object(metadata);
    match representation.shape {
        Shape::Object => {
            let body = list_bytes(resource, &page.entries, &metadata)?;
            Ok(respond::json_bytes(StatusCode::OK, body, form))
        }
        Shape::Table => {
            let include = include_object(context)?;
            let objects = read_all(resource, &page.entries)?;
            let table = Table {
                resource_version: page.revision.to_string(),
                continue_token: page.continue_token,
                remaining_item_count: page.remaining.and_then(|count| i64::try_from(count).ok()),
                ..table_of(resource, &objects, include, true, context.now)
            };
            let mut table = table.into_value();
            set_version(&mut table, representation);
            Ok(respond::value(StatusCode::OK, &table, form))
        }
        Shape::PartialMetadataList => {
            let items: Vec<Value> = read_all(resource, &page.entries)?
                .iter()
                .map(partial_object_metadata)
                .collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": representation.version,
                "metadata": metadata,
                "items": items,
            });
            Ok(respond::value(StatusCode::OK, &list, form))
        }
        Shape::PartialMetadata => Err(Status::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            go_list_type(resource)
        ))),
    }
}

fn read_all(resource: &Resource, entries: &[Arc<Entry>]) -> Result<Vec<Value>, Status> {
    entries.iter().map(|entry| resource.read(entry)).collect()
}

/// The list document, assembled from stored bytes where they can be sent unchanged.
fn list_bytes(
    resource: &Resource,
    entries: &[Arc<Entry>],
    metadata: &Value,
) -> Result<Bytes, Status> {
    let size: usize = entries.iter().map(|entry| entry.value.len() + 1).sum();
    let mut body = Vec::with_capacity(size + 256);
    body.extend_from_slice(b"{\"kind\":");
    json::write_into(&mut body, &Value::from(resource.info.list_kind.as_str()));
    body.extend_from_slice(b",\"apiVersion\":");
    json::write_into(&mut body, &Value::from(resource.api_version()));
    body.extend_from_slice(b",\"metadata\":");
    json::write_into(&mut body, metadata);
    body.extend_from_slice(b",\"items\":[");
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        if !resource.is_verbatim(entry) {
            let mut object = resource.read(entry)?;
            if resource.custom.is_none()
                && let Some(fields) = object.as_object_mut()
            {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            json::write_into(&mut body, &object);
        } else if let Some(fields) = resource.without_type(&entry.value) {
            body.push(b'{');
            body.extend_from_slice(fields);
        } else {
            body.extend_from_slice(&entry.value);
        }
    }
    body.extend_from_slice(b"]}");
    Ok(body.into())
}

/// Reads a page with these options.
pub(crate) async fn page(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    options: &ListOptions,
    selection: &Selection,
) -> Result<Page, Status> {
    let store = &context.state.store;
    let prefix = resource.collection(namespace);
    let mut start = None;
    let mut at = None;
    if options.continue_token.is_empty() {
        let version = parse_version(&options.resource_version)?;
        wait_for_version(context, &options.resource_version).await?;
        // Without `resourceVersionMatch` a limit turns "not older than" into "exactly", the
        // legacy exact match in `apiserver/pkg/storage/cacher/delegator/interface.go`: pages can
        // be consistent only at one version.
        let limited_legacy = options.limit > 0 && options.version_match.is_none() && version > 0;
        if options.version_match == Some(VersionMatch::Exact) || limited_legacy {
            at = Some(version);
        }
    } else {
        if !options.resource_version.is_empty() && options.resource_version != "0" {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = ContinueToken::decode(&options.continue_token)?;
        start = Some(format!("{prefix}{}", token.start));
        at = u64::try_from(token.revision)
            .ok()
            .filter(|revision| *revision > 0);
    }
    // As upstream, a limit is ignored for resourceVersion 0.
    let limit = if options.resource_version == "0" && options.continue_token.is_empty() {
        0
    } else {
        usize::try_from(options.limit).unwrap_or(0)
    };
    let mut page = Page {
        entries: Vec::new(),
        damaged: Vec::new(),
        revision: 0,
        continue_token: String::new(),
        remaining: None,
    };
    // With a selector, a page of matches may need several pages of keys.
    loop {
        let wanted = if limit == 0 {
            0
        } else {
            limit - page.entries.len()
        };
        let from = start.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let keys = match store.list(&prefix, from, wanted, at) {
            Ok(keys) => keys,
            // Only a forged token has a future revision.
            Err(StoreError::FutureRevision { requested, current }) => {
                return Err(too_large(requested, current));
            }
            Err(_) => return Err(expired(options, &prefix, start.as_deref())),
        };
        page.revision = keys.revision;
        // The first page fixes the revision for the following ones, also within this request.
        at = Some(keys.revision);
        let last = keys.entries.last().map(|entry| entry.key.clone());
        if selection.is_everything() {
            let (damaged, sound): (Vec<_>, Vec<_>) = keys
                .entries
                .into_iter()
                .partition(|entry| entry.damage().is_some());
            page.entries.extend(sound);
            page.damaged.extend(damaged);
        } else {
            for entry in keys.entries {
                if entry.damage().is_some() {
                    continue;
                }
                let object = entry
                    .object()
                    .map_err(|error| Status::internal(&error.to_string()))?;
                let matches = if resource.is_verbatim(&entry) {
                    selection.matches(resource, &object)
                } else {
                    selection.matches(resource, &resource.read(&entry)?)
                };
                if matches {
                    page.entries.push(entry);
                }
            }
        }
        let Some(last) = last.filter(|_| keys.more) else {
            return Ok(page);
        };
        // The smallest key after the last one, as in etcd; a token with the last key itself would
        // return it twice.
        let relative = format!("{}\0", &last[prefix.len()..]);
        if limit > 0 && page.entries.len() >= limit {
            page.continue_token = ContinueToken {
                revision: i64::try_from(page.revision).unwrap_or(i64::MAX),
                start: relative,
            }
            .encode();
            if selection.is_everything() {
                page.remaining = Some(keys.remaining);
            }
            return Ok(page);
        }
        start = Some(format!("{prefix}{relative}"));
    }
}

fn expired(options: &ListOptions, prefix: &str, start: Option<&str>) -> Status {
    let Some(start) = start.filter(|_| !options.continue_token.is_empty()) else {
        return Status::expired("The resourceVersion for the provided list is too old.");
    };
    let token = ContinueToken {
        // Upstream's marker for "continue at the current revision": a client that accepts an
        // inconsistent list need not start over.
        revision: -1,
        start: start[prefix.len()..].to_owned(),
    };
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start \
         a new list without the continue parameter, or use the continue token in this response to \
         retrieve the remainder of the results. Continuing with the provided token results in an \
         inconsistent list - objects that were created, modified, or deleted between the time the first \
         chunk was returned and now may show up in the list.",
    );
    status.metadata.continue_token = token.encode();
    status
}

/// Reads a resourceVersion; empty is 0.
pub(crate) fn parse_version(text: &str) -> Result<u64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let error = FieldError::invalid(
            &Path::new("resourceVersion"),
            text,
            format!("strconv.ParseUint: parsing {}: {why}", json::go_quote(text)),
        );
        Status::bad_request(format!("invalid resource version: {error}"))
    })
}

/// Waits a moment for a future revision.
pub(crate) async fn wait_for_version(context: &Context, text: &str) -> Result<(), Status> {
    let version = parse_version(text)?;
    let store = &context.state.store;
    if version <= store.revision() {
        return Ok(());
    }
    if store
        .wait_for_revision(version, FUTURE_VERSION_WAIT)
        .await
        .is_ok()
    {
        return Ok(());
    }
    Err(too_large(version, store.revision()))
}

/// The error for a revision that is not reached in time.
fn too_large(version: u64, current: u64) -> Status {
    let message = format!("Too large resource version: {version}, current: {current}");
    Status::timeout(&message, 1).with_cause(
        "ResourceVersionTooLarge",
        "Too large resource version",
        "",
    )
}

/// The continue token of a list (`apiserver/pkg/storage/continue.go`).
struct ContinueToken {
    revision: i64,
    start: String,
}

impl ContinueToken {
    fn encode(&self) -> String {
        let body = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start});
        TOKEN.encode(json::to_vec(&body))
    }

    fn decode(token: &str) -> Result<Self, Status> {
        let bad = |why: &str| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = TOKEN
            .decode(token)
            .map_err(|error| bad(&error.to_string()))?;
        let body = json::decode(&bytes)
            .map_err(|error| bad(&error.to_string()))?
            .value;
        if body["v"] != "meta.k8s.io/v1" {
            let version = body["v"].as_str().unwrap_or_default();
            return Err(Status::bad_request(format!(
                "invalid continue token: continue key is not valid: server does not recognize this \
                 encoded version {version}"
            )));
        }
        let revision = body["rv"].as_i64().unwrap_or_default();
        if revision == 0 {
            return Err(bad(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        let start = body["start"]
            .as_str()
            .unwrap_or_default()
            .trim_start_matches('/')
            .to_owned();
        if start.is_empty() {
            return Err(bad("encoded start key empty (version meta.k8s.io/v1)"));
        }
        // A token must not leave its collection.
        if start.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad(&start));
        }
        Ok(Self { revision, start })
    }
}
