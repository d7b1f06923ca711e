//! Appliers among themselves.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::Server;

#[expect(clippy::needless_pass_by_value, reason = "bodies are written in place")]
fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

#[test]
fn first_apply_owns_its_fields_and_not_the_defaults() {
    let mut server = Server::new();
    server
        .apply("m1", spec(json!({"replicas": 3, "name": "x"})))
        .unwrap();
    assert_eq!(
        server.spec(),
        &json!({"mode": "auto", "name": "x", "replicas": 3})
    );
    assert_eq!(
        server.owners(),
        [(
            "m1 Apply".to_owned(),
            json!({"f:spec": {"f:name": {}, "f:replicas": {}}})
        )]
    );
    server
        .apply("m1", spec(json!({"replicas": 3, "name": "x"})))
        .unwrap();
    assert_eq!(server.writes, 1, "applying the same again stores nothing");
}

#[test]
fn the_same_value_is_shared_without_a_time() {
    let mut server = Server::new();
    server
        .apply("m1", spec(json!({"replicas": 3, "name": "x"})))
        .unwrap();
    server.apply("m2", spec(json!({"replicas": 3}))).unwrap();
    assert_eq!(server.writes, 2, "a new owner is a change");
    assert_eq!(
        server.owners(),
        [
            (
                "m2 Apply timeless".to_owned(),
                json!({"f:spec": {"f:replicas": {}}})
            ),
            (
                "m1 Apply".to_owned(),
                json!({"f:spec": {"f:name": {}, "f:replicas": {}}})
            ),
        ]
    );
}

#[test]
fn another_value_is_a_conflict_unless_forced() {
    let mut server = Server::new();
    server
        .apply("m1", spec(json!({"replicas": 3, "name": "x"})))
        .unwrap();
    let status = server.refused("m2", spec(json!({"replicas": 4})));
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Apply failed with 1 conflict: conflict with \"m1\": .spec.replicas",
            "reason": "Conflict", "code": 409,
            "details": {"causes": [{
                "reason": "FieldManagerConflict",
                "message": "conflict with \"m1\"",
                "field": ".spec.replicas",
            }]},
        })
    );
    server.force("m2", spec(json!({"replicas": 4})));
    assert_eq!(server.spec()["replicas"], 4);
    assert_eq!(
        server.owners(),
        [
            ("m1 Apply".to_owned(), json!({"f:spec": {"f:name": {}}})),
            ("m2 Apply".to_owned(), json!({"f:spec": {"f:replicas": {}}})),
        ]
    );
    // A field that is no longer applied is removed, and its default comes back.
    server.apply("m2", spec(json!({}))).unwrap();
    assert_eq!(
        server.spec(),
        &json!({"mode": "auto", "name": "x", "replicas": 1})
    );
    assert_eq!(server.owned_by("m2 Apply"), json!({"f:spec": {}}));
    server.apply("m1", spec(json!({}))).unwrap();
    assert_eq!(server.spec(), &json!({"mode": "auto", "replicas": 1}));
}

#[test]
fn conflicts_list_members_before_their_descendants() {
    let mut server = Server::new();
    let mine = json!({
        "replicas": 1, "name": "x", "atomicMap": {"a": "1"},
        "ports": [{"port": 80, "name": "http"}],
    });
    server.apply("m1", spec(mine)).unwrap();
    server.patch("", "upd", &json!({"spec": {"enabled": true}}));
    let theirs = json!({
        "replicas": 2, "name": "y", "atomicMap": {"a": "2"}, "enabled": false,
        "ports": [{"port": 80, "name": "web"}],
    });
    let status = server.refused("m2", spec(theirs));
    assert_eq!(
        status.message,
        "Apply failed with 5 conflicts: conflicts with \"m1\":\n- .spec.atomicMap\n- .spec.name\n\
         - .spec.replicas\n- .spec.ports[port=80,proto=\"TCP\"].name\n\
         conflicts with \"upd\" using rec.example.com/v1:\n- .spec.enabled"
    );
    assert_eq!(status.details.unwrap().causes.len(), 5);
}

