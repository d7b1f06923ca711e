//! Laws over random input.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{eval_with, integer, list, map, object, string};
use crate::cel::{CompiledRules, check_rules};
use crate::field::Path;
use crate::schema::{Schema, ValidationRule};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~é😀]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("x".to_owned()),
        Just("x.a".to_owned()),
        Just("x.b[0]".to_owned()),
        Just("-9223372036854775808".to_owned()),
        Just("1u".to_owned()),
        Just("0.5".to_owned()),
        Just("'é😀'".to_owned()),
        Just("b'\\xff'".to_owned()),
        Just("null".to_owned()),
        Just("duration('1h')".to_owned()),
        Just("timestamp(0)".to_owned()),
        Just("[]".to_owned()),
        Just("int".to_owned()),
        any::<i64>().prop_map(|i| i.to_string()),
    ];
    let methods = prop::sample::select(vec![
        "size",
        "charAt",
        "indexOf",
        "lastIndexOf",
        "substring",
        "replace",
        "split",
        "join",
        "format",
        "find",
        "findAll",
        "matches",
        "slice",
        "flatten",
        "sort",
        "distinct",
        "sum",
        "min",
        "first",
        "orValue",
        "optMap",
        "map",
        "all",
        "exists_one",
        "transformMap",
        "sortBy",
        "getHours",
        "contains",
        "validate",
        "family",
        "masked",
        "add",
        "unwrapOpt",
        "isSorted",
    ]);
    let functions = prop::sample::select(vec![
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "bool",
        "duration",
        "timestamp",
        "type",
        "dyn",
        "size",
        "url",
        "ip",
        "cidr",
        "quantity",
        "semver",
        "format.named",
        "lists.range",
        "optional.of",
        "sets.contains",
        "strings.quote",
        "isURL",
        "ip.isCanonical",
        "has",
    ]);
    let operators = prop::sample::select(vec![
        "+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", "in", "?", ".", "[",
    ]);
    leaf.prop_recursive(4, 24, 3, move |inner| {
        prop_oneof![
            (inner.clone(), operators.clone(), inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (
                inner.clone(),
                methods.clone(),
                prop::collection::vec(inner.clone(), 0..3)
            )
                .prop_map(|(a, m, args)| format!("dyn({a}).{m}({})", args.join(", "))),
            (inner.clone(), methods.clone(), inner.clone())
                .prop_map(|(a, m, b)| format!("dyn({a}).{m}(y, dyn({b}))")),
            (
                functions.clone(),
                prop::collection::vec(inner.clone(), 1..3)
            )
                .prop_map(|(f, args)| format!("{f}(dyn({}))", args.join("), dyn("))),
            inner.prop_map(|a| format!("!{a}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn evaluation_never_panics(source in expression(), x in value()) {
        let _ = eval_with(&source, &x);
    }

    #[test]
    fn parsing_never_panics(source in "[-+*/%!?:.,()\\[\\]{}a-z0-9'\"\\\\ \né]{0,40}") {
        let _ = eval_with(&source, &Value::Null);
    }

    #[test]
    fn equality_holds_between_a_value_and_itself(x in value()) {
        // Not-a-number aside, which JSON cannot hold.
        prop_assert_eq!(eval_with("x == x && !(x != x) && x in [x]", &x), Ok(json!(true)));
    }

    #[test]
    fn validation_never_panics(source in expression(), new in value(), old in value()) {
        let schema = Schema {
            validations: vec![ValidationRule { rule: source, ..ValidationRule::default() }],
            ..object([("a", string()), ("b", list(integer())), ("c", map(string()))])
        };
        let _ = check_rules(&schema, &Path::root());
        let _ = CompiledRules::compile(&schema).validate(&Path::root(), &new, Some(&old));
    }

    #[test]
    fn adding_and_taking_away_cancel(a in any::<i32>(), b in any::<i32>()) {
        let x = json!({"a": a, "b": b});
        prop_assert_eq!(eval_with("x.a + x.b - x.b == x.a", &x), Ok(json!(true)));
    }

    #[test]
    fn splitting_undoes_joining(parts in prop::collection::vec("[a-z]{0,4}", 1..5)) {
        prop_assert_eq!(eval_with("x.join(',').split(',') == x", &json!(parts)), Ok(json!(true)));
    }
}
