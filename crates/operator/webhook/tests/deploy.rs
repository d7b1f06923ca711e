//! The plain manifests in `deploy` are valid for an API server.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use api::openshift::{CONFIG_NAMESPACE, payloads};
use http::{Method, Request};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::TestCluster;

fn manifests(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            manifests(&path, found)?;
        } else {
            found.push(path);
        }
    }
    // The order of `kubectl apply -R`.
    found.sort();
    Ok(())
}

#[tokio::test]
async fn manifests_are_valid() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy");
    let mut files = Vec::new();
    manifests(&folder, &mut files)?;
    // Kinds of the Prometheus operator, or files for programs other than kubectl.
    for other in ["monitoring", "kustomize", "helm", "olm", "krew", "argocd"] {
        files.retain(|file| !file.starts_with(folder.join(other)));
    }
    // Roles for these namespaces come with OpenShift's own objects in them.
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    for name in [payloads::NAMESPACE, CONFIG_NAMESPACE] {
        let namespace = json!({ "metadata": { "name": name } });
        let made = PostParams::default();
        namespaces
            .create(&made, &serde_json::from_value(namespace)?)
            .await?;
    }
    let mut kinds = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
            .with_context(|| format!("reading {}", file.display()))?;
        for object in objects {
            // Kinds of OpenShift: its groups have its name, and no CRD here.
            let group = object["apiVersion"].as_str().unwrap_or_default();
            if group.contains(".openshift.io/") {
                continue;
            }
            let uri = uri(&object).with_context(|| format!("in {}", file.display()))?;
            let request = Request::builder()
                .method(Method::PATCH)
                .uri(&uri)
                .header("content-type", "application/apply-patch+yaml")
                .body(object.to_string().into_bytes())?;
            let response = cluster.request(request).await?;
            let message = String::from_utf8_lossy(response.body());
            assert_eq!(response.status(), 201, "{uri}: {message}");
            let warning = response.headers().get("warning");
            assert_eq!(warning, None, "{uri}");
            kinds.push(object["kind"].as_str().unwrap_or_default().to_owned());
        }
    }
    for kind in [
        "CustomResourceDefinition",
        "ClusterRole",
        "Deployment",
        "Service",
    ] {
        assert!(kinds.iter().any(|have| have == kind), "{kind} in {kinds:?}");
    }
    Ok(())
}

/// Path to apply an object; unknown fields are errors.
fn uri(object: &Value) -> Option<String> {
    let version = object["apiVersion"].as_str()?;
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("namespaces/{namespace}/"),
        None => String::new(),
    };
    let kind = object["kind"].as_str()?.to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    let name = object["metadata"]["name"].as_str()?;
    Some(format!(
        "/{root}/{version}/{namespace}{plural}/{name}?fieldManager=test&fieldValidation=Strict"
    ))
}
