//! Behaviour that single answers of a server do not show.

use serde_json::{Value, json};

use super::{NO_CHECKS, compiled, decode, errors};
use crate::field::{FieldError, Path};
use crate::schema::crd::{
    crd_warnings, default_crd, prepare_create, prepare_update, validate_crd,
    validate_crd_status_update, validate_crd_update,
};
use crate::schema::openapi::crd_openapi;
use crate::schema::{
    Checks, CompiledSchema, Schema, check_embedded, check_lists_update, check_structural, coerce,
    prune, regexp, rules_blocked,
};

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn patterns_match_as_in_go() {
    for (pattern, text, matches) in [
        (r"^\d+$", "12", true),
        (r"^\d+$", "\u{0661}", false),
        (r"^\w+$", "é", false),
        (r"^\W+$", "é", true),
        (r"^\s$", "\u{a0}", false),
        (r"^[\s]$", " ", true),
        (r"^[^\s]$", "x", true),
        (r"a{,2}", "a{,2}", true),
        (r"a{,2}", "aa", false),
        (r"^x{$", "x{", true),
        (r"^[a&&b]$", "&", true),
        (r"^[[a]$", "[", true),
        (r"^[a-c-e]$", "-", true),
        (r"^[]a]+$", "]a", true),
        (r"^\Qa.b\E$", "a.b", true),
        (r"^\Qa.b\E$", "axb", false),
        (r"^(?P<n>a)(?<m>b)$", "ab", true),
        (r"(?i)^abc$", "ABC", true),
        (r"^[[:alpha:]]+$", "abc", true),
        (r"^[[:^alpha:]]+$", "123", true),
        (r"^\pL+$", "é", true),
        (r"^\p{^L}+$", "é", false),
        (r"^\x41\x{42}\103$", "ABC", true),
        (r"^\_\<\>$", "_<>", true),
        (r"^a#b c$", "a#b c", true),
        (r"\bfoo\b", "a foo b", true),
        (r"b", "abc", true),
        (r"", "anything", true),
    ] {
        let regex = regexp::compile(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        assert_eq!(regex.is_match(text), matches, "{pattern} on {text}");
    }
}

#[test]
fn hostile_patterns_are_rejected() {
    for pattern in [
        "(".repeat(100_000),
        format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000)),
        "((a{1000}){1000}){1000}".to_owned(),
        r"(\pL{900}){900}".to_owned(),
    ] {
        assert!(regexp::compile(&pattern).is_err());
    }
}

#[test]
fn deep_schemas_are_rejected() {
    let mut schema = json!({"type": "string"});
    for _ in 0..300 {
        schema = json!({"type": "array", "items": schema});
    }
    assert!(Schema::parse(&schema).is_err());
    let errors = check_structural(&schema, false, &Path::new("spec"), &NO_CHECKS);
    assert_eq!(
        texts(&errors),
        ["spec.openAPIV3Schema: Invalid value: \"\": schema nests deeper than 160 levels"]
    );
}

/// As deep as it may be, on the stack of a test thread: 2 MiB, what workers of a server have too.
#[test]
fn the_deepest_schema_fits_the_stack() {
    let mut schema = json!({"type": "string", "not": {"pattern": "^b"}});
    let mut value = json!("a");
    for i in 0..150 {
        if i % 2 == 0 {
            schema = json!({"type": "array", "items": schema});
            value = json!([value]);
        } else {
            schema = json!({"type": "object", "additionalProperties": schema});
            value = json!({"k": value});
        }
    }
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let mut object = json!({"kind": "K", "metadata": {}, "spec": value});
    let mut crd = crd(&json!([version("v1", true, &schema)]));
    prepare_create(&mut crd);
    assert_eq!(validate_crd(&crd, &NO_CHECKS), []);
    assert_eq!(crd_openapi(&crd, "v1").len(), 2);
    let compiled = compiled(&schema);
    decode(&mut object, compiled.schema()).unwrap();
    assert_eq!(errors(&object, Some(&object), &compiled), []);
    let mut logic = json!({"pattern": "^a"});
    for _ in 0..150 {
        logic = json!({"not": logic});
    }
    logic["type"] = "string".into();
    let logic = CompiledSchema::parse(&logic).unwrap();
    assert_eq!(logic.validate(&json!("a"), &Path::root()), []);
    assert_eq!(logic.validate(&json!("b"), &Path::root()).len(), 1);
}

