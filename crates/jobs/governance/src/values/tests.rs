//! Values at paths, and differences between states.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::test_values::{any_object, any_value};

fn map(value: Value) -> BTreeMap<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn paths(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[rstest]
#[case("spec.mode", Some(json!("Automatic")))]
#[case(".spec..mode.", Some(json!("Automatic")))]
#[case("spec.limits.total", Some(json!(5)))]
#[case("spec.limits", Some(json!({"total": 5})))]
#[case("spec.profiles", Some(json!(["A"])))]
#[case("spec.nothing", None)]
#[case("spec.nothing.at.all", None)]
#[case("spec.mode.below", None)]
#[case("spec.void", Some(Value::Null))]
#[case("spec.void.below", None)]
fn values_are_found_by_path(#[case] path: &str, #[case] expected: Option<Value>) {
    let object = json!({"spec": {
        "mode": "Automatic", "limits": {"total": 5}, "profiles": ["A"], "void": null,
    }});
    assert_eq!(at(&object, path).unwrap().cloned(), expected);
}

#[rstest]
#[case("spec.profiles.0")]
#[case("spec.profiles.name.x")]
fn path_into_a_list_is_rejected(#[case] path: &str) {
    let object = json!({"spec": {"profiles": ["A"]}});
    let error = at(&object, path).unwrap_err();
    assert_eq!(error.list, "spec.profiles");
    assert_eq!(error.path, path);
    assert!(managed(&object, &paths(&["spec.mode", path])).is_err());
}

#[test]
fn managed_values_omit_absent_fields() {
    let object = json!({"metadata": {"name": "x"}, "spec": {"mode": "A", "limits": {"total": 5}, "other": 1}});
    assert_eq!(
        managed(
            &object,
            &paths(&["spec.mode", "spec.limits", "spec.absent"])
        )
        .unwrap(),
        map(json!({"spec.mode": "A", "spec.limits": {"total": 5}}))
    );
}

#[test]
fn without_paths_the_whole_spec_is_managed() {
    let object = json!({"metadata": {"name": "x"}, "spec": {"mode": "A"}});
    assert_eq!(
        managed(&object, &[]).unwrap(),
        map(json!({"spec": {"mode": "A"}}))
    );
    assert_eq!(
        managed(&json!({"data": {"a": "b"}}), &[]).unwrap(),
        map(json!({}))
    );
}

#[rstest]
#[case::equal(json!({"spec.mode": "A"}), json!({"spec": {"mode": "A"}}), &[])]
#[case::number_forms(json!({"spec.n": 1}), json!({"spec": {"n": 1.0}}), &[])]
#[case::number_forms_in_lists(json!({"spec.n": [1, {"a": 2.0}]}), json!({"spec": {"n": [1.0, {"a": 2}]}}), &[])]
#[case::text_is_no_number(json!({"spec.n": "1"}), json!({"spec": {"n": 1}}), &["spec.n: \"1\" -> 1"])]
#[case::scalar(json!({"spec.mode": "A"}), json!({"spec": {"mode": "B"}}), &["spec.mode: \"A\" -> \"B\""])]
#[case::leaf_of_a_map(
    json!({"spec.limits": {"total": 5, "node": 2}}),
    json!({"spec": {"limits": {"total": 9, "node": 2}}}),
    &["spec.limits.total: 5 -> 9"]
)]
#[case::extra_keys_are_fine(
    json!({"spec.limits": {"total": 5}}),
    json!({"spec": {"limits": {"total": 5, "node": 2}}}),
    &[]
)]
#[case::missing_key(
    json!({"spec.limits": {"total": 5, "node": 2}}),
    json!({"spec": {"limits": {"total": 5}}}),
    &["spec.limits.node: 2 -> <none>"]
)]
#[case::missing_map(
    json!({"spec.limits": {"total": 5, "node": 2}}),
    json!({"spec": {}}),
    &["spec.limits.node: 2 -> <none>", "spec.limits.total: 5 -> <none>"]
)]
#[case::lists_as_a_whole(
    json!({"spec.profiles": ["A", "B"]}),
    json!({"spec": {"profiles": ["B", "A"]}}),
    &[r#"spec.profiles: ["A","B"] -> ["B","A"]"#]
)]
#[case::extra_item(
    json!({"spec.profiles": ["A"]}),
    json!({"spec": {"profiles": ["A", "B"]}}),
    &[r#"spec.profiles: ["A"] -> ["A","B"]"#]
)]
#[case::another_type(
    json!({"spec.limits": {"total": 5}}),
    json!({"spec": {"limits": "none"}}),
    &[r#"spec.limits: {"total":5} -> "none""#]
)]
#[case::empty_map_is_wanted(json!({"spec.selector": {}}), json!({"spec": {}}), &["spec.selector: {} -> <none>"])]
#[case::empty_map_is_there(json!({"spec.selector": {}}), json!({"spec": {"selector": {"a": "b"}}}), &[])]
#[case::null_is_absent(json!({"spec.mode": null}), json!({"spec": {}}), &[])]
#[case::null_is_not_a_value(json!({"spec.mode": null}), json!({"spec": {"mode": "A"}}), &["spec.mode: null -> \"A\""])]
#[case::a_list_where_a_map_was(
    json!({"spec.limits.total": 5}),
    json!({"spec": {"limits": [1]}}),
    &["spec.limits.total: 5 -> <none>"]
)]
#[case::no_object(json!({"spec.mode": "A"}), Value::Null, &["spec.mode: \"A\" -> <none>"])]
fn drift_is_reported_per_leaf(
    #[case] wanted: Value,
    #[case] live: Value,
    #[case] expected: &[&str],
) {
    let found: Vec<String> = differences(&map(wanted), &live)
        .iter()
        .map(|d| {
            format!(
                "{}: {} -> {}",
                d.path,
                short(d.wanted.as_ref()),
                short(d.live.as_ref())
            )
        })
        .collect();
    assert_eq!(found, expected);
}

