//! Costs of evaluations that upstream pins down (`celcoststability_test.go`).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{integer, keyed, list, map, object, string};
use crate::cel::decl::Decl;
use crate::cel::estimate::estimate;
use crate::cel::meter::{Meter, PER_CALL};
use crate::cel::program::Program;
use crate::cel::types::Type;
use crate::cel::value::view;
use crate::schema::Schema;

fn costs(schema: &Schema, value: &Value, source: &str) -> (u64, u64) {
    let decl = Arc::new(Decl::of(schema, false, "selfType").expect("visible"));
    let variables = [("self".to_owned(), Type::of(&decl))];
    let program = Program::compile(source, &variables).expect(source);
    let seen = view(value, &decl).expect("valid");
    let (result, meter) = program.eval(vec![("self", seen)], Meter::new(PER_CALL));
    result.expect(source);
    (meter.cost, estimate(&program, &decl))
}

#[test]
fn evaluation_costs_match_upstream() {
    let strings = object([("val1", string())]);
    let rook = json!({"val1": "Rook takes 👑"});
    for (source, cost) in [
        ("self.val1.startsWith('Rook')", 4),
        ("!self.val1.startsWith('knight')", 5),
        ("self.val1.matches('^[^0-9]*$')", 8),
        ("type(self.val1) == string", 4),
        ("size(self.val1) == 12", 4),
        ("self.val1.charAt(3) == 'k'", 4),
        ("self.val1.indexOf('o') == 1", 4),
        ("self.val1.replace(' ', 'x') == 'Rookxtakesx👑'", 7),
        ("self.val1.split(' ') == ['Rook', 'takes', '👑']", 6),
        ("self.val1.substring(4, 10).trim() == 'takes'", 6),
        ("self.val1.lowerAscii() == self.val1.lowerAscii()", 10),
        ("'%e'.format([3.14]) == '3.140000×10⁰⁰'", 3),
        ("double(5) < 10.0", 1),
        ("self.val1 in ['Pending', 'Available']", 2),
        ("has(self.val1)", 1),
        ("optional.of('a').optMap(v, v == 'value').hasValue()", 8),
        ("optional.none().or(optional.of('a')).hasValue()", 3),
    ] {
        assert_eq!(costs(&strings, &rook, source).0, cost, "{source}");
    }
    let numbers = object([("val", map(integer()))]);
    let value = json!({"val": {"b": 1, "d": 2}});
    for (source, cost) in [
        ("self.val.all(k, self.val[k] > 0)", 17),
        ("!self.val.exists(k, self.val[k] == 3)", 20),
        ("self.val.exists_one(k, self.val[k] == 2)", 14),
        ("size(self.val.filter(k, self.val[k] > 1)) == 1", 26),
        ("self.val.all(k, v, v > 0)", 13),
        ("self.val.existsOne(k, v, v == 2)", 10),
        ("self.val.transformMap(k, v, v > 1, v + 1).size() == 1", 14),
        (
            "self.val.transformMapEntry(k, v, {k + '2': v + 1}).size() == 2",
            77,
        ),
        ("'b' in self.val", 3),
    ] {
        assert_eq!(costs(&numbers, &value, source).0, cost, "{source}");
    }
    let lists = object([("val1", list(integer())), ("val2", list(integer()))]);
    let value = json!({"val1": [1, 2, 3], "val2": [1, 2, 3]});
    for (source, cost) in [
        ("1 in self.val1", 5),
        ("self.val2[0] in self.val1", 8),
        ("self.val1 + self.val2 == [1, 2, 3, 1, 2, 3]", 6),
        ("sets.contains(self.val1, [1])", 6),
        ("sets.equivalent(self.val1, [1, 2, 3])", 21),
    ] {
        assert_eq!(costs(&lists, &value, source).0, cost, "{source}");
    }
    let item = object([("k", string()), ("v", string()), ("v2", string())]);
    let keyed = object([("listMap", keyed(item, &["k"]))]);
    let value = json!({"listMap": [{"k": "a1", "v": "b1"}, {"k": "a2", "v": "b2"}, {"k": "a3", "v": "b3", "v2": "z"}]});
    for (source, cost) in [
        ("self.listMap.all(m, m.k.startsWith('a'))", 21),
        ("self.listMap.map(m, m.v).exists(v, v == 'b1')", 55),
        ("self.listMap.transformList(i, m, m.v).size() == 3", 47),
        ("size(self.listMap.filter(m, m.k == 'a1')) == 1", 27),
    ] {
        assert_eq!(costs(&keyed, &value, source).0, cost, "{source}");
    }
}

#[test]
fn estimates_are_those_of_upstream() {
    let schema = object([
        ("val1", list(integer())),
        ("val2", list(integer())),
        ("s", string()),
    ]);
    let value = json!({"val1": [1, 2], "val2": [1], "s": "abc"});
    for (source, cost) in [
        ("has(self.val1)", 1),
        ("size(self.val1) == 2", 4),
        ("1 in self.val1", 1_572_865),
        ("self.val2[0] in self.val1", 1_572_868),
        ("self.val1 + self.val2 == [1, 2, 3, 1, 2, 3]", 16),
        ("self.val1.all(k, size(self.val1) > 0)", 11_010_044),
        ("!self.val1.exists_one(k, size(self.val1) > 0)", 9_437_183),
        (
            "size(self.val1.filter(k, size(self.val1) > 1)) == 1",
            26_738_686,
        ),
        ("self.s.startsWith('Rook')", 3),
        ("self.s.matches('^[^0-9]*$')", 943_721),
        ("self.s.indexOf('o') == 1", 314_576),
        ("self.s.replace(' ', 'x') == 'Rookxtakesx'", 629_150),
        ("self.s.lowerAscii() == self.s.lowerAscii()", 943_723),
        ("double(5) < 10.0", 2),
    ] {
        assert_eq!(costs(&schema, &value, source).1, cost, "{source}");
    }
}
