use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[rstest]
#[case("1.0", "1")]
#[case("1e3", "1000")]
#[case("-0.0", "0")]
#[case("-0", "0")]
#[case("1e21", "1e+21")]
#[case("1e20", "100000000000000000000")]
#[case("1e-7", "1e-7")]
#[case("0.000001", "0.000001")]
#[case("1.5e-10", "1.5e-10")]
#[case("0.1", "0.1")]
#[case("12345678901234567890", "12345678901234567000")]
#[case("9223372036854775807", "9223372036854775807")]
#[case("-9223372036854775808", "-9223372036854775808")]
#[case("9223372036854775808", "9223372036854776000")]
#[case("1.7976931348623157e308", "1.7976931348623157e+308")]
fn numbers_print_as_go_prints_them(#[case] input: &str, #[case] output: &str) {
    assert_eq!(to_string(&decode(input.as_bytes()).unwrap().value), output);
}

#[test]
fn integers_stay_integers_and_the_rest_are_floats() {
    let value = decode(b"[7, 7.0, 9223372036854775808]").unwrap().value;
    assert!(value[0].is_i64());
    assert!(value[1].is_f64());
    assert!(value[2].is_f64());
}

#[test]
fn settled_numbers_match_the_stored_form() {
    let mut value = json!({"a": [1.0, 1.5, 1e21], "b": {"c": -3.0, "d": 9.3e18}});
    settle_numbers(&mut value);
    assert_eq!(
        value,
        json!({"a": [1, 1.5, 1e21], "b": {"c": -3, "d": 9.3e18}})
    );
}

#[test]
fn strings_are_escaped_for_html_and_control_characters() {
    let value =
        json!("<a href=\"x\">&\u{2028}\u{2029}\u{e9}\u{2027}\\\u{1}\u{8}\u{c}\n\r\t\u{7f}/");
    let expected = concat!(
        r#""\u003ca href=\"x\"\u003e\u0026\u2028\u2029"#,
        "\u{e9}\u{2027}",
        r"\\\u0001\b\f\n\r\t",
        "\u{7f}/\""
    );
    assert_eq!(to_string(&value), expected);
    assert_eq!(decode(expected.as_bytes()).unwrap().value, value);
}

#[test]
fn keys_are_escaped_like_values() {
    assert_eq!(to_string(&json!({"a<b": 1})), r#"{"a\u003cb":1}"#);
}

#[test]
fn pretty_output_has_two_spaces_and_no_last_newline() {
    let value = json!({"a": [1, 2.0], "b": {}, "c": [], "d": "<"});
    let expected =
        "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": [],\n  \"d\": \"\\u003c\"\n}";
    assert_eq!(text(to_vec_pretty(&value)), expected);
}

#[test]
fn structs_are_written_in_field_order() {
    #[derive(serde::Serialize)]
    struct Sample {
        zulu: f64,
        alpha: &'static str,
    }
    assert_eq!(
        text(to_vec(&Sample {
            zulu: 2.0,
            alpha: ">"
        })),
        r#"{"zulu":2,"alpha":"\u003e"}"#
    );
}

#[test]
fn appending_keeps_existing_bytes() {
    let mut out = b"x".to_vec();
    write_into(&mut out, &json!([1.0]));
    assert_eq!(out, b"x[1]");
}

#[rstest]
#[case("a\"b\\c", r#""a\"b\\c""#)]
#[case("bad\nmgr", r#""bad\nmgr""#)]
#[case("\u{7}\u{8}\u{c}\r\t\u{b}", r#""\a\b\f\r\t\v""#)]
#[case("\u{1}\u{7f}", r#""\x01\x7f""#)]
#[case("é日本", "\"é日本\"")]
#[case("\u{ad}\u{200b}\u{feff}", r#""\u00ad\u200b\ufeff""#)]
#[case("\u{a0}\u{3000}", r#""\u00a0\u3000""#)]
#[case("e\u{301}", "\"e\u{301}\"")]
#[case("\u{301}", "\"\u{301}\"")]
#[case("\u{1f600}", "\"\u{1f600}\"")]
#[case("\u{e0001}", r#""\U000e0001""#)]
#[case("<&>'", "\"<&>'\"")]
fn quoting_is_go_quoting(#[case] input: &str, #[case] output: &str) {
    assert_eq!(go_quote(input), output);
}

#[rstest]
#[case("", "unexpected end of JSON input")]
#[case("  ", "unexpected end of JSON input")]
#[case("{", "unexpected end of JSON input")]
#[case("[1,", "unexpected end of JSON input")]
#[case("\"a", "unexpected end of JSON input")]
#[case("tru", "unexpected end of JSON input")]
#[case("-", "unexpected end of JSON input")]
#[case("not json", "invalid character 'o' in literal null (expecting 'u')")]
#[case("x", "invalid character 'x' looking for beginning of value")]
#[case("é", "invalid character 'Ã' looking for beginning of value")]
#[case("'a'", "invalid character '\\'' looking for beginning of value")]
#[case(
    "{a:1}",
    "invalid character 'a' looking for beginning of object key string"
)]
#[case(
    "{\"a\":1,}",
    "invalid character '}' looking for beginning of object key string"
)]
#[case("{\"a\" 1}", "invalid character '1' after object key")]
#[case(
    "{\"a\":1 \"b\"}",
    "invalid character '\"' after object key:value pair"
)]
#[case("[1 2]", "invalid character '2' after array element")]
#[case("[,]", "invalid character ',' looking for beginning of value")]
#[case("{} {}", "invalid character '{' after top-level value")]
#[case("01", "invalid character '1' after top-level value")]
#[case("-x", "invalid character 'x' in numeric literal")]
#[case("1.x", "invalid character 'x' after decimal point in numeric literal")]
#[case("1ex", "invalid character 'x' in exponent of numeric literal")]
#[case("\"\n\"", "invalid character '\\n' in string literal")]
#[case("\"\\x\"", "invalid character 'x' in string escape code")]
#[case(
    "\"\\u00g0\"",
    "invalid character 'g' in \\u hexadecimal character escape"
)]
#[case(
    "1e999",
    "json: cannot unmarshal number 1e999 into Go value of type float64"
)]
#[case("[1e999,x]", "invalid character 'x' looking for beginning of value")]
fn syntax_errors_have_gos_texts(#[case] input: &str, #[case] message: &str) {
    assert_eq!(decode(input.as_bytes()).unwrap_err().message(), message);
}

