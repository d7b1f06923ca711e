//! Single operations on typed values.

use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::{Duplicates, Typed};
use crate::apply::schema::{ListKey, MapType, Scalar, Schema, Type, TypeRef};
use crate::apply::set::FieldSet;
use crate::apply::typed::TypedErrors;

fn schema() -> (Schema, TypeRef) {
    let string = TypeRef::scalar(Scalar::String);
    let item = TypeRef::closed([
        ("key", string.clone()),
        ("id", TypeRef::scalar(Scalar::Numeric)),
        ("value", string.clone()),
    ]);
    let keys = [ListKey::new("key"), ListKey::with_default("id", 1)];
    let tree = MapType {
        fields: [
            (Arc::from("leaf"), string.clone()),
            (Arc::from("tree"), TypeRef::Named("tree".into())),
        ]
        .into(),
        ..MapType::default()
    };
    let mut schema = Schema::default();
    schema.insert(
        "tree",
        Type {
            map: Some(tree),
            ..Type::default()
        },
    );
    let root = TypeRef::closed([
        ("string", string.clone()),
        ("number", TypeRef::scalar(Scalar::Numeric)),
        ("flag", TypeRef::scalar(Scalar::Boolean)),
        ("any", TypeRef::scalar(Scalar::Untyped)),
        ("set", TypeRef::set_of(string.clone())),
        ("list", TypeRef::list_of(string.clone())),
        ("items", TypeRef::list_map(item, keys)),
        ("map", TypeRef::map_of(string)),
        ("free", TypeRef::Deduced),
        ("tree", TypeRef::Named("tree".into())),
        ("lost", TypeRef::Named("nowhere".into())),
    ]);
    (schema, root)
}

fn errors(value: &Value) -> Option<String> {
    let (schema, root) = schema();
    let outcome = Typed::new(&schema, &root).validate(value, Duplicates::Deny);
    outcome.err().map(|errors: TypedErrors| errors.to_string())
}

#[rstest]
#[case(json!({"number": "x"}), ".number: expected numeric (int or float), got string")]
#[case(json!({"number": true}), ".number: expected numeric (int or float), got bool")]
#[case(json!({"number": [1]}), ".number: expected numeric (int or float), got []interface {}")]
#[case(json!({"number": {}}), ".number: expected numeric (int or float), got map[string]interface {}")]
#[case(json!({"string": 5}), ".string: expected string, got &value.valueUnstructured{Value:5}")]
#[case(
    json!({"string": {"a": ["b", null, 1.5]}}),
    ".string: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"a\":[]interface {}{\"b\", interface {}(nil), 1.5}}}"
)]
#[case(json!({"flag": "x"}), ".flag: expected boolean, got &{x}")]
#[case(json!({"any": [1, "a"]}), ".any: expected any scalar, got &{[1 a]}")]
#[case(json!({"map": 5}), ".map: expected map, got &{5}")]
#[case(json!({"list": {"a": 1}}), ".list: expected list, got &{map[a:1]}")]
#[case(json!({"list": ["a", 1]}), ".list[1]: expected string, got &value.valueUnstructured{Value:1}")]
#[case(json!({"set": [{}]}), ".set: element 0: associative list without keys has an element that's a map type")]
#[case(json!({"set": [[]]}), ".set: element 0: not supported: associative list with lists as elements")]
#[case(json!({"set": [null]}), ".set: element 0: associative list without keys has an element that's an explicit null")]
#[case(json!({"set": ["a", "b", "a"]}), ".set: duplicate entries for key [=\"a\"]")]
#[case(json!({"items": ["a"]}), ".items: element 0: associative list with keys may not have non-map elements")]
#[case(json!({"items": [null]}), ".items: element 0: associative list with keys may not have a null element")]
#[case(
    json!({"items": [{"key": "a"}, {"key": "a", "id": 1}]}),
    ".items: duplicate entries for key [id=1,key=\"a\"]"
)]
#[case(
    json!({"items": [{"key": "a", "value": 1}]}),
    ".items[id=1,key=\"a\"].value: expected string, got &value.valueUnstructured{Value:1}"
)]
#[case(json!({"bogus": 1}), ".bogus: field not declared in schema")]
#[case(json!({"tree": {"tree": {"twig": 1}}}), ".tree.tree.twig: field not declared in schema")]
#[case(json!({"lost": 1}), ".lost: schema error: no type found matching: nowhere")]
#[case(
    json!({"flag": 1, "number": "x"}),
    "errors:\n  .flag: expected boolean, got &{1}\n  .number: expected numeric (int or float), got string"
)]
fn values_of_the_wrong_type_are_reported(#[case] value: Value, #[case] message: &str) {
    assert_eq!(errors(&value).as_deref(), Some(message));
}

