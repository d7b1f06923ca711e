//! Slices from pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{MAX_ENDPOINTS_PER_SLICE, Plan, plan};

fn service(spec: &Value) -> Service {
    let mut service: Service = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "s1", "labels": { "team": "a" } },
        "spec": {
            "clusterIP": "10.0.0.1",
            "ipFamilies": ["IPv4"],
            "selector": { "app": "web" },
            "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }],
        },
    }))
    .unwrap();
    let mut value = json!(service.spec);
    for (key, field) in spec.as_object().unwrap() {
        value[key] = field.clone();
    }
    service.spec = serde_json::from_value(value).unwrap();
    service
}

fn pod(number: usize, ready: bool) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": format!("web-{number}"), "namespace": "shop", "uid": format!("p{number}") },
        "spec": {
            "nodeName": "n1",
            "containers": [{ "name": "c", "ports": [{ "name": "http", "containerPort": 8080 }] }],
        },
        "status": {
            "phase": "Running",
            "podIPs": [{ "ip": format!("10.1.{}.{}", number / 250, number % 250) }],
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        },
    }))
    .unwrap()
}

fn nodes(name: &str) -> Option<BTreeMap<String, String>> {
    let zone = ("topology.kubernetes.io/zone".to_owned(), "z1".to_owned());
    (name == "n1").then(|| BTreeMap::from([zone]))
}

/// Applies a plan as the API server would.
fn apply(existing: &mut Vec<Arc<EndpointSlice>>, plan: Plan, counter: &mut usize) {
    let name = |slice: &EndpointSlice| slice.metadata.name.clone();
    for mut slice in plan.create {
        *counter += 1;
        slice.metadata.name = Some(format!("web-{counter}"));
        existing.push(Arc::new(slice));
    }
    for slice in plan.update {
        existing.retain(|old| name(old) != name(&slice));
        existing.push(Arc::new(slice));
    }
    for slice in plan.delete {
        existing.retain(|old| name(old) != name(&slice));
    }
}

fn planned(service: &Service, pods: &[Arc<Pod>], existing: &[Arc<EndpointSlice>]) -> Plan {
    plan(service, pods, &nodes, existing)
}

#[test]
fn slice_has_all_fields_of_a_pod() {
    let plan = planned(&service(&json!({})), &[Arc::new(pod(1, true))], &[]);
    assert!(plan.update.is_empty() && plan.delete.is_empty());
    let [slice] = plan.create.as_slice() else {
        panic!("one slice: {plan:?}");
    };
    assert_eq!(
        json!(slice),
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": "web-",
                "namespace": "shop",
                "labels": {
                    "team": "a",
                    "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.1.0.1"],
                "conditions": { "ready": true, "serving": true, "terminating": false },
                "nodeName": "n1",
                "targetRef": { "kind": "Pod", "namespace": "shop", "name": "web-1", "uid": "p1" },
                "zone": "z1",
            }],
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        })
    );
}

#[rstest::rstest]
#[case::ready(json!({}), true, false, [true, true, false])]
#[case::not_ready(json!({}), false, false, [false, false, false])]
#[case::leaving(json!({}), true, true, [false, true, true])]
#[case::published_anyway(json!({ "publishNotReadyAddresses": true }), false, true, [true, false, true])]
fn conditions_follow_the_pod(
    #[case] spec: Value,
    #[case] ready: bool,
    #[case] leaving: bool,
    #[case] expected: [bool; 3],
) {
    let mut pod = json!(pod(1, ready));
    if leaving {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let pod = Arc::new(serde_json::from_value(pod).unwrap());
    let plan = planned(&service(&spec), &[pod], &[]);
    let endpoints = plan.create[0].endpoints.as_ref().unwrap();
    let conditions = endpoints[0].conditions.as_ref().unwrap();
    let [ready, serving, terminating] = expected.map(Some);
    assert_eq!(conditions.ready, ready);
    assert_eq!(conditions.serving, serving);
    assert_eq!(conditions.terminating, terminating);
}

#[rstest::rstest]
#[case::ended(json!({ "status": { "phase": "Succeeded" } }))]
#[case::without_address(json!({ "status": { "podIPs": null } }))]
#[case::on_a_node_nobody_knows(json!({ "spec": { "nodeName": "n2" } }))]
fn unreachable_pods_are_omitted(#[case] patch: Value) {
    let mut pod = json!(pod(1, true));
    for (part, fields) in patch.as_object().unwrap() {
        for (key, field) in fields.as_object().unwrap() {
            pod[part][key] = field.clone();
        }
    }
    let pod = Arc::new(serde_json::from_value(pod).unwrap());
    let plan = planned(&service(&json!({})), &[pod], &[]);
    assert_eq!(
        plan.create.len(),
        1,
        "an empty slice says that nothing is there"
    );
    assert_eq!(plan.create[0].endpoints.as_deref(), Some(&[][..]));
}

#[test]
fn named_ports_with_other_numbers_get_their_own_slice() {
    let mut other = json!(pod(2, true));
    other["spec"]["containers"][0]["ports"][0]["containerPort"] = json!(9090);
    let pods = [
        Arc::new(pod(1, true)),
        Arc::new(serde_json::from_value(other).unwrap()),
    ];
    let plan = planned(&service(&json!({})), &pods, &[]);
    let mut numbers: Vec<_> = plan
        .create
        .iter()
        .map(|slice| slice.ports.as_ref().unwrap()[0].port)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(8080), Some(9090)]);
}

