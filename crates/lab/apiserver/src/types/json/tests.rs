use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn decode(raw: Value) -> Result<DecodedJson, String> {
    let api_version = raw["apiVersion"].as_str().unwrap_or("v1");
    let (group, version) = machinery::gvk::split_api_version(api_version).unwrap();
    let id = table()
        .kind(group, version, raw["kind"].as_str().unwrap())
        .unwrap();
    decode_json(id, raw)
}

fn config_map(rest: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
}

const QUANTITY: &str = "quantities must match the regular expression \
     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Texts recorded from kube-apiserver 1.36.2.
#[rstest]
#[case(json!({"data": {"x": 1}}), "json: cannot unmarshal number into Go struct field ConfigMap.data of type string")]
#[case(json!({"data": "s"}), "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string")]
#[case(json!({"metadata": {"creationTimestamp": "x"}}), "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"")]
#[case(json!({"metadata": {"creationTimestamp": 5}}), "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string")]
#[case(json!({"metadata": {"creationTimestamp": "2020-13-01T00:00:00Z"}}), "parsing time \"2020-13-01T00:00:00Z\": month out of range")]
#[case(json!({"metadata": {"creationTimestamp": "2020-02-30T00:00:00Z"}}), "parsing time \"2020-02-30T00:00:00Z\": day out of range")]
#[case(json!({"metadata": {"creationTimestamp": "2020-02-10T00:00:00"}}), "parsing time \"2020-02-10T00:00:00\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\"")]
#[case(json!({"metadata": {"creationTimestamp": "2020-02-10T00:00:00Zq"}}), "parsing time \"2020-02-10T00:00:00Zq\": extra text: \"q\"")]
#[case(json!({"metadata": {"generation": 1.5}}), "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64")]
#[case(json!({"metadata": {"uid": 1}}), "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.uid of type types.UID")]
#[case(json!({"metadata": []}), "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta")]
#[case(json!({"binaryData": {"a": "%%"}}), "illegal base64 data at input byte 0")]
#[case(json!({"binaryData": {"a": "YQ="}}), "illegal base64 data at input byte 3")]
#[case(json!({"binaryData": {"a": "YQ==YQ=="}}), "illegal base64 data at input byte 4")]
#[case(json!({"binaryData": {"a": "YWE"}}), "illegal base64 data at input byte 0")]
#[case(json!({"binaryData": {"a": [1, 300]}}), "json: cannot unmarshal number 300 into Go struct field ConfigMap.binaryData of type uint8")]
#[case(json!({"binaryData": {"a": 3}}), "json: cannot unmarshal number into Go struct field ConfigMap.binaryData of type []uint8")]
#[case(json!({"immutable": "x"}), "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool")]
fn wrong_config_maps(#[case] rest: Value, #[case] expected: &str) {
    assert_eq!(decode(config_map(&rest)).unwrap_err(), expected);
}

#[rstest]
#[case(json!({"containers": [{"ports": [{"containerPort": "x"}]}]}), "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32")]
#[case(json!({"volumes": [{"hostPath": {"path": 5}}]}), "json: cannot unmarshal number into Go struct field HostPathVolumeSource.spec.volumes.VolumeSource.hostPath.path of type string")]
#[case(json!({"containers": "x"}), "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container")]
#[case(json!({"containers": [{"resources": {"requests": {"cpu": "x"}}}]}), QUANTITY)]
#[case(json!({"containers": [{"resources": {"requests": {"cpu": true}}}]}), QUANTITY)]
#[case(json!({"containers": [{"resources": {"requests": 7}}]}), "json: cannot unmarshal number into Go struct field ResourceRequirements.spec.containers.resources.requests of type v1.ResourceList")]
#[case(json!({"containers": [{"ports": [{"protocol": 7}]}]}), "json: cannot unmarshal number into Go struct field ContainerPort.spec.containers.ports.protocol of type v1.Protocol")]
#[case(json!({"containers": [{"ports": [{"containerPort": 99_999_999_999_i64}]}]}), "json: cannot unmarshal number 99999999999 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32")]
// The first wrong type is reported, unless a type with its own decoder fails further on.
#[case(json!({"containers": [{"name": 1, "image": 2}]}), "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string")]
#[case(json!({"containers": [{"image": 2, "livenessProbe": {"httpGet": {"port": {}}}}]}), "json: cannot unmarshal object into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32")]
fn wrong_pods(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(decode(pod(&spec)).unwrap_err(), expected);
}