#[test]
fn values_of_the_right_type_and_nulls_pass() {
    let fine = json!({
        "string": "x", "number": 1.5, "flag": true, "any": 1, "set": ["a"], "list": ["a", "a"],
        "items": [{"key": "a"}, {"key": "a", "id": 2}], "map": {"a": "b"},
        "free": {"a": [{"b": null}]}, "tree": {"tree": {"leaf": "x"}},
    });
    assert_eq!(errors(&fine), None);
    let nulls = json!({"string": null, "set": null, "items": null, "map": null, "free": null});
    assert_eq!(errors(&nulls), None);
}

#[test]
fn missing_keys_are_reported() {
    let item = TypeRef::map_of(TypeRef::Deduced);
    let root = TypeRef::list_map(item, [ListKey::new("a"), ListKey::new("b")]);
    let schema = Schema::default();
    let typed = Typed::new(&schema, &root);
    assert_eq!(
        typed
            .validate(&json!([{"c": 1}]), Duplicates::Allow)
            .unwrap_err()
            .to_string(),
        "element 0: associative list with keys has an element that omits all key fields [\"a\" \"b\"] (and doesn't have default values for any key fields)"
    );
    // A key that is left out is another key, not a wildcard.
    let two = json!([{"a": 1}, {"a": 1, "b": 2}]);
    assert_eq!(typed.validate(&two, Duplicates::Deny), Ok(()));
}

#[test]
fn depth_is_limited() {
    let mut value = json!({});
    for _ in 0..300 {
        value = json!({ "a": value });
    }
    let schema = Schema::default();
    let typed = Typed::new(&schema, &TypeRef::Deduced);
    let message = typed
        .validate(&value, Duplicates::Deny)
        .unwrap_err()
        .to_string();
    assert!(
        message.ends_with("nested more than 256 levels deep"),
        "{message}"
    );
}

fn with_typed<T>(run: impl FnOnce(Typed<'_>) -> T) -> T {
    let (schema, root) = schema();
    run(Typed::new(&schema, &root))
}

#[rstest]
// Items that only one side has stay beside their neighbours; shared ones follow the applied order.
#[case(json!(["a", "b", "c"]), json!(["b"]), json!(["a", "b", "c"]))]
#[case(json!(["a", "b"]), json!(["b", "a"]), json!(["b", "a"]))]
#[case(json!(["a", "b", "c", "d"]), json!(["d", "a"]), json!(["b", "c", "d", "a"]))]
#[case(json!(["b", "d"]), json!(["a", "b", "c", "d", "e"]), json!(["a", "b", "c", "d", "e"]))]
#[case(json!(["x", "b"]), json!(["a", "b", "c"]), json!(["x", "a", "b", "c"]))]
#[case(json!([]), json!(["a"]), json!(["a"]))]
#[case(json!(["a"]), json!([]), json!(["a"]))]
#[case(json!(["a"]), json!(null), json!(["a"]))]
#[case(json!(["a", "a", "b"]), json!(["c"]), json!(["a", "a", "b", "c"]))]
#[case(json!(["a", "b", "a"]), json!(["a"]), json!(["a", "b"]))]
fn sets_are_merged(#[case] live: Value, #[case] config: Value, #[case] merged: Value) {
    let out = with_typed(|typed| typed.merge(&json!({ "set": live }), &json!({ "set": config })));
    assert_eq!(out["set"], merged);
}

#[rstest]
#[case(json!({"map": {"a": "1"}}), json!({"map": null}), json!({"map": {"a": "1"}}))]
#[case(json!({"map": {}}), json!({"map": null}), json!({"map": null}))]
#[case(json!({"string": "a"}), json!({"string": null}), json!({"string": null}))]
#[case(json!({"free": "a"}), json!({"free": {"b": 1}}), json!({"free": {"b": 1}}))]
#[case(json!({"free": {"b": 1}}), json!({"free": [1]}), json!({"free": [1]}))]
#[case(json!({"list": ["a"]}), json!({"list": []}), json!({"list": []}))]
#[case(
    json!({"items": [{"key": "a", "value": "1"}]}),
    json!({"items": [{"key": "a", "id": 1}]}),
    json!({"items": [{"key": "a", "id": 1, "value": "1"}]})
)]
fn values_are_merged(#[case] live: Value, #[case] config: Value, #[case] merged: Value) {
    assert_eq!(with_typed(|typed| typed.merge(&live, &config)), merged);
}