#[test]
fn deep_undeclared_lists_are_emptied() {
    let schema = Schema::parse(&json!({"type": "object", "additionalProperties": true})).unwrap();
    let mut list = json!([1]);
    for _ in 0..1_000 {
        list = json!([list]);
    }
    let mut value = json!({"a": list});
    prune(&mut value, &schema, false);
    let mut depth = 0;
    let mut inner = &value["a"];
    while let Some(next) = inner.get(0) {
        inner = next;
        depth += 1;
    }
    assert_eq!(depth, 200);
}

#[test]
fn status_messages_leave_out_the_status() {
    let schema = compiled(&json!({"type": "object", "properties": {"status": {
        "type": "object",
        "required": ["at"],
        "properties": {
            "phase": {"type": "string", "minLength": 3},
            "at": {"type": "string"},
            "seen": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }}}));
    let status = json!({"phase": "ab", "seen": {"x": "y"}});
    let errors = schema.validate_status(&status, None);
    assert_eq!(
        texts(&errors),
        [
            "status.phase: Invalid value: \"ab\": phase in body should be at least 3 chars long",
            "status.seen.x: Invalid value: \"string\": seen.x in body must be of type integer: \
             \"string\"",
            "status.at: Required value",
        ]
    );
    let tolerated = json!({"phase": "ab", "at": "now"});
    assert_eq!(schema.validate_status(&tolerated, Some(&status)), []);
    assert_eq!(
        schema
            .validate_status(&json!({"phase": "a", "at": ""}), Some(&status))
            .len(),
        1
    );
}

#[test]
fn rules_run_only_on_valid_values() {
    let path = Path::new("spec");
    let blocking = [
        FieldError::invalid(&path, 1, "x"),
        FieldError::required(&path, ""),
    ];
    assert_eq!(
        rules_blocked(&blocking).map(|e| e.to_string()).as_deref(),
        Some(
            "<nil>: Invalid value: null: some validation rules were not checked because the object was \
             invalid; correct the existing errors to complete validation"
        )
    );
    assert_eq!(rules_blocked(&[FieldError::invalid(&path, 1, "x")]), None);
    assert_eq!(rules_blocked(&[FieldError::duplicate(&path, 1)]), None);
}

#[test]
fn pruning_reports_paths_in_order() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object"}},
    }}))
    .unwrap();
    let mut value = json!({
        "apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "zz": 1,
        "list": [{"k": "v", "b": 1}, {"a": {"deep": 1}}],
        "map": {"m": {"x": 1}},
    });
    let dropped = prune(&mut value, &schema, true);
    assert_eq!(dropped, ["list[0].b", "list[1].a", "map.m.x", "zz"]);
    let kept = json!({
        "apiVersion": "v1", "kind": "K", "metadata": {"x": 1},
        "list": [{"k": "v"}, {}], "map": {"m": {}},
    });
    assert_eq!(value, kept);
    // Of a value that is not a whole object the three go too, without a word.
    assert_eq!(prune(&mut value, &schema, false), [] as [&str; 0]);
    assert_eq!(value, json!({"list": [{"k": "v"}, {}], "map": {"m": {}}}));
}

#[test]
fn broken_lists_may_stay_broken() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {
        "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }}))
    .unwrap();
    let (good, bad) = (json!({"l": ["a"]}), json!({"l": ["a", "a"]}));
    let root = Path::root();
    let broken = check_lists_update(&bad, &good, &schema, &root);
    assert_eq!(texts(&broken), ["l[1]: Duplicate value: \"a\""]);
    assert_eq!(
        check_lists_update(&bad, &json!({"l": ["b", "b"]}), &schema, &root),
        []
    );
}

