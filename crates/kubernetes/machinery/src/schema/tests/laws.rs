//! Laws for any schema and any object.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{NO_CHECKS, compiled, decode, errors};
use crate::field::Path;
use crate::schema::crd::{default_crd, prepare_create, validate_crd};
use crate::schema::openapi::crd_openapi;
use crate::schema::{CompiledSchema, Schema, check_structural, prune, regexp};

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "spec", "metadata", "kind"]).prop_map(str::to_owned)
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        prop::sample::select(vec![0.5, 2.0, 1e30]).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "1h", "2020-01-01"]).prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), value(), 0..4).prop_map(|map| {
        let mut map: Map<String, Value> = map.into_iter().collect();
        map.insert("kind".into(), "Thing".into());
        map.insert("metadata".into(), json!({"name": "x"}));
        Value::Object(map)
    })
}

/// Structural schemas with defaults that fit.
fn structural() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!({"type": "string"}),
        json!({"type": "string", "default": "a"}),
        json!({"type": "string", "nullable": true, "minLength": 1}),
        json!({"type": "string", "nullable": true, "default": "n"}),
        json!({"type": "integer", "minimum": 0, "default": 1}),
        json!({"type": "number", "maximum": 1}),
        json!({"type": "boolean"}),
        json!({"type": "string", "format": "date"}),
        json!({"x-kubernetes-int-or-string": true}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 2}}}),
    ]);
    let node = leaf.prop_recursive(3, 20, 3, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|items| json!({"type": "array", "items": items})),
            inner
                .clone()
                .prop_map(|extra| json!({"type": "object", "additionalProperties": extra})),
            prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), inner, 0..4)
                .prop_map(|properties| json!({"type": "object", "properties": properties})),
        ]
    });
    prop::collection::btree_map(prop::sample::select(vec!["a", "b", "spec"]), node, 0..4)
        .prop_map(|properties| json!({"type": "object", "properties": properties}))
}

/// Keywords with values that may or may not make sense.
fn keyword_soup() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        "type",
        "items",
        "properties",
        "additionalProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "default",
        "enum",
        "pattern",
        "required",
        "minimum",
        "maxLength",
        "nullable",
        "format",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "$ref",
        "definitions",
    ]);
    let leaf = prop_oneof![
        leaf(),
        prop::sample::select(vec![
            "object", "array", "string", "integer", "map", "set", "atomic", "("
        ])
        .prop_map(Value::from),
        Just(json!(["a"])),
    ];
    leaf.prop_recursive(5, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name(), inner.clone(), 0..3).prop_map(|m| json!(m)),
            prop::collection::btree_map(keyword.clone(), inner, 0..6).prop_map(|m| json!(m)),
        ]
    })
}

proptest! {
    #[test]
    fn decoding_settles(schema in structural(), object in object()) {
        let compiled = compiled(&schema);
        let mut once = object;
        if decode(&mut once, compiled.schema()).is_ok() {
            let mut twice = once.clone();
            let unknown = decode(&mut twice, compiled.schema()).expect("what decoded decodes");
            prop_assert_eq!(unknown, Vec::<String>::new());
            prop_assert_eq!(&once, &twice);
            prop_assert_eq!(errors(&once, None, &compiled), errors(&twice, None, &compiled));
        }
    }

    #[test]
    fn defaults_alone_are_valid(schema in structural()) {
        let compiled = compiled(&schema);
        let found = check_structural(&schema, false, &Path::new("x"), &NO_CHECKS);
        prop_assert_eq!(found, vec![]);
        let mut object = json!({"kind": "Thing", "metadata": {"name": "x"}});
        decode(&mut object, compiled.schema()).expect("nothing to refuse");
        prop_assert_eq!(errors(&object, None, &compiled), vec![]);
    }

    #[test]
    fn unchanged_update_is_never_rejected(schema in structural(), object in object()) {
        let compiled = compiled(&schema);
        let mut object = object;
        prune(&mut object, compiled.schema(), false);
        let free = schema.to_string().contains("preserve-unknown");
        if !free {
            let found = compiled.validate_update(&object, &object, &Path::root());
            prop_assert_eq!(found, vec![]);
        }
    }

    #[test]
    fn an_update_reports_no_more_than_a_create(
        schema in structural(), new in object(), old in object(),
    ) {
        let compiled = compiled(&schema);
        let create = compiled.validate(&new, &Path::root());
        for error in compiled.validate_update(&new, &old, &Path::root()) {
            prop_assert!(create.contains(&error), "{} only on update", error);
        }
    }

    #[test]
    fn no_schema_breaks_the_checks(schema in keyword_soup(), object in object()) {
        let crd = json!({"spec": {
            "group": "x.example.com",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}}],
        }});
        let mut crd = crd;
        default_crd(&mut crd);
        prepare_create(&mut crd);
        validate_crd(&crd, &NO_CHECKS);
        prop_assert_eq!(crd_openapi(&crd, "v1").len(), 2);
        if let Ok(parsed) = Schema::parse(&schema) {
            let mut value = object;
            if decode(&mut value, &parsed).is_ok()
                && let Ok(compiled) = CompiledSchema::new(parsed)
            {
                errors(&value, Some(&value), &compiled);
            }
        }
    }

    #[test]
    fn any_pattern_compiles_or_is_rejected(pattern in r"[-a\[\]\(\)\{\}\\\^\$\.\*\+\?\|,0-9pPQEdx:=é&]{0,24}") {
        match regexp::compile(&pattern) {
            Ok(regex) => { regex.is_match("aé0"); }
            Err(error) => prop_assert!(error.starts_with("error parsing regexp: ")),
        }
    }

    #[test]
    fn literals_match_themselves(text in r"[^\\]{0,20}") {
        let pattern = format!("^\\Q{text}\\E$");
        let regex = regexp::compile(&pattern).expect("quoted text is a pattern");
        prop_assert!(regex.is_match(&text));
    }
}
