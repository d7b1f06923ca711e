//! Endpoints from pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use serde_json::{Value, json};

use super::wanted;

fn service(ports: &Value) -> Service {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "labels": { "team": "a" } },
        "spec": { "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": { "app": "web" }, "ports": ports },
    }))
    .unwrap()
}

fn pod(number: usize, ready: bool) -> Arc<Pod> {
    let ip = format!("10.1.{}.{}", number / 250, number % 250);
    let pod = serde_json::from_value(json!({
        "metadata": { "name": format!("web-{number}"), "namespace": "shop", "uid": format!("p{number}") },
        "spec": { "nodeName": "n1", "containers": [] },
        "status": {
            "phase": "Running",
            "podIPs": [{ "ip": ip }],
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        },
    }));
    Arc::new(pod.unwrap())
}

fn count(endpoints: &Endpoints) -> (usize, usize) {
    let subsets = endpoints.subsets.iter().flatten();
    subsets.fold((0, 0), |(ready, not), subset| {
        (
            ready + subset.addresses.as_ref().map_or(0, Vec::len),
            not + subset.not_ready_addresses.as_ref().map_or(0, Vec::len),
        )
    })
}

#[test]
fn ports_with_the_same_addresses_share_a_subset() {
    let ports = json!([
        { "name": "b", "port": 443, "protocol": "TCP" },
        { "name": "a", "port": 80, "targetPort": 8080, "protocol": "TCP" },
    ]);
    let pods = [pod(2, true), pod(1, true), pod(3, false)];
    let wanted = wanted(&service(&ports), &pods, None).unwrap();
    let address = |number: usize| {
        json!({
            "ip": format!("10.1.0.{number}"),
            "nodeName": "n1",
            "targetRef": { "kind": "Pod", "namespace": "shop", "name": format!("web-{number}"), "uid": format!("p{number}") },
        })
    };
    assert_eq!(
        json!(wanted.subsets),
        json!([{
            "addresses": [address(1), address(2)],
            "notReadyAddresses": [address(3)],
            "ports": [
                { "name": "a", "port": 8080, "protocol": "TCP" },
                { "name": "b", "port": 443, "protocol": "TCP" },
            ],
        }])
    );
    assert_eq!(
        json!(wanted.metadata.labels),
        json!({ "team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller" })
    );
}

#[test]
fn current_endpoints_are_not_rewritten() {
    let service = service(&json!([{ "port": 80, "protocol": "TCP" }]));
    let pods = [pod(1, true)];
    let first = wanted(&service, &pods, None).unwrap();
    assert_eq!(wanted(&service, &pods, Some(&first)), None);
    let fewer = wanted(&service, &[], Some(&first)).unwrap();
    assert_eq!(fewer.subsets, None);
}

#[test]
fn terminating_pod_is_no_endpoint() {
    let mut leaving = pod(1, true).as_ref().clone();
    leaving.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let service = service(&json!([{ "port": 80, "protocol": "TCP" }]));
    let wanted = wanted(&service, &[Arc::new(leaving)], None).unwrap();
    assert_eq!(wanted.subsets, None);
}

#[rstest::rstest]
#[case::fits(600, 400, (600, 400), false)]
#[case::too_many_not_ready(600, 500, (600, 400), true)]
#[case::too_many_ready(1100, 500, (1000, 0), true)]
fn addresses_are_truncated_at_capacity(
    #[case] ready: usize,
    #[case] not_ready: usize,
    #[case] expected: (usize, usize),
    #[case] truncated: bool,
) {
    let pods: Vec<_> = (0..ready + not_ready)
        .map(|number| pod(number, number < ready))
        .collect();
    let service = service(&json!([{ "port": 80, "protocol": "TCP" }]));
    let wanted = wanted(&service, &pods, None).unwrap();
    assert_eq!(count(&wanted), expected);
    let annotation = wanted.metadata.annotations.as_ref();
    let value = annotation.and_then(|it| it.get("endpoints.kubernetes.io/over-capacity"));
    assert_eq!(value.map(String::as_str), truncated.then_some("truncated"));
    assert_eq!(super::wanted(&service, &pods, Some(&wanted)), None);
}
