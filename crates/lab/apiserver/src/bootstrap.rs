//! Initial objects of a new server: namespaces, its own service, priority classes, roles.

mod roles;

use std::net::IpAddr;

use machinery::gvk::split_api_version;
use machinery::meta;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::resource::Resource;
use crate::rest::{Context, create_internal};
use crate::server::Refused;
use crate::store::Entry;

/// Namespaces that always exist.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Address of the API inside the cluster: the first of the service network.
pub(crate) const SERVICE_IP: &str = "10.0.0.1";

/// Creates missing objects.
pub(crate) async fn bootstrap(context: &Context, host: &str, port: u16) -> Result<(), Status> {
    // Namespaces first, because the Service `kubernetes` and its endpoints are in one of them.
    let namespaces = NAMESPACES.map(namespace);
    futures::future::try_join_all(namespaces.iter().map(|object| ensure(context, object))).await?;
    let rest = [
        kubernetes_service(),
        kubernetes_endpoints(host, port),
        kubernetes_slice(host, port),
        priority_class(
            // `SystemCriticalPriority` in `pkg/apis/scheduling/types.go`: twice the highest value
            // that users may define, so that no user's pod preempts a system pod.
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        priority_class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ];
    futures::future::try_join_all(rest.iter().map(|object| ensure(context, object))).await?;
    roles::ensure(context).await
}

/// Creates an object unless it exists from an earlier run.
async fn ensure(context: &Context, object: &Value) -> Result<(), Status> {
    let snapshot = context.state.registry.snapshot();
    let resource = split_api_version(meta::api_version(object))
        .and_then(|(group, version)| snapshot.find_kind(group, version, meta::kind(object)))
        .ok_or_else(Status::unknown_resource)?;
    let key = resource.key(meta::namespace(object), meta::name(object));
    match context.state.store.get(&key) {
        None => create_internal(context, object.clone()).await.map(|_| ()),
        Some(entry) if entry.damage().is_some() => {
            recreate(context, resource, &entry, object).await
        }
        Some(_) => Ok(()),
    }
}

/// Replaces a damaged object of the server's own by its default.
async fn recreate(
    context: &Context,
    resource: &Resource,
    entry: &Entry,
    object: &Value,
) -> Result<(), Status> {
    tracing::warn!(key = &*entry.key, "recreating a damaged built-in object");
    let removed = context
        .state
        .remove_object(resource, entry, resource.placeholder(entry))
        .await;
    if let Err(Refused::Failed(status)) = removed {
        return Err(*status);
    }
    create_internal(context, object.clone()).await.map(|_| ())
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": SERVICE_IP,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "type": "ClusterIP",
        },
    })
}

fn kubernetes_endpoints(host: &str, port: u16) -> Value {
    let subsets = match reachable(host) {
        Some(host) => json!([{
            "addresses": [{"ip": host}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }]),
        None => json!([]),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            // The slice below is written by the server too; mirrored, every client would see the
            // endpoint twice.
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": subsets,
    })
}

fn kubernetes_slice(host: &str, port: u16) -> Value {
    let endpoints = match reachable(host) {
        Some(host) => json!([{"addresses": [host], "conditions": {"ready": true}}]),
        None => json!([]),
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    })
}

/// The address reachable from other hosts. Endpoints must not have a loopback address.
fn reachable(host: &str) -> Option<IpAddr> {
    host.parse()
        .ok()
        .filter(|address: &IpAddr| !address.is_loopback() && !address.is_unspecified())
}

fn priority_class(name: &str, value: i64, description: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
    })
}
