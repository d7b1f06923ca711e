//! Field ownership as servers report it.

use rstest::rstest;
use serde_json::json;

use super::*;

/// A schema with a default; the creator of an object owns it, although it did not send it.
#[rstest]
#[case::default_of_the_creator("Update", "Predictive", false)]
#[case::applied_default("Apply", "Predictive", true)]
#[case::chosen("Update", "Automatic", true)]
fn default_belongs_to_a_manager_that_applied_it(
    #[case] operation: &str,
    #[case] mode: &str,
    #[case] is_chosen: bool,
) {
    let mode_schema = json!({ "type": "string", "default": "Predictive" });
    let definition = json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Thing", "plural": "things" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object",
                "properties": { "spec": { "type": "object", "properties": { "mode": mode_schema } } },
            } } }],
        },
    });
    let kind = Kind {
        version: "v1".to_owned(),
        plural: "things".to_owned(),
        definition: Some(std::sync::Arc::new(
            serde_json::from_value(definition).unwrap(),
        )),
        objects: BTreeMap::new(),
    };
    let live = json!({
        "metadata": { "managedFields": [{
            "manager": "hco", "operation": operation, "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:mode": {} } },
        }] },
        "spec": { "mode": mode },
    });
    let conflict = Conflict {
        manager: "hco".to_owned(),
        path: "spec.mode".to_owned(),
        since: None,
    };
    let left = chosen(vec![conflict.clone()], &live, Some(&kind));
    assert_eq!(!left.is_empty(), is_chosen);
    assert_eq!(chosen(vec![conflict.clone()], &live, None), [conflict]);
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn status(causes: &Value) -> Status {
    serde_json::from_value(json!({
        "status": "Failure", "code": 409, "reason": "Conflict",
        "message": "Apply failed with conflicts", "details": {"causes": causes},
    }))
    .unwrap()
}

#[rstest]
#[case(r#"conflict with "helm""#, "helm", None)]
#[case(
    r#"conflict with "kubectl-edit" using operator.openshift.io/v1"#,
    "kubectl-edit",
    None
)]
#[case(
    r#"conflict with "kubectl-edit" using operator.openshift.io/v1 at 2026-01-01T00:00:00Z"#,
    "kubectl-edit",
    Some(at("2026-01-01T00:00:00Z"))
)]
#[case(r#"conflict with "st" with subresource "status""#, "st", None)]
#[case(
    r#"conflict with "st" with subresource "status" using v1 at 2026-01-01T00:00:00Z"#,
    "st",
    Some(at("2026-01-01T00:00:00Z"))
)]
#[case(r#"conflict with "look at \"me\\" using v1"#, r#"look at "me\"#, None)]
fn owners_are_read_from_conflicts(
    #[case] message: &str,
    #[case] manager: &str,
    #[case] since: Option<Timestamp>,
) {
    let found = conflicts(&status(&json!([
        {"reason": "FieldManagerConflict", "message": message, "field": ".spec.profiles"},
    ])));
    let expected = Conflict {
        manager: manager.to_owned(),
        path: "spec.profiles".to_owned(),
        since,
    };
    assert_eq!(found, [expected]);
}

#[test]
fn list_keys_are_kept_as_printed() {
    let found = conflicts(&status(&json!([{
        "reason": "FieldManagerConflict", "message": "conflict with \"m\"",
        "field": ".spec.ports[port=80,proto=\"TCP\"].name",
    }])));
    assert_eq!(found[0].path, "spec.ports[port=80,proto=\"TCP\"].name");
}

#[test]
fn other_failures_are_no_conflicts() {
    assert_eq!(
        conflicts(&Status::failure("object has been modified", "Conflict")),
        []
    );
    let other =
        json!([{"reason": "FieldValueInvalid", "message": "conflict with \"x\"", "field": "a"}]);
    assert_eq!(conflicts(&status(&other)), []);
}

/// Dropped, it would be taken without consent by an apply that is forced for other conflicts.
#[test]
fn conflict_with_an_unreadable_owner_is_kept() {
    let strange = json!([{"reason": "FieldManagerConflict", "message": "nobody", "field": ".a"}]);
    let found = conflicts(&status(&strange));
    assert_eq!(found.len(), 1, "{found:?}");
}

