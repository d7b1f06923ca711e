use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    JsonPatch, PatchError, decode_merge_patch, decode_strategic_patch, go_print, json_patch,
    merge_difference, merge_patch,
};

fn jp(doc: &Value, operations: &Value) -> Result<Value, PatchError> {
    let mut doc = doc.clone();
    json_patch(&mut doc, operations.to_string().as_bytes()).map(|()| doc)
}

#[rstest]
#[case::add(json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2}))]
#[case::add_over(json!({"a": 1}), json!([{"op": "add", "path": "/a", "value": 2}]), json!({"a": 2}))]
#[case::add_without_value(json!({}), json!([{"op": "add", "path": "/a"}]), json!({"a": null}))]
#[case::append(json!([1]), json!([{"op": "add", "path": "/-", "value": 2}]), json!([1, 2]))]
#[case::insert(json!([1, 3]), json!([{"op": "add", "path": "/1", "value": 2}]), json!([1, 2, 3]))]
#[case::insert_at_end(json!([1]), json!([{"op": "add", "path": "/1", "value": 2}]), json!([1, 2]))]
#[case::insert_from_the_end(json!([1, 3]), json!([{"op": "add", "path": "/-2", "value": 2}]), json!([1, 2, 3]))]
#[case::remove(json!({"a": 1, "b": null}), json!([{"op": "remove", "path": "/b"}]), json!({"a": 1}))]
#[case::remove_item(json!([1, 2]), json!([{"op": "remove", "path": "/0"}]), json!([2]))]
#[case::remove_last(json!([1, 2]), json!([{"op": "remove", "path": "/-1"}]), json!([1]))]
#[case::replace(json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": [2]}]), json!({"a": [2]}))]
#[case::replace_of_nothing(json!({}), json!([{"op": "replace", "path": "/a", "value": 1}]), json!({"a": 1}))]
#[case::replace_all(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 1}}]), json!({"b": 1}))]
#[case::moves(json!({"a": {"b": 1}}), json!([{"op": "move", "from": "/a/b", "path": "/c"}]), json!({"a": {}, "c": 1}))]
#[case::copies(json!({"a": [1]}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": [1], "b": [1]}))]
#[case::copy_of_nothing(json!({}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"b": null}))]
#[case::test(json!({"a": {"b": [1]}}), json!([{"op": "test", "path": "/a", "value": {"b": [1]}}]), json!({"a": {"b": [1]}}))]
#[case::test_of_nothing(json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({}))]
#[case::test_all(json!({"a": 1}), json!([{"op": "test", "path": "", "value": {"a": 1}}]), json!({"a": 1}))]
#[case::escapes(json!({"a/b": {"~1": 1}}), json!([{"op": "remove", "path": "/a~1b/~01"}]), json!({"a/b": {}}))]
#[case::no_leading_slash(json!({}), json!([{"op": "add", "path": "x/a", "value": 1}]), json!({"a": 1}))]
#[case::with_fence(json!({}), json!([{"op": "add", "path": "/a", "value": {}}, {"op": "add", "path": "/a/b", "value": 1}]),
    json!({"a": {"b": 1}}))]
#[case::nothing(json!({"a": 1}), json!([]), json!({"a": 1}))]
#[case::null(json!({"a": 1}), json!(null), json!({"a": 1}))]
fn json_patches(#[case] doc: Value, #[case] operations: Value, #[case] expected: Value) {
    assert_eq!(jp(&doc, &operations), Ok(expected));
}

#[rstest]
#[case::test_failed(json!({"op": "test", "path": "/a", "value": 2}))]
#[case::test_of_missing(json!({"op": "test", "path": "/x", "value": 2}))]
#[case::test_without_value(json!({"op": "test", "path": "/a"}))]
#[case::remove_missing(json!({"op": "remove", "path": "/x"}))]
#[case::parent_missing(json!({"op": "add", "path": "/x/y", "value": 1}))]
#[case::parent_scalar(json!({"op": "add", "path": "/a/y", "value": 1}))]
#[case::whole_document_added(json!({"op": "add", "path": "", "value": {}}))]
#[case::whole_document_scalar(json!({"op": "replace", "path": "", "value": 1}))]
#[case::index_too_big(json!({"op": "add", "path": "/l/3", "value": 1}))]
#[case::index_too_small(json!({"op": "add", "path": "/l/-4", "value": 1}))]
#[case::index_no_number(json!({"op": "add", "path": "/l/x", "value": 1}))]
#[case::replace_past_end(json!({"op": "replace", "path": "/l/2", "value": 1}))]
#[case::remove_past_end(json!({"op": "remove", "path": "/l/2"}))]
#[case::remove_end(json!({"op": "remove", "path": "/l/-"}))]
#[case::move_of_missing(json!({"op": "move", "from": "/x", "path": "/y"}))]
#[case::move_into_itself(json!({"op": "move", "from": "/o", "path": "/o/p"}))]
#[case::copy_of_missing_item(json!({"op": "copy", "from": "/l/9", "path": "/y"}))]
#[case::unknown_operation(json!({"op": "zap", "path": "/a"}))]
#[case::no_operation(json!({"path": "/a"}))]
#[case::no_path(json!({"op": "add", "value": 1}))]
#[case::no_from(json!({"op": "copy", "path": "/b"}))]
#[case::null_operation(json!(null))]
fn json_patches_that_do_not_apply(#[case] operation: Value) {
    let doc = json!({"a": 1, "l": [1, 2], "o": {"q": 1}});
    let first = json!({"op": "add", "path": "/first", "value": 1});
    let mut patched = doc.clone();
    let operations = json!([first, operation]).to_string();
    let error = json_patch(&mut patched, operations.as_bytes()).unwrap_err();
    assert!(matches!(error, PatchError::Unprocessable(_)), "{error:?}");
    assert_eq!(patched, doc, "nothing of a failed patch stays");
    let status = serde_json::to_value(error.status()).unwrap();
    assert_eq!(
        status,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "the server rejected our request due to an error in our request",
            "reason": "Invalid", "details": {}, "code": 422})
    );
}

