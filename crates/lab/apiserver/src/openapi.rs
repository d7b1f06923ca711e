//! OpenAPI v3: an index, and a document for each group version. Of OpenAPI v2 only the minimum that
//! old clients require.

use bytes::Bytes;
use http::Response;
use machinery::gvk::GroupVersionKind;
use machinery::json;
use machinery::schema::openapi::{crd_openapi, model_name};
use serde_json::{Map, Value, json};

use crate::discovery::{hash, tagged, verbs};
use crate::health::GIT_VERSION;
use crate::negotiate::accept_ranges;
use crate::registry::{Snapshot, Version};
use crate::resource::CustomTraits;
use crate::respond::{self, Body, Form};
use crate::rest::Context;
use crate::subresources;
use crate::types::{self, DocumentResource};

const JSON: &str = "application/json";

/// `/openapi/v3`. The hash is computed from the inputs of a document, so that no document has to be
/// built for it.
pub(crate) fn index(snapshot: &Snapshot, form: Form) -> Response<Body> {
    let mut paths = Map::new();
    for (group, served) in snapshot.groups() {
        for version in &served.versions {
            let path = document_path(group, &version.name);
            let url = format!(
                "/openapi/v3/{path}?hash={}",
                hash(&ingredients(&path, version))
            );
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    respond::value(http::StatusCode::OK, &json!({"paths": paths}), form)
}

fn ingredients(path: &str, version: &Version) -> Vec<u8> {
    // The version stands for the built-in tables: kubectl caches documents by this hash, and must
    // not keep those of an older release.
    let mut bytes = format!("{}\n{path}\n", env!("CARGO_PKG_VERSION")).into_bytes();
    for custom in version
        .resources
        .iter()
        .filter_map(|resource| resource.custom.as_ref())
    {
        json::write_into(&mut bytes, &custom.definition["spec"]);
    }
    bytes
}

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The same in responses, where `@` is not valid in a media type.
const V2_PROTOBUF_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// A document without definitions in protobuf: `swagger` is field 1, `info` field 2 with title and
/// version as 1 and 2.
const V2_EMPTY: &[u8] = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.2";

/// `/openapi/v2`: an empty document. kubectl validates lists by it, skips kinds it does not find,
/// and fails without a document.
pub(crate) fn version_2(context: &Context, form: Form) -> Response<Body> {
    let protobuf = accept_ranges(&context.headers)
        .first()
        .is_some_and(|range| range.media_type == V2_PROTOBUF);
    if protobuf {
        return tagged(
            &context.headers,
            Bytes::from_static(V2_EMPTY),
            V2_PROTOBUF_ANSWER,
            form,
        );
    }
    let body = json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": {},
        "definitions": {},
    });
    respond::value(http::StatusCode::OK, &body, form)
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// `/openapi/v3/api/v1` and `/openapi/v3/apis/<group>/<version>`.
pub(crate) fn document(
    context: &Context,
    snapshot: &Snapshot,
    path: &str,
    form: Form,
) -> Option<Response<Body>> {
    let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => (String::new(), (*version).to_owned()),
        ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
        _ => return None,
    };
    let served = snapshot
        .group(&group)?
        .versions
        .iter()
        .find(|v| v.name == version)?;
    let body = cached(snapshot, path, &group, served);
    Some(tagged(&context.headers, body, JSON, form))
}

fn cached(snapshot: &Snapshot, path: &str, group: &str, version: &Version) -> Bytes {
    if let Some(body) = snapshot.openapi.lock().get(path) {
        return body.clone();
    }
    let body: Bytes = json::to_vec(&make(group, version)).into();
    snapshot
        .openapi
        .lock()
        .insert(path.to_owned(), body.clone());
    body
}

fn make(group: &str, version: &Version) -> Value {
    let described = Described::all(group, version);
    let resources: Vec<DocumentResource<'_>> = described.iter().map(Described::resource).collect();
    let custom: Vec<&CustomTraits> = version
        .resources
        .iter()
        .filter_map(|resource| resource.custom.as_ref())
        .collect();
    if custom.is_empty() {
        return types::openapi_document(group, &version.name, &resources);
    }
    let mut models = types::openapi_common_models(group, &version.name);
    for traits in custom {
        models.extend(crd_openapi(&traits.definition, &version.name));
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": types::openapi_paths(group, &version.name, &resources),
        "components": {"schemas": models},
    })
}

/// A resource or subresource with the names used while building a document.
struct Described {
    name: String,
    namespaced: bool,
    kind: GroupVersionKind,
    verbs: Vec<&'static str>,
    model: Option<String>,
}

impl Described {
    fn all(group: &str, version: &Version) -> Vec<Self> {
        let mut all = Vec::new();
        for resource in &version.resources {
            let info = &resource.info;
            let model = |kind: &GroupVersionKind| {
                let own = resource.custom.is_some() && *kind == info.gvk;
                own.then(|| model_name(group, &version.name, &kind.kind))
            };
            all.push(Self {
                name: info.plural.clone(),
                namespaced: info.namespaced,
                kind: info.gvk.clone(),
                verbs: verbs(resource),
                model: model(&info.gvk),
            });
            for sub in subresources::of(resource) {
                let kind = GroupVersionKind::new(&sub.group, &sub.version, &sub.kind);
                all.push(Self {
                    name: format!("{}/{}", info.plural, sub.name),
                    namespaced: info.namespaced,
                    model: model(&kind),
                    kind,
                    verbs: sub.verbs,
                });
            }
        }
        for review in subresources::reviews(group, &version.name) {
            all.push(Self {
                name: review.plural.to_owned(),
                namespaced: review.namespaced,
                kind: GroupVersionKind::new(group, &version.name, review.kind),
                verbs: vec!["create"],
                model: None,
            });
        }
        all
    }

    fn resource(&self) -> DocumentResource<'_> {
        DocumentResource {
            name: &self.name,
            namespaced: self.namespaced,
            kind: self.kind.clone(),
            verbs: &self.verbs,
            model: self.model.clone(),
        }
    }
}
