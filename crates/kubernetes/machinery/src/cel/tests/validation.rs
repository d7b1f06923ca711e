//! Rules applied to objects.

use serde_json::{Value, json};

use super::{integer, keyed, list, map, object, ruled, set, string};
use crate::cel::CompiledRules;
use crate::field::Path;
use crate::schema::{IntOrStringForm, Schema, ValidationRule};

fn errors(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<String> {
    let found = CompiledRules::compile(schema).validate(&Path::root(), new, old);
    found.errors.iter().map(ToString::to_string).collect()
}

fn warnings(schema: &Schema, new: &Value, old: &Value) -> Vec<String> {
    CompiledRules::compile(schema)
        .validate(&Path::root(), new, Some(old))
        .warnings
}

fn with(schema: Schema, rule: ValidationRule) -> Schema {
    Schema {
        validations: vec![rule],
        ..schema
    }
}

fn rule(text: &str) -> ValidationRule {
    ValidationRule {
        rule: text.to_owned(),
        ..ValidationRule::default()
    }
}

#[test]
fn failures_show_scalars_and_omit_objects() {
    let schema = object([(
        "spec",
        ruled(
            object([
                ("a", ruled(string(), ["self.startsWith('z')"])),
                ("n", ruled(integer(), ["self > 5"])),
                ("l", ruled(list(integer()), ["self.size() > 9"])),
            ]),
            ["self.n > 100"],
        ),
    )]);
    let new = json!({"spec": {"a": "ab", "n": 1, "l": [1]}});
    assert_eq!(
        errors(&schema, &new, None),
        [
            "spec: Invalid value: failed rule: self.n > 100",
            "spec.a: Invalid value: \"ab\": failed rule: self.startsWith('z')",
            "spec.l: Invalid value: failed rule: self.size() > 9",
            "spec.n: Invalid value: 1: failed rule: self > 5",
        ]
    );
    assert!(!CompiledRules::compile(&object([("a", string())])).has_rules());
}

#[test]
fn messages_reasons_and_paths() {
    let spec = object([("size", integer())]);
    let table = [
        (
            ValidationRule {
                message: " too big ".into(),
                ..rule("self.size < 1")
            },
            "spec: Invalid value: too big",
        ),
        (
            ValidationRule {
                message_expression: "'size %d too big'.format([self.size])".into(),
                reason: "FieldValueForbidden".into(),
                field_path: ".size".into(),
                ..rule("self.size < 1")
            },
            "spec.size: Forbidden: size 101 too big",
        ),
        (
            ValidationRule {
                reason: "FieldValueRequired".into(),
                message: "m".into(),
                ..rule("false")
            },
            "spec: Required value: m",
        ),
        (
            ValidationRule {
                reason: "FieldValueDuplicate".into(),
                message: "m".into(),
                ..rule("false")
            },
            "spec: Duplicate value",
        ),
        (
            ValidationRule {
                message_expression: "'a\\nb'".into(),
                message: "m".into(),
                ..rule("false")
            },
            "spec: Invalid value: m",
        ),
        (
            ValidationRule {
                message_expression: "'  '".into(),
                ..rule("false")
            },
            "spec: Invalid value: failed rule: false",
        ),
        (
            ValidationRule {
                message_expression: "string(1 / 0)".into(),
                message: "m".into(),
                ..rule("false")
            },
            "spec: Invalid value: m",
        ),
    ];
    for (rule, expected) in table {
        let schema = object([("spec", with(spec.clone(), rule))]);
        assert_eq!(
            errors(&schema, &json!({"spec": {"size": 101}}), None),
            [expected]
        );
    }
}

#[test]
fn run_time_errors_name_the_rule() {
    let schema = object([(
        "spec",
        ruled(
            object([("a", string()), ("n", integer())]),
            ["self.a == 'x'"],
        ),
    )]);
    assert_eq!(
        errors(&schema, &json!({"spec": {}}), None),
        ["spec: Invalid value: \"object\": no such key: a evaluating rule: self.a == 'x'"]
    );
    let schema = object([("n", ruled(integer(), ["self > 0"]))]);
    assert_eq!(
        errors(&schema, &json!({"n": 3.0}), None),
        [
            "n: Invalid value: \"integer\": invalid data, expected int, got float64 evaluating rule: self > 0"
        ]
    );
    let any = Schema {
        int_or_string: Some(IntOrStringForm::Bare),
        ..Schema::default()
    };
    let schema = object([("p", ruled(any, ["self > 0"]))]);
    assert_eq!(
        errors(&schema, &json!({"p": "x"}), None),
        [
            "p: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self > 0"
        ]
    );
    assert_eq!(
        errors(&schema, &json!({"p": 1}), None),
        Vec::<String>::new()
    );
    let schema = object([("spec", ruled(object([]), ["self.nope"]))]);
    let found = errors(&schema, &json!({"spec": {}}), None);
    assert!(found[0].starts_with("spec: Invalid value: \"object\": rule compile error: compilation failed: ERROR: <input>:1:5: undefined field 'nope'"), "{found:?}");
}

#[test]
fn transition_rules_need_a_correlated_old_value() {
    let item = || {
        object([
            ("k", string()),
            ("v", ruled(integer(), ["self >= oldSelf"])),
        ])
    };
    let schema = object([
        ("items", keyed(item(), &["k"])),
        ("m", map(ruled(integer(), ["self == oldSelf"]))),
    ]);
    let old = json!({"items": [{"k": "a", "v": 5}, {"k": "b", "v": 1}], "m": {"x": 1}});
    let new = json!({"items": [{"k": "b", "v": 1}, {"k": "c", "v": 0}, {"k": "a", "v": 4}], "m": {"x": 2, "y": 3}});
    assert_eq!(
        errors(&schema, &new, Some(&old)),
        [
            "items[2].v: Invalid value: 4: failed rule: self >= oldSelf",
            "m[x]: Invalid value: 2: failed rule: self == oldSelf",
        ]
    );
    assert_eq!(errors(&schema, &new, None), Vec::<String>::new());
    // Items of other lists have no old value.
    let schema = object([("items", list(item()))]);
    assert_eq!(errors(&schema, &new, Some(&old)), Vec::<String>::new());
}

#[test]
fn optional_old_self_runs_always() {
    let optional = |text: &str| ValidationRule {
        optional_old_self: Some(true),
        ..rule(text)
    };
    let schema = object([(
        "v",
        with(
            integer(),
            optional("oldSelf.optMap(o, self > o).orValue(self == 0)"),
        ),
    )]);
    assert_eq!(
        errors(&schema, &json!({"v": 0}), None),
        Vec::<String>::new()
    );
    assert_eq!(errors(&schema, &json!({"v": 1}), None).len(), 1);
    assert_eq!(
        errors(&schema, &json!({"v": 2}), Some(&json!({"v": 1}))),
        Vec::<String>::new()
    );
    assert_eq!(
        errors(&schema, &json!({"v": 1}), Some(&json!({"v": 1}))).len(),
        1
    );
}

#[test]
fn unchanged_values_ratchet_unless_the_rule_is_a_transition() {
    let schema = object([(
        "spec",
        object([
            ("a", ruled(string(), ["self.startsWith('z')"])),
            ("b", ruled(string(), ["self != oldSelf"])),
            ("l", list(ruled(string(), ["self == 'x'"]))),
        ]),
    )]);
    let old = json!({"spec": {"a": "ab", "b": "b", "l": ["y"]}});
    assert_eq!(
        warnings(&schema, &old, &old),
        [
            "spec.a: Invalid value: \"ab\": failed rule: self.startsWith('z')",
            "spec.l[0]: Invalid value: \"y\": failed rule: self == 'x'",
        ]
    );
    assert_eq!(
        errors(&schema, &old, Some(&old)),
        ["spec.b: Invalid value: \"b\": failed rule: self != oldSelf"]
    );
    let new = json!({"spec": {"a": "ac", "l": ["y", "x"]}});
    assert_eq!(errors(&schema, &new, Some(&old)).len(), 2);
}

#[test]
fn resources_show_their_names_and_types() {
    let schema = ruled(
        object([]),
        ["self.metadata.name == 'n' && self.kind == 'K' && self.apiVersion == 'v1'"],
    );
    let new = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {}}});
    assert_eq!(errors(&schema, &new, None), Vec::<String>::new());
    let schema = ruled(object([]), ["has(self.metadata.labels)"]);
    assert!(errors(&schema, &new, None)[0].contains("undefined field 'labels'"));
    let embedded = Schema {
        embedded_resource: true,
        preserve_unknown_fields: true,
        ..object([])
    };
    let schema = object([("e", ruled(embedded, ["self.kind == 'X'"]))]);
    assert_eq!(errors(&schema, &json!({"e": new}), None).len(), 1);
}

