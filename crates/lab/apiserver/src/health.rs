//! Health, metrics and version endpoints.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::{Response, StatusCode};
use serde_json::json;

use crate::dispatch::plain_text;
use crate::negotiate::Representation;
use crate::registry::Snapshot;
use crate::respond::{self, Body, Form};
use crate::rest::Context;

/// The Kubernetes minor version whose behaviour is served.
pub(crate) const MINOR: &str = "36";
/// The same as a full version.
pub const GIT_VERSION: &str = "v1.36.2";

/// The checks behind the health endpoints.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];

/// `/healthz`, `/livez`, `/readyz` and their single checks.
pub(crate) fn answer(context: &Context, path: &str) -> Option<Response<Body>> {
    let (endpoint, check) = ["/healthz", "/livez", "/readyz"]
        .into_iter()
        .find_map(|endpoint| Some((endpoint, path.strip_prefix(endpoint)?)))?;
    if !check.is_empty() {
        let known = check
            .strip_prefix('/')
            .is_some_and(|name| CHECKS.contains(&name));
        return Some(if known {
            plain_text(StatusCode::OK, "ok".into())
        } else {
            respond::page_not_found()
        });
    }
    if context.query.get("verbose").is_none() {
        return Some(plain_text(StatusCode::OK, "ok".into()));
    }
    let mut lines = CHECKS.map(|name| format!("[+]{name} ok")).to_vec();
    lines.push(format!(
        "{} check passed\n",
        endpoint.trim_start_matches('/')
    ));
    Some(plain_text(StatusCode::OK, lines.join("\n")))
}

/// `/metrics`: metrics of the store. Names that kube-apiserver has keep its meaning.
pub(crate) fn metrics(context: &Context) -> Response<Body> {
    let store = &context.state.store;
    let snapshot = context.state.registry.snapshot();
    let mut damaged: BTreeMap<(String, String), usize> = BTreeMap::new();
    for entry in store.damaged() {
        let resource = snapshot
            .all()
            .find(|resource| entry.key.starts_with(&resource.prefix))
            .map(|resource| resource.group_resource())
            .map(|resource| (resource.group, resource.resource))
            .unwrap_or_default();
        *damaged.entry(resource).or_default() += 1;
    }
    let mut text = String::from(
        "# HELP medley_apiserver_damaged_objects Stored objects that cannot be decoded. They can be deleted.\n\
         # TYPE medley_apiserver_damaged_objects gauge\n",
    );
    for ((group, resource), count) in damaged {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "medley_apiserver_damaged_objects{{group=\"{group}\",resource=\"{resource}\"}} {count}"
        );
    }
    let _ = writeln!(
        text,
        "# HELP medley_apiserver_lost_records Records of the store file that are damaged up to their keys.\n\
         # TYPE medley_apiserver_lost_records gauge\n\
         medley_apiserver_lost_records {}",
        store.lost_records()
    );
    plain_text(StatusCode::OK, text)
}

/// `/version`, always indented.
pub(crate) fn version(context: &Context) -> Response<Body> {
    let body = json!({
        "major": "1",
        "minor": MINOR,
        "emulationMajor": "1",
        "emulationMinor": MINOR,
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        // Empty rather than invented; clients parse major, minor and `gitVersion`.
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_arch()),
    });
    let form = context.form(Representation::PLAIN);
    respond::value(
        StatusCode::OK,
        &body,
        Form {
            pretty: true,
            ..form
        },
    )
}

/// The architecture in Go's naming, as clients compare it.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// `/`: all paths.
pub(crate) fn paths(snapshot: &Snapshot, form: Form) -> Response<Body> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (name, group) in snapshot
        .groups()
        .iter()
        .filter(|(name, _)| !name.is_empty())
    {
        paths.push(format!("/apis/{name}"));
        paths.extend(
            group
                .versions
                .iter()
                .map(|version| format!("/apis/{name}/{}", version.name)),
        );
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    for endpoint in ["healthz", "livez", "readyz"] {
        paths.extend(CHECKS.iter().map(|check| format!("/{endpoint}/{check}")));
    }
    paths.sort();
    respond::value(StatusCode::OK, &json!({"paths": paths}), form)
}
