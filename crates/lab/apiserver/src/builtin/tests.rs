//! Built-in kinds as the REST layer uses them: decode, default, prepare, validate, print.

use std::sync::Arc;

use jiff::Timestamp;
use machinery::gvk::{GroupResource, split_api_version};
use rstest::rstest;
use serde_json::{Value, json};

use super::admission::{self, Lookup};
use super::registry;
use super::value::{Read, set};
use crate::kind::{KindInfo, Part, Strategy, WriteContext};

struct Nothing;

impl Lookup for Nothing {
    fn get(&self, _: &GroupResource, _: &str) -> Option<Value> {
        None
    }

    fn list(&self, _: &GroupResource) -> Vec<Value> {
        Vec::new()
    }
}

pub(super) fn find(object: &Value) -> (KindInfo, Arc<dyn Strategy>) {
    let (group, version) = split_api_version(object.text("apiVersion")).unwrap();
    registry()
        .into_iter()
        .find(|(info, _)| {
            info.gvk.group == group
                && info.gvk.version == version
                && info.gvk.kind == object.text("kind")
        })
        .unwrap()
}

pub(super) fn context() -> WriteContext<'static> {
    WriteContext {
        now: "2026-11-15T21:22:45Z".parse().unwrap(),
        user: "admin",
    }
}

pub(super) const UID: &str = "8d3a0a8e-5d0e-4a53-9a7b-0d8c0f5f6a11";

/// A new object as it would be stored.
pub(super) fn created(given: &Value) -> Value {
    let (info, strategy) = find(given);
    let mut object = strategy.decode(given.clone()).unwrap().object;
    if info.namespaced {
        set(&mut object, "metadata.namespace", "default");
    }
    set(&mut object, "metadata.uid", UID);
    strategy.default(&mut object);
    admission::admit_create(&info.group_resource(), &mut object, &Nothing).unwrap();
    strategy.prepare_create(&mut object, context());
    object
}

/// Errors of creating an object.
pub(super) fn create_errors(given: &Value) -> Vec<String> {
    let (_, strategy) = find(given);
    let object = created(given);
    strategy
        .validate_create(&object)
        .errors
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Errors of updating an object with these top-level paths.
pub(super) fn update_errors(old: &Value, changes: &[(&str, Value)]) -> Vec<String> {
    let (_, strategy) = find(old);
    let old = created(old);
    let mut new = old.clone();
    for (path, value) in changes {
        set(&mut new, path, value.clone());
    }
    strategy.default(&mut new);
    strategy.prepare_update(&mut new, &old, Part::Main, context());
    let findings = strategy.validate_update(&new, &old, Part::Main);
    findings.errors.iter().map(ToString::to_string).collect()
}

/// Objects created on kube-apiserver, and their stored form.
#[test]
fn new_objects_are_stored_as_in_kube_apiserver() {
    for line in include_str!("tests/created.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut given = case.at("given").clone();
        if case.at("given").text("kind") == "Service" {
            // The server allocates the address.
            set(&mut given, "spec.clusterIP", "10.0.0.128");
        }
        let mut object = created(&given);
        let text = object.to_string().replace(UID, "<uid>");
        object = serde_json::from_str(&text).unwrap();
        for field in ["uid", "namespace"] {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
        assert_eq!(object, *case.at("stored"), "{}", case.text("name"));
    }
}

#[test]
fn every_kind_has_a_type_and_is_listed_once() {
    let kinds = registry();
    assert_eq!(kinds.len(), super::entries().count());
    let mut names: Vec<String> = kinds.iter().map(|(info, _)| info.gvk.to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), kinds.len());
}

#[test]
fn defaulting_twice_changes_nothing() {
    for line in include_str!("tests/created.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let object = created(case.at("given"));
        let mut again = object.clone();
        find(&object).1.default(&mut again);
        assert_eq!(again, object, "{}", case.text("name"));
    }
}

#[test]
fn tables_have_a_cell_for_every_column() {
    let now: Timestamp = "2026-11-15T21:22:45Z".parse().unwrap();
    for (info, strategy) in registry() {
        for object in [
            json!({}),
            json!({ "metadata": { "name": "x" }, "spec": {}, "status": {} }),
        ] {
            let cells = strategy.cells(&object, now);
            assert_eq!(cells.len(), strategy.columns().len(), "{}", info.gvk);
        }
    }
}

/// Rules have to cope with objects that are almost empty.
#[test]
fn rules_survive_empty_objects() {
    for (info, strategy) in registry() {
        let mut object = json!({ "metadata": { "name": "x", "uid": "y" } });
        strategy.default(&mut object);
        strategy.prepare_create(&mut object, context());
        let _ = strategy.validate_create(&object);
        for part in [Part::Main, Part::Status, Part::Other("approval")] {
            let mut new = object.clone();
            strategy.prepare_update(&mut new, &object, part, context());
            let _ = strategy.validate_update(&new, &object, part);
        }
        let _ = (strategy.grace(&object, None), info);
    }
}

#[rstest::rstest]
#[case(
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "p" },
            "spec": { "minAvailable": 1, "maxUnavailable": "50%" } }),
    &["spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":\"50%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"]
)]
#[case(
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "l" },
            "spec": { "leaseDurationSeconds": 0 } }),
    &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]
)]
#[case(
    json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "p" },
            "value": 2_000_000_000 }),
    &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]
)]
#[case(
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "r" },
            "rules": [{ "verbs": [] }] }),
    &[
        "rules[0].verbs: Required value: verbs must contain at least one value",
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
    ]
)]
#[case(
    json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": { "name": "e" },
            "addressType": "IPv4", "endpoints": [{ "addresses": ["2001:db8::1"] }] }),
    &["endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address"]
)]
#[case(
    json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "i" }, "spec": {} }),
    &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
)]
#[case(
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "w" }, "webhooks": [{ "name": "a.b", "clientConfig": {} }] }),
    &[
        "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
    ]
)]
fn validation_errors_match_upstream(#[case] given: Value, #[case] expected: &[&str]) {
    assert_eq!(create_errors(&given), expected);
}

