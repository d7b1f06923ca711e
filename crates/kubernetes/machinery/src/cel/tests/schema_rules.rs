//! Rules when a CRD is written.

use super::{integer, keyed, list, object, ruled, string};
use crate::cel::check_rules;
use crate::field::Path;
use crate::schema::{Schema, ValidationRule};

fn check(schema: &Schema) -> Vec<String> {
    check_rules(schema, &Path::new("s"))
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn one(schema: Schema, rule: ValidationRule) -> Vec<String> {
    check(&Schema {
        validations: vec![rule],
        ..schema
    })
}

fn rule(text: &str) -> ValidationRule {
    ValidationRule {
        rule: text.to_owned(),
        ..ValidationRule::default()
    }
}

#[test]
fn compile_errors_show_the_whole_rule() {
    let schema = object([("spec", ruled(object([("a", string())]), ["self.nope == 1"]))]);
    assert_eq!(
        check(&schema),
        [
            "s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: \
          {\"Rule\":\"self.nope == 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\
          \"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: \
          undefined field 'nope'\n | self.nope == 1\n | ....^"
        ]
    );
    // Go escapes what could end a script.
    let found = one(object([("a", string())]), rule("self.nope > 1"));
    assert!(
        found[0].contains(r#"{"Rule":"self.nope \u003e 1","#),
        "{found:?}"
    );
    let found = one(object([("a", string())]), rule("self.a"));
    assert!(
        found[0].ends_with("cel expression must evaluate to a bool"),
        "{found:?}"
    );
    let bad = ValidationRule {
        message_expression: "1".into(),
        ..rule("true")
    };
    let found = one(object([]), bad);
    assert!(
        found[0].starts_with("s.x-kubernetes-validations[0].messageExpression: Invalid value: {"),
        "{found:?}"
    );
    assert!(
        found[0].ends_with("messageExpression must evaluate to a string"),
        "{found:?}"
    );
}

#[test]
fn forms_are_checked_before_compiling() {
    let base = || object([("f", string())]);
    let at = "s.x-kubernetes-validations[0]";
    let table = [
        (
            rule("  "),
            format!("{at}.rule: Required value: rule is not specified"),
        ),
        (
            ValidationRule {
                message: " ".into(),
                ..rule("true")
            },
            format!("{at}.message: Invalid value: \" \": must be non-empty if specified"),
        ),
        (
            ValidationRule {
                message: "a\nb".into(),
                ..rule("true")
            },
            format!("{at}.message: Invalid value: \"a\\nb\": must not contain line breaks"),
        ),
        (
            rule("true &&\ntrue"),
            format!(
                "{at}.message: Required value: message must be specified if rule contains line breaks"
            ),
        ),
        (
            ValidationRule {
                message_expression: " ".into(),
                ..rule("true")
            },
            format!(
                "{at}.messageExpression: Required value: messageExpression must be non-empty if specified"
            ),
        ),
        (
            ValidationRule {
                reason: "Odd".into(),
                ..rule("true")
            },
            format!(
                "{at}.reason: Unsupported value: \"Odd\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\""
            ),
        ),
        (
            ValidationRule {
                field_path: ".g".into(),
                ..rule("true")
            },
            format!("{at}.fieldPath: Invalid value: \".g\": must be a valid path"),
        ),
        (
            ValidationRule {
                optional_old_self: Some(true),
                ..rule("true")
            },
            format!(
                "{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
            ),
        ),
    ];
    for (rule, expected) in table {
        assert_eq!(one(base(), rule), [expected]);
    }
    let fine = ValidationRule {
        field_path: "['f']".into(),
        ..rule("true")
    };
    assert_eq!(one(base(), fine), Vec::<String>::new());
}

#[test]
fn old_values_are_refused_where_items_do_not_correlate() {
    let item = || ruled(object([("k", string())]), ["self == oldSelf"]);
    let bounded = |schema: Schema| Schema {
        max_items: Some(10),
        ..schema
    };
    assert_eq!(
        check(&object([("l", bounded(list(item())))])),
        [
            "s.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \
          \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema \
          within s.properties[l]"
        ]
    );
    assert_eq!(
        check(&object([("l", bounded(keyed(item(), &["k"])))])),
        Vec::<String>::new()
    );
}

#[test]
fn estimates_beyond_the_budget_are_refused() {
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength \
                  where arrays, maps, and strings are declared)";
    let nested = ruled(
        object([("l", list(list(integer())))]),
        ["self.l.all(a, a.all(b, b > 0))"],
    );
    let found = check(&nested);
    assert_eq!(
        found[0],
        format!(
            "s.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}"
        )
    );
    assert_eq!(
        found[1],
        "s.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    );
    assert_eq!(
        found[2],
        format!(
            "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {advice}"
        )
    );
    let one_level = ruled(
        object([("l", list(integer()))]),
        ["self.l.all(a, self.l.size() > a)"],
    );
    assert!(
        check(&one_level)[0].contains("exceeds budget by factor of 1.2"),
        "{:?}",
        check(&one_level)
    );
}
