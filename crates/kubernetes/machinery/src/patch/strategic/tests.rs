//! The types below are cut from `Deployment`, `ObjectMeta` and `UserInfo`, with their real tags.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    Opaque, PatchStrategy, StrategicField, StrategicType, TypeKind, strategic_merge_patch,
};
use crate::patch::PatchError;

enum Is {
    Scalar,
    Map,
    One(&'static Type),
    List(&'static Type),
    Scalars,
}

struct Tag(&'static str, Is, &'static str, &'static str);

struct Type(&'static str, &'static [Tag]);

struct Leaf(TypeKind<'static>);

impl StrategicType for Leaf {
    fn kind(&self) -> TypeKind<'_> {
        self.0
    }
    fn field(&self, _: &str) -> Option<StrategicField<'_>> {
        None
    }
}

impl StrategicType for Type {
    fn kind(&self) -> TypeKind<'_> {
        TypeKind::Struct(self.0)
    }
    fn field(&self, name: &str) -> Option<StrategicField<'_>> {
        let Tag(_, is, strategy, key) = self.1.iter().find(|tag| tag.0 == name)?;
        let scalar = || Leaf(TypeKind::Other("string"));
        let mut field = match is {
            Is::Scalar => StrategicField::single(scalar()),
            Is::Map => StrategicField::single(Leaf(TypeKind::Map)),
            Is::One(ty) => StrategicField::single(*ty),
            Is::List(ty) => StrategicField::list(*ty),
            Is::Scalars => StrategicField::list(scalar()),
        };
        field.strategy = PatchStrategy::from_tag(strategy);
        Some(if key.is_empty() {
            field
        } else {
            field.keyed(key)
        })
    }
}

static ENV: Type = Type(
    "EnvVar",
    &[
        Tag("name", Is::Scalar, "", ""),
        Tag("value", Is::Scalar, "", ""),
    ],
);
static PORT: Type = Type("ContainerPort", &[Tag("containerPort", Is::Scalar, "", "")]);
static CONTAINER: Type = Type(
    "Container",
    &[
        Tag("name", Is::Scalar, "", ""),
        Tag("image", Is::Scalar, "", ""),
        Tag("args", Is::Scalars, "", ""),
        Tag("env", Is::List(&ENV), "merge", "name"),
        Tag("ports", Is::List(&PORT), "merge", "containerPort"),
    ],
);
static TOLERATION: Type = Type("Toleration", &[Tag("key", Is::Scalar, "", "")]);
static STRATEGY: Type = Type(
    "DeploymentStrategy",
    &[
        Tag("type", Is::Scalar, "", ""),
        Tag("rollingUpdate", Is::One(&ROLLING), "", ""),
    ],
);
static ROLLING: Type = Type(
    "RollingUpdateDeployment",
    &[Tag("maxSurge", Is::Scalar, "", "")],
);
static SPEC: Type = Type(
    "PodSpec",
    &[
        Tag("containers", Is::List(&CONTAINER), "merge", "name"),
        Tag("tolerations", Is::List(&TOLERATION), "", ""),
        Tag("strategy", Is::One(&STRATEGY), "retainKeys", ""),
        Tag("frozen", Is::One(&STRATEGY), "replace", ""),
        Tag("finalizers", Is::Scalars, "merge", ""),
        Tag("labels", Is::Map, "", ""),
        Tag("extra", Is::Map, "", ""),
        Tag("keyless", Is::List(&TOLERATION), "merge", ""),
        Tag("replicas", Is::Scalar, "", ""),
    ],
);

fn patch(doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    strategic_merge_patch(doc, patch, &SPEC)
}

fn names(list: &[&str]) -> Value {
    list.iter().map(|name| json!({"name": name})).collect()
}

