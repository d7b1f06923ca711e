use serde_json::{Value, json};

use super::corpus::Step;
use super::run::{Answer, judge};
use super::{compare, normalise, pointer};

#[test]
fn accidental_values_are_replaced_and_given_ones_kept() {
    let document = json!({
        "metadata": {
            "name": "a-x7k2p", "generateName": "a-", "resourceVersion": "17",
            "uid": "0f8fad5b-d9cb-469f-a165-70867728950e",
            "creationTimestamp": "2031-01-02T03:04:05Z",
            "managedFields": [
                {"manager": "z", "operation": "Update"},
                {"manager": "b", "operation": "Apply"},
            ],
        },
        "spec": {"clusterIP": "10.0.0.17", "renewTime": "2001-01-01T00:00:00.000000Z",
                 "ports": [{"port": 80, "nodePort": 31000}]},
        "rows": [{"cells": ["a", "5m3s", "5"]}],
    });
    let expected = json!({
        "metadata": {
            "name": "a-<suffix>", "generateName": "a-", "resourceVersion": "<rv>",
            "uid": "<uid>",
            "creationTimestamp": "<time>",
            "managedFields": [
                {"manager": "b", "operation": "Apply"},
                {"manager": "z", "operation": "Update"},
            ],
        },
        "spec": {"clusterIP": "<ip>", "renewTime": "2001-01-01T00:00:00.000000Z",
                 "ports": [{"port": 80, "nodePort": "<nodePort>"}]},
        "rows": [{"cells": ["a", "<age>", "5"]}],
    });
    assert_eq!(normalise::value(&document), expected);
    assert_eq!(
        normalise::value(&expected),
        expected,
        "normalising is idempotent"
    );
}

#[test]
fn versions_inside_messages_are_replaced() {
    let cases = [
        (
            "too old resource version: 1 (15953)",
            "too old resource version: 1 (<rv>)",
        ),
        (
            r#"{\"resourceVersion\":\"17\"}"#,
            r#"{\"resourceVersion\":\"<rv>\"}"#,
        ),
        ("version: 99, current: 15986", "version: 99, current: <rv>"),
        (
            "the precondition (1) does not match the one in record (15)",
            "the precondition (1) does not match the one in record (<rv>)",
        ),
        ("at 2031-01-02T03:04:05.123456Z", "at <microtime>"),
    ];
    for (text, expected) in cases {
        assert_eq!(normalise::text(text), expected);
    }
}

#[test]
fn causes_and_the_list_in_the_message_are_sorted() {
    let status = |message: &str, fields: [&str; 2]| {
        let cause = |field: &str| json!({"field": field, "message": "Required value"});
        json!({"message": message, "details": {"causes": fields.map(cause)}})
    };
    assert_eq!(
        normalise::value(&status(
            "X \"x\" is invalid: [b: Required value, a: Required value]",
            ["b", "a"]
        )),
        status(
            "X \"x\" is invalid: [a: Required value, b: Required value]",
            ["a", "b"]
        )
    );
    let other = status(
        "X \"x\" is invalid: [b: Required value, c: Required value]",
        ["a", "b"],
    );
    assert_eq!(
        normalise::value(&other),
        other,
        "a message that says something else is kept"
    );
}

#[test]
fn differences_are_found_and_named() {
    let expected = json!({"a": [1, {"b/c": "x"}], "gone": null});
    let got = json!({"a": [1.0, {"b/c": "y"}, 3], "new": true});
    assert_eq!(
        compare::documents(&expected, &got),
        [
            "/a/1/b~1c: expected \"x\", got \"y\"",
            "/a/2: expected nothing, got 3",
            "/gone: expected null, got nothing",
            "/new: expected nothing, got true",
        ]
    );
    assert!(compare::documents(&expected, &expected).is_empty());
    assert_eq!(compare::documents(&json!(1), &json!("1")).len(), 1);
}

#[test]
fn pointers_find_items_by_field() {
    let document = json!({"l": [{"m": {"n": "x/y"}, "v": 1}, {"m": {"n": "z"}, "v": 2}], "a/b": 3});
    assert_eq!(pointer::look(&document, "/l/[m.n=x/y]/v"), Some(&json!(1)));
    assert_eq!(pointer::look(&document, "/l/1/v"), Some(&json!(2)));
    assert_eq!(pointer::look(&document, "/a~1b"), Some(&json!(3)));
    assert_eq!(pointer::look(&document, "/l/[m.n=q]/v"), None);
    assert_eq!(pointer::look(&document, ""), Some(&document));
}

fn answer(status: u16, body: &Value) -> Answer {
    Answer {
        status,
        headers: http::HeaderMap::new(),
        body: body.to_string().into_bytes(),
        json: Some(body.clone()),
        events: false,
    }
}

#[test]
fn a_divergence_is_documented_and_real() -> anyhow::Result<()> {
    let step: Step = serde_json::from_value(json!({
        "name": "a step",
        "request": {"method": "GET", "path": "/x"},
        "divergence": "slow-start",
        "expect": {"status": 200, "body": {"a": 1}},
        "embedded": {"status": 200, "body": {"a": 2}},
    }))?;
    let text = "* `slow-start`: the embedded server does not sleep";
    let (genuine, embedded) = (answer(200, &json!({"a": 1})), answer(200, &json!({"a": 2})));
    let other = answer(500, &json!({"a": 3}));

    assert!(judge(&step, &genuine, true, text).is_empty());
    assert_eq!(
        judge(&step, &embedded, true, text),
        ["/a: expected 1, got 2"]
    );
    assert!(judge(&step, &embedded, false, text).is_empty());
    assert!(judge(&step, &embedded, false, "## slow-start").is_empty());
    assert_eq!(judge(&step, &other, false, text).len(), 2);
    let gone = judge(&step, &genuine, false, text);
    assert!(gone[0].contains("is gone"), "{gone:?}");
    let unknown = judge(&step, &embedded, false, "* `another`");
    assert!(unknown[0].contains("not documented"), "{unknown:?}");
    Ok(())
}