/// Added, modified and removed.
#[rstest]
#[case(json!({}), json!({"map": {"a": "1"}}), [json!({"f:map": {".": {}, "f:a": {}}}), json!({}), json!({})])]
#[case(json!({"map": {"a": "1"}}), json!({"map": {}}), [json!({}), json!({}), json!({"f:map": {"f:a": {}}})])]
#[case(json!({"map": {"a": "1"}}), json!({}), [json!({}), json!({}), json!({"f:map": {".": {}, "f:a": {}}})])]
#[case(json!({"map": {}}), json!({"map": null}), [json!({}), json!({"f:map": {}}), json!({})])]
#[case(json!({}), json!({"map": {}}), [json!({"f:map": {}}), json!({}), json!({})])]
#[case(json!({"number": 1}), json!({"number": 1.0}), [json!({}), json!({}), json!({})])]
#[case(json!({"list": ["a"]}), json!({"list": ["b"]}), [json!({}), json!({"f:list": {}}), json!({})])]
#[case(json!({"set": ["a", "b"]}), json!({"set": ["b", "a"]}), [json!({}), json!({}), json!({})])]
#[case(
    json!({"free": "a"}), json!({"free": {"b": 1}}),
    [json!({"f:free": {"f:b": {}}}), json!({"f:free": {}}), json!({})]
)]
#[case(
    json!({"items": [{"key": "a", "value": "1"}]}), json!({"items": [{"key": "a", "value": "2"}]}),
    [json!({}), json!({"f:items": {"k:{\"id\":1,\"key\":\"a\"}": {"f:value": {}}}}), json!({})]
)]
// Items with the same key are compared as a whole.
#[case(
    json!({"items": [{"key": "a"}]}), json!({"items": [{"key": "a"}, {"key": "a"}]}),
    [
        json!({"f:items": {"k:{\"id\":1,\"key\":\"a\"}": {}}}), json!({}),
        json!({"f:items": {"k:{\"id\":1,\"key\":\"a\"}": {".": {}, "f:key": {}}}}),
    ]
)]
#[case(
    json!({"set": ["a", "a"]}), json!({"set": ["a"]}),
    [json!({"f:set": {"v:\"a\"": {}}}), json!({}), json!({"f:set": {"v:\"a\"": {}}})]
)]
#[case(
    json!({"items": [{"key": "a"}, {"key": "a"}]}),
    json!({"items": [{"key": "a"}, {"key": "a", "value": "x"}]}),
    [json!({}), json!({"f:items": {"k:{\"id\":1,\"key\":\"a\"}": {}}}), json!({})]
)]
fn objects_are_compared(#[case] old: Value, #[case] new: Value, #[case] expected: [Value; 3]) {
    let out = with_typed(|typed| typed.compare(&old, &new));
    let sets = [&out.added, &out.modified, &out.removed].map(FieldSet::to_fields_v1);
    assert_eq!(sets, expected);
}

#[rstest]
#[case(json!({"string": null}), json!({"f:string": {}}))]
#[case(json!({"set": []}), json!({}))]
#[case(json!({"set": null}), json!({"f:set": {}}))]
#[case(json!({"list": []}), json!({"f:list": {}}))]
#[case(json!({"map": {}, "tree": {}}), json!({"f:map": {}, "f:tree": {}}))]
#[case(json!({"tree": {"tree": {"leaf": "x"}}}), json!({"f:tree": {"f:tree": {"f:leaf": {}}}}))]
#[case(json!({"free": {"a": {"b": [1]}}}), json!({"f:free": {"f:a": {".": {}, "f:b": {}}}}))]
#[case(json!({"set": ["b", "a", "b"]}), json!({"f:set": {"v:\"a\"": {}, "v:\"b\"": {}}}))]
#[case(
    json!({"items": [{"key": "a", "value": "1"}, {"key": "a"}]}),
    json!({"f:items": {"k:{\"id\":1,\"key\":\"a\"}": {}}})
)]
fn sets_of_values(#[case] value: Value, #[case] expected: Value) {
    assert_eq!(
        with_typed(|typed| typed.to_set(&value)).to_fields_v1(),
        expected
    );
}

#[rstest]
#[case(json!({"map": {"a": "1"}}), json!({"f:map": {"f:a": {}}}), json!({"map": {}}))]
#[case(json!({"map": {"a": "1"}}), json!({"f:map": {}}), json!({}))]
#[case(json!({"set": ["a", "b"]}), json!({"f:set": {"v:\"a\"": {}, "v:\"b\"": {}}}), json!({"set": []}))]
#[case(
    json!({"items": [{"key": "a", "value": "1"}, {"key": "b"}]}),
    json!({"f:items": {"k:{\"id\":1,\"key\":\"a\"}": {"f:value": {}}}}),
    json!({"items": [{"key": "a"}, {"key": "b"}]})
)]
fn fields_are_removed(#[case] value: Value, #[case] set: Value, #[case] left: Value) {
    let mut out = value;
    with_typed(|typed| typed.remove(&mut out, &FieldSet::from_fields_v1(&set).unwrap()));
    assert_eq!(out, left);
}

#[test]
fn fields_are_extracted_with_their_keys() {
    let value = json!({
        "string": "s", "map": {"a": "1", "b": "2"}, "list": ["x"],
        "items": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
    });
    let set = json!({
        "f:map": {"f:a": {}}, "f:list": {},
        "f:items": {"k:{\"id\":1,\"key\":\"b\"}": {".": {}, "f:value": {}}},
    });
    let set = FieldSet::from_fields_v1(&set).unwrap();
    assert_eq!(
        with_typed(|typed| typed.extract(&value, &set)),
        Some(json!({
            "map": {"a": "1"}, "list": ["x"], "items": [{"key": "b", "value": "2"}],
        }))
    );
    assert_eq!(
        with_typed(|typed| typed.extract(&value, &FieldSet::default())),
        None
    );
}
