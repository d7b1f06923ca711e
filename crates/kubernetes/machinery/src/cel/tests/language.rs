//! Operators, macros, optionals and literals.

use serde_json::json;

use super::{all_fail, all_true, eval, eval_with};

#[test]
fn operators_follow_the_precedence_of_the_language() {
    all_true(&[
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "10 - 4 - 3 == 3",
        "7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1",
        "!false && !!true",
        "--1 == 1 && -(1) == -1",
        "true || false && false",
        "1 < 2 == true",
        "true ? 1 == 1 : false",
        "false ? false : true ? true : false",
        "2.0 * 1.5 == 3.0",
        "0x10 == 16 && 0xAu == 10u",
        "1u + 2u == 3u",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        "[1] + [2, 3] == [1, 2, 3]",
        "'b' > 'a' && [1, 2] != [2, 1]",
        "// comment\n true",
    ]);
}

#[test]
fn numbers_of_different_types_compare() {
    all_true(&[
        "dyn(1) == 1.0",
        "dyn(1u) == 1",
        "1 < 1.5 && 2u > 1.5 && 1.0 <= 1",
        "1u < 2 && -1 < 1u",
        "dyn(9223372036854775807) < 1e30 && dyn(-9223372036854775807) > -1e30",
        "{1: 'a'}[dyn(1.0)] == 'a'",
        "dyn([1, 2]) == [1.0, 2.0]",
        "1 in [dyn(1.0)]",
    ]);
}

#[test]
fn literals_and_escapes() {
    assert_eq!(
        eval(r"'a\n\t\'\x41\u00e9\U0001F600\101'"),
        Ok(json!("a\n\t'Aé😀A"))
    );
    assert_eq!(eval(r"r'\n' + '''q'q'''"), Ok(json!("\\nq'q")));
    all_true(&[
        r"b'\xff' != b'\xfe' && size(b'\303\277') == 2",
        "size('é😀') == 2 && 'é😀'.size() == 2",
        ".5 == 0.5 && 1e3 == 1000.0 && 1.5E-1 == 0.15",
        "null == null",
        "{'a': 1, 'a': 2}.a == 2",
    ]);
}

#[test]
fn macros_of_one_and_two_variables() {
    all_true(&[
        "[1, 2, 3].all(i, i > 0) && ![1, 2].all(i, i > 1)",
        "[1, 2].exists(i, i == 2) && ![].exists(i, i == 2)",
        "[1, 2, 2].exists_one(i, i == 1) && ![1, 2, 2].exists_one(i, i == 2)",
        "[1, 2].map(i, i * 2) == [2, 4]",
        "[1, 2, 3].map(i, i > 1, i * 2) == [4, 6]",
        "[1, 2, 3].filter(i, i % 2 == 1) == [1, 3]",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
        "{'a': 1}.map(k, k) == ['a']",
        "[10, 20].all(i, v, v == (i + 1) * 10)",
        "{'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "{'a': 1, 'b': 2}.existsOne(k, v, v > 1)",
        "[1, 2].transformList(i, v, i + v) == [1, 3]",
        "[1, 2].transformList(i, v, i > 0, v) == [2]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 1, 'b': 5}.transformMap(k, v, v > 1, v) == {'b': 5}",
        "{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}",
        "[{'n': 2}, {'n': 1}].sortBy(e, e.n) == [{'n': 1}, {'n': 2}]",
        "[1].map(x, [2].map(y, x + y)) == [[3]]",
    ]);
    all_fail(&[(
        "['a', 'b'].transformMapEntry(i, v, {'k': v})",
        "insert failed: key k already exists",
    )]);
}

#[test]
fn decisive_terms_absorb_errors() {
    all_true(&[
        "1 / 0 == 1 || true",
        "!(1 / 0 == 1 && false)",
        "[0, 1].exists(i, 1 / i == 1)",
        "![0, 2].all(i, 1 / i == 1)",
    ]);
    all_fail(&[
        ("1 / 0 == 1 || false", "division by zero"),
        ("[0, 1].all(i, 1 / i == 1)", "division by zero"),
        ("false || 1 % 0 == 1", "modulus by zero"),
    ]);
}

#[test]
fn optionals() {
    all_true(&[
        "optional.of(1).hasValue() && !optional.none().hasValue()",
        "optional.none().orValue(2) == 2 && optional.of(1).orValue(2) == 1",
        "optional.none().or(optional.of(3)).value() == 3",
        "{'a': 1}.?a.orValue(0) == 1 && {'a': 1}.?b.orValue(0) == 0",
        "{'a': {'b': 1}}.?a.?b == optional.of(1)",
        "{'a': {'b': 1}}.?a.b == optional.of(1)",
        "{'a': {'b': 1}}.?c.b == optional.none()",
        "[1][?0] == optional.of(1) && [1][?1] == optional.none()",
        "{'k': 'v'}[?'k'] == optional.of('v')",
        "optional.of([1, 2])[?1] == optional.of(2)",
        "optional.of(2).optMap(v, v * 2) == optional.of(4)",
        "optional.none().optMap(v, dyn(v)) == optional.none()",
        "optional.of(2).optFlatMap(v, optional.none()) == optional.none()",
        "optional.ofNonZeroValue(0) == optional.none() && optional.ofNonZeroValue('') == optional.none()",
        "optional.ofNonZeroValue(1) == optional.of(1)",
        "[?optional.of(1), ?optional.none()] == [1]",
        "{?'a': optional.of(1), ?'b': optional.none()} == {'a': 1}",
        "[optional.of(1), optional.none()].unwrapOpt() == [1]",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
    ]);
    all_fail(&[(
        "optional.none().value() == 1",
        "optional.none() dereference",
    )]);
}

#[test]
fn run_time_errors_have_upstreams_words() {
    all_fail(&[
        ("{'a': 1}.b == 1", "no such key: b"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("-9223372036854775808 - 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        (
            "int('a') == 1",
            "type conversion error from 'string' to 'int'",
        ),
        ("int(1e30) == 1", "integer overflow"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("dyn('a') < 1", "no such overload"),
        (
            "semver('1.x.0').major() == 1",
            "Invalid character(s) found in minor number \"x\"",
        ),
        (
            "duration('9000000h') == duration('1s')",
            "invalid duration argument",
        ),
    ]);
}

#[test]
fn dynamic_values_are_read_as_json() {
    let x = json!({"a": [1, 2.5, "s", true, null], "b": {"c": {}}});
    for source in [
        "x.a[0] == 1 && x.a[1] == 2.5 && x.a[2] == 's' && x.a[3]",
        "x.a[4] == null && has(x.b.c) && !has(x.b.d)",
        "type(x.a[0]) == int && type(x.a[1]) == double && type(x.b) == map && type(x.a) == list",
        "type(x.a[4]) == null_type && type(int) == type",
        "size(x.a) == 5 && x.b.all(k, k == 'c')",
    ] {
        assert_eq!(eval_with(source, &x), Ok(json!(true)), "{source}");
    }
}
