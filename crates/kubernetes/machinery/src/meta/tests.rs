use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::field::{FieldError, Path};
use crate::names::name_is_dns_subdomain;

fn create(meta: &Value, namespaced: bool) -> Vec<String> {
    let path = Path::new("metadata");
    messages(&validate_object_meta(
        meta,
        namespaced,
        name_is_dns_subdomain,
        &path,
    ))
}

fn update(new: &Value, old: &Value) -> Vec<String> {
    messages(&validate_object_meta_update(
        new,
        old,
        &Path::new("metadata"),
    ))
}

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn reference(name: &str, controller: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "1", "controller": controller})
}

#[test]
fn a_name_is_needed() {
    assert_eq!(
        create(&json!({}), false),
        ["metadata.name: Required value: name or generateName is required"]
    );
    assert!(create(&json!({"name": "a"}), false).is_empty());
    assert!(
        create(
            &json!({"name": "a-b2", "generateName": "a-", "namespace": "n"}),
            true
        )
        .is_empty()
    );
    assert!(create(&json!({"name": "A_"}), false)[0].starts_with(
        "metadata.name: Invalid value: \"A_\": a lowercase RFC 1123 subdomain must consist"
    ));
}

#[test]
fn the_namespace_has_to_fit_the_scope() {
    assert_eq!(
        create(&json!({"name": "a"}), true),
        ["metadata.namespace: Required value"]
    );
    assert_eq!(
        create(&json!({"name": "a", "namespace": "n"}), false),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
    assert_eq!(
        create(&json!({"name": "a", "namespace": "n.m"}), true),
        ["metadata.namespace: Invalid value: \"n.m\": must not contain dots"]
    );
}

#[test]
fn labels_annotations_and_generation() {
    let meta = json!({"name": "a", "generation": -1, "labels": {"ok": "-"}, "annotations": {"UP/Key": "any thing", "a/b/c": ""}});
    let found = create(&meta, false);
    assert_eq!(
        found[0],
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0"
    );
    assert!(found[1].starts_with(
        "metadata.labels: Invalid value: \"-\": a valid label must be an empty string"
    ));
    assert!(
        found[2].starts_with("metadata.annotations: Invalid value: \"a/b/c\": a valid label key")
    );
    assert_eq!(found.len(), 3);
    let big = json!({"name": "a", "annotations": {"k": "x".repeat(ANNOTATIONS_MAX)}});
    assert_eq!(
        create(&big, false),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    let full = json!({"name": "a", "annotations": {"k": "x".repeat(ANNOTATIONS_MAX - 1)}});
    assert!(create(&full, false).is_empty());
}

#[test]
fn owner_references_are_complete_and_have_one_controller() {
    let meta = json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": ""}]});
    assert_eq!(
        create(&meta, false),
        ["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"]
    );
    let meta =
        json!({"name": "a", "ownerReferences": [reference("x", true), reference("y", true)]});
    let found = create(&meta, false);
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with(
        "Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/x and ConfigMap/y"
    ));
    let event = json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "1"}]});
    assert!(
        create(&event, false)[0].ends_with("/v1, Kind=Event is disallowed from being an owner")
    );
}

#[test]
fn finalizers_are_qualified_and_do_not_contradict() {
    let meta = json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]});
    assert_eq!(
        create(&meta, false),
        [
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set"
        ]
    );
    assert!(
        create(&json!({"name": "a", "finalizers": ["b c"]}), false)[0]
            .starts_with("metadata.finalizers: Invalid value: \"b c\": name part must consist of")
    );
}

#[test]
fn unqualified_finalizers_are_warned_about() {
    let meta =
        json!({"finalizers": ["nodomain", "dot.ted", "example.com/f", "orphan", "kubernetes"]});
    assert_eq!(
        finalizer_warnings(&meta, &Path::new("metadata").child("finalizers")),
        [
            "metadata.finalizers: \"nodomain\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers",
            "metadata.finalizers: \"dot.ted\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers",
        ]
    );
}