#[test]
fn embedded_metadata_is_handed_over() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {
        "t": {"type": "object", "x-kubernetes-embedded-resource": true},
    }}))
    .unwrap();
    let value = json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n"}}});
    let errors = check_embedded(
        &value,
        &schema,
        &Path::root(),
        false,
        &|meta, namespaced, path| {
            vec![FieldError::invalid(
                path,
                meta.clone(),
                namespaced.to_string(),
            )]
        },
    );
    assert_eq!(
        texts(&errors),
        ["t.metadata: Invalid value: {\"name\":\"fakename\",\"namespace\":\"n\"}: true"]
    );
}

fn crd(versions: &Value) -> Value {
    let mut crd = json!({
        "metadata": {"name": "things.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions,
        },
    });
    default_crd(&mut crd);
    crd
}

fn version(name: &str, storage: bool, schema: &Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

#[test]
fn names_and_group_of_a_crd_are_immutable() {
    let open = json!({"type": "object"});
    let mut old = crd(&json!([version("v1", true, &open)]));
    prepare_create(&mut old);
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["names"]["kind"] = "Other".into();
    new["spec"]["group"] = "y.example.com".into();
    new["spec"]["names"]["plural"] = "others".into();
    prepare_update(&mut new, &old);
    let always = [
        "spec.group: Invalid value: \"y.example.com\": field is immutable",
        "spec.names.plural: Invalid value: \"others\": field is immutable",
    ];
    assert_eq!(texts(&validate_crd_update(&new, &old, &NO_CHECKS)), always);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    prepare_update(&mut new, &old);
    let mut established = vec![
        "spec.scope: Invalid value: \"Cluster\": field is immutable".to_owned(),
        "spec.names.kind: Invalid value: \"Other\": field is immutable".to_owned(),
    ];
    established.extend(always.map(str::to_owned));
    assert_eq!(
        texts(&validate_crd_update(&new, &old, &NO_CHECKS)),
        established
    );
}

#[test]
fn stored_versions_accumulate_and_hold() {
    let open = json!({"type": "object"});
    let mut old = crd(&json!([version("v1", true, &open)]));
    prepare_create(&mut old);
    assert_eq!(
        old["status"],
        json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": ["v1"]})
    );
    let mut new = crd(&json!([
        version("v1", false, &open),
        version("v2", true, &open)
    ]));
    prepare_update(&mut new, &old);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(validate_crd_update(&new, &old, &NO_CHECKS), []);
    let mut without = crd(&json!([version("v2", true, &open)]));
    prepare_update(&mut without, &new);
    assert_eq!(
        texts(&validate_crd_update(&without, &new, &NO_CHECKS)),
        [
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a \
          storage version, and must remain in spec.versions until a storage migration ensures no data \
          remains persisted in v1 and removes v1 from status.storedVersions"
        ]
    );
    new["status"]["storedVersions"] = json!(["v2"]);
    new["status"]["acceptedNames"]["plural"] = "Bad_".into();
    assert_eq!(validate_crd_status_update(&new).len(), 1);
}

#[test]
fn a_stored_version_stands_for_one_version_only() {
    let open = json!({"type": "object"});
    let mut twice = crd(&json!([
        version("v1", true, &open),
        version("v1", true, &open)
    ]));
    prepare_create(&mut twice);
    let errors = texts(&validate_crd(&twice, &NO_CHECKS));
    let expected =
        "status.storedVersions: Invalid value: [\"v1\"]: must have the storage version v1";
    assert!(errors.iter().any(|error| error == expected), "{errors:?}");
}

#[test]
fn formats_are_warned_about_once_introduced() {
    let weird =
        json!({"type": "object", "properties": {"a": {"type": "string", "format": "weird"}}});
    let old = crd(&json!([version("v1", true, &json!({"type": "object"}))]));
    let new = crd(&json!([version("v1", true, &weird)]));
    assert_eq!(
        crd_warnings(&new, Some(&old)),
        ["unrecognized format \"weird\""]
    );
    assert_eq!(crd_warnings(&new, Some(&new)), [] as [&str; 0]);
}

#[test]
fn rules_are_compiled_for_valid_schemas_only() {
    let checks = Checks {
        rules: &|schema, path| {
            let count = schema
                .properties
                .values()
                .map(|p| p.validations.len())
                .sum::<usize>();
            vec![FieldError::invalid(path, count, "seen")]
        },
        default_rules: &|_, value, path| vec![FieldError::invalid(path, value.clone(), "seen")],
        ..NO_CHECKS
    };
    let path = Path::new("spec").child("validation");
    let run = |schema: &Value| texts(&check_structural(schema, false, &path, &checks));
    let rule = json!({"rule": "true"});
    let sound = json!({"type": "object", "properties": {
        "a": {"type": "string", "x-kubernetes-validations": [rule]},
    }});
    assert_eq!(
        run(&sound),
        ["spec.validation.openAPIV3Schema: Invalid value: 1: seen"]
    );
    let unsound = json!({"type": "object", "properties": {"a": {}}});
    assert_eq!(
        run(&unsound),
        [
            "spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for \
          specified object fields"
        ]
    );
    let defaulted =
        json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}});
    assert_eq!(
        run(&defaulted),
        ["spec.validation.openAPIV3Schema.properties[a].default: Invalid value: \"x\": seen"]
    );
}

