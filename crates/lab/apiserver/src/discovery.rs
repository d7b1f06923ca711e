//! Discovery: the classic documents and the aggregated one.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Response, StatusCode};
use machinery::gvk::join_api_version;
use machinery::json;
use machinery::status::Status;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use crate::negotiate::{JSON, MediaRange, YAML, accept_ranges, not_acceptable};
use crate::registry::{Group, Snapshot, Version};
use crate::resource::Resource;
use crate::respond::{self, Body, Form};
use crate::subresources;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Verbs of custom resources in the order of the classic documents.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// The same for built-in resources, which upstream sorts.
const BUILTIN_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Whether the client prefers the aggregated document; an error when it accepts neither form.
fn wants_aggregated(headers: &HeaderMap) -> Result<bool, Status> {
    let ranges = accept_ranges(headers);
    if ranges.is_empty() {
        return Ok(false);
    }
    let form = |range: &MediaRange| match (range.media_type.as_str(), range.parameter("as")) {
        (JSON, "APIGroupDiscoveryList") => {
            let known =
                range.parameter("g") == "apidiscovery.k8s.io" && range.parameter("v") == "v2";
            known.then_some(true)
        }
        (JSON | YAML | "application/*" | "*/*", "") => Some(false),
        _ => None,
    };
    ranges.iter().find_map(form).ok_or_else(not_acceptable)
}

/// Rejects other forms for a document that exists in one form only.
pub(crate) fn check_plain(headers: &HeaderMap) -> Result<(), Status> {
    wants_aggregated(headers).map(|_| ())
}

/// `/api`.
pub(crate) fn core(
    snapshot: &Snapshot,
    headers: &HeaderMap,
    form: Form,
    address: &str,
) -> Result<Response<Body>, Status> {
    if wants_aggregated(headers)? {
        let body = snapshot.aggregated_core.get_or_init(|| {
            aggregate(snapshot.groups().iter().filter(|(name, _)| name.is_empty()))
        });
        return Ok(aggregated_response(headers, body.clone(), form));
    }
    let versions: Vec<&str> = snapshot
        .group("")
        .map(|group| {
            group
                .versions
                .iter()
                .map(|version| version.name.as_str())
                .collect()
        })
        .unwrap_or_default();
    let body = json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    });
    Ok(respond::value(StatusCode::OK, &body, form))
}

/// `/apis`.
pub(crate) fn groups(
    snapshot: &Snapshot,
    headers: &HeaderMap,
    form: Form,
) -> Result<Response<Body>, Status> {
    if wants_aggregated(headers)? {
        let body = snapshot
            .aggregated_groups
            .get_or_init(|| aggregate(ordered_groups(snapshot)));
        return Ok(aggregated_response(headers, body.clone(), form));
    }
    let groups: Vec<Value> = ordered_groups(snapshot)
        .map(|(name, group)| group_document(name, group))
        .collect();
    let body = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    Ok(respond::value(StatusCode::OK, &body, form))
}

/// Built-in groups first, then those of CRDs, each by name.
fn ordered_groups(snapshot: &Snapshot) -> impl Iterator<Item = (&String, &Group)> {
    let named = || {
        snapshot
            .groups()
            .iter()
            .filter(|(name, _)| !name.is_empty())
    };
    named()
        .filter(|(_, group)| group.builtin)
        .chain(named().filter(|(_, group)| !group.builtin))
}

/// `/apis/<group>`.
pub(crate) fn group(snapshot: &Snapshot, name: &str, form: Form) -> Option<Response<Body>> {
    let group = snapshot.group(name)?;
    let mut body = group_document(name, group);
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    Some(respond::value(StatusCode::OK, &body, form))
}

fn group_document(name: &str, group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            json!({"groupVersion": join_api_version(name, &version.name), "version": version.name})
        })
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub(crate) fn resources(
    snapshot: &Snapshot,
    group: &str,
    version: &str,
    form: Form,
) -> Option<Response<Body>> {
    let served = snapshot
        .group(group)?
        .versions
        .iter()
        .find(|v| v.name == version)?;
    let mut list: Vec<Value> = Vec::new();
    for resource in &served.resources {
        list.push(classic_resource(resource));
        for subresource in subresources::of(resource) {
            let mut entry = json!({
                "name": format!("{}/{}", resource.info.plural, subresource.name),
                "singularName": "",
                "namespaced": resource.info.namespaced,
                "kind": subresource.kind,
                "verbs": subresource.verbs,
            });
            if (subresource.group.as_str(), subresource.version.as_str()) != (group, version) {
                entry["group"] = subresource.group.into();
                entry["version"] = subresource.version.into();
            }
            list.push(entry);
        }
    }
    for review in subresources::reviews(group, version) {
        list.push(json!({
            "name": review.plural,
            "singularName": review.kind.to_lowercase(),
            "namespaced": review.namespaced,
            "kind": review.kind,
            "verbs": ["create"],
        }));
    }
    // Built-in documents are sorted by upstream's route installer; those of CRDs are in order of
    // creation, which `kubectl api-resources` shows.
    if snapshot.group(group).is_some_and(|group| group.builtin) {
        list.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    }
    let body = json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": join_api_version(group, version),
        "resources": list,
    });
    Some(respond::value(StatusCode::OK, &body, form))
}

