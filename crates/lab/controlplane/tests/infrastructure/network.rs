//! Endpoints behind services.

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use testkit::{TestCluster, wait_until};

use crate::{
    Controllers, WAIT_TIMEOUT, api, create, pod, service_account, set_status, until, until_gone,
};

async fn ready_pod(
    cluster: &TestCluster,
    namespace: &str,
    name: &str,
    ip: &str,
) -> anyhow::Result<()> {
    let pods: Api<Pod> = api(cluster, namespace);
    create(&pods, pod(name, json!({ "nodeName": "n1" }))).await?;
    let status = json!({
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{ "ip": ip }],
        "conditions": [{ "type": "Ready", "status": "True" }],
    });
    set_status(&pods, name, status).await?;
    Ok(())
}

/// The addresses in the slices of a service: address, ready, zone.
async fn addresses(
    slices: &Api<EndpointSlice>,
    service: &str,
) -> anyhow::Result<Vec<(String, bool)>> {
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let mut found = Vec::new();
    for slice in slices.list(&of_service).await? {
        for endpoint in slice.endpoints.into_iter().flatten() {
            let ready = endpoint.conditions.and_then(|it| it.ready) == Some(true);
            found.extend(
                endpoint
                    .addresses
                    .into_iter()
                    .map(|address| (address, ready)),
            );
        }
    }
    found.sort();
    Ok(found)
}

async fn until_addresses(
    slices: &Api<EndpointSlice>,
    service: &str,
    expected: &[(&str, bool)],
) -> anyhow::Result<()> {
    let expected: Vec<_> = expected
        .iter()
        .map(|(ip, ready)| ((*ip).to_owned(), *ready))
        .collect();
    wait_until(
        &format!("slices of {service} have {expected:?}"),
        WAIT_TIMEOUT,
        || async { Ok((addresses(slices, service).await? == expected).then_some(())) },
    )
    .await
}

#[tokio::test]
async fn slices_and_endpoints_follow_pods_and_services() -> anyhow::Result<()> {
    let mut controllers = Controllers::start(controlplane::network::start).await?;
    let cluster = &controllers.cluster;
    let namespace = cluster.namespace("net").await?;
    service_account(cluster, &namespace).await?;

    let (pods, services) = (
        api::<Pod>(cluster, &namespace),
        api::<Service>(cluster, &namespace),
    );
    let (slices, endpoints) = (
        api(cluster, &namespace),
        api::<Endpoints>(cluster, &namespace),
    );
    create(&services, json!({
        "metadata": { "name": "web", "labels": { "team": "a" } },
        "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": "http" }] },
    }))
    .await?;
    // A pod may be observed before its node.
    ready_pod(cluster, &namespace, "web-1", "10.1.0.1").await?;
    let nodes: Api<Node> = Api::all(cluster.client());
    let zone = json!({ "topology.kubernetes.io/zone": "z1" });
    create(
        &nodes,
        json!({ "metadata": { "name": "n1", "labels": zone } }),
    )
    .await?;
    until_addresses(&slices, "web", &[("10.1.0.1", true)]).await?;

    let list = slices.list(&ListParams::default()).await?;
    let [slice] = list.items.as_slice() else {
        anyhow::bail!("one slice, not {}", list.items.len());
    };
    assert!(
        slice
            .metadata
            .name
            .as_deref()
            .is_some_and(|name| name.starts_with("web-"))
    );
    assert_eq!(
        json!(slice.ports),
        json!([{ "name": "http", "port": 8080, "protocol": "TCP" }])
    );
    assert_eq!(json!(slice.endpoints)[0]["zone"], json!("z1"));
    let old = until(&endpoints, "web", "has an address", |it: &Endpoints| {
        it.subsets.is_some()
    })
    .await?;
    assert_eq!(
        json!(old.subsets)[0]["addresses"][0]["ip"],
        json!("10.1.0.1")
    );
    assert_eq!(
        json!(old.metadata.labels)["endpoints.kubernetes.io/managed-by"],
        json!("endpoint-controller")
    );

    // Changes made while no controller runs are handled afterwards, and nothing is created twice.
    controllers.stop().await;
    let cluster = &controllers.cluster;
    ready_pod(cluster, &namespace, "web-2", "10.1.0.2").await?;
    set_status(
        &pods,
        "web-1",
        json!({ "conditions": [{ "type": "Ready", "status": "False" }] }),
    )
    .await?;
    controllers.resume().await;
    until_addresses(&slices, "web", &[("10.1.0.1", false), ("10.1.0.2", true)]).await?;
    assert_eq!(slices.list(&ListParams::default()).await?.items.len(), 1);
    until(
        &endpoints,
        "web",
        "one address is not ready",
        |it: &Endpoints| json!(it.subsets)[0]["notReadyAddresses"][0]["ip"] == json!("10.1.0.1"),
    )
    .await?;

    // A label change removes a pod from the service.
    let other = Patch::Merge(json!({ "metadata": { "labels": { "app": "other" } } }));
    pods.patch("web-2", &PatchParams::default(), &other).await?;
    until_addresses(&slices, "web", &[("10.1.0.1", false)]).await?;

    services.delete("web", &DeleteParams::default()).await?;
    until_gone(&endpoints, "web").await?;
    controllers.stop().await;
    Ok(())
}

#[tokio::test]
async fn user_managed_endpoints_are_mirrored() -> anyhow::Result<()> {
    let mut controllers = Controllers::start(controlplane::network::start).await?;
    let cluster = &controllers.cluster;
    let namespace = cluster.namespace("net").await?;

    let services = api::<Service>(cluster, &namespace);
    let (slices, endpoints) = (
        api(cluster, &namespace),
        api::<Endpoints>(cluster, &namespace),
    );
    create(
        &services,
        json!({ "metadata": { "name": "db" }, "spec": { "ports": [{ "port": 5432 }] } }),
    )
    .await?;
    let subsets = json!([{ "addresses": [{ "ip": "192.0.2.1" }], "ports": [{ "port": 5432 }] }]);
    let written = create(
        &endpoints,
        json!({ "metadata": { "name": "db" }, "subsets": subsets }),
    )
    .await?;
    until_addresses(&slices, "db", &[("192.0.2.1", true)]).await?;
    let kept = endpoints.get("db").await?;
    assert_eq!(
        kept.metadata.resource_version,
        written.metadata.resource_version
    );

    let more = Patch::Merge(json!({ "subsets": [{ "addresses": [{ "ip": "192.0.2.7" }] }] }));
    endpoints
        .patch("db", &PatchParams::default(), &more)
        .await?;
    until_addresses(&slices, "db", &[("192.0.2.7", true)]).await?;

    services.delete("db", &DeleteParams::default()).await?;
    until_addresses(&slices, "db", &[]).await?;
    until_gone(&endpoints, "db").await?;
    let rest = ListParams::default().labels("kubernetes.io/service-name=db");
    wait_until("the mirror is gone", WAIT_TIMEOUT, || async {
        Ok(slices.list(&rest).await?.items.is_empty().then_some(()))
    })
    .await?;
    controllers.stop().await;
    Ok(())
}