#[test]
fn managed_fields_are_checked_for_form() {
    let meta = json!({"name": "a", "managedFields": [{"operation": "Bogus", "fieldsType": "V2", "manager": "a\nb", "subresource": "s".repeat(257)}]});
    assert_eq!(
        create(&meta, false),
        [
            "metadata.managedFields[0].operation: Invalid value: \"Bogus\": must be `Apply` or `Update`",
            "metadata.managedFields[0].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[0].manager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
        ]
    );
}

#[test]
fn updates_keep_identity() {
    let old = json!({"name": "a", "namespace": "n", "uid": "1", "generation": 2, "creationTimestamp": "2026-11-15T20:00:00Z"});
    let mut new = old.clone();
    new["resourceVersion"] = json!("5");
    assert!(update(&new, &old).is_empty());
    assert_eq!(
        update(
            &json!({"name": "b", "namespace": "n", "uid": "123", "generation": 1}),
            &old
        ),
        [
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.uid: Invalid value: \"123\": field is immutable",
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
        ]
    );
}

#[test]
fn deleting_object_rejects_new_finalizers() {
    let old =
        json!({"name": "a", "deletionTimestamp": "2026-11-15T20:00:00Z", "finalizers": ["a/b"]});
    let mut new = old.clone();
    new["resourceVersion"] = json!("5");
    new["finalizers"] = json!(["z/z", "a/b", "new/one"]);
    assert_eq!(
        update(&new, &old),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"new/one\", \"z/z\"}"
        ]
    );
    new["finalizers"] = json!([]);
    assert!(update(&new, &old).is_empty());
}

#[test]
fn decoding_drops_unknown_and_empty_fields() {
    let meta = json!({
        "name": "a", "generateName": "", "namespace": null, "bogus": 1, "generation": 2.0,
        "labels": {"a": null, "b": "c"}, "annotations": {}, "finalizers": [],
        "creationTimestamp": null, "deletionTimestamp": "2026-11-15T20:11:32.5+02:00",
        "deletionGracePeriodSeconds": 0,
        "ownerReferences": [{"name": "o", "extra": true, "controller": null}],
        "managedFields": [{"manager": "m", "time": "2026-11-15T20:11:32Z", "fieldsV1": {"f:a": {}}, "subresource": "", "what": 1}],
    });
    let (canonical, unknown) = decode_object_meta(&meta).unwrap();
    assert_eq!(
        canonical,
        json!({
            "name": "a", "generation": 2, "labels": {"a": "", "b": "c"},
            "deletionTimestamp": "2026-11-15T18:11:32Z", "deletionGracePeriodSeconds": 0,
            "ownerReferences": [{"apiVersion": "", "kind": "", "name": "o", "uid": ""}],
            "managedFields": [{"manager": "m", "time": "2026-11-15T20:11:32Z", "fieldsV1": {"f:a": {}}}],
        })
    );
    assert_eq!(
        unknown,
        [
            "metadata.bogus",
            "metadata.managedFields[0].what",
            "metadata.ownerReferences[0].extra"
        ]
    );
    assert_eq!(
        decode_object_meta(&canonical).unwrap(),
        (canonical.clone(), vec![])
    );
    assert_eq!(
        decode_object_meta(&Value::Null).unwrap(),
        (json!({}), vec![])
    );
}

#[rstest]
#[case(json!({"labels": {"a": 1}}), "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string")]
#[case(json!({"labels": "x"}), "json: cannot unmarshal string into Go struct field ObjectMeta.labels of type map[string]string")]
#[case(json!({"name": 5}), "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string")]
#[case(json!({"uid": true}), "json: cannot unmarshal bool into Go struct field ObjectMeta.uid of type types.UID")]
#[case(json!({"generation": 1.5}), "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64")]
#[case(json!({"finalizers": {}}), "json: cannot unmarshal object into Go struct field ObjectMeta.finalizers of type []string")]
#[case(json!({"ownerReferences": ["x"]}), "json: cannot unmarshal string into Go struct field ObjectMeta.ownerReferences of type v1.OwnerReference")]
#[case(json!({"ownerReferences": [{"uid": 1}]}), "json: cannot unmarshal number into Go struct field OwnerReference.ownerReferences.uid of type types.UID")]
#[case(json!({"managedFields": [{"operation": 1}]}), "json: cannot unmarshal number into Go struct field ManagedFieldsEntry.managedFields.operation of type v1.ManagedFieldsOperationType")]
#[case(json!({"creationTimestamp": 5}), "json: cannot unmarshal number into Go struct field ObjectMeta.creationTimestamp of type string")]
#[case(json!({"creationTimestamp": "x"}), "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"")]
#[case(json!("x"), "json: cannot unmarshal string into Go value of type v1.ObjectMeta")]
#[case(json!({"bogus": 1, "labels": [], "name": 5}), "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string")]
fn type_mismatches_have_gos_texts(#[case] meta: Value, #[case] message: &str) {
    assert_eq!(decode_object_meta(&meta).unwrap_err(), message);
}

