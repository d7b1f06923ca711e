//! Laws that hold whatever is applied.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::support::{OneVersion, Server, thing_schema};
use crate::apply::{FieldSet, PathElement, Typed, Versions};

fn optional(
    name: &'static str,
    value: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Option<(String, Value)>> {
    prop::option::of(value.prop_map(move |value| (name.to_owned(), value)))
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

fn words() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(word(), word(), 0..3).prop_map(|map| json!(map))
}

fn set_items() -> impl Strategy<Value = Value> {
    prop::sample::subsequence(vec!["a", "b", "c", "d"], 0..4)
        .prop_shuffle()
        .prop_map(|items| json!(items))
}

fn ports() -> impl Strategy<Value = Value> {
    let port = (prop::option::of(word()), prop::option::of(words_of_opts()));
    prop::collection::btree_map(1..4_i64, port, 0..3).prop_map(|ports| {
        ports
            .into_iter()
            .map(|(port, (name, opts))| {
                let mut item = json!({ "port": port });
                if let Some(name) = name {
                    item["name"] = json!(name);
                }
                if let Some(opts) = opts {
                    item["opts"] = opts;
                }
                item
            })
            .collect()
    })
}

fn words_of_opts() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(vec!["a", "b"]), word(), 0..2)
        .prop_map(|map| json!(map))
}

fn free() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map(word(), inner, 0..3)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn spec() -> impl Strategy<Value = Value> {
    (
        optional("replicas", (1..4_i64).prop_map(Value::from)),
        optional("name", word().prop_map(Value::from)),
        optional("tags", set_items()),
        optional("ports", ports()),
        optional("labels", words()),
        optional("atomicMap", words_of_opts()),
        optional("free", free()),
        optional(
            "nested",
            prop::collection::btree_map(word(), (1..3_i64).prop_map(|v| json!({ "v": v })), 0..3)
                .prop_map(|map| json!({ "m": map })),
        ),
    )
        .prop_map(|(a, b, c, d, e, f, g, h)| {
            let fields: Map<String, Value> =
                [a, b, c, d, e, f, g, h].into_iter().flatten().collect();
            json!({ "spec": fields })
        })
}

fn without_empty_lists(mut body: Value) -> Value {
    if let Some(spec) = body["spec"].as_object_mut() {
        spec.retain(|_, value| *value != json!([]));
    }
    body
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        word().prop_map(|name| PathElement::field(&name)),
        (0..2_i64, word()).prop_map(|(port, proto)| PathElement::key(vec![
            ("port".into(), json!(port)),
            ("proto".into(), json!(proto)),
        ])),
        word().prop_map(|text| PathElement::item(json!(text))),
        (0..3_i64).prop_map(PathElement::Index),
    ]
}

fn field_set() -> impl Strategy<Value = FieldSet> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..8).prop_map(|paths| {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(&path);
        }
        set
    })
}