#[test]
fn sets_are_merged_in_the_applied_order() {
    let mut server = Server::new();
    server
        .apply("m1", spec(json!({"tags": ["a", "b"]})))
        .unwrap();
    assert_eq!(
        server.owned_by("m1 Apply"),
        json!({"f:spec": {"f:tags": {"v:\"a\"": {}, "v:\"b\"": {}}}})
    );
    server
        .apply("m2", spec(json!({"tags": ["b", "c"]})))
        .unwrap();
    assert_eq!(server.spec()["tags"], json!(["a", "b", "c"]));
    server.apply("m1", spec(json!({"tags": ["b"]}))).unwrap();
    assert_eq!(server.spec()["tags"], json!(["b", "c"]));
    server
        .apply("m2", spec(json!({"tags": ["c", "b"]})))
        .unwrap();
    assert_eq!(server.spec()["tags"], json!(["c", "b"]));
    // An empty associative list owns nothing, and a manager without fields has no entry.
    server.apply("m2", spec(json!({"tags": []}))).unwrap();
    assert_eq!(server.spec()["tags"], json!(["b"]));
    assert_eq!(
        server.owners(),
        [(
            "m1 Apply".to_owned(),
            json!({"f:spec": {"f:tags": {"v:\"b\"": {}}}})
        )]
    );
}

#[test]
fn list_items_are_found_by_their_keys() {
    let mut server = Server::new();
    let body = json!({"ports": [{"port": 80, "name": "http"}, {"port": 53, "proto": "UDP", "name": "dns"}]});
    server.apply("m1", spec(body)).unwrap();
    let first = json!({"f:spec": {"f:ports": {
        "k:{\"port\":53,\"proto\":\"UDP\"}": {".": {}, "f:name": {}, "f:port": {}, "f:proto": {}},
        "k:{\"port\":80,\"proto\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}},
    }}});
    assert_eq!(
        server.owned_by("m1 Apply"),
        first,
        "a defaulted key is in the path only"
    );

    server
        .apply(
            "m2",
            spec(json!({"ports": [{"port": 80, "opts": {"a": "1"}}]})),
        )
        .unwrap();
    let both = json!([
        {"name": "http", "opts": {"a": "1"}, "port": 80, "proto": "TCP"},
        {"name": "dns", "port": 53, "proto": "UDP"},
    ]);
    assert_eq!(server.spec()["ports"], both);
    let status = server.refused("m2", spec(json!({"ports": [{"port": 80, "name": "web"}]})));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.ports[port=80,proto=\"TCP\"].name"
    );

    let body = json!({"ports": [{"port": 443}, {"port": 80, "opts": {"a": "2"}}]});
    server.apply("m2", spec(body)).unwrap();
    assert_eq!(
        server.spec()["ports"],
        json!([
            {"port": 443, "proto": "TCP"},
            {"name": "http", "opts": {"a": "2"}, "port": 80, "proto": "TCP"},
            {"name": "dns", "port": 53, "proto": "UDP"},
        ])
    );
    server
        .apply("m1", spec(json!({"ports": [{"port": 53, "proto": "UDP"}]})))
        .unwrap();
    assert_eq!(
        server.spec()["ports"],
        json!([
            {"port": 443, "proto": "TCP"},
            {"opts": {"a": "2"}, "port": 80, "proto": "TCP"},
            {"port": 53, "proto": "UDP"},
        ])
    );
    server.apply("m2", spec(json!({}))).unwrap();
    assert_eq!(
        server.spec()["ports"],
        json!([{"port": 53, "proto": "UDP"}])
    );
    assert_eq!(server.owned_by("m2 Apply"), json!({"f:spec": {}}));
}

