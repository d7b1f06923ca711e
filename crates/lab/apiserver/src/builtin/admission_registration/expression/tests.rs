use super::*;

fn texts(source: &str, accepted: &[&str]) -> Vec<String> {
    let environment = with_composed(variables(false));
    let errors = check(&Path::new("expression"), source, &environment, accepted);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn conditions_are_true_or_false() {
    for good in [
        "object.x == 1",
        "request.operation == 'CREATE' && !has(oldObject.spec)",
        "variables.allowed",
        "authorizer.group('apps').resource('deployments').check('get').allowed()",
    ] {
        assert_eq!(texts(good, &["bool"]), [""; 0], "{good}");
    }
    for (bad, why) in [
        ("5", "must evaluate to bool but got int"),
        ("object.x", "must evaluate to bool but got dyn"),
    ] {
        let error = format!("expression: Invalid value: \"{bad}\": {why}");
        assert_eq!(texts(bad, &["bool"]), [error]);
    }
}

#[test]
fn compile_errors_have_their_position() {
    let errors = texts("params.x == 1", &["bool"]);
    assert!(
        errors[0].starts_with(
            "expression: Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1: \
             undeclared reference to 'params'"
        ),
        "{errors:?}"
    );
}

#[test]
fn several_types_are_listed() {
    let accepted = ["string", "null_type"];
    assert_eq!(texts("'a'", &accepted), [""; 0]);
    assert_eq!(texts("null", &accepted), [""; 0]);
    assert_eq!(
        texts("1", &accepted),
        [
            "expression: Invalid value: \"1\": must evaluate to one of [string null_type] but got int"
        ]
    );
}