fn conflict(manager: &str, path: &str) -> Conflict {
    Conflict {
        manager: manager.to_owned(),
        path: path.to_owned(),
        since: None,
    }
}

#[test]
fn takeovers_include_values() {
    let live = json!({"spec": {"limits": {"total": 9}, "mode": "Predictive"}});
    let desired = json!({"spec": {"limits": {"total": 5}, "mode": "Automatic"}});
    let ours = BTreeMap::from([("spec.limits".to_owned(), json!({"total": 5}))]);
    let mut dated = conflict("edit", "spec.mode");
    dated.since = Some(at("2026-01-01T00:00:00Z"));
    let found = takeovers(
        &[
            dated.clone(),
            conflict("helm", "spec.limits.total"),
            conflict("argo", "spec.limits.total"),
            dated,
        ],
        &live,
        &desired,
        Some(&ours),
    );
    let expected = |path: &str, manager: &str, values: (Value, Value), reclaimed| Takeover {
        path: path.to_owned(),
        manager: manager.to_owned(),
        since: None,
        live: Some(values.0),
        wanted: Some(values.1),
        reclaimed,
    };
    let mut mode = expected(
        "spec.mode",
        "edit",
        (json!("Predictive"), json!("Automatic")),
        false,
    );
    mode.since = Some(Time(at("2026-01-01T00:00:00Z")));
    assert_eq!(
        found,
        [
            expected("spec.limits.total", "argo", (json!(9), json!(5)), true),
            expected("spec.limits.total", "helm", (json!(9), json!(5)), true),
            mode,
        ]
    );
}

#[rstest]
#[case("spec.limits", true)]
#[case("spec.limits.total", true)]
#[case("spec.limits[a=1]", true)]
#[case("spec.limitsOfOthers", false)]
#[case("spec", false)]
fn only_our_former_paths_are_reclaimed(#[case] path: &str, #[case] reclaimed: bool) {
    let ours = BTreeMap::from([(".spec.limits".to_owned(), json!(1))]);
    let found = takeovers(&[conflict("m", path)], &json!({}), &json!({}), Some(&ours));
    assert_eq!(found[0].reclaimed, reclaimed);
    assert!(!takeovers(&[conflict("m", path)], &json!({}), &json!({}), None)[0].reclaimed);
}

#[rstest]
#[case("metadata.annotations.example.com/a.b", Some(json!("dotted")))]
#[case("spec.ports[port=80,proto=\"TCP\"].name", Some(json!("web")))]
#[case("spec.ports[port=81,proto=\"TCP\"].name", None)]
#[case("spec.set[=\"b\"]", Some(json!("b")))]
#[case("spec.set[0]", Some(json!("a")))]
#[case("spec.absent.below", None)]
#[case("spec.set", Some(json!(["a", "b"])))]
fn values_are_found_by_printed_path(#[case] path: &str, #[case] expected: Option<Value>) {
    let live = json!({
        "metadata": {"annotations": {"example": "no", "example.com/a.b": "dotted"}},
        "spec": {
            "ports": [{"port": 8, "name": "no"}, {"port": 80, "proto": "TCP", "name": "web"}],
            "set": ["a", "b"],
        },
    });
    let found = takeovers(&[conflict("m", path)], &live, &json!({}), None);
    assert_eq!(found[0].live, expected);
    assert_eq!(found[0].wanted, None);
}