#[test]
fn structs_and_maps_are_owned_differently() {
    let mut server = Server::new();
    let body =
        json!({"labels": {"a": "1"}, "nested": {"x": {"y": "s", "z": 1}, "m": {"k": {"v": 1}}}});
    server.apply("m1", spec(body)).unwrap();
    assert_eq!(
        server.owned_by("m1 Apply"),
        json!({"f:spec": {
            "f:labels": {"f:a": {}},
            "f:nested": {"f:m": {"f:k": {".": {}, "f:v": {}}}, "f:x": {"f:y": {}, "f:z": {}}},
        }})
    );
    let body = json!({"labels": {"b": "2"}, "nested": {"m": {"k": {"w": "q"}, "l": {"v": 2}}}});
    server.apply("m2", spec(body)).unwrap();
    let theirs = json!({"f:spec": {
        "f:labels": {"f:b": {}},
        "f:nested": {"f:m": {"f:k": {".": {}, "f:w": {}}, "f:l": {".": {}, "f:v": {}}}},
    }});
    assert_eq!(server.owned_by("m2 Apply"), theirs);

    server
        .apply(
            "m1",
            spec(json!({"labels": {}, "nested": {"x": {"y": "s"}}})),
        )
        .unwrap();
    assert_eq!(
        server.spec(),
        &json!({
            "labels": {"b": "2"}, "mode": "auto", "replicas": 1,
            "nested": {"m": {"k": {"w": "q"}, "l": {"v": 2}}, "x": {"y": "s"}},
        })
    );
    assert_eq!(
        server.owned_by("m1 Apply"),
        json!({"f:spec": {"f:labels": {}, "f:nested": {"f:x": {"f:y": {}}}}})
    );
    server.apply("m1", spec(json!({}))).unwrap();
    assert_eq!(
        server.spec()["nested"],
        json!({"m": {"k": {"w": "q"}, "l": {"v": 2}}}),
        "a struct goes when nothing is left in it"
    );
    assert_eq!(server.owned_by("m2 Apply"), theirs);
    // A struct that is still applied stays, empty.
    server.apply("m2", spec(json!({"nested": {}}))).unwrap();
    assert_eq!(
        server.spec(),
        &json!({"mode": "auto", "replicas": 1, "nested": {}})
    );
}

/// Pruning relies on field sets, which do not contain empty associative lists. Upstream removes such a
/// struct from all managers, and so does this.
#[test]
fn a_struct_of_empty_associative_lists_counts_as_empty() {
    let mut server = Server::new();
    server.apply("theirs", spec(json!({}))).unwrap();
    server
        .apply("mine", spec(json!({"name": "x", "ports": []})))
        .unwrap();
    server.apply("mine", json!({})).unwrap();
    assert_eq!(server.object.as_ref().unwrap().get("spec"), None);
}

#[test]
fn atomic_containers_are_one_field() {
    let mut server = Server::new();
    server
        .apply("m1", spec(json!({"atomicMap": {"a": "1"}})))
        .unwrap();
    assert_eq!(
        server.owned_by("m1 Apply"),
        json!({"f:spec": {"f:atomicMap": {}}})
    );
    let status = server.refused("m2", spec(json!({"atomicMap": {"b": "2"}})));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.atomicMap"
    );
    server.force("m2", spec(json!({"atomicMap": {"b": "2"}})));
    assert_eq!(server.spec()["atomicMap"], json!({"b": "2"}));
    assert_eq!(
        server.owners(),
        [(
            "m2 Apply".to_owned(),
            json!({"f:spec": {"f:atomicMap": {}}})
        )],
        "a manager without fields has no entry"
    );
    server.apply("m1", spec(json!({"plain": ["a"]}))).unwrap();
    let body = json!({"atomicMap": {"b": "2"}, "plain": ["a", "b"]});
    assert_eq!(server.refused("m2", spec(body)).code, 409);
    server
        .apply("m2", spec(json!({"atomicMap": {"b": "2"}, "plain": ["a"]})))
        .unwrap();
    assert_eq!(
        server.owned_by("m1 Apply"),
        json!({"f:spec": {"f:plain": {}}})
    );
}

