//! Creates, updates and patches, and how they meet appliers.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::{Server, identified};

fn created() -> Server {
    let mut server = Server::new();
    let body = json!({
        "metadata": {"labels": {"l": "1"}},
        "spec": {"replicas": 2, "tags": ["a"], "ports": [{"port": 1}]},
    });
    server.put("", "creator", identified(body));
    server
}

#[test]
fn a_create_owns_containers_and_defaults() {
    assert_eq!(
        created().owners(),
        [(
            "creator Update".to_owned(),
            json!({
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
                "f:spec": {
                    ".": {}, "f:mode": {}, "f:replicas": {}, "f:tags": {".": {}, "v:\"a\"": {}},
                    "f:ports": {
                        ".": {},
                        "k:{\"port\":1,\"proto\":\"TCP\"}": {".": {}, "f:port": {}, "f:proto": {}},
                    },
                },
            })
        )]
    );
}

#[test]
fn updates_own_changed_fields_and_lose_removed_ones() {
    let mut server = created();
    server
        .apply("m1", json!({"spec": {"replicas": 2}}))
        .unwrap();
    assert_eq!(
        server.owned_by("m1 Apply timeless"),
        json!({"f:spec": {"f:replicas": {}}})
    );
    let status = server.refused("m1", json!({"spec": {"replicas": 5}}));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"creator\" using rec.example.com/v1: .spec.replicas"
    );
    server.force("m1", json!({"spec": {"replicas": 5}}));
    server.patch("", "upd", &json!({"spec": {"replicas": 6, "name": "q"}}));
    assert_eq!(
        server.owned_by("upd Update"),
        json!({"f:spec": {"f:name": {}, "f:replicas": {}}})
    );
    assert_eq!(
        server.owned_by("m1 Apply"),
        Value::Null,
        "an update takes from appliers too"
    );
    server.patch(
        "",
        "upd",
        &json!({"spec": {"replicas": null, "name": null}}),
    );
    assert_eq!(server.spec()["replicas"], 1);
    assert_eq!(
        server.owned_by("upd Update"),
        json!({"f:spec": {"f:replicas": {}}})
    );

    let mut object = server.object.clone().unwrap();
    object["spec"]["tags"] = json!(["a", "z"]);
    object["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("l");
    object["metadata"].as_object_mut().unwrap().remove("labels");
    server.put("", "jp", object);
    assert_eq!(
        server.owned_by("jp Update"),
        json!({"f:spec": {"f:tags": {"v:\"z\"": {}}}})
    );
    assert_eq!(
        server.owned_by("creator Update"),
        json!({"f:spec": {
            ".": {}, "f:mode": {}, "f:tags": {".": {}, "v:\"a\"": {}},
            "f:ports": {
                ".": {},
                "k:{\"port\":1,\"proto\":\"TCP\"}": {".": {}, "f:port": {}, "f:proto": {}},
            },
        }})
    );
}

#[test]
fn the_same_object_again_stores_nothing() {
    let mut server = created();
    let writes = server.writes;
    server.put("", "other", server.object.clone().unwrap());
    assert_eq!(server.writes, writes);
    assert_eq!(server.owned_by("other Update"), Value::Null);
}

#[rstest]
#[case(json!([]))]
#[case(json!([{}]))]
#[case(json!([{"manager": "", "time": null}]))]
fn tracking_can_be_reset(#[case] sent: Value) {
    let mut server = created();
    server.patch("", "rst", &json!({"metadata": {"managedFields": sent}}));
    assert_eq!(server.metadata("managedFields"), &Value::Null);
    // Nothing is tracked until the next apply, which finds an owner for all there is.
    server.patch("", "upd", &json!({"spec": {"name": "q"}}));
    assert_eq!(server.metadata("managedFields"), &Value::Null);
    let status = server.refused("after", json!({"spec": {"mode": "manual"}}));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using rec.example.com/v1: .spec.mode"
    );
    server
        .apply("after", json!({"spec": {"enabled": true}}))
        .unwrap();
    let before = server.owned_by("before-first-apply Update");
    assert_eq!(before["f:spec"]["f:name"], json!({}));
    assert_eq!(before["f:spec"]["."], json!({}));
    assert_eq!(
        server.owned_by("after Apply"),
        json!({"f:spec": {"f:enabled": {}}})
    );
}

