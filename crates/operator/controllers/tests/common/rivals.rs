//! The Deployments of other operators, which nothing runs here: one that wants replicas counts.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

/// Creates or scales the Deployment of an operator.
pub(crate) async fn scale(
    client: &Client,
    (namespace, name): (&str, &str),
    replicas: i32,
) -> anyhow::Result<()> {
    let params = PatchParams::apply("administrator").force();
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
    });
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .patch(namespace, &params, &Patch::Apply(object))
        .await?;
    let labels = json!({ "app": name });
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "manager", "image": "registry.invalid/operator:1" }] },
            },
        },
    });
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    deployments
        .patch(name, &params, &Patch::Apply(object))
        .await?;
    Ok(())
}