#[test]
fn free_form_parts_are_deduced() {
    let mut server = Server::new();
    server
        .apply(
            "m1",
            spec(json!({"free": {"k": {"a": 1, "l": [1, 2]}, "s": "x"}})),
        )
        .unwrap();
    assert_eq!(
        server.owned_by("m1 Apply"),
        json!({"f:spec": {"f:free": {"f:k": {".": {}, "f:a": {}, "f:l": {}}, "f:s": {}}}})
    );
    server
        .apply("m2", spec(json!({"free": {"k": {"b": 2}}})))
        .unwrap();
    assert_eq!(
        server.spec()["free"],
        json!({"k": {"a": 1, "b": 2, "l": [1, 2]}, "s": "x"})
    );
    let status = server.refused("m2", spec(json!({"free": {"k": {"l": [1, 2, 3]}}})));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.free.k.l"
    );
    server
        .apply("m1", spec(json!({"free": {"s": "x"}})))
        .unwrap();
    assert_eq!(server.spec()["free"], json!({"k": {"b": 2}, "s": "x"}));
    server.apply("m1", spec(json!({"qty": "50%"}))).unwrap();
    assert_eq!(
        server.spec(),
        &json!({"free": {"k": {"b": 2}}, "mode": "auto", "qty": "50%", "replicas": 1})
    );
    server.force("m2", spec(json!({"qty": 5})));
    assert_eq!(
        server.spec(),
        &json!({"mode": "auto", "qty": 5, "replicas": 1})
    );
    assert_eq!(
        server.owners(),
        [("m2 Apply".to_owned(), json!({"f:spec": {"f:qty": {}}}))]
    );
}

#[rstest]
#[case(json!({"bogus": 1}), ".spec.bogus: field not declared in schema")]
#[case(json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string")]
#[case(json!({"tags": ["b", "b"]}), ".spec.tags: duplicate entries for key [=\"b\"]")]
#[case(
    json!({"ports": [{"port": 1}, {"port": 1}]}),
    ".spec.ports: duplicate entries for key [port=1,proto=\"TCP\"]"
)]
#[case(
    json!({"tags": [1.0, 1]}),
    "errors:\n  .spec.tags[=1]: expected string, got &value.valueUnstructured{Value:1}\n  .spec.tags: duplicate entries for key [=1]\n  .spec.tags[=1]: expected string, got &value.valueUnstructured{Value:1}"
)]
#[case(json!({"atomicMap": {"c": 1}}), ".spec.atomicMap.c: field not declared in schema")]
fn bodies_of_the_wrong_type_are_plain_500s(#[case] body: Value, #[case] why: &str) {
    let mut server = Server::new();
    server.apply("m1", spec(json!({"name": "x"}))).unwrap();
    let status = server.refused("m1", spec(body));
    assert_eq!(
        status.message,
        format!("failed to create typed patch object (/a; rec.example.com/v1, Kind=Thing): {why}")
    );
    assert_eq!((status.code, status.reason.as_str()), (500, ""));
    assert_eq!(status.details, None);
}

#[test]
fn configuration_with_managed_fields_is_rejected() {
    let mut server = Server::new();
    let status = server.refused("m1", json!({"metadata": {"managedFields": []}}));
    assert_eq!(
        (status.code, status.reason.as_str(), status.message.as_str()),
        (400, "BadRequest", "metadata.managedFields must be nil")
    );
    let status = server.refused("m1", json!({"metadata": {"managedFields": "x"}}));
    assert_eq!(
        (status.code, status.message.as_str()),
        (
            500,
            "failed to create typed patch object (/a; rec.example.com/v1, Kind=Thing): \
             .metadata.managedFields: expected list, got &{x}"
        )
    );
    server
        .apply("m1", json!({"metadata": {"managedFields": null}}))
        .unwrap();
}