#[rstest]
#[case(json!(1.5), "json: cannot unmarshal number 1.5 into Go struct field ServicePort.spec.ports.targetPort of type int32")]
#[case(json!(true), "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32")]
#[case(json!({}), "json: cannot unmarshal object into Go struct field ServicePort.spec.ports.targetPort of type int32")]
fn wrong_target_ports(#[case] port: Value, #[case] expected: &str) {
    let service = json!({"kind": "Service", "spec": {"ports": [{"port": 1, "targetPort": port}]}});
    assert_eq!(decode(service).unwrap_err(), expected);
}

fn lease(renew_time: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": renew_time}})
}

#[test]
fn micro_times_have_six_digits() {
    assert_eq!(
        decode(lease("2020-01-01T00:00:00Z")).unwrap_err(),
        "parsing time \"2020-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
    );
    assert_eq!(
        decode(lease("2020-01-01T00:00:00.1234567Z")).unwrap_err(),
        "parsing time \"2020-01-01T00:00:00.1234567Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"7Z\" as \"Z07:00\""
    );
    let decoded = decode(lease("2020-01-01T01:00:00.123456+01:30")).unwrap();
    assert_eq!(
        decoded.object["spec"]["renewTime"],
        "2019-12-31T23:30:00.123456Z"
    );
}

fn crd(schema: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
}

#[test]
fn schemas_below_items_are_decoded_leniently_but_their_errors_count() {
    let decoded = decode(crd(&json!({
        "bogus": 1,
        "properties": {"a": {"nope": 2, "items": {"type": "s", "silent": 1}}},
    })))
    .unwrap();
    assert_eq!(
        decoded.unknown,
        [
            "spec.versions[0].schema.openAPIV3Schema.bogus",
            "spec.versions[0].schema.openAPIV3Schema.properties.a.nope"
        ]
    );
    let schema = &decoded.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(
        *schema,
        json!({"properties": {"a": {"items": {"type": "s"}}}})
    );
    assert_eq!(
        decode(crd(&json!({"properties": {"a": {"items": {"type": 5}}}}))).unwrap_err(),
        "json: cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.items.type of type string"
    );
    assert_eq!(
        decode(crd(&json!({"additionalProperties": 5}))).unwrap_err(),
        "boolean or JSON schema expected"
    );
}

#[test]
fn schemas_keep_any_json_and_write_whole_floats_as_integers() {
    let schema = json!({
        "additionalProperties": false, "default": {"a": [1, null]}, "enum": ["a", null, 3],
        "maximum": 3.0, "minimum": 0.5, "maxLength": 0, "x-kubernetes-int-or-string": true,
        "x-kubernetes-preserve-unknown-fields": false, "dependencies": {"a": ["b"]}, "title": "",
        "nullable": false,
    });
    let decoded = decode(crd(&schema)).unwrap();
    assert_eq!(decoded.unknown, Vec::<String>::new());
    assert_eq!(
        decoded.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({
            "additionalProperties": false, "default": {"a": [1, null]}, "enum": ["a", null, 3],
            "maximum": 3, "minimum": 0.5, "maxLength": 0, "x-kubernetes-int-or-string": true,
            "x-kubernetes-preserve-unknown-fields": false, "dependencies": {"a": ["b"]},
        })
    );
}

#[test]
fn unknown_fields_are_dropped_and_listed_by_path() {
    let decoded = decode(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "Data": {}, "foo": 1,
        "metadata": {"name": "a", "fini": 1, "ownerReferences": [{"x": 1}], "labels": {"any": "x"}},
    }))
    .unwrap();
    assert_eq!(
        decoded.unknown,
        [
            "Data",
            "foo",
            "metadata.fini",
            "metadata.ownerReferences[0].x"
        ]
    );
    assert_eq!(
        decoded.object,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "labels": {"any": "x"},
                // Required strings are written even when they are empty.
                "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}],
            },
        })
    );
    let many: Map<String, Value> = (0..200).map(|i| (format!("x{i:03}"), json!(1))).collect();
    assert_eq!(
        decode(config_map(&Value::Object(many)))
            .unwrap()
            .unknown
            .len(),
        100
    );
}