#[test]
fn slices_follow_the_ip_families() {
    let mut dual = json!(pod(1, true));
    dual["status"]["podIPs"] = json!([{ "ip": "10.1.0.1" }, { "ip": "fd00::1" }]);
    let pods = [Arc::new(serde_json::from_value(dual).unwrap())];
    let both = service(&json!({ "ipFamilies": ["IPv4", "IPv6"] }));
    let (mut existing, mut counter) = (Vec::new(), 0);
    apply(&mut existing, planned(&both, &pods, &[]), &mut counter);
    let types: Vec<_> = existing
        .iter()
        .map(|slice| slice.address_type.clone())
        .collect();
    assert_eq!(types, ["IPv4", "IPv6"]);
    let one = planned(&service(&json!({})), &pods, &existing);
    assert_eq!(one.delete.len(), 1);
    assert_eq!(one.delete[0].address_type, "IPv6");
    assert!(one.create.is_empty() && one.update.is_empty());
}

#[test]
fn headless_services_are_labelled() {
    let headless = service(&json!({ "clusterIP": "None" }));
    let plan = planned(&headless, &[], &[]);
    let labels = plan.create[0].metadata.labels.as_ref().unwrap();
    assert_eq!(
        labels.get("service.kubernetes.io/headless"),
        Some(&String::new())
    );
}

#[test]
fn empty_slice_is_reused_for_the_first_endpoint() {
    let service = service(&json!({}));
    let (mut existing, mut counter) = (Vec::new(), 0);
    apply(&mut existing, planned(&service, &[], &[]), &mut counter);
    assert_eq!(planned(&service, &[], &existing), Plan::default());
    let plan = planned(&service, &[Arc::new(pod(1, true))], &existing);
    assert!(plan.create.is_empty() && plan.delete.is_empty());
    assert_eq!(plan.update[0].metadata.name.as_deref(), Some("web-1"));
}

#[rstest::rstest]
#[case::zone("PreferClose", json!({ "forZones": [{ "name": "z1" }] }))]
#[case::same_zone("PreferSameZone", json!({ "forZones": [{ "name": "z1" }] }))]
#[case::node("PreferSameNode", json!({ "forZones": [{ "name": "z1" }], "forNodes": [{ "name": "n1" }] }))]
fn traffic_distribution_sets_hints(#[case] wish: &str, #[case] expected: Value) {
    let service = service(&json!({ "trafficDistribution": wish }));
    let plan = planned(&service, &[Arc::new(pod(1, true))], &[]);
    assert_eq!(
        json!(plan.create[0].endpoints.as_ref().unwrap()[0].hints),
        expected
    );
}

/// One round: existing pods, and whether each is ready.
fn rounds() -> impl Strategy<Value = Vec<BTreeMap<usize, bool>>> {
    let round = proptest::collection::btree_map(0..350_usize, any::<bool>(), 0..260);
    proptest::collection::vec(round, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// After any sequence of rounds every pod is in exactly one slice, no slice is too full, and a
    /// second plan is empty.
    #[test]
    fn every_pod_is_in_one_slice(rounds in rounds()) {
        let service = service(&json!({}));
        let (mut existing, mut counter) = (Vec::new(), 0);
        for round in rounds {
            let pods: Vec<_> = round.iter().map(|(number, ready)| Arc::new(pod(*number, *ready))).collect();
            let plan = planned(&service, &pods, &existing);
            apply(&mut existing, plan, &mut counter);
            let mut observed = BTreeMap::new();
            for slice in &existing {
                let endpoints = slice.endpoints.as_deref().unwrap_or_default();
                prop_assert!(endpoints.len() <= MAX_ENDPOINTS_PER_SLICE);
                for endpoint in endpoints {
                    let name = endpoint.target_ref.as_ref().unwrap().name.clone().unwrap();
                    let ready = endpoint.conditions.as_ref().unwrap().ready.unwrap();
                    prop_assert!(observed.insert(name, ready).is_none(), "twice");
                }
            }
            let expected: BTreeMap<_, _> = round.iter().map(|(number, ready)| (format!("web-{number}"), *ready)).collect();
            prop_assert_eq!(observed, expected);
            prop_assert_eq!(planned(&service, &pods, &existing), Plan::default());
        }
    }
}
