//! Field sets and their wire form.

use std::cmp::Ordering;

use rstest::rstest;
use serde_json::{Value, json};

use crate::apply::{FieldSet, FieldsV1Error, PathElement, path_text};

fn set(value: &Value) -> FieldSet {
    FieldSet::from_fields_v1(value).unwrap()
}

#[rstest]
#[case(json!({}))]
#[case(json!({"f:a": {}}))]
#[case(json!({"f:a": {".": {}, "f:b": {}}, "k:{\"port\":80,\"proto\":\"TCP\"}": {".": {}, "f:name": {}}}))]
#[case(json!({"v:\"x\"": {}, "v:5": {}, "v:true": {}, "v:null": {}, "i:3": {"f:a": {}}}))]
fn the_wire_form_round_trips(#[case] value: Value) {
    assert_eq!(set(&value).to_fields_v1(), value);
}

#[test]
fn reading_normalises() {
    let odd =
        json!({"x:future": {"f:y": {}}, "f:a": null, "f:b": {".": {}}, "k:{\"b\":1,\"a\":2}": {}});
    assert_eq!(
        set(&odd).to_fields_v1(),
        json!({"f:a": {}, "f:b": {}, "k:{\"a\":2,\"b\":1}": {}})
    );
}

#[rstest]
#[case(json!([]), FieldsV1Error::NotAnObject)]
#[case(json!({"f:a": 5}), FieldsV1Error::NotAnObject)]
#[case(json!({"a": {}}), FieldsV1Error::ShortKey("a".into()))]
#[case(json!({"fa": {}}), FieldsV1Error::MissingColon("fa".into()))]
#[case(json!({"k:{\"a\":1}x": {}}), FieldsV1Error::Malformed("k:{\"a\":1}x".into()))]
#[case(json!({"v:": {}}), FieldsV1Error::Malformed("v:".into()))]
#[case(json!({"i:x": {}}), FieldsV1Error::Malformed("i:x".into()))]
fn invalid_sets_are_reported(#[case] value: Value, #[case] error: FieldsV1Error) {
    assert_eq!(FieldSet::from_fields_v1(&value), Err(error));
}

#[test]
fn depth_is_limited() {
    let mut value = json!({});
    for _ in 0..300 {
        value = json!({ "f:a": value });
    }
    assert_eq!(
        FieldSet::from_fields_v1(&value),
        Err(FieldsV1Error::TooDeep)
    );
}

#[test]
fn elements_are_ordered_by_kind_and_value() {
    let key = |fields: Value| {
        let fields = fields.as_object().unwrap().clone();
        PathElement::key(
            fields
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect(),
        )
    };
    let ordered = [
        PathElement::field("a"),
        PathElement::field("b"),
        key(json!({"a": 1})),
        key(json!({"a": 1, "b": 1})),
        key(json!({"a": 2})),
        key(json!({"b": 0})),
        PathElement::item(json!(-1)),
        PathElement::item(json!(0.5)),
        PathElement::item(json!(1)),
        PathElement::item(json!(9_007_199_254_740_993_i64)),
        PathElement::item(json!(1e30)),
        PathElement::item(json!("a")),
        PathElement::item(json!(false)),
        PathElement::item(json!(true)),
        PathElement::item(json!([1])),
        PathElement::item(json!({"a": 1})),
        PathElement::item(json!(null)),
        PathElement::Index(0),
        PathElement::Index(1),
    ];
    for (i, a) in ordered.iter().enumerate() {
        for (j, b) in ordered.iter().enumerate() {
            assert_eq!(a.cmp(b), i.cmp(&j), "{a} and {b}");
        }
    }
    let (int, float) = (PathElement::item(json!(1)), PathElement::item(json!(1.0)));
    assert_eq!(int.cmp(&float), Ordering::Equal);
}

#[test]
fn paths_print_as_messages_show_them() {
    let path = [
        PathElement::field("spec"),
        PathElement::key(vec![
            ("proto".into(), json!("TCP")),
            ("port".into(), json!(80)),
        ]),
        PathElement::item(json!("x\"y")),
        PathElement::item(json!(1.5)),
        PathElement::item(json!(1e21)),
        PathElement::Index(3),
    ];
    assert_eq!(
        path_text(&path),
        ".spec[port=80,proto=\"TCP\"][=\"x\\\"y\"][=1.5][=1e+21][3]"
    );
}

#[test]
fn members_come_before_their_descendants() {
    let set = set(&json!({"f:a": {"f:x": {}}, "f:b": {}, "f:c": {".": {}, "f:y": {}}}));
    let paths: Vec<String> = set.iter().map(|path| path_text(&path)).collect();
    assert_eq!(paths, [".b", ".c", ".a.x", ".c.y"]);
    assert_eq!(set.len(), 4);
}

#[test]
fn differences_differ() {
    let mine = set(&json!({"f:a": {".": {}, "f:b": {"f:c": {}}}, "f:d": {}}));
    let theirs = set(&json!({"f:a": {"f:b": {}}, "f:d": {"f:e": {}}}));
    assert_eq!(
        mine.difference(&theirs),
        mine,
        "a parent does not remove its children"
    );
    let mut rest = mine.clone();
    rest.subtract_recursive(&theirs);
    assert_eq!(
        rest.to_fields_v1(),
        json!({"f:a": {}, "f:d": {}}),
        "unless it is to"
    );
    assert_eq!(mine.intersection(&theirs), FieldSet::default());
    assert_eq!(
        mine.union(&theirs).leaves().to_fields_v1(),
        json!({"f:a": {"f:b": {"f:c": {}}}, "f:d": {"f:e": {}}})
    );
}

#[test]
fn sets_of_names() {
    assert_eq!(
        FieldSet::of_fields(&["status", "metadata"]).to_fields_v1(),
        json!({"f:metadata": {}, "f:status": {}})
    );
    let set = FieldSet::of_paths(&[&["spec", "replicas"], &["spec"], &[]]);
    assert_eq!(
        set.to_fields_v1(),
        json!({"f:spec": {".": {}, "f:replicas": {}}})
    );
    assert!(set.contains(&[PathElement::field("spec"), PathElement::field("replicas")]));
    assert!(!set.contains(&[PathElement::field("replicas")]));
    assert!(!set.contains(&[]));
}