/// Fields that Go omits and fields that it writes although the client did not set them.
#[test]
fn canonical_form() {
    for (raw, expected) in [
        (
            json!({"kind": "Pod", "metadata": {"creationTimestamp": null, "labels": {}}, "spec": null}),
            json!({"kind": "Pod", "metadata": {}, "spec": {"containers": null}, "status": {}}),
        ),
        (
            pod(&json!({
                "containers": [{"name": "c", "args": [], "tty": false, "env": null,
                    "securityContext": {}, "livenessProbe": {"periodSeconds": 0}}],
                "hostNetwork": false, "enableServiceLinks": false, "nodeSelector": {},
            })),
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {
                    "containers": [{"name": "c", "resources": {}, "securityContext": {}, "livenessProbe": {}}],
                    "enableServiceLinks": false,
                },
                "status": {},
            }),
        ),
        (
            json!({"kind": "ConfigMap", "data": {"a": null}, "binaryData": {"b": "YQ\n=="},
                   "metadata": {"creationTimestamp": "2020-01-01T02:00:00.75+02:00"}}),
            json!({"kind": "ConfigMap", "data": {"a": ""}, "binaryData": {"b": "YQ=="},
                   "metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}),
        ),
        (
            json!({"kind": "ResourceQuota", "spec": {"hard": {
                "cpu": "1500m", "pods": 4, "memory": "1024Mi", "storage": "0.5Gi", "x": null,
            }}}),
            json!({"kind": "ResourceQuota", "metadata": {}, "status": {}, "spec": {"hard": {
                "cpu": "1500m", "pods": "4", "memory": "1Gi", "storage": "512Mi", "x": "0",
            }}}),
        ),
        (
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                   "metadata": {}, "rules": null}),
        ),
        (
            json!({"kind": "Service", "spec": {"ports": [{"port": 1}]}}),
            json!({"kind": "Service", "metadata": {}, "spec": {"ports": [{"port": 1, "targetPort": 0}]},
                   "status": {"loadBalancer": {}}}),
        ),
    ] {
        let decoded = decode(raw).unwrap();
        assert_eq!(decoded.object, expected);
        assert_eq!(decoded.unknown, Vec::<String>::new());
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let mut schema = json!({});
    for _ in 0..2000 {
        schema = json!({"not": schema});
    }
    assert_eq!(decode(crd(&schema)).unwrap_err(), "exceeded max depth");
    // Dropping it must not overflow the stack either.
    while let Value::Object(mut map) = schema {
        schema = map.remove("not").unwrap_or(Value::Null);
    }
}

/// Any JSON, and objects whose keys are often those of the type.
fn arb_value(names: Vec<&'static str>) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f32>().prop_map(|f| json!(f)),
        "[a-z0-9]{0,4}".prop_map(Value::from),
        Just(json!("2020-01-01T00:00:00Z")),
        Just(json!("YQ==")),
    ];
    let key =
        prop_oneof![4 => proptest::sample::select(names), 1 => "[a-z]{1,3}".prop_map(|_| "other")];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            3 => prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Value>()),
        ]
    })
}

proptest! {
    /// The output decodes again unchanged and without errors.
    #[test]
    fn decoding_is_idempotent(
        raw in arb_value(vec!["metadata", "spec", "status", "containers", "name", "env", "ports",
            "labels", "creationTimestamp", "template", "volumes", "hostPath", "securityContext"]),
        kind in proptest::sample::select(vec!["Pod", "Service", "ReplicationController", "Secret"]),
    ) {
        let id = table().kind("", "v1", kind).unwrap();
        if let Ok(once) = decode_json(id, raw) {
            let twice = decode_json(id, once.object.clone()).unwrap();
            prop_assert_eq!(&twice.object, &once.object);
            prop_assert!(twice.unknown.is_empty());
        }
    }
}