#[rstest]
#[case::absent(None)]
#[case::null(Some(json!(null)))]
#[case::not_a_list(Some(json!("x")))]
#[case::unknown_operation(Some(json!([{
    "manager": "x", "operation": "Bogus", "apiVersion": "v1", "fieldsType": "FieldsV1",
}])))]
#[case::no_version(Some(json!([{
    "manager": "x", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}},
}])))]
#[case::other_format(Some(json!([{
    "manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2",
}])))]
#[case::broken_set(Some(json!([{
    "manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
    "fieldsV1": {"fa": {}},
}])))]
fn entries_that_cannot_be_read_leave_the_live_ones(#[case] sent: Option<Value>) {
    let mut server = created();
    let owners = server.owners();
    let mut object = server.object.clone().unwrap();
    match sent {
        Some(sent) => object["metadata"]["managedFields"] = sent,
        None => {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
        }
    }
    let writes = server.writes;
    server.put("", "other", object);
    assert_eq!((server.owners(), server.writes), (owners, writes));
}

#[test]
fn a_client_may_rewrite_entries_but_not_through_a_subresource() {
    let mut server = created();
    let entry = json!({
        "manager": "kubectl", "operation": "Apply", "apiVersion": "rec.example.com/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "time": "2026-11-15T20:11:32Z",
    });
    let patch = json!({"metadata": {"managedFields": [entry]}});
    let owners = server.owners();
    server.patch("status", "st", &patch);
    assert_eq!(server.owners(), owners);
    server.patch("", "any", &patch);
    assert_eq!(server.metadata("managedFields"), &json!([entry]));
}

#[test]
fn status_updates_have_entries_of_their_own() {
    let mut server = created();
    server.patch(
        "status",
        "st",
        &json!({"spec": {"name": "no"}, "status": {"phase": "Up"}}),
    );
    assert_eq!(
        server.owned_by("st Update/status"),
        json!({"f:status": {".": {}, "f:phase": {}}})
    );
    assert_eq!(server.spec().get("name"), None);
}

#[test]
fn old_update_entries_are_merged() {
    let mut server = created();
    for i in 0..12 {
        server.patch(
            "",
            &format!("w{i:02}"),
            &json!({"spec": {"labels": {format!("l{i}"): "x"}}}),
        );
    }
    let owners = server.owners();
    assert_eq!(owners.len(), 10);
    let (who, set) = &owners[0];
    assert_eq!(who, "ancient-changes Update");
    assert_eq!(
        set["f:spec"]["f:replicas"],
        json!({}),
        "the creator was the oldest"
    );
    assert_eq!(set["f:spec"]["f:labels"]["f:l2"], json!({}));
    assert_eq!(owners[1].0, "w03 Update");
    assert_eq!(owners[9].0, "w11 Update");
    // Appliers do not count.
    server
        .apply("m1", json!({"spec": {"enabled": true}}))
        .unwrap();
    assert_eq!(server.owners().len(), 11);
}

#[test]
fn an_object_without_its_type_is_not_tracked() {
    let mut server = created();
    server.patch("", "upd", &json!({"spec": {"replicas": "x"}}));
    assert_eq!(server.metadata("managedFields"), &Value::Null);
}

#[test]
fn duplicates_in_stored_objects_are_tolerated() {
    let mut server = Server::new();
    server.put(
        "",
        "creator",
        identified(json!({"spec": {"tags": ["a", "b", "a"]}})),
    );
    assert_eq!(
        server.owned_by("creator Update")["f:spec"]["f:tags"],
        json!({".": {}, "v:\"a\"": {}, "v:\"b\"": {}})
    );
    // They stay until a manager applies their key.
    server
        .apply("m1", json!({"spec": {"tags": ["c"]}}))
        .unwrap();
    assert_eq!(server.spec()["tags"], json!(["a", "b", "a", "c"]));
    server.force("m2", json!({"spec": {"tags": ["a"]}}));
    assert_eq!(server.spec()["tags"], json!(["a", "b", "c"]));
}