#[test]
fn immutable_fields_are_rejected() {
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "r" },
        "handler": "h",
    });
    assert_eq!(
        update_errors(&class, &[("handler", json!("other"))]),
        ["handler: Invalid value: \"other\": field is immutable"]
    );
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "r" }, "roleRef": { "kind": "Role", "name": "a" },
    });
    assert_eq!(
        update_errors(&binding, &[("roleRef.name", json!("b"))]),
        [
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\
          \"Name\":\"b\"}: cannot change roleRef"
        ]
    );
}

/// Cluster-scoped objects by name.
struct Known(Vec<Value>);

impl Lookup for Known {
    fn get(&self, resource: &GroupResource, name: &str) -> Option<Value> {
        self.list(resource)
            .into_iter()
            .find(|object| object.name() == name)
    }

    fn list(&self, resource: &GroupResource) -> Vec<Value> {
        let of = |object: &&Value| find(object).0.group_resource() == *resource;
        self.0.iter().filter(of).cloned().collect()
    }
}

fn admitted(spec: &Value) -> Result<Value, String> {
    let windows = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "win" },
        "handler": "h", "overhead": { "podFixed": { "memory": "100Mi" } },
        "scheduling": {
            "nodeSelector": { "kubernetes.io/os": "windows" },
            "tolerations": [{ "key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }],
        },
    });
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "w" }, "spec": spec,
    });
    let resource = GroupResource::new("", "pods");
    let classes = Known(vec![windows]);
    admission::admit_create(&resource, &mut pod, &classes)?;
    admission::validate_create(&resource, &pod, &classes).map(|()| pod)
}

#[test]
fn runtime_class_adds_overhead_and_scheduling() {
    let pod = admitted(&json!({ "runtimeClassName": "win" })).unwrap();
    assert_eq!(pod.at("spec.overhead"), &json!({ "memory": "100Mi" }));
    assert_eq!(
        pod.at("spec.nodeSelector"),
        &json!({ "kubernetes.io/os": "windows" })
    );
    let keys: Vec<&str> = pod
        .items("spec.tolerations")
        .iter()
        .map(|t| t.text("key"))
        .collect();
    assert_eq!(
        keys,
        [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
            "os"
        ]
    );
    assert_eq!(
        admitted(
            &json!({ "runtimeClassName": "win", "nodeSelector": { "kubernetes.io/os": "linux" } })
        ),
        Err(
            "conflict: runtimeClass.scheduling.nodeSelector[kubernetes.io/os] \
             = windows; pod.spec.nodeSelector[kubernetes.io/os] = linux"
                .to_owned()
        )
    );
    assert_eq!(
        admitted(&json!({ "runtimeClassName": "nope" })),
        Err("pod rejected: RuntimeClass \"nope\" not found".to_owned())
    );
}

#[rstest]
#[case(
    "Pending",
    "grows",
    "2Gi",
    Some("Only bound persistent volume claims can be expanded")
)]
#[case("Bound", "grows", "2Gi", None)]
#[case("Bound", "grows", "1024Mi", None)]
#[case("Bound", "fixed", "2Gi", Some(RESIZE))]
#[case("Bound", "fixed", "1Gi", None)]
#[case("Bound", "", "2Gi", Some(RESIZE))]
fn claims_expand_if_their_class_allows_it(
    #[case] phase: &str,
    #[case] class: &str,
    #[case] size: &str,
    #[case] refused: Option<&str>,
) {
    let class_of = |name: &str, grows: bool| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": { "name": name }, "provisioner": "p", "allowVolumeExpansion": grows,
        })
    };
    let classes = Known(vec![class_of("grows", true), class_of("fixed", false)]);
    let claim = |size: &str| {
        json!({
            "metadata": { "name": "c" },
            "spec": {
                "storageClassName": class,
                "resources": { "requests": { "storage": size } },
            },
            "status": { "phase": phase },
        })
    };
    let resource = GroupResource::new("", "persistentvolumeclaims");
    let outcome = admission::validate_update(&resource, &claim(size), &claim("1Gi"), &classes);
    assert_eq!(outcome, refused.map(str::to_owned).map_or(Ok(()), Err));
}

const RESIZE: &str = "only dynamically provisioned pvc can be resized and the storageclass that \
                      provisions the pvc must support resize";
