//! OpenShift's monitoring: the Route by which other operators find Prometheus. Nothing answers there.

use kube::Client;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use runtime::{Error, Writer};
use serde_json::json;

use super::kinds::resource;
use super::names::{MONITORING_NAMESPACE, PROMETHEUS_ROUTE};

/// OpenShift's `Route`.
pub(super) fn route() -> ApiResource {
    resource("route.openshift.io", "v1", "Route")
}

/// Creates the Route, admitted by a router.
pub(super) async fn publish(client: &Client) -> Result<(), Error> {
    let writer = Writer::dynamic(client.clone(), &route());
    let mut object = DynamicObject::new(PROMETHEUS_ROUTE, &route())
        .within(MONITORING_NAMESPACE)
        .data(json!({ "spec": { "to": { "kind": "Service", "name": PROMETHEUS_ROUTE } } }));
    object.types = Some(kube::api::TypeMeta {
        api_version: route().api_version,
        kind: route().kind,
    });
    if let Some(created) = writer.create_if_absent(&object).await? {
        let host = "prometheus-k8s-openshift-monitoring.apps.example";
        let status = json!({ "ingress": [{ "host": host, "routerName": "default" }] });
        let admitted = writer.set_status_fields(&created.metadata, &status);
        admitted.await?;
    }
    Ok(())
}