pub(crate) fn verbs(resource: &Resource) -> Vec<&'static str> {
    match &resource.custom {
        Some(custom) if custom.terminating => {
            vec!["delete", "deletecollection", "get", "list", "watch"]
        }
        Some(_) => CUSTOM_VERBS.to_vec(),
        // Deleting all namespaces at once is not supported, as upstream.
        None if resource.info.gvk.kind == "Namespace" => BUILTIN_VERBS
            .into_iter()
            .filter(|verb| *verb != "deletecollection")
            .collect(),
        None => BUILTIN_VERBS.to_vec(),
    }
}

fn classic_resource(resource: &Resource) -> Value {
    let info = &resource.info;
    let mut entry = json!({
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.gvk.kind,
        "verbs": verbs(resource),
        "storageVersionHash": storage_version_hash(resource),
    });
    if !info.short_names.is_empty() {
        entry["shortNames"] = info.short_names.clone().into();
    }
    if !info.categories.is_empty() {
        entry["categories"] = info.categories.clone().into();
    }
    entry
}

/// First eight bytes of the SHA-256 of `group/version/kind`, in base64
/// (`apiserver/pkg/endpoints/discovery/storageversionhash.go`).
fn storage_version_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    let gvk = &resource.info.gvk;
    // Of the served version. Upstream hashes the storage version; storage version migrators, the
    // only readers, do not run here.
    let text = format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind);
    let hash = sha2::Sha256::digest(text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&hash[..8])
}

fn aggregate<'a>(groups: impl Iterator<Item = (&'a String, &'a Group)>) -> Bytes {
    let items: Vec<Value> = groups
        .map(|(name, group)| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| aggregated_version(name, version))
                .collect();
            let metadata = if name.is_empty() {
                json!({})
            } else {
                json!({"name": name})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    json::to_vec(&body).into()
}

fn aggregated_version(group: &str, version: &Version) -> Value {
    let mut resources: Vec<(String, Value)> = version
        .resources
        .iter()
        .map(|resource| (resource.info.plural.clone(), aggregated_resource(resource)))
        .collect();
    for review in subresources::reviews(group, &version.name) {
        let entry = json!({
            "resource": review.plural,
            "responseKind": {"group": "", "version": "", "kind": review.kind},
            "scope": if review.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": review.kind.to_lowercase(),
            "verbs": ["create"],
        });
        resources.push((review.plural.to_owned(), entry));
    }
    resources.sort_by(|a, b| a.0.cmp(&b.0));
    let resources: Vec<Value> = resources.into_iter().map(|(_, entry)| entry).collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}

/// The response kind. For built-in kinds it is only set for those of another group.
fn response_kind(resource: &Resource, group: &str, version: &str, kind: &str) -> Value {
    let own = &resource.info.gvk;
    if resource.custom.is_none() && group == own.group && version == own.version {
        return json!({"group": "", "version": "", "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}

fn aggregated_resource(resource: &Arc<Resource>) -> Value {
    let info = &resource.info;
    let verbs = verbs(resource);
    let mut entry = json!({
        "resource": info.plural,
        "responseKind": response_kind(resource, &info.gvk.group, &info.gvk.version, &info.gvk.kind),
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular,
        "verbs": verbs,
    });
    if !info.short_names.is_empty() {
        entry["shortNames"] = info.short_names.clone().into();
    }
    if !info.categories.is_empty() {
        entry["categories"] = info.categories.clone().into();
    }
    let subresources: Vec<Value> = subresources::of(resource)
        .into_iter()
        .map(|subresource| {
            json!({
                "subresource": subresource.name,
                "responseKind": response_kind(
                    resource,
                    &subresource.group,
                    &subresource.version,
                    &subresource.kind,
                ),
                "verbs": subresource.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

fn aggregated_response(headers: &HeaderMap, body: Bytes, form: Form) -> Response<Body> {
    let mut response = tagged(headers, body, AGGREGATED, form);
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// A response with an `ETag` of its content; 304 when the client has it.
pub(crate) fn tagged(
    headers: &HeaderMap,
    body: Bytes,
    media_type: &'static str,
    form: Form,
) -> Response<Body> {
    let tag = format!("\"{}\"", hash(&body));
    // One exact tag, as client-go sends it; lists of tags are for caches in between, which do not
    // exist here.
    let known = headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        == Some(tag.as_str());
    let mut response = if known {
        let mut response = Response::new(respond::full(Bytes::new()));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        respond::bytes(StatusCode::OK, media_type, body, form)
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// SHA-512 in upper-case hexadecimal.
pub(crate) fn hash(body: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    let bytes = Sha512::digest(body);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}