#[test]
fn invalid_utf8_is_replaced() {
    assert_eq!(decode(b"\"a\xffb\"").unwrap().value, json!("a\u{fffd}b"));
    assert_eq!(
        decode(br#""\ud83d\ude00 \ud83d \ude00""#).unwrap().value,
        json!("\u{1f600} \u{fffd} \u{fffd}")
    );
    assert_eq!(
        decode(br#""\ud83d\u0041""#).unwrap().value,
        json!("\u{fffd}A")
    );
}

#[test]
fn duplicates_are_reported_once_with_their_path_and_the_last_one_counts() {
    let input = br#"{"spec":{"size":1,"size":2,"size":3,"ports":[{"name":"a"},{"name":"b","name":"c"}]},"spec2":1,"spec2":2}"#;
    let decoded = decode(input).unwrap();
    assert_eq!(
        decoded.duplicates,
        ["spec.size", "spec.ports[1].name", "spec2"]
    );
    assert_eq!(decoded.value["spec"]["size"], 3);
    assert_eq!(decoded.value["spec"]["ports"][1]["name"], "c");
    assert_eq!(decoded.strict_error, None);
}

#[test]
fn at_most_a_hundred_duplicates_are_reported() {
    let fields: Vec<String> = (0..150).map(|i| format!("\"k{i}\":1,\"k{i}\":2")).collect();
    let input = format!("{{{}}}", fields.join(","));
    assert_eq!(decode(input.as_bytes()).unwrap().duplicates.len(), 100);
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(decode(nested(MAX_DEPTH).as_bytes()).is_ok());
    let error = decode(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err();
    assert_eq!(error.message(), "invalid character '[' exceeded max depth");
    assert!(decode("[".repeat(1_000_000).as_bytes()).is_err());
    assert!(decode("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
}

fn yaml(text: &str) -> Value {
    decode_yaml(text.as_bytes()).unwrap().value
}

#[test]
fn yaml_scalars_follow_version_1_1() {
    let value = yaml(
        "a: yes\nb: Off\nc: 'yes'\nd: ~\ne:\nf: 0x1F\ng: 017\nh: 1_000\ni: 1.50\nj: 08\nk: 2020-01-02\nl: 1e3\nm: .5\nn1: 0b101\no: !!str 12\np: |\n  x\n  y\nq: 12:30:45\nr: +5\ns: -017\nt: 18446744073709551615\nu: \"n\"\nv: 1.2.3\nw: y\n",
    );
    let expected = json!({
        "a": true, "b": false, "c": "yes", "d": null, "e": null, "f": 31, "g": 15, "h": 1000,
        "i": 1.5, "j": 8, "k": "2020-01-02", "l": 1000, "m": 0.5, "n1": 5, "o": "12", "p": "x\ny\n",
        "q": "12:30:45", "r": 5, "s": -15, "t": 18_446_744_073_709_552_000.0, "u": "n",
        "v": "1.2.3", "w": true,
    });
    assert_eq!(value, expected);
}

#[test]
fn yaml_keys_become_text() {
    assert_eq!(
        yaml("1: a\nyes: b\n1.5: c\n"),
        json!({"1": "a", "true": "b", "1.5": "c"})
    );
}

#[test]
fn yaml_anchors_and_merge_keys_are_resolved() {
    let value = yaml("base: &b {x: 1, z: 2}\nuse:\n  <<: *b\n  z: 3\nlist: [*b, *b]\n");
    let base = json!({"x": 1, "z": 2});
    assert_eq!(
        value,
        json!({"base": base, "use": {"x": 1, "z": 3}, "list": [base, base]})
    );
}

#[test]
fn the_first_yaml_document_counts_and_none_is_null() {
    assert_eq!(yaml("a: 1\n---\nb: 2\n"), json!({"a": 1}));
    assert_eq!(yaml("---\na: 1\n"), json!({"a": 1}));
    assert_eq!(yaml(""), Value::Null);
    assert_eq!(yaml("[1, 2]"), json!([1, 2]));
}

#[test]
fn json_is_yaml() {
    assert_eq!(
        yaml(r#" {"a": [1, 2.0, "x"], "b": null}"#),
        json!({"a": [1, 2, "x"], "b": null})
    );
    assert_eq!(yaml("{a: 1, b: yes}"), json!({"a": 1, "b": true}));
}

#[test]
fn yaml_duplicates_are_reported_as_paths_and_in_the_decoders_words() {
    let decoded = decode_yaml(b"spec:\n  size: 1\n  size: 2\nl:\n- {a: 1, a: 2}\n").unwrap();
    assert_eq!(decoded.duplicates, ["spec.size", "l[0].a"]);
    assert_eq!(
        decoded.strict_error.unwrap(),
        "yaml: unmarshal errors:\n  line 3: key \"size\" already set in map\n  line 5: key \"a\" already set in map"
    );
    assert_eq!(decoded.value["spec"]["size"], 2);
    // The line is that of the value.
    let nested = decode_yaml(b"a: 1\na:\n  b: 2\n").unwrap();
    assert!(nested.strict_error.unwrap().contains("line 3: key \"a\""));
    let from_json = decode_yaml(br#"{"a":1,"a":2}"#).unwrap();
    assert_eq!(from_json.duplicates, ["a"]);
    assert!(
        from_json
            .strict_error
            .unwrap()
            .ends_with("line 1: key \"a\" already set in map")
    );
}

#[rstest]
#[case("a: [1\n", "yaml: line 1: did not find expected ',' or ']'")]
#[case("a: {b: 1\n", "yaml: line 1: did not find expected ',' or '}'")]
#[case("[", "yaml: line 1: did not find expected node content")]
#[case("a: *x\n", "yaml: unknown anchor 'x' referenced")]
#[case("a: b: c\n", "yaml: mapping values are not allowed in this context")]
#[case(
    "a: 1\n b: 2\n",
    "yaml: line 2: mapping values are not allowed in this context"
)]
#[case(
    "a:\n\t- b\n",
    "yaml: line 2: found character that cannot start any token"
)]
#[case("- a\nb: 1\n", "yaml: line 1: did not find expected '-' indicator")]
#[case("a: \"\\q\"\n", "yaml: found unknown escape character")]
#[case("\"abc", "yaml: found unexpected end of stream")]
#[case("@a", "yaml: found character that cannot start any token")]
#[case("a: .inf\n", "json: unsupported value: +Inf")]
#[case("a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int")]
#[case("? [a]\n: 1\n", "yaml: invalid map key")]
fn yaml_errors_have_the_shape_of_go_yamls(#[case] input: &str, #[case] message: &str) {
    let error = decode_yaml(input.as_bytes()).unwrap_err();
    assert!(
        error.message().starts_with(message),
        "{error} should start with {message}"
    );
}

#[test]
fn yaml_bombs_are_refused() {
    let mut lines = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
    for i in 1..12 {
        let refs = vec![format!("*a{}", i - 1); 10].join(", ");
        lines.push(format!("a{i}: &a{i} [{refs}]"));
    }
    let bomb = lines.join("\n");
    let error = decode_yaml(bomb.as_bytes()).unwrap_err();
    assert_eq!(
        error.message(),
        "yaml: document contains excessive aliasing"
    );
    assert!(decode_yaml("[".repeat(100_000).as_bytes()).is_err());
    let mut deep = String::new();
    for indent in 0..5_000 {
        deep += &" ".repeat(indent);
        deep += "a:\n";
    }
    assert!(decode_yaml(deep.as_bytes()).is_err());
    assert!(decode_yaml(b"a: \xff\n").is_err());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn decoding_output_gives_the_settled_value(value in any_value()) {
        let mut settled = value.clone();
        settle_numbers(&mut settled);
        let mut again = decode(&to_vec(&value)).unwrap();
        settle_numbers(&mut again.value);
        prop_assert_eq!(&again.value, &settled);
        prop_assert!(again.duplicates.is_empty());
        prop_assert_eq!(to_vec(&again.value), to_vec(&settled));
    }

    #[test]
    fn agrees_with_serde_json_on_valid_json(input in r#"[\[\]{}",:0-9eE.+\-truefalsn \\]{0,24}"#) {
        let theirs = serde_json::from_str::<Value>(&input);
        let ours = decode(input.as_bytes());
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected(input in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode(&input);
        let _ = decode_yaml(&input);
    }

    #[test]
    fn yaml_reads_json_as_json_does(value in any_value()) {
        let bytes = to_vec(&json!({ "a": value }));
        let mut expected = decode(&bytes).unwrap().value;
        settle_numbers(&mut expected);
        prop_assert_eq!(decode_yaml(&bytes).unwrap().value, expected);
    }
}