fn identified(body: Value) -> Value {
    super::support::identified(body)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn sets_survive_the_wire(set in field_set()) {
        let wire = set.to_fields_v1();
        prop_assert_eq!(FieldSet::from_fields_v1(&wire).unwrap(), set);
    }

    #[test]
    fn sets_obey_set_algebra(a in field_set(), b in field_set(), c in field_set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&b), a.difference(&a.difference(&b)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.union(&b).difference(&b), a.difference(&b));
        let mut rest = a.clone();
        rest.subtract_recursive(&b);
        prop_assert!(rest.difference(&a.difference(&b)).is_empty());
        prop_assert_eq!(a.iter().count(), a.len());
        prop_assert!(a.iter().all(|path| a.contains(&path)));
        prop_assert_eq!(a.len() + b.len(), a.union(&b).len() + a.intersection(&b).len());
    }

    #[test]
    fn merging_is_idempotent_and_adds_all(live in spec(), config in spec()) {
        let versions = OneVersion::new(&thing_schema());
        let (schema, root) = versions.merge_type(super::support::VERSION).unwrap();
        let typed = Typed::new(&schema, &root);
        let merged = typed.merge(&live, &config);
        prop_assert_eq!(&typed.merge(&merged, &config), &merged);
        prop_assert!(typed.compare(&merged, &merged).is_same());
        // Everything the configuration mentions has its value, so nothing of it is modified by
        // going from the configuration to the merged object.
        prop_assert!(typed.compare(&config, &merged).modified.is_empty());
        prop_assert!(typed.compare(&config, &merged).removed.is_empty());
    }

    #[test]
    fn comparing_back_swaps_added_and_removed(a in spec(), b in spec()) {
        let versions = OneVersion::new(&thing_schema());
        let (schema, root) = versions.merge_type(super::support::VERSION).unwrap();
        let typed = Typed::new(&schema, &root);
        let (there, back) = (typed.compare(&a, &b), typed.compare(&b, &a));
        prop_assert_eq!(there.added, back.removed);
        prop_assert_eq!(there.removed, back.added);
        prop_assert_eq!(there.modified, back.modified);
    }

    #[test]
    fn removing_all_fields_leaves_nothing(a in spec()) {
        let versions = OneVersion::new(&thing_schema());
        let (schema, root) = versions.merge_type(super::support::VERSION).unwrap();
        let typed = Typed::new(&schema, &root);
        let set = typed.to_set(&a);
        let part = typed.extract(&a, &set).unwrap_or(Value::Null);
        prop_assert!(typed.to_set(&part).difference(&set).is_empty());
        let mut rest = a.clone();
        typed.remove(&mut rest, &set);
        prop_assert!(typed.to_set(&rest).intersection(&set).is_empty());
    }

    #[test]
    fn applying_twice_is_applying_once(first in spec(), body in spec(), other in spec()) {
        let mut server = Server::new();
        server.apply("m0", first).unwrap();
        server.force("m1", other);
        server.force("m2", body.clone());
        let (object, writes) = (server.object.clone(), server.writes);
        server.apply("m2", body).unwrap();
        prop_assert_eq!(server.object, object);
        prop_assert_eq!(server.writes, writes);
    }

    #[test]
    fn force_never_fails_and_updates_never_conflict(bodies in prop::collection::vec(spec(), 1..6)) {
        let mut server = Server::new();
        for (i, body) in bodies.into_iter().enumerate() {
            let manager = format!("m{}", i % 3);
            if i % 2 == 0 {
                server.force(&manager, body.clone());
                // What was forced is there: applying it again without force is no conflict.
                server.apply(&manager, body).unwrap();
            } else {
                let mut object = identified(body);
                if let Some(live) = &server.object {
                    object["metadata"]["uid"] = live["metadata"]["uid"].clone();
                }
                server.put("", &manager, object);
            }
            for (_, set) in server.owners() {
                prop_assert_ne!(set, json!({}), "a manager without fields has no entry");
            }
        }
    }

    #[test]
    fn empty_apply_leaves_fields_of_other_managers(mine in spec(), theirs in spec()) {
        // A struct with nothing but empty associative lists counts as empty; see the appliers.
        let (mine, theirs) = (without_empty_lists(mine), without_empty_lists(theirs));
        let mut server = Server::new();
        server.apply("theirs", theirs.clone()).unwrap();
        server.force("mine", mine);
        let owned = server.owned_by("theirs Apply");
        let versions = OneVersion::new(&thing_schema());
        let (schema, root) = versions.merge_type(super::support::VERSION).unwrap();
        let typed = Typed::new(&schema, &root);
        let before = server.object.clone().unwrap();
        server.apply("mine", json!({})).unwrap();
        if !owned.is_null() {
            let set = FieldSet::from_fields_v1(&owned).unwrap();
            let after = server.object.clone().unwrap();
            prop_assert_eq!(typed.extract(&before, &set), typed.extract(&after, &set));
        }
        prop_assert_eq!(server.owned_by("theirs Apply"), owned);
    }

    #[test]
    fn appliers_of_different_fields_commute(labels in words(), tags in set_items(), name in word(), free in free()) {
        let one = json!({"spec": {"labels": labels, "name": name}});
        let two = json!({"spec": {"tags": tags, "free": free}});
        let run = |first: (&str, &Value), second: (&str, &Value)| {
            let mut server = Server::new();
            server.apply(first.0, first.1.clone()).unwrap();
            server.apply(second.0, second.1.clone()).unwrap();
            (server.spec().clone(), server.owned_by("m1 Apply"), server.owned_by("m2 Apply"))
        };
        prop_assert_eq!(run(("m1", &one), ("m2", &two)), run(("m2", &two), ("m1", &one)));
    }
}