#[rstest]
#[case::scalars_replace(json!({"replicas": 1}), json!({"replicas": 2}), json!({"replicas": 2}))]
#[case::null_deletes(json!({"replicas": 1, "labels": {"a": "1", "b": "2"}}),
    json!({"replicas": null, "labels": {"a": null}}), json!({"labels": {"b": "2"}}))]
#[case::null_for_nothing(json!({}), json!({"replicas": null, "labels": {"a": null, "b": "2"}}),
    json!({"labels": {"b": "2"}}))]
#[case::other_type_replaces(json!({"replicas": {"a": 1}}), json!({"replicas": [null]}),
    json!({"replicas": [null]}))]
#[case::maps_merge(json!({"labels": {"a": "1"}}), json!({"labels": {"b": "2"}}),
    json!({"labels": {"a": "1", "b": "2"}}))]
#[case::object_replace(json!({"strategy": {"type": "R", "rollingUpdate": {"maxSurge": 1}}}),
    json!({"strategy": {"$patch": "replace", "type": "Recreate"}}), json!({"strategy": {"type": "Recreate"}}))]
#[case::object_delete(json!({"strategy": {"type": "R"}}), json!({"strategy": {"$patch": "delete"}}),
    json!({"strategy": {}}))]
#[case::directive_for_nothing(json!({}), json!({"strategy": {"$patch": "delete"}}), json!({}))]
#[case::top_level_replace(json!({"replicas": 1}), json!({"$patch": "replace", "labels": {}}), json!({"labels": {}}))]
#[case::top_level_delete(json!({"replicas": 1}), json!({"$patch": "delete"}), json!({}))]
#[case::replace_strategy(json!({"frozen": {"type": "a", "rollingUpdate": {}}}), json!({"frozen": {"type": "b"}}),
    json!({"frozen": {"type": "b"}}))]
#[case::retain_keys(json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}),
    json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}), json!({"strategy": {"type": "Recreate"}}))]
#[case::retain_keys_that_stay(json!({"strategy": {"type": "R", "rollingUpdate": {"maxSurge": 1}}}),
    json!({"strategy": {"$retainKeys": ["rollingUpdate"], "rollingUpdate": {"maxSurge": 2}}}),
    json!({"strategy": {"rollingUpdate": {"maxSurge": 2}}}))]
#[case::retain_keys_may_null_others(json!({"strategy": {"type": "R", "rollingUpdate": {}}}),
    json!({"strategy": {"$retainKeys": ["type"], "rollingUpdate": null}}), json!({"strategy": {"type": "R"}}))]
fn objects(#[case] doc: Value, #[case] change: Value, #[case] expected: Value) {
    assert_eq!(patch(&doc, &change), Ok(expected));
}

#[rstest]
#[case::same_key_merges(json!([{"name": "a", "image": "1", "args": ["x"]}]), json!([{"name": "a", "image": "2"}]),
    json!([{"name": "a", "image": "2", "args": ["x"]}]))]
#[case::new_items_come_first(names(&["a"]), names(&["b"]), names(&["b", "a"]))]
#[case::untouched_items_keep_their_place(names(&["a", "b", "c"]), names(&["b"]), names(&["a", "b", "c"]))]
#[case::patch_order_wins(names(&["a", "b", "c"]), names(&["c", "a"]), names(&["b", "c", "a"]))]
#[case::new_items_between(names(&["a", "b"]), names(&["b", "n"]), names(&["a", "b", "n"]))]
#[case::new_items_in_the_middle(names(&["a", "b", "c"]), names(&["b", "n"]), names(&["a", "b", "n", "c"]))]
#[case::delete(names(&["a", "b"]), json!([{"name": "a", "$patch": "delete"}]), names(&["b"]))]
#[case::delete_all_of_a_name(names(&["a", "b", "a"]), json!([{"name": "a", "$patch": "delete"}]), names(&["b"]))]
#[case::delete_missing(names(&["b"]), json!([{"name": "a", "$patch": "delete"}]), names(&["b"]))]
#[case::delete_and_add(names(&["a", "b"]), json!([{"name": "a", "$patch": "delete"}, {"name": "c"}]), names(&["c", "b"]))]
#[case::replace(names(&["a", "b"]), json!([{"$patch": "replace"}, {"name": "c"}, {"name": "d"}]), names(&["c", "d"]))]
#[case::replace_by_nothing(names(&["a"]), json!([{"$patch": "replace"}]), names(&[]))]
#[case::nested_lists_merge(json!([{"name": "a", "env": [{"name": "A", "value": "1"}]}]),
    json!([{"name": "a", "env": [{"name": "B", "value": "2"}]}]),
    json!([{"name": "a", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]}]))]
