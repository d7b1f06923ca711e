//! Mirroring of user-managed Endpoints.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use serde_json::{Value, json};

use super::{MAX_ENDPOINTS_PER_SUBSET, Mirrored, is_mirrored, plan};

fn endpoints(metadata: &Value, subsets: &Value) -> Endpoints {
    let mut value = json!({
        "metadata": { "name": "db", "namespace": "shop", "uid": "e1" },
        "subsets": subsets,
    });
    for (key, field) in metadata.as_object().unwrap() {
        value["metadata"][key] = field.clone();
    }
    serde_json::from_value(value).unwrap()
}

#[rstest::rstest]
#[case::by_hand(json!({}), json!({}), true)]
#[case::skipped(json!({ "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" } }), json!({}), false)]
#[case::ours(json!({ "labels": { "endpoints.kubernetes.io/managed-by": "endpoint-controller" } }), json!({}), false)]
#[case::election(json!({ "annotations": { "control-plane.alpha.kubernetes.io/leader": "{}" } }), json!({}), false)]
#[case::selected(json!({}), json!({ "selector": { "app": "db" } }), false)]
fn only_user_managed_endpoints_are_mirrored(
    #[case] metadata: Value,
    #[case] spec: Value,
    #[case] expected: bool,
) {
    let service: Service = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
    assert_eq!(
        is_mirrored(&service, &endpoints(&metadata, &json!([]))),
        expected
    );
}

#[test]
fn each_family_has_its_slice() {
    let source = endpoints(
        &json!({
            "labels": { "team": "a" },
            "annotations": { "note": "n", "kubectl.kubernetes.io/last-applied-configuration": "{}" },
        }),
        &json!([{
            "addresses": [{ "ip": "10.9.0.1" }, { "ip": "fd00::9" }, { "ip": "nonsense" }],
            "notReadyAddresses": [{ "ip": "10.9.0.2" }],
            "ports": [{ "name": "sql", "port": 5432, "protocol": "TCP" }],
        }]),
    );
    let first = plan(&source, &[]);
    assert_eq!(first.invalid, 1);
    let [v4, v6] = first.plan.create.as_slice() else {
        panic!("two slices: {first:?}");
    };
    assert_eq!(
        (v4.address_type.as_str(), v6.address_type.as_str()),
        ("IPv4", "IPv6")
    );
    assert_eq!(
        json!(v4.endpoints),
        json!([
            { "addresses": ["10.9.0.1"], "conditions": { "ready": true } },
            { "addresses": ["10.9.0.2"], "conditions": { "ready": false } },
        ])
    );
    assert_eq!(json!(v4.metadata.annotations), json!({ "note": "n" }));
    assert_eq!(
        json!(v4.metadata.labels),
        json!({
            "team": "a",
            "kubernetes.io/service-name": "db",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
        })
    );
    let existing: Vec<_> = [v4, v6].into_iter().cloned().map(Arc::new).collect();
    let again = plan(&source, &existing);
    assert_eq!(
        again,
        Mirrored {
            invalid: 1,
            ..Mirrored::default()
        }
    );
    let emptied = plan(&endpoints(&json!({}), &json!([])), &existing);
    assert_eq!(emptied.plan.delete.len(), 2);
}

#[test]
fn mirroring_is_limited_per_subset() {
    let addresses: Vec<_> = (0..MAX_ENDPOINTS_PER_SUBSET + 7)
        .map(|number| json!({ "ip": format!("10.{}.{}.1", number / 250, number % 250) }))
        .collect();
    let mirrored = plan(
        &endpoints(&json!({}), &json!([{ "addresses": addresses }])),
        &[],
    );
    assert_eq!(mirrored.skipped, 7);
    assert_eq!(
        mirrored.plan.create[0].endpoints.as_ref().unwrap().len(),
        MAX_ENDPOINTS_PER_SUBSET
    );
}
