//! OpenAPI v3: an index, and a document for each group version.

use http::Response;
use bytes::Bytes;
use machinery::json;
use machinery::schema::openapi::crd_openapi;
use serde_json::{Map, Value, json};

use crate::discovery::{hash, tagged};
use crate::registry::{Snapshot, Version};
use crate::respond::{self, Body, Form};
use crate::rest::Context;
use crate::types;

const JSON: &str = "application/json";

/// `/openapi/v3`. The hash stands for what a document is made from, so that none is made for it.
pub(crate) fn index(snapshot: &Snapshot, form: Form) -> Response<Body> {
    let mut paths = Map::new();
    for (group, served) in snapshot.groups() {
        for version in &served.versions {
            let path = document_path(group, &version.name);
            let url = format!("/openapi/v3/{path}?hash={}", hash(&ingredients(&path, version)));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    respond::value(http::StatusCode::OK, &json!({"paths": paths}), form)
}

fn ingredients(path: &str, version: &Version) -> Vec<u8> {
    let mut bytes = format!("{}\n{path}\n", env!("CARGO_PKG_VERSION")).into_bytes();
    for custom in version.resources.iter().filter_map(|resource| resource.custom.as_ref()) {
        json::write_into(&mut bytes, &custom.definition["spec"]);
    }
    bytes
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `/openapi/v3/api/v1` and `/openapi/v3/apis/<group>/<version>`.
pub(crate) fn document(context: &Context, snapshot: &Snapshot, path: &str, form: Form) -> Option<Response<Body>> {
    let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => (String::new(), (*version).to_owned()),
        ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
        _ => return None,
    };
    let served = snapshot.group(&group)?.versions.iter().find(|v| v.name == version)?;
    let body = cached(snapshot, path, &group, served);
    Some(tagged(&context.headers, body, JSON, form))
}

fn cached(snapshot: &Snapshot, path: &str, group: &str, version: &Version) -> Bytes {
    if let Some(body) = snapshot.openapi.lock().get(path) {
        return body.clone();
    }
    let body: Bytes = json::to_vec(&make(group, version)).into();
    snapshot.openapi.lock().insert(path.to_owned(), body.clone());
    body
}

fn make(group: &str, version: &Version) -> Value {
    let _ = (group, version, crd_openapi, types::openapi_document);
    Value::Null
}
