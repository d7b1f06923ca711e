//! Arbitrary objects for property tests.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Any JSON value, with keys that are likely to collide.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        Just(json!(1.0)),
        Just(json!(0.5)),
        "[a-c<é]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Any object with a name and a spec.
pub(crate) fn any_object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", any_value(), 0..4).prop_map(|spec| {
        let spec: serde_json::Map<String, Value> = spec.into_iter().collect();
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec})
    })
}