#[rstest]
#[case(
    "{}",
    "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
)]
#[case(
    "[1]",
    "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
    "json: cannot unmarshal number into Go value of type jsonpatch.Operation"
)]
#[case(
    "",
    "error decoding patch: unexpected end of JSON input",
    "unexpected end of JSON input"
)]
fn json_patches_that_cannot_be_read(
    #[case] text: &str,
    #[case] checked: &str,
    #[case] unchecked: &str,
) {
    for (check, expected) in [(true, checked), (false, unchecked)] {
        let error = JsonPatch::decode(text.as_bytes(), check).unwrap_err();
        assert_eq!(error.status().message, expected);
        assert_eq!(error.status().code, 400);
    }
}

#[test]
fn members_of_operations_are_typed_only_when_checked() {
    let text = br#"[{"op": 1, "path": "/a"}]"#;
    let error = JsonPatch::decode(text, true).unwrap_err();
    assert_eq!(
        error.status().message,
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
    );
    assert!(JsonPatch::decode(text, false).is_ok());
}

#[test]
fn unknown_members_of_operations_are_noted() {
    let text = br#"[{"op": "add", "path": "/a", "value": 1, "x": 1}]"#;
    let patch = JsonPatch::decode(text, true).unwrap();
    assert_eq!(patch.findings, ["json patch unknown field \"[0].x\""]);
    assert!(JsonPatch::decode(text, false).unwrap().findings.is_empty());
}

#[test]
fn too_many_operations() {
    let operations = vec![json!({"op": "test", "path": "/a", "value": 1}); 10_001];
    let error = jp(&json!({"a": 1}), &Value::from(operations.clone())).unwrap_err();
    let status = error.status();
    assert_eq!(status.code, 413);
    assert_eq!(status.reason, "RequestEntityTooLarge");
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    assert!(jp(&json!({"a": 1}), &Value::from(operations[1..].to_vec())).is_ok());
}

#[test]
fn copies_cannot_blow_up_a_document() {
    let mut operations = vec![json!({"op": "add", "path": "/a", "value": "x".repeat(1000)})];
    operations.extend((0..40).map(|_| json!({"op": "copy", "from": "", "path": "/a"})));
    assert!(jp(&json!({}), &Value::from(operations)).is_err());
    let doubling = (0..40).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"}));
    let error = jp(&json!({"a": ["x".repeat(1000)]}), &doubling.collect()).unwrap_err();
    assert_eq!(error.status().code, 422);
}

#[test]
fn operations_cannot_nest_without_end() {
    let mut operations = Vec::new();
    let mut path = String::new();
    for _ in 0..300 {
        path.push_str("/a");
        operations.push(json!({"op": "add", "path": path, "value": {}}));
    }
    assert_eq!(
        jp(&json!({}), &Value::from(operations))
            .unwrap_err()
            .status()
            .code,
        422
    );
}

fn merged(doc: &Value, patch: &Value) -> Value {
    let mut doc = doc.clone();
    merge_patch(&mut doc, patch).unwrap();
    doc
}

/// The table of RFC 7396, appendix A, as far as it is about objects.
#[rstest]
#[case(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}))]
#[case(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}))]
#[case(json!({"a": "b"}), json!({"a": null}), json!({}))]
#[case(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}))]
#[case(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}))]
#[case(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}))]
#[case(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}))]
#[case(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}))]
#[case(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}))]
#[case(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}))]
// Where the library differs from the RFC: nulls inside new lists go, unless the list takes the
// place of an object.
#[case(json!({"a": [1]}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]}))]
#[case(json!({"a": {}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]}))]
fn merge_patches(#[case] doc: Value, #[case] patch: Value, #[case] expected: Value) {
    assert_eq!(merged(&doc, &patch), expected);
}