#[test]
fn status_is_not_written_through_the_main_endpoint() {
    let mut server = Server::new();
    server.put(
        "",
        "creator",
        super::support::identified(spec(json!({"name": "x"}))),
    );
    let up =
        json!({"status": {"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}});
    server.apply_to("status", "st", up, false).unwrap();
    assert_eq!(
        server.owned_by("st Apply/status"),
        json!({"f:status": {
            "f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:type": {}}},
            "f:phase": {},
        }})
    );
    let down = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let error = server.apply_to("status", "st2", down, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"st\" with subresource \"status\": \
         .status.conditions[type=\"Ready\"].status"
    );
    let old = json!({
        "spec": {"name": "ignored"},
        "status": {"conditions": [{"type": "Old", "status": "True"}]},
    });
    server.apply_to("status", "st2", old, false).unwrap();
    assert_eq!(server.spec()["name"], "x");
    assert_eq!(
        server.owned_by("st2 Apply/status"),
        json!({"f:status": {
            "f:conditions": {"k:{\"type\":\"Old\"}": {".": {}, "f:status": {}, "f:type": {}}},
        }})
    );
    let writes = server.writes;
    server
        .apply("st", json!({"status": {"phase": "ignored"}}))
        .unwrap();
    assert_eq!(
        server.writes, writes,
        "a body of nothing but reset fields stores nothing"
    );
    assert_eq!(server.owned_by("st Apply"), Value::Null);
}

#[test]
fn metadata_has_a_type_of_its_own() {
    let mut server = Server::new();
    let body = json!({"metadata": {
        "labels": {"a": "b"}, "annotations": {"x": "y"}, "finalizers": ["x.example.com/f"],
    }});
    server.apply("mm", body).unwrap();
    assert_eq!(
        server.owned_by("mm Apply"),
        json!({"f:metadata": {
            "f:annotations": {"f:x": {}},
            "f:finalizers": {"v:\"x.example.com/f\"": {}},
            "f:labels": {"f:a": {}},
        }})
    );
    server
        .apply(
            "mm2",
            json!({"metadata": {"finalizers": ["x.example.com/g"]}}),
        )
        .unwrap();
    server.apply("mm", json!({})).unwrap();
    assert_eq!(server.metadata("finalizers"), &json!(["x.example.com/g"]));
    assert_eq!(server.metadata("labels"), &Value::Null);
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u1"});
    server
        .apply("o1", json!({"metadata": {"ownerReferences": [owner]}}))
        .unwrap();
    assert_eq!(
        server.owned_by("o1 Apply"),
        json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"u1\"}": {}}}})
    );
}

#[test]
fn a_null_key_is_a_key_of_its_own() {
    let mut server = Server::new();
    let body = json!({"ports": [{"port": 1, "proto": null}]});
    server.apply("m1", spec(body)).unwrap();
    assert_eq!(
        server.owned_by("m1 Apply")["f:spec"]["f:ports"],
        json!({"k:{\"port\":1,\"proto\":null}": {".": {}, "f:port": {}, "f:proto": {}}})
    );
}

#[test]
fn null_is_a_value_and_removes_nothing() {
    let mut server = Server::new();
    server.apply("m1", spec(json!({"name": null}))).unwrap();
    assert_eq!(server.spec()["name"], Value::Null);
    assert_eq!(
        server.owned_by("m1 Apply"),
        json!({"f:spec": {"f:name": {}}})
    );
    assert!(server.spec().as_object().unwrap().contains_key("name"));
}

#[test]
fn kubectl_takes_over_client_side_applied_fields() {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let before = json!({
        "apiVersion": "rec.example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
        "spec": {"name": "x", "replicas": 2},
    });
    let start = || {
        let mut server = Server::new();
        let mut object = before.clone();
        object["metadata"]["annotations"] = json!({ LAST: before.to_string() });
        server.put("", "kubectl-client-side-apply", object);
        server
    };
    let body = || spec(json!({"name": "y"}));
    assert_eq!(start().refused("other", body()).code, 409);

    let mut server = start();
    server.apply("kubectl", body()).unwrap();
    assert_eq!(server.spec()["name"], "y");
    let annotation = server.metadata("annotations")[LAST].as_str().unwrap();
    assert!(annotation.ends_with("}\n"));
    assert_eq!(
        serde_json::from_str::<Value>(annotation).unwrap(),
        json!({
            "apiVersion": "rec.example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
            "spec": {"name": "y"},
        })
    );
    assert_eq!(
        server.owned_by("kubectl Apply"),
        json!({"f:spec": {"f:name": {}}})
    );
    let left = server.owned_by("kubectl-client-side-apply Update");
    assert_eq!(
        left["f:spec"],
        json!({".": {}, "f:mode": {}, "f:replicas": {}})
    );

    // Fields changed by another manager since then are not taken over.
    let mut server = start();
    server.patch("", "upd", &json!({"spec": {"replicas": 5}}));
    let status = server.refused("kubectl", spec(json!({"name": "y", "replicas": 3})));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"upd\" using rec.example.com/v1: .spec.replicas"
    );
}