#[case::numeric_keys(json!([{"name": "a", "ports": [{"containerPort": 80, "name": "w"}]}]),
    json!([{"name": "a", "ports": [{"containerPort": 80, "name": "v"}, {"containerPort": 443}]}]),
    json!([{"name": "a", "ports": [{"containerPort": 80, "name": "v"}, {"containerPort": 443}]}]))]
#[case::plain_lists_are_replaced(json!([{"name": "a", "args": ["x", "y"]}]), json!([{"name": "a", "args": ["z"]}]),
    json!([{"name": "a", "args": ["z"]}]))]
#[case::repeated_in_patch(names(&["a"]), json!([{"name": "b", "image": "1"}, {"name": "b", "image": "2"}]),
    json!([{"name": "b", "image": "2"}, {"name": "a"}]))]
#[case::onto_empty(json!([]), names(&["b", "a"]), names(&["b", "a"]))]
#[case::empty_patch_list(names(&["a"]), json!([]), names(&["a"]))]
#[case::new_items_keep_inner_nulls(names(&["a"]), json!([{"name": "b", "image": null}]),
    json!([{"name": "b", "image": null}, {"name": "a"}]))]
fn keyed_lists(#[case] list: Value, #[case] change: Value, #[case] expected: Value) {
    let result = patch(&json!({"containers": list}), &json!({"containers": change}));
    assert_eq!(result, Ok(json!({"containers": expected})));
}

#[rstest]
#[case::sorts(names(&["a", "b"]), None, names(&["b", "a"]), names(&["b", "a"]))]
#[case::sorts_with_changes(names(&["a", "b"]), Some(json!([{"name": "b", "image": "2"}])), names(&["b", "a"]),
    json!([{"name": "b", "image": "2"}, {"name": "a"}]))]
#[case::server_items_woven_in(names(&["a", "x", "b"]), None, names(&["a", "b"]), names(&["a", "x", "b"]))]
#[case::new_item_placed(names(&["a", "b"]), Some(names(&["n"])), names(&["a", "n", "b"]), names(&["a", "n", "b"]))]
#[case::deletion_is_not_listed(names(&["a", "b", "c"]), Some(json!([{"name": "b", "$patch": "delete"}])),
    names(&["c", "a"]), names(&["c", "a"]))]
#[case::replaced_list(names(&["a"]), Some(json!([{"$patch": "replace"}, {"name": "x"}, {"name": "y"}])),
    names(&["x", "y"]), names(&["x", "y"]))]
#[case::empty_order_turns_new_items_round(names(&["a"]), Some(names(&["x", "y"])), names(&[]), names(&["a", "y", "x"]))]
#[case::empty_order_and_three_kept(names(&["a", "b", "c"]), Some(names(&["n", "m"])), names(&[]),
    names(&["a", "b", "c", "m", "n"]))]
#[case::empty_order_of_a_replaced_list(names(&["a"]), Some(json!([{"$patch": "replace"}, {"name": "z"}, {"name": "y"}])),
    names(&[]), names(&["y", "z"]))]