#[rstest]
#[case(
    "",
    "error decoding patch: unexpected end of JSON input",
    "Invalid JSON Patch"
)]
#[case(
    "3",
    "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
    "Invalid JSON Patch"
)]
#[case("null", "Invalid JSON Patch", "Invalid JSON Patch")]
fn merge_patches_that_cannot_be_read(
    #[case] text: &str,
    #[case] checked: &str,
    #[case] unchecked: &str,
) {
    for (check, expected) in [(true, checked), (false, unchecked)] {
        let error = decode_merge_patch(text.as_bytes(), check).unwrap_err();
        assert_eq!(error, PatchError::Malformed(expected.to_owned()));
    }
}

#[test]
fn a_list_is_a_merge_patch_only_unchecked() {
    let error = decode_merge_patch(b"[]", true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
    let patch = decode_merge_patch(b"[{\"a\":null}]", false).unwrap();
    assert_eq!(merged(&json!({"a": 1}), &patch.value), json!([{}]));
}

#[test]
fn strategic_patches_are_read() {
    assert_eq!(decode_strategic_patch(b"null").unwrap().value, json!({}));
    let error = decode_strategic_patch(b"\"x\"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal string into Go value of type map[string]interface {}"
    );
}

#[rstest]
#[case(json!({"b": [1, -2.5, true, null], "a": {"c": "x y"}}), "map[a:map[c:x y] b:[1 -2.5 true <nil>]]")]
#[case(json!([0.1, 100_000.0, 1e20, 1e21, 1.5e-7, 0.0001, 0.00001, 0.0]),
    "[0.1 100000 100000000000000000000 1e+21 1.5e-07 0.0001 1e-05 0]")]
#[case(json!({}), "map[]")]
#[case(json!(9_007_199_254_740_993_i64), "9007199254740993")]
fn values_print_as_in_go(#[case] value: Value, #[case] expected: &str) {
    assert_eq!(go_print(&value), expected);
}

fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    let any = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-c]", any, 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn has_null_members(value: &Value) -> bool {
    match value {
        Value::Object(map) => map
            .values()
            .any(|member| member.is_null() || has_null_members(member)),
        Value::Array(items) => items.iter().any(has_null_members),
        _ => false,
    }
}

proptest! {
    #[test]
    fn an_empty_merge_patch_changes_nothing(doc in object()) {
        prop_assert_eq!(merged(&doc, &json!({})), doc);
    }

    #[test]
    fn a_merge_patch_applied_twice_is_applied_once(doc in object(), patch in object()) {
        // Lists that replace objects keep their nulls at first; clean documents only.
        let doc = merged(&json!({}), &doc);
        let once = merged(&doc, &patch);
        let again = merged(&once, &patch);
        prop_assert_eq!(merged(&again, &patch), again);
    }

    #[test]
    fn a_merge_patch_onto_nothing_leaves_no_nulls(patch in object()) {
        let result = merged(&json!({}), &patch);
        prop_assert!(!has_null_members(&result));
    }

    #[test]
    fn a_clean_object_as_patch_is_contained_in_the_result(doc in object(), patch in object()) {
        let patch = merged(&json!({}), &patch);
        let result = merged(&doc, &patch);
        prop_assert_eq!(merged(&result, &patch), result);
    }

    #[test]
    fn copied_value_tests_equal(doc in object()) {
        let operations = json!([
            {"op": "add", "path": "/doc", "value": doc},
            {"op": "copy", "from": "/doc", "path": "/copy"},
            {"op": "test", "path": "/copy", "value": doc},
            {"op": "remove", "path": "/doc"},
            {"op": "move", "from": "/copy", "path": "/doc"},
        ]);
        prop_assert_eq!(jp(&json!({}), &operations).unwrap(), json!({"doc": doc}));
    }
}

#[rstest]
#[case(json!({}), json!({ "a": 1 }), json!({ "a": 1 }))]
#[case(json!({ "a": 1 }), json!({ "a": 1 }), json!({}))]
#[case(json!({ "a": { "b": 1, "c": 2 } }), json!({ "a": { "c": 3 } }), json!({ "a": { "b": null, "c": 3 } }))]
#[case(json!(null), json!({ "a": 1 }), json!({ "a": 1 }))]
#[case(json!({ "a": [1, 2] }), json!({ "a": [2] }), json!({ "a": [2] }))]
fn a_difference_makes_one_value_of_another(
    #[case] from: Value,
    #[case] to: Value,
    #[case] patch: Value,
) {
    assert_eq!(merge_difference(&from, &to), patch);
    if from.is_object() {
        assert_eq!(merged(&from, &patch), to);
    }
}
