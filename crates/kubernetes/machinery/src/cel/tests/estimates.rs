//! Which rules fit the budget of a CRD. The counts are those of kube-apiserver v1.36.2, found by
//! putting the rule on the items of a list and letting the list grow.

use serde_json::{Value, json};

use crate::cel::check_rules;
use crate::field::Path;
use crate::schema::Schema;

/// The errors of a rule on the items of a list of up to `items`.
fn errors(schema: &Value, rule: &str, items: u64) -> Vec<String> {
    let mut node = schema.clone();
    node["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let root = json!({
        "type": "object",
        "properties": {"v": {"type": "array", "maxItems": items, "items": node}},
    });
    let schema = Schema::parse(&root).expect("a schema");
    let found = check_rules(&schema, &Path::new("s"));
    found.iter().map(ToString::to_string).collect()
}

/// Asserts that every rule is refused from the given length of the list on.
fn refused_from(schema: &Value, table: &[(&str, u64)]) {
    for (rule, items) in table {
        let fitting = errors(schema, rule, items - 1);
        assert_eq!(fitting, Vec::<String>::new(), "{rule}");
        let found = errors(schema, rule, *items).join("\n");
        assert!(
            found.contains("estimated rule cost exceeds budget by factor of 1."),
            "{rule}: {found}"
        );
    }
}

/// Asserts that every rule is refused by far.
fn refused(schema: &Value, rules: &[&str]) {
    for rule in rules {
        let found = errors(schema, rule, 1).join("\n");
        assert!(
            found.contains("estimated rule cost exceeds budget by factor of more than 100x"),
            "{rule}: {found}"
        );
    }
}

/// Objects with lists of objects, all of up to ten.
fn nested() -> Value {
    let short = json!({"type": "string", "maxLength": 20});
    let part = json!({"type": "object", "properties": {
        "name": short,
        "k": {"type": "integer"},
        "deep": {"type": "array", "maxItems": 5, "items": {"type": "string"}},
    }});
    let item = json!({"type": "object", "properties": {
        "name": short,
        "n": {"type": "integer"},
        "sub": {"type": "array", "maxItems": 10, "items": part},
    }});
    json!({"type": "object", "properties": {
        "l": {"type": "array", "maxItems": 10, "items": item},
        "s": {"type": "string"},
    }})
}

#[test]
fn dynamic_values_have_the_size_of_their_schema() {
    let schema = json!({"x-kubernetes-int-or-string": true});
    refused_from(
        &schema,
        &[
            ("type(self) == int ? self > 0 : self.endsWith('%')", 32),
            ("type(self) == string && self.matches('^[0-9]+%$')", 8),
            (
                "type(self) == int ? self < 5 : double(self.replace('%', '')) < 0.5",
                11,
            ),
            ("self == 1 || self == 'a'", 2_500_001),
            ("string(self) == '1'", 32),
            ("self + 'x' == 'yx'", 32),
            ("self < 'x'", 5_000_001),
            ("self[0] == 1", 3_333_334),
            ("self.foo.bar == 1", 5_000_001),
        ],
    );
}

#[test]
fn unbounded_strings() {
    let schema = json!({"type": "string"});
    refused_from(
        &schema,
        &[
            ("['c','a'].sort()[0] + self == 'a+'", 16),
            ("self.matches('^[a-z]+$')", 16),
            ("matches(self, '^[a-z]+$')", 5_000_001),
            ("self.split(',', 3).all(x, x == 'a')", 16),
            ("self + self + self == 'aaa'", 7),
            ("string(bytes(self)) == self", 6),
            ("url(self) == url(self)", 11),
            ("isURL(self)", 5_000_001),
            ("ip(self) == ip('10.0.0.1')", 32),
            ("quantity(self).isGreaterThan(quantity('1'))", 32),
            ("{'a': self}.a == self", 32),
            ("['a','b'].transformList(i, v, v + 'x')[0] == self", 11),
            ("(['a'] + ['b'])[0] == self", 416_667),
            ("type(self) == string", 32),
        ],
    );
    refused(
        &schema,
        &[
            "self.contains(self)",
            "['a','b'].join(',') == self",
            "ip(self) != ip('10.0.0.1')",
            "quantity(self) != quantity('1')",
            "lists.range(self.size()).all(x, x < 5)",
            "optional.of(self).optMap(x, x + 'a').orValue('b') == self",
        ],
    );
}