#[test]
fn owner_references_are_deduplicated() {
    let mut object = json!({"metadata": {"ownerReferences": [reference("x", false), reference("y", false), reference("x", false)]}});
    let dropped = dedup_owner_references(&mut object);
    assert_eq!(dropped, ["1"]);
    assert_eq!(
        owner_references(&object)
            .iter()
            .map(|o| o.name)
            .collect::<Vec<_>>(),
        ["x", "y"]
    );
    assert_eq!(
        duplicate_owners_warning(&dropped, false),
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: 1"
    );
    assert!(dedup_owner_references(&mut json!({})).is_empty());
}

#[test]
fn controller_is_the_owner_with_controller_true() {
    let object =
        json!({"metadata": {"ownerReferences": [reference("x", false), reference("y", true)]}});
    assert_eq!(controller_of(&object).unwrap().name, "y");
    assert_eq!(controller_of(&json!({})), None);
}

#[test]
fn generated_names_have_five_characters_of_the_alphabet() {
    let mut numbers = [0, 26, 27, 5, 28].into_iter();
    assert_eq!(
        generate_name("web-", || numbers.next().unwrap()),
        "web-b9bhc"
    );
    let long = generate_name(&"é".repeat(40), || 0);
    assert_eq!(long, "é".repeat(29) + "bbbbb");
    assert_eq!(generate_name(&"a".repeat(80), || 1).len(), 63);
}

#[test]
fn accessors_read_and_setters_leave_no_empty_fields() {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    set_name(&mut object, "a");
    set_namespace(&mut object, "n");
    set_uid(&mut object, "u");
    set_resource_version(&mut object, "7");
    set_generation(&mut object, 3);
    set_label(&mut object, "app", Some("x"));
    set_annotation(&mut object, "note", Some("y"));
    set_finalizers(&mut object, ["a/b"]);
    set_managed_fields(&mut object, vec![json!({"manager": "m"})]);
    let time = "2026-11-15T20:11:32.7Z".parse().unwrap();
    set_creation_timestamp(&mut object, time);
    assert!(!is_deleting(&object));
    set_deletion_timestamp(&mut object, time, 0);
    assert!(is_deleting(&object));
    assert_eq!(
        (name(&object), namespace(&object), uid(&object)),
        ("a", "n", "u")
    );
    assert_eq!((resource_version(&object), generation(&object)), ("7", 3));
    assert_eq!((api_version(&object), kind(&object)), ("v1", "ConfigMap"));
    assert_eq!(label(&object, "app"), Some("x"));
    assert_eq!(annotation(&object, "note"), Some("y"));
    assert_eq!(finalizers(&object), ["a/b"]);
    assert_eq!(managed_fields(&object).len(), 1);
    assert_eq!(creation_timestamp(&object), Some("2026-11-15T20:11:32Z"));
    assert_eq!(deletion_grace_period_seconds(&object), Some(0));
    set_label(&mut object, "app", None);
    set_finalizers(&mut object, Vec::<String>::new());
    set_namespace(&mut object, "");
    set_managed_fields(&mut object, vec![]);
    for field in ["labels", "finalizers", "namespace", "managedFields"] {
        assert!(object["metadata"].get(field).is_none(), "{field}");
    }
    assert_eq!(
        generate_name_base(&json!({"metadata": {"generateName": "g-"}})),
        "g-"
    );
    assert_eq!(name(&json!({"metadata": null})), "");
}