fn element_order(
    #[case] list: Value,
    #[case] change: Option<Value>,
    #[case] order: Value,
    #[case] expected: Value,
) {
    let mut wanted = json!({"$setElementOrder/containers": order});
    if let Some(change) = change {
        wanted["containers"] = change;
    }
    let result = patch(&json!({"containers": list}), &wanted);
    assert_eq!(result, Ok(json!({"containers": expected})));
}

#[rstest]
#[case::append(json!(["a"]), json!({"finalizers": ["b"]}), json!(["b", "a"]))]
#[case::deduplicate(json!(["a", "b"]), json!({"finalizers": ["b", "c", "c"]}), json!(["a", "b", "c"]))]
#[case::repeated(json!(["a", "b", "c"]), json!({"finalizers": ["d", "b", "d"]}), json!(["d", "a", "b", "c"]))]
#[case::delete(json!(["a", "b", "a"]), json!({"$deleteFromPrimitiveList/finalizers": ["a"]}), json!(["b"]))]
#[case::delete_and_add(json!(["a", "b"]), json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}),
    json!(["c", "b"]))]
#[case::order(json!(["a", "b", "c"]), json!({"$setElementOrder/finalizers": ["c", "a"]}), json!(["b", "c", "a"]))]
#[case::order_and_add(json!(["a", "b"]), json!({"$setElementOrder/finalizers": ["n", "b", "a"], "finalizers": ["n"]}),
    json!(["n", "b", "a"]))]
fn scalar_lists(#[case] list: Value, #[case] change: Value, #[case] expected: Value) {
    assert_eq!(
        patch(&json!({"finalizers": list}), &change),
        Ok(json!({"finalizers": expected}))
    );
}

#[test]
fn an_empty_order_treats_long_lists_like_short_ones() {
    let kept: Vec<String> = (0..30).map(|n| format!("k{n}")).collect();
    let list: Value = kept.iter().map(|name| json!({"name": name})).collect();
    let change =
        json!({"$setElementOrder/containers": [], "containers": [{"name": "x"}, {"name": "y"}]});
    let result = patch(&json!({"containers": list}), &change).unwrap();
    let found: Vec<&str> = result["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect();
    let expected: Vec<&str> = kept.iter().map(String::as_str).chain(["y", "x"]).collect();
    assert_eq!(found, expected);
}

#[test]
fn deletion_from_a_missing_list_or_another_type() {
    let change = json!({"$deleteFromPrimitiveList/finalizers": ["a"]});
    assert_eq!(patch(&json!({}), &change), Ok(json!({})));
    assert_eq!(
        patch(&json!({"finalizers": 1}), &change),
        Ok(json!({"finalizers": 1}))
    );
}

#[test]
fn order_of_a_missing_list_is_ignored() {
    let change = json!({"$setElementOrder/containers": [{"name": "a"}]});
    assert_eq!(
        patch(&json!({"replicas": 1}), &change),
        Ok(json!({"replicas": 1}))
    );
}

#[test]
fn lists_without_strategy_are_replaced_even_if_ordered() {
    let doc = json!({"tolerations": [{"key": "a"}]});
    assert_eq!(
        patch(&doc, &json!({"tolerations": [{"key": "b"}]})),
        Ok(json!({"tolerations": [{"key": "b"}]}))
    );
}

#[rstest]
#[case::no_merge_key(json!({"containers": [{"name": "a"}]}), json!({"containers": [{"image": "i9"}]}),
    "map: map[image:i9] does not contain declared merge key: name")]
#[case::delete_without_key(json!({"containers": [{"name": "a"}]}), json!({"containers": [{"$patch": "delete", "n": [1, 2.5, null, true]}]}),
    "map: map[$patch:delete n:[1 2.5 <nil> true]] does not contain declared merge key: name")]
#[case::merge_directive_on_item(json!({"containers": [{"name": "a"}]}), json!({"containers": [{"name": "a", "$patch": "merge"}]}),
    "merging lists cannot yet be specified in the patch")]
