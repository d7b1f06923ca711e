//! Which fields a patch restores, and which it leaves.

use machinery::patch;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::test_values::any_object;
use crate::values;

fn paths(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn applied(live: &Value, change: &Value) -> Value {
    let mut object = live.clone();
    patch::merge_patch(&mut object, change).unwrap();
    object
}

#[rstest]
#[case::same(json!({"spec": {"a": 1}}), json!({"spec.a": 1.0}), &["spec.a"], json!({}))]
#[case::scalar(json!({"spec": {"a": 1, "x": 1}}), json!({"spec.a": 2}), &["spec.a"], json!({"spec": {"a": 2}}))]
#[case::came(json!({"spec": {"a": 1}}), json!({}), &["spec.a"], json!({"spec": {"a": null}}))]
#[case::went(json!({}), json!({"spec.a.b": 1}), &["spec.a.b"], json!({"spec": {"a": {"b": 1}}}))]
#[case::never_there(json!({"spec": {}}), json!({}), &["spec.a"], json!({}))]
#[case::key_came(
    json!({"spec": {"a": {"b": 1, "c": {"d": 1}}}}),
    json!({"spec.a": {"b": 2}}),
    &["spec.a"],
    json!({"spec": {"a": {"b": 2, "c": null}}})
)]
#[case::list(json!({"spec": {"a": [1, 2]}}), json!({"spec.a": [2]}), &["spec.a"], json!({"spec": {"a": [2]}}))]
#[case::map_for_scalar(json!({"spec": {"a": 1}}), json!({"spec.a": {"b": 1}}), &["spec.a"], json!({"spec": {"a": {"b": 1}}}))]
#[case::scalar_for_map(json!({"spec": {"a": {"b": 1}}}), json!({"spec.a": 1}), &["spec.a"], json!({"spec": {"a": 1}}))]
#[case::emptied(json!({"spec": {"a": {"b": 1}}}), json!({"spec.a": {}}), &["spec.a"], json!({"spec": {"a": {"b": null}}}))]
#[case::null_is_removed(json!({"spec": {"a": 1}}), json!({"spec.a": null}), &["spec.a"], json!({"spec": {"a": null}}))]
#[case::overlapping(
    json!({"spec": {"a": {"b": 1}}}),
    json!({}),
    &["spec.a.b", "spec.a"],
    json!({"spec": {"a": null}})
)]
#[case::dots_do_no_harm(json!({"spec": {"a": 1}}), json!({".spec.a": 2}), &["spec..a"], json!({"spec": {"a": 2}}))]
#[case::whole_specification(
    json!({"metadata": {"labels": {"x": "y"}}, "spec": {"a": 1}}),
    json!({"spec": {"b": 1}}),
    &[],
    json!({"spec": {"a": null, "b": 1}})
)]
fn patch_is_minimal(
    #[case] live: Value,
    #[case] before: Value,
    #[case] managed: &[&str],
    #[case] expected: Value,
) {
    let before = serde_json::from_value(before).unwrap();
    assert_eq!(merge_patch(&live, &before, &paths(managed)), expected);
}

/// Without null fields, which no merge patch can set.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

/// An object without the values at the paths.
fn without_paths(mut object: Value, names: &[&str]) -> Value {
    for name in names {
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove(*name);
        }
    }
    object
}

proptest! {
    #[test]
    fn managed_fields_are_restored_and_others_kept(old in any_object(), live in any_object()) {
        let (old, live) = (without_nulls(&old), without_nulls(&live));
        let managed = paths(&["spec.a", "spec.b"]);
        let before = values::managed(&old, &managed).unwrap();
        let change = merge_patch(&live, &before, &managed);
        let restored = applied(&live, &change);
        let now = values::managed(&restored, &managed).unwrap();
        prop_assert_eq!(values::changes(&before, &now), vec![]);
        prop_assert_eq!(
            without_paths(restored.clone(), &["a", "b"]),
            without_paths(live, &["a", "b"])
        );
        prop_assert_eq!(merge_patch(&restored, &before, &managed), json!({}));
    }

    #[test]
    fn nested_fields_are_restored(old in any_object(), live in any_object()) {
        let (old, live) = (without_nulls(&old), without_nulls(&live));
        let managed = paths(&["spec.a.b", "spec.c.d.a", "spec.c.b"]);
        // Paths into lists have no values.
        let Ok(before) = values::managed(&old, &managed) else { return Ok(()) };
        let restored = applied(&live, &merge_patch(&live, &before, &managed));
        if let Ok(now) = values::managed(&restored, &managed) {
            prop_assert_eq!(values::changes(&before, &now), vec![]);
        } else {
            prop_assert!(values::managed(&live, &managed).is_err());
        }
    }

    #[test]
    fn restoring_twice_changes_nothing(old in any_object(), live in any_object()) {
        let before = values::managed(&old, &[]).unwrap();
        let once = applied(&live, &merge_patch(&live, &before, &[]));
        let twice = applied(&once, &merge_patch(&once, &before, &[]));
        prop_assert_eq!(once, twice);
    }
}