#[test]
fn formats_and_escaped_names_are_typed() {
    let formatted = |format: &str| Schema {
        format: format.into(),
        ..string()
    };
    let schema = ruled(
        object([
            ("d", formatted("duration")),
            ("t", formatted("date-time")),
            ("day", formatted("date")),
            ("b", formatted("byte")),
            ("a-b", string()),
            ("x.y/z", string()),
            ("a__b", string()),
            ("in", string()),
            ("self", string()),
        ]),
        [
            "self.d == duration('1m') && self.t.getFullYear() == 2020 && self.day.getDate() == 3",
            "self.b == b'hi' && self.a__dash__b == '1' && self.x__dot__y__slash__z == '2'",
            "self.a__underscores__b == '3' && self.__in__ == '4' && self.self == '5'",
        ],
    );
    let new = json!({
        "d": "60s", "t": "2020-01-01T00:00:00Z", "day": "2020-02-03", "b": "aGk=",
        "a-b": "1", "x.y/z": "2", "a__b": "3", "in": "4", "self": "5"
    });
    assert_eq!(errors(&schema, &new, None), Vec::<String>::new());
}

#[test]
fn sets_and_keyed_lists_compare_without_order() {
    let pair = object([("k", string()), ("v", integer())]);
    let schema = ruled(
        object([
            ("s", set(integer())),
            ("m", keyed(pair, &["k"])),
            ("l", list(integer())),
        ]),
        [
            "self.s == [2, 1] && self.s + [2, 3] == [3, 1, 2]",
            "self.m == [self.m[1], self.m[0]] && size(self.m + [self.m[0]]) == 2",
            "self.l != [2, 1]",
        ],
    );
    let new = json!({"s": [1, 2], "m": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "l": [1, 2]});
    assert_eq!(errors(&schema, &new, None), Vec::<String>::new());
}

#[test]
fn nulls_are_not_validated_and_count_as_absent() {
    let nullable = Schema {
        nullable: true,
        ..ruled(string(), ["self == 'x'"])
    };
    let schema = ruled(object([("n", nullable)]), ["!has(self.n)"]);
    assert_eq!(
        errors(&schema, &json!({"n": null}), None),
        Vec::<String>::new()
    );
}

#[test]
fn the_budget_of_an_object_ends_validation() {
    let costly = "self.all(a, self.all(b, a + b >= 0))";
    let schema = object([("ls", list(ruled(list(integer()), [costly])))]);
    let row: Vec<i64> = (0..300).collect();
    let new = json!({"ls": vec![row; 40]});
    let found = errors(&schema, &new, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("Invalid value: \"array\": validation failed due to running out of cost budget, no further validation rules will be run"), "{found:?}");
}