#[case::merge_directive_on_object(json!({"strategy": {}}), json!({"strategy": {"$patch": "merge", "type": "x"}}),
    "unknown patch type: merge in map: map[$patch:merge type:x]")]
#[case::directive_no_text(json!({"strategy": {}}), json!({"strategy": {"$patch": 5}}),
    "unknown patch type: %!s(int64=5) in map: map[$patch:5]")]
#[case::unknown_directive_on_item(json!({"containers": [{"name": "a"}]}), json!({"containers": [{"name": "a", "$patch": "x"}]}),
    "unknown patch type: x in map: map[$patch:x name:a]")]
#[case::unknown_field(json!({"nope": {}}), json!({"nope": {}}),
    "unable to find api field in struct PodSpec for the json field \"nope\"")]
#[case::list_below_a_map(json!({"extra": {"a": ["1"]}}), json!({"extra": {"a": ["2"]}}),
    "merging an object in json but data type is not struct, instead is: map")]
#[case::mixed_items(json!({"finalizers": ["a"]}), json!({"finalizers": [1]}),
    "list element types are not identical: [[a] [1]]")]
#[case::keyless_list(json!({"keyless": [{"a": 1}]}), json!({"keyless": [{"a": 2}]}),
    "cannot merge lists without merge key for struct")]
#[case::order_is_no_list(json!({}), json!({"$setElementOrder/containers": "x"}),
    "expected a []interface {}, but received a string")]
#[case::order_of_no_list(json!({"strategy": {}}), json!({"$setElementOrder/strategy": []}),
    "expected a []interface {}, but received a map[string]interface {}")]
#[case::order_of_no_list_field(json!({}), json!({"$setElementOrder/strategy": []}),
    "expected slice or array type, but got: struct")]
#[case::order_of_empty_list(json!({"containers": []}), json!({"$setElementOrder/containers": [{"name": "a"}]}),
    "no elements in any of the given slices")]
#[case::order_without_key(json!({"containers": [{"name": "a"}]}), json!({"$setElementOrder/containers": [{"x": "a"}]}),
    "map: map[x:a] does not contain declared merge key: name")]
#[case::order_of_scalars(json!({"containers": [{"name": "a"}]}), json!({"$setElementOrder/containers": ["a"]}),
    "value for key 0 is not a map")]
#[case::order_mismatch(json!({"finalizers": ["a"]}), json!({"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}),
    "The order in patch list:\n[b]\n doesn't match $setElementOrder list:\n[a]\n")]
#[case::replace_after_the_order_ends(json!({"containers": [{"name": "a"}]}),
    json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a"}, {"$patch": "replace"}]}),
    "The order in patch list:\n[map[name:a] map[$patch:replace]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n")]
#[case::order_mismatch_of_objects(json!({"containers": []}),
    json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]}),
    "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n")]
fn errors_that_are_bare_500s(#[case] doc: Value, #[case] change: Value, #[case] expected: &str) {
    let error = patch(&doc, &change).unwrap_err();
    assert_eq!(error, PatchError::Internal(expected.to_owned()));
    let status = error.status();
    assert_eq!(
        (status.code, status.reason.as_str(), status.message.as_str()),
        (500, "", expected)
    );
}

#[rstest]
#[case(json!({"$deleteFromPrimitiveListX": ["a"]}), "invalid patch format of primitive list")]
#[case(json!({"$setElementOrderX": []}), "invalid patch format of setElementOrder list")]
#[case(json!({"$retainKeys": "type"}), "invalid patch format of retainKeys")]
#[case(json!({"$retainKeys": ["labels"], "replicas": 2}), "invalid patch format of retainKeys")]
#[case(json!([]), "json: cannot unmarshal array into Go value of type map[string]interface {}")]
fn malformed_patches(#[case] change: Value, #[case] expected: &str) {
    let error = patch(&json!({"replicas": 1}), &change).unwrap_err();
    assert_eq!(error.status().code, 400);
    assert_eq!(error.status().message, expected);
}

