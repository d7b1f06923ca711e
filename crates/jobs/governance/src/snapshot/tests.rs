//! Partial conversion of objects.

use kube_core::DynamicObject;
use rstest::rstest;
use serde_json::json;

use super::{part_with, whole};
use crate::values;

/// For any fields, the part of the object has the same values as the whole.
#[rstest]
#[case::of_the_specification(&["spec.a"])]
#[case::that_are_absent(&["spec.b", "data.x"])]
#[case::of_the_metadata(&["metadata.labels.a"])]
#[case::behind_superfluous_dots(&[".metadata.labels.a", "..kind"])]
#[case::of_both(&["spec.a", "metadata.name"])]
#[case::of_the_type(&["apiVersion"])]
#[case::that_only_sound_alike(&["metadatum.a"])]
#[case::everything(&[""])]
fn part_contains_the_requested_fields(#[case] paths: &[&str]) {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Thing",
        "metadata": { "name": "x", "labels": { "a": "b" } },
        "spec": { "a": 1 },
        "metadatum": { "a": 2 },
    }))
    .unwrap();
    let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
    let part = part_with(&object, &paths);
    assert_eq!(
        values::managed(&part, &paths),
        values::managed(&whole(&object), &paths)
    );
}