#[test]
fn bounded_strings() {
    refused_from(
        &json!({"type": "string", "maxLength": 20}),
        &[
            ("self.contains(self)", 151_516),
            ("self.find('a+') == 'a'", 909_091),
            ("self.lowerAscii() == self", 555_556),
            ("self.replace('','bbb') == self", 384_616),
            ("self.split(',').all(x, x == 'a')", 23_924),
            (
                "self.split(',').map(x, x.trim()).exists(x, x == 'abc')",
                4_569,
            ),
            ("self.split(',').sort()[0] == 'a'", 743),
            ("'%s-%d'.format([self, 1]) == self", 476_191),
            ("cidr('10.0.0.0/8').containsIP(self)", 714_286),
            ("cidr('10.0.0.0/8').containsCIDR(self)", 588_236),
            ("ip.isCanonical(self)", 588_236),
            ("isSemver(self, true)", 1_111_112),
            ("!format.dns1123Label().validate(self).hasValue()", 38_462),
            ("format.uuid() == format.uri()", 1_111_112),
            ("[1,2,3].map(x, x * 2).sum() == 12", 149_254),
            ("['a','b'].slice(0, 1)[0] == self", 312_501),
            ("[[self],[self]].flatten()[0] == self", 181_819),
            ("['a','b'].distinct().size() == 2", 322_581),
            ("['b','a'].sortBy(x, x)[0] == self", 112_360),
            ("sets.equivalent(['a','b'],[self])", 384_616),
            ("{?'a': optional.of(self)}.size() == 1", 294_118),
            (
                "{'a':'b'}.transformMapEntry(k, v, {v: k})['b'] == self",
                95_239,
            ),
            (
                "[self, 'a'].filter(x, x.startsWith('a')).map(x, x)[0] == 'a'",
                109_891,
            ),
        ],
    );
}

#[test]
fn formats_and_lists() {
    let duration = json!({"type": "string", "format": "duration"});
    refused_from(
        &duration,
        &[
            ("self == self", 1_666_667),
            ("type(self) == string", 1_428_572),
        ],
    );
    let date = json!({"type": "string", "format": "date"});
    refused_from(&date, &[("[self].all(x, x == self)", 526_316)]);
    let strings = json!({"type": "array", "items": {"type": "string"}});
    refused_from(
        &strings,
        &[
            ("self.all(x, x == 'a')", 2),
            ("self.reverse()[0] == 'a'", 10),
            ("self.transformMap(i, v, v)[0] == 'b'", 3),
            ("self[?0].orValue('') == 'a'", 2_500_001),
            ("(self + ['a']).all(x, x == 'a')", 2),
            ("dyn(self).all(x, x == 'a')", 2),
        ],
    );
    refused(&strings, &["self.sort() == self", "self.join(',') == 'a'"]);
}

#[test]
fn a_later_route_changes_an_earlier_one_as_it_does_upstream() {
    refused_from(
        &nested(),
        &[
            ("self.l.all(x, x.sub.all(y, y.name == 'a'))", 15_083),
            // The mention of `x.n` makes the size of the range of the inner loop that of a number.
            ("self.l.all(x, x.sub.all(y, x.n > 1))", 158_731),
            ("self.l.all(x, x.sub.all(y, y.name == x.name))", 829),
            (
                "self.l.all(x, x.sub.all(y, y.deep.exists(z, z == x.name && y.k > 1)))",
                2_057,
            ),
            ("self.l.all(i, x, x.sub.all(j, y, y.name == x.name))", 829),
            ("self.l.sortBy(x, x.name).all(y, y.name == 'a')", 10_132),
            ("self.l.filter(x, x.n > 1).map(y, y.name)[0] == 'a'", 30_675),
            ("[self.l].all(k, k.all(x, x.name == 'a'))", 555_556),
            ("self.?l[?0].?name.orValue('') == 'a'", 1_666_667),
        ],
    );
}

#[test]
fn constant_templates_are_checked() {
    for (rule, text) in [
        (
            "'%d'.format(['a']) == self",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%d %s'.format([1]) == self", "index 1 out of range"),
        (
            "'%d'.format([1, 2]) == self",
            "too many arguments supplied to string.format (expected 1, got 2)",
        ),
        (
            "'%é'.format([1]) == self",
            "could not parse formatting clause: unrecognized formatting clause \"Ã\"",
        ),
        ("'%'.format([1]) == self", "unexpected end of string"),
        (
            "'%s'.format([[1, url('a')]]) == self",
            "durations, and timestamps, was given kubernetes.URL",
        ),
        (
            "'%d'.format([duration('1s')]) == self",
            "was given google.protobuf.Duration",
        ),
    ] {
        let found = errors(&json!({"type": "string"}), rule, 1).join("\n");
        assert!(found.contains(text), "{rule}: {found}");
    }
    for rule in [
        "'%%%d'.format([1]) == self",
        "'%d'.format([dyn('a')]) == self",
        "'%f'.format(['a']) == self",
        "'x'.format([]) == self",
    ] {
        let found = errors(&json!({"type": "string"}), rule, 1);
        assert_eq!(found, Vec::<String>::new(), "{rule}");
    }
}