fn entry(manager: &str, operation: &str, time: &str, fields: &Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "time": time, "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

fn meta(entries: &[Value]) -> ObjectMeta {
    serde_json::from_value(json!({"managedFields": entries})).unwrap()
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-02-01T00:00:00Z";
const LATEST: &str = "2026-03-01T00:00:00Z";

fn total() -> Value {
    json!({"f:spec": {"f:limits": {".": {}, "f:total": {}}}})
}

#[test]
fn owner_time_falls_back_to_managed_fields() {
    let live = json!({"metadata": {"managedFields": [
        entry("helm", "Apply", LATE, &total()),
        entry("edit", "Update", LATEST, &json!({"f:spec": {"f:mode": {}}})),
        entry("edit", "Update", EARLY, &total()),
    ]}});
    let found = takeovers(
        &[
            conflict("helm", "spec.limits.total"),
            conflict("edit", "spec.limits.total"),
        ],
        &live,
        &json!({}),
        None,
    );
    assert_eq!(found[0].since, Some(Time(at(EARLY))));
    assert_eq!(found[1].since, Some(Time(at(LATE))));
}

#[rstest]
#[case::field("spec.limits.total", &["owner"])]
#[case::above_what_is_owned("spec.limits", &["owner", "other"])]
#[case::below_what_is_owned("spec.whole.deep", &["atomic"])]
#[case::items_of_a_set("spec.set", &["items"])]
#[case::similar_name("spec.limit", &[])]
#[case::nobody("spec.absent", &[])]
#[case::dotted_key("metadata.annotations.a.b/c", &["items"])]
fn all_owners_are_found(#[case] path: &str, #[case] expected: &[&str]) {
    let mut through_status = entry("status", "Update", LATE, &total());
    through_status["subresource"] = json!("status");
    let meta = meta(&[
        entry("owner", "Apply", EARLY, &total()),
        entry(
            "other",
            "Update",
            EARLY,
            &json!({"f:spec": {"f:limits": {"f:node": {}}}}),
        ),
        entry(
            "atomic",
            "Update",
            EARLY,
            &json!({"f:spec": {"f:whole": {}}}),
        ),
        entry(
            "items",
            "Update",
            EARLY,
            &json!({"f:spec": {"f:set": {"v:\"a\"": {}}}, "f:metadata": {"f:annotations": {"f:a.b/c": {}}}}),
        ),
        entry("broken", "Update", EARLY, &json!({"x": 1})),
        through_status,
    ]);
    let found: Vec<String> = owners(&meta, path)
        .into_iter()
        .map(|owner| owner.manager)
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn owners_come_with_operation_and_time() {
    let meta = meta(&[entry("helm", "Apply", EARLY, &total())]);
    let expected = Owner {
        manager: "helm".to_owned(),
        operation: "Apply".to_owned(),
        time: Some(at(EARLY)),
    };
    assert_eq!(owners(&meta, ".spec.limits.total"), [expected]);
}

#[rstest]
#[case::newest(
    &[entry("old", "Update", EARLY, &total()), entry("new", "Update", LATE, &total()), entry("helm", "Apply", EARLY, &total())],
    Some(("new", LATE))
)]
#[case::others_before_us(
    &[entry(FIELD_MANAGER, "Apply", LATEST, &total()), entry("edit", "Update", EARLY, &total())],
    Some(("edit", EARLY))
)]
#[case::only_us(
    &[entry(FIELD_MANAGER, "Apply", EARLY, &total()), entry("edit", "Update", LATE, &json!({"f:spec": {"f:mode": {}}}))],
    Some((FIELD_MANAGER, EARLY))
)]
#[case::the_field_before_what_is_above(
    &[entry("field", "Update", EARLY, &total()), entry("above", "Update", LATE, &json!({"f:spec": {"f:limits": {}}}))],
    Some(("field", EARLY))
)]
#[case::above(&[entry("above", "Apply", LATE, &json!({"f:spec": {}}))], Some(("above", LATE)))]
#[case::deleted(
    &[
        entry("helm", "Apply", LATEST, &json!({"f:spec": {"f:mode": {}}})),
        entry("old", "Update", EARLY, &json!({"f:spec": {"f:mode": {}}})),
        entry("edit", "Update", LATE, &json!({"f:spec": {"f:mode": {}}})),
        entry(FIELD_MANAGER, "Update", LATEST, &json!({"f:spec": {"f:limits": {".": {}}}})),
    ],
    Some(("edit", LATE))
)]
#[case::nobody(&[], None)]
fn last_writer_is_found(#[case] entries: &[Value], #[case] expected: Option<(&str, &str)>) {
    let expected = expected.map(|(manager, time)| (manager.to_owned(), Some(at(time))));
    assert_eq!(last_writer(&meta(entries), "spec.limits.total"), expected);
}

#[test]
fn status_writer_is_not_the_last_writer() {
    let mut through_status = entry("status", "Update", LATE, &total());
    through_status["subresource"] = json!("status");
    assert_eq!(
        last_writer(&meta(&[through_status]), "spec.limits.total"),
        None
    );
}
