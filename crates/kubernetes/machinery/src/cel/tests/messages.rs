//! Errors of compilation, as cel-go prints them.

use super::{integer, list, map, object, string};
use crate::cel::{Environment, Expression, VarType};

fn message(source: &str) -> String {
    let schema = object([
        ("s", string()),
        ("n", integer()),
        ("l", list(integer())),
        ("m", map(string())),
        ("o", object([("f", string())])),
    ]);
    let environment = Environment::new().with("self", &VarType::Object(Box::new(schema), false));
    Expression::compile(source, &environment).expect_err(source)
}

#[test]
fn message_points_at_its_position() {
    assert_eq!(
        message("self.nope > 1"),
        "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^"
    );
    assert_eq!(
        message("true &&\n\tself.x"),
        "compilation failed: ERROR: <input>:2:6: undefined field 'x'\n |  self.x\n | .....^"
    );
    assert_eq!(
        message("'é' == self.x"),
        "compilation failed: ERROR: <input>:1:12: undefined field 'x'\n | 'é' == self.x\n | .．.........^"
    );
}

#[test]
fn every_kind_of_mistake_has_its_text() {
    let table = [
        (
            "nope",
            "1:1: undeclared reference to 'nope' (in container '')",
        ),
        (
            "nope(1)",
            "1:5: undeclared reference to 'nope' (in container '')",
        ),
        (
            "self.n.nope()",
            "1:12: undeclared reference to 'nope' (in container '')",
        ),
        (
            "self.n + self.s",
            "1:8: found no matching overload for '_+_' applied to '(int, string)'",
        ),
        (
            "self.n.startsWith('a')",
            "1:18: found no matching overload for 'startsWith' applied to 'int.(string)'",
        ),
        (
            "self.n && true",
            "1:5: expected type 'bool' but found 'int'",
        ),
        (
            "self.n.f == 1",
            "1:7: type 'int' does not support field selection",
        ),
        ("self.o.g == ''", "1:7: undefined field 'g'"),
        ("has(self.o.g)", "1:4: undefined field 'g'"),
        (
            "self.n.all(x, x)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "self.l.all(x, x)",
            "1:15: expected type 'bool' but found 'int'",
        ),
        (
            "self.l.filter(x, x)",
            "1:14: found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'",
        ),
        (
            "self.l[0] == 'a'",
            "1:11: found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "'a' in self.l",
            "1:5: found no matching overload for '@in' applied to '(string, list(int))'",
        ),
        (
            "self.m[1] == ''",
            "1:7: found no matching overload for '_[_]' applied to '(map(string, string), int)'",
        ),
        (
            "[1, 'a'].size() == 2",
            "1:5: expected type 'int' but found 'string'",
        ),
        (
            "{'a': 1, 'b': 'c'}.size() == 2",
            "1:15: expected type 'int' but found 'string'",
        ),
        ("self.s.matches('[')", "1:16: invalid matches argument"),
        (
            "duration('1') == duration('1s')",
            "1:10: invalid duration argument",
        ),
        ("has(self)", "1:5: invalid argument to has() macro"),
        ("self.l.map(1, 2)", "1:12: argument is not an identifier"),
        (
            "self.l.all(1, true)",
            "1:12: argument must be a simple name",
        ),
        ("self.l.all(a, a, true)", "1:15: duplicate variable name: a"),
        ("package", "1:1: reserved identifier: package"),
        ("99999999999999999999", "1:1: invalid int literal"),
        (
            "Foo{a: 1}",
            "1:4: undeclared reference to 'Foo' (in container '')",
        ),
        (
            "self.s.optMap(v, v)",
            "1:14: found no matching overload for 'hasValue' applied to 'string.()'",
        ),
    ];
    for (source, expected) in table {
        let found = message(source);
        assert!(
            found.contains(&format!("ERROR: <input>:{expected}\n")),
            "{source}: {found}"
        );
    }
}