#[test]
fn metadata_takes_its_canonical_form() {
    let schema = Schema::parse(&json!({"type": "object"})).unwrap();
    let coerced = |metadata: Value, drop_invalid: bool| {
        let mut object = json!({"apiVersion": "v1", "kind": "K", "metadata": metadata});
        coerce(&mut object, &schema, &Path::root(), true, drop_invalid)
            .map(|unknown| (object["metadata"].clone(), unknown))
            .map_err(|error| error.to_string())
    };
    let given = json!({
        "name": "x", "namespace": "", "labels": {}, "bogus": 1,
        "creationTimestamp": "2024-01-01T01:00:00.5+01:00", "deletionTimestamp": null,
        "ownerReferences": [{"name": "o", "zz": 1}],
    });
    let kept = json!({
        "name": "x", "creationTimestamp": "2024-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "", "kind": "", "name": "o", "uid": ""}],
    });
    let unknown = ["metadata.bogus", "metadata.ownerReferences[0].zz"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(coerced(given, false), Ok((kept, unknown)));
    let wrong = json!({"name": "x", "labels": {"a": 1}});
    assert_eq!(
        coerced(wrong.clone(), false),
        Err("metadata: Invalid value: {\"labels\":{\"a\":1},\"name\":\"x\"}: json: cannot unmarshal number \
             into Go struct field ObjectMeta.labels of type string"
            .to_owned())
    );
    assert_eq!(coerced(wrong, true), Ok((json!({"name": "x"}), Vec::new())));
}

#[test]
fn bounds_are_printed_as_go_prints_them() {
    for (minimum, value, shown) in [
        (json!(1_000_000), json!(0.5), "1e+06"),
        (json!(1_000_000), json!(0), "1000000"),
        (json!(123_456_789.5), json!(0.5), "1.234567895e+08"),
        (json!(0.000_01), json!(0.0), "1e-05"),
        (json!(1.25), json!(0.5), "1.25"),
    ] {
        let schema = compiled(&json!({"type": "number", "minimum": minimum}));
        let errors = schema.validate(&value, &Path::new("x"));
        let end = format!("in body should be greater than or equal to {shown}");
        assert_eq!(errors.len(), 1);
        assert!(
            errors[0].detail.ends_with(&end),
            "{} has no {shown}",
            errors[0]
        );
    }
}

#[test]
fn invalid_patterns_do_not_compile() {
    assert!(CompiledSchema::parse(&json!({"type": "string", "pattern": "("})).is_err());
}