#[test]
fn lists_of_lists_are_refused() {
    let error = patch(
        &json!({"finalizers": [["a"]]}),
        &json!({"finalizers": [["b"]]}),
    )
    .unwrap_err();
    assert_eq!(error.status().code, 422);
}

#[test]
fn an_open_type_merges_plainly() {
    let doc = json!({"a": {"b": {"c": 1}, "l": [{"name": "x"}]}});
    let change = json!({"a": {"b": {"d": 2}, "l": [{"name": "y"}]}});
    let expected = json!({"a": {"b": {"c": 1, "d": 2}, "l": [{"name": "y"}]}});
    assert_eq!(strategic_merge_patch(&doc, &change, &Opaque), Ok(expected));
}

#[test]
fn tags_are_read() {
    assert_eq!(
        PatchStrategy::from_tag("merge,retainKeys"),
        PatchStrategy::Merge
    );
    assert_eq!(
        PatchStrategy::from_tag("retainKeys"),
        PatchStrategy::Default
    );
    assert_eq!(PatchStrategy::from_tag("replace"), PatchStrategy::Replace);
}

fn containers() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[A-D]", "[0-9]", 0..4).prop_map(|env| {
        env.into_iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect::<Value>()
    });
    let container = (env, "[0-9]").prop_map(|(env, image)| json!({"env": env, "image": image}));
    let ordered = prop::collection::btree_map("[a-e]", container, 0..5)
        .prop_map(|all| all.into_iter().collect::<Vec<_>>())
        .prop_shuffle();
    ordered.prop_map(|all| {
        all.into_iter()
            .map(|(name, mut container)| {
                container["name"] = json!(name);
                container
            })
            .collect()
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let finalizers = prop::collection::vec("[a-d]", 0..4);
    (containers(), finalizers, 0..9_i64).prop_map(|(containers, finalizers, replicas)| {
        json!({"containers": containers, "finalizers": finalizers, "replicas": replicas})
    })
}

proptest! {
    #[test]
    fn an_empty_patch_changes_nothing(doc in spec()) {
        prop_assert_eq!(patch(&doc, &json!({})).unwrap(), doc.clone());
        prop_assert_eq!(patch(&doc, &Value::Null).unwrap(), doc);
    }

    #[test]
    fn applying_twice_is_applying_once(doc in spec(), change in spec()) {
        let once = patch(&doc, &change).unwrap();
        prop_assert_eq!(patch(&once, &change).unwrap(), once);
    }

    #[test]
    fn every_item_of_either_side_is_there_once(doc in spec(), change in spec()) {
        let merged = patch(&doc, &change).unwrap();
        let names = |value: &Value| -> Vec<String> {
            let list = value["containers"].as_array().unwrap();
            list.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
        };
        let mut found = names(&merged);
        let mut expected = [names(&doc), names(&change)].concat();
        found.sort();
        expected.sort();
        expected.dedup();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn items_of_the_patch_keep_its_order(doc in spec(), change in spec()) {
        let merged = patch(&doc, &change).unwrap();
        let wanted: Vec<&Value> =
            change["containers"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
        let found: Vec<&Value> = merged["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["name"])
            .filter(|name| wanted.contains(name))
            .collect();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn merging_never_panics(doc in any_json(), change in any_json()) {
        let _ = patch(&doc, &change);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        prop_oneof![
            Just("a"),
            Just("delete"),
            Just("replace"),
            Just("merge"),
            Just("type")
        ]
        .prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("containers"),
        Just("name"),
        Just("env"),
        Just("finalizers"),
        Just("strategy"),
        Just("labels"),
        Just("$patch"),
        Just("$retainKeys"),
        Just("$setElementOrder/containers"),
        Just("$setElementOrder/finalizers"),
        Just("$deleteFromPrimitiveList/finalizers"),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|members| Value::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            )),
        ]
    })
}