#[rstest]
#[case::equal(json!({"spec.n": 1}), json!({"spec.n": 1.0}), &[])]
#[case::leaf(json!({"spec.l": {"a": 1, "b": 2}}), json!({"spec.l": {"a": 1, "b": 3}}), &["spec.l.b: 2 -> 3"])]
#[case::added_key(json!({"spec.l": {"a": 1}}), json!({"spec.l": {"a": 1, "b": {"c": 3}}}), &["spec.l.b.c: <none> -> 3"])]
#[case::removed_key(json!({"spec.l": {"a": 1, "b": 2}}), json!({"spec.l": {"a": 1}}), &["spec.l.b: 2 -> <none>"])]
#[case::added_path(json!({}), json!({"spec.l": {"a": 1}}), &["spec.l.a: <none> -> 1"])]
#[case::removed_path(json!({"spec.l": ["x"]}), json!({}), &["spec.l: [\"x\"] -> <none>"])]
#[case::emptied(json!({"spec.l": {"a": 1}}), json!({"spec.l": {}}), &["spec.l.a: 1 -> <none>"])]
#[case::empty_map_went(json!({"spec.l": {}}), json!({}), &["spec.l: {} -> <none>"])]
#[case::null_is_a_value(json!({"spec.l": null}), json!({}), &["spec.l: null -> <none>"])]
#[case::another_type(json!({"spec.l": {"a": 1}}), json!({"spec.l": 1}), &["spec.l: {\"a\":1} -> 1"])]
fn every_change_is_reported(#[case] base: Value, #[case] live: Value, #[case] expected: &[&str]) {
    let found: Vec<String> = changes(&map(base), &map(live))
        .iter()
        .map(|c| {
            format!(
                "{}: {} -> {}",
                c.path,
                short(c.from.as_ref()),
                short(c.to.as_ref())
            )
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn long_values_are_truncated_at_character_boundaries() {
    assert_eq!(short(None), "<none>");
    assert_eq!(
        short(Some(&json!({"b": [1, "x"], "a": null}))),
        r#"{"a":null,"b":[1,"x"]}"#
    );
    let umlauts = short(Some(&json!("ä".repeat(200))));
    assert_eq!(umlauts.chars().count(), 81);
    assert!(umlauts.starts_with("\"ää") && umlauts.ends_with("ä…"));
    let fits = json!("x".repeat(78));
    assert_eq!(short(Some(&fits)), fits.to_string());
}

proptest! {
    #[test]
    fn an_object_never_drifts_from_itself(object in any_object()) {
        let wanted = managed(&object, &paths(&["spec.a", "spec.b.c", "metadata"])).unwrap_or_default();
        prop_assert_eq!(differences(&wanted, &object), vec![]);
        prop_assert_eq!(changes(&wanted, &wanted), vec![]);
    }

    #[test]
    fn nothing_changed_only_if_equal(a in any_value(), b in any_value()) {
        let (from, to) = (map(json!({"spec": a})), map(json!({"spec": b})));
        prop_assert_eq!(changes(&from, &to).is_empty(), values_equal(&a, &b));
        let back: Vec<Change> = changes(&to, &from)
            .into_iter()
            .map(|Change { path, from, to }| Change { path, from: to, to: from })
            .collect();
        prop_assert_eq!(changes(&from, &to), back);
    }

    #[test]
    fn drift_is_a_change(wanted in any_value(), live in any_value()) {
        let (base, now) = (map(json!({"spec": wanted})), map(json!({"spec": live})));
        if !differences(&base, &json!({"spec": live})).is_empty() {
            prop_assert!(!changes(&base, &now).is_empty());
        }
    }
}
