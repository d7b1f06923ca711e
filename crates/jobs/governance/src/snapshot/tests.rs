//! Partial conversion of objects, and comparison of snapshots.

use std::sync::Arc;

use api::advisor::TargetRef;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::{ApiResource, DynamicObject};
use rstest::rstest;
use serde_json::json;

use super::{Kind, Snapshot, part_with, whole};
use crate::profile::kinds::{CONFIG_MAP, MACHINE_CONFIG};
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

fn config_maps(objects: &[(&str, &Arc<DynamicObject>)]) -> Kind {
    let objects = objects.iter();
    Kind {
        version: "v1".to_owned(),
        plural: "configmaps".to_owned(),
        definition: None,
        objects: objects
            .map(|(name, object)| (("there".to_owned(), (*name).to_owned()), Arc::clone(object)))
            .collect(),
    }
}

fn snapshot_of(objects: &[(&str, &Arc<DynamicObject>)]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.insert(CONFIG_MAP, config_maps(objects));
    snapshot
}

#[test]
fn only_the_target_may_differ() {
    let target = TargetRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "b".to_owned(),
        namespace: Some("there".to_owned()),
    };
    let object = || {
        Arc::new(DynamicObject::new(
            "",
            &ApiResource::erase::<ConfigMap>(&()),
        ))
    };
    let (a, b, c, other) = (object(), object(), object(), object());
    let before = snapshot_of(&[("a", &a), ("b", &b), ("c", &c)]);
    let differs_elsewhere = |objects: &[(&str, &Arc<DynamicObject>)]| {
        !snapshot_of(objects).differs_only_at(&before, &target)
    };
    assert!(!differs_elsewhere(&[("a", &a), ("b", &b), ("c", &c)]));
    assert!(
        !differs_elsewhere(&[("a", &a), ("b", &other), ("c", &c)]),
        "written"
    );
    assert!(!differs_elsewhere(&[("a", &a), ("c", &c)]), "deleted");
    assert!(
        differs_elsewhere(&[("a", &other), ("b", &b), ("c", &c)]),
        "edited"
    );
    assert!(
        differs_elsewhere(&[("a", &a), ("b", &b)]),
        "another is deleted"
    );
    let more = [("a", &a), ("b", &b), ("c", &c), ("d", &other)];
    assert!(differs_elsewhere(&more), "another is created");
    let mut another_kind = snapshot_of(&[("a", &a), ("b", &b), ("c", &c)]);
    another_kind.insert(MACHINE_CONFIG, config_maps(&[]));
    assert!(
        !another_kind.differs_only_at(&before, &target),
        "a kind is installed"
    );
}
