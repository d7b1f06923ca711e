//! Syntax errors: which there are, and their words.
//!
//! [`WORDED`] was recorded from the parser of cel-go 0.26, which is kube-apiserver's. The `cel`
//! crate is the oracle for everything else, as its parser is generated from the same grammar. Three
//! things differ there and are left out of the comparison: its runtime repairs the input otherwise
//! after the first error, its lists of expected tokens include those that could have continued
//! what is already complete (`a[0:1]`: cel-go expects `']'`), and it neither escapes line ends nor
//! has cel-go's exception for `a.true`. Of cel-go's errors, ours lack those that it finds after the first error that is not
//! one of syntax, and the one without a place for a repair that skips too much.

use proptest::prelude::*;

use crate::cel::issue::Issue;
use crate::cel::parser::parse;

/// The tokens that begin an expression, for which the table has `EXPRESSION`.
const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
                          NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Expressions and all errors that cel-go reports for them.
#[rustfmt::skip]
const WORDED: &[(&str, &[&str])] = &[
    ("self.n ==", &["1:10: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("self =", &["1:6: token recognition error at: '='"]),
    ("self == '' ? true : self[0:1] == 'a'", &["1:27: mismatched input ':' expecting ']'"]),
    ("self.n @ 1", &["1:8: token recognition error at: '@'", "1:10: extraneous input '1' expecting <EOF>"]),
    ("a b", &["1:3: extraneous input 'b' expecting <EOF>"]),
    ("a b c", &["1:3: mismatched input 'b' expecting <EOF>"]),
    ("a +", &["1:4: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("+ a", &["1:1: extraneous input '+' expecting EXPRESSION"]),
    ("* a", &["1:1: extraneous input '*' expecting EXPRESSION"]),
    ("a ? b", &["1:6: mismatched input '<EOF>' expecting ':'"]),
    ("a ? b c", &["1:7: missing ':' at 'c'"]),
    ("a ? : b", &["1:5: extraneous input ':' expecting EXPRESSION", "1:8: mismatched input '<EOF>' expecting ':'"]),
    ("(a", &["1:3: missing ')' at '<EOF>'"]),
    ("a)", &["1:2: extraneous input ')' expecting <EOF>"]),
    ("()", &["1:2: mismatched input ')' expecting EXPRESSION"]),
    ("!", &["1:2: extraneous input '<EOF>' expecting EXPRESSION"]),
    ("(!)", &["1:3: extraneous input ')' expecting EXPRESSION"]),
    ("-", &["1:2: no viable alternative at input '-'", "1:2: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("-)", &["1:2: no viable alternative at input '-)'", "1:2: mismatched input ')' expecting EXPRESSION"]),
    ("!-a", &["1:3: no viable alternative at input '-a'"]),
    ("!-true", &["1:3: mismatched input 'true' expecting IDENTIFIER"]),
    ("!- true", &["1:4: no viable alternative at input '- true'"]),
    ("- - +", &["1:5: no viable alternative at input '- +'", "1:5: mismatched input '+' expecting EXPRESSION", "1:6: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("f(", &["1:3: mismatched input '<EOF>' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"]),
    ("f(a", &["1:4: missing ')' at '<EOF>'"]),
    ("f(a,)", &["1:5: mismatched input ')' expecting EXPRESSION"]),
    ("f(a b)", &["1:5: extraneous input 'b' expecting ')'"]),
    ("a.", &["1:3: no viable alternative at input '.'"]),
    ("a.1", &["1:2: extraneous input '.1' expecting <EOF>"]),
    ("a.(", &["1:3: no viable alternative at input '.('"]),
    ("a.true", &["1:3: mismatched input 'true' expecting IDENTIFIER"]),
    ("a..b", &["1:3: no viable alternative at input '..'"]),
    ("a[", &["1:3: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"]),
    ("a[]", &["1:3: mismatched input ']' expecting {'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"]),
    ("a[b", &["1:4: missing ']' at '<EOF>'"]),
    ("a[b c]", &["1:5: extraneous input 'c' expecting ']'"]),
    ("a.f(b", &["1:6: missing ')' at '<EOF>'"]),
    ("[", &["1:2: mismatched input '<EOF>' expecting {'[', ']', '{', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"]),
    ("[a b]", &["1:4: extraneous input 'b' expecting {']', ','}"]),
    ("[a, )", &["1:5: mismatched input ')' expecting ']'"]),
    ("[a,, b]", &["1:4: mismatched input ',' expecting ']'"]),
    ("{", &["1:2: mismatched input '<EOF>' expecting {'[', '{', '}', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"]),
    ("{a", &["1:3: mismatched input '<EOF>' expecting ':'"]),
    ("{a}", &["1:3: mismatched input '}' expecting ':'"]),
    ("{a: }", &["1:5: mismatched input '}' expecting EXPRESSION"]),
    ("{a: b c}", &["1:7: extraneous input 'c' expecting {'}', ','}"]),
    ("{a: b, c}", &["1:9: mismatched input '}' expecting ':'"]),
    ("Foo{", &["1:5: mismatched input '<EOF>' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"]),
    ("Foo{a", &["1:6: mismatched input '<EOF>' expecting ':'"]),
    ("Foo{1: 2}", &["1:5: mismatched input '1' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"]),
    ("Foo{a: 1 b: 2}", &["1:10: mismatched input 'b' expecting {'}', ','}"]),
    ("Foo{?}", &["1:6: mismatched input '}' expecting {IDENTIFIER, ESC_IDENTIFIER}"]),
    (".", &["1:2: no viable alternative at input '.'"]),
    (". null", &["1:3: no viable alternative at input '. null'"]),
    ("in", &["1:1: mismatched input 'in' expecting EXPRESSION", "1:3: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("a in", &["1:5: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("a === b", &["1:5: token recognition error at: '= '"]),
    ("a = b", &["1:3: token recognition error at: '= '", "1:5: extraneous input 'b' expecting <EOF>"]),
    ("a & b", &["1:3: token recognition error at: '& '", "1:5: extraneous input 'b' expecting <EOF>"]),
    ("a | b", &["1:3: token recognition error at: '| '", "1:5: extraneous input 'b' expecting <EOF>"]),
    ("a && ", &["1:6: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("a and b", &["1:3: mismatched input 'and' expecting <EOF>"]),
    ("'a", &["1:1: token recognition error at: ''a'", "1:3: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("'a\\q'", &["1:1: token recognition error at: ''a\\q'", "1:5: token recognition error at: '''", "1:6: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("'''a", &["1:3: token recognition error at: ''a'"]),
    ("r'a", &["1:2: token recognition error at: ''a'"]),
    ("\"a' + 1", &["1:1: token recognition error at: '\"a' + 1'", "1:8: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("`a`", &["1:1: mismatched input '`a`' expecting EXPRESSION"]),
    ("`", &["1:1: token recognition error at: '`'", "1:2: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("a.`", &["1:3: token recognition error at: '`'", "1:4: no viable alternative at input '.'"]),
    ("0x", &["1:2: extraneous input 'x' expecting <EOF>"]),
    ("0X1", &["1:2: extraneous input 'X1' expecting <EOF>"]),
    ("1.", &["1:3: no viable alternative at input '.'"]),
    ("1e", &["1:2: extraneous input 'e' expecting <EOF>"]),
    ("a @ b $ c", &["1:3: token recognition error at: '@'", "1:5: mismatched input 'b' expecting <EOF>", "1:7: token recognition error at: '$'"]),
    ("self.x.filter(y, y > 0", &["1:23: missing ')' at '<EOF>'"]),
    ("self.replicas <= 10 && (self.name != ''", &["1:40: missing ')' at '<EOF>'"]),
    ("a\n==", &["2:3: mismatched input '<EOF>' expecting EXPRESSION"]),
    ("a\t\n b c", &["2:2: mismatched input 'b' expecting <EOF>"]),
    ("é + é é", &["1:1: token recognition error at: 'é'", "1:3: mismatched input '+' expecting EXPRESSION", "1:5: token recognition error at: 'é'", "1:7: token recognition error at: 'é'", "1:8: mismatched input '<EOF>' expecting EXPRESSION"]),
];

/// Expressions that are broken by the properties below.
const VALID: [&str; 22] = [
    "self.a == 1",
    "self.all(x, x > 0)",
    "has(self.a) ? self.a : 'b'",
    "[1, 2, 3].map(x, x + 1)",
    "{'a': 1, 'b': [2]}",
    "Foo{a: 1, b: 2}",
    "a.b.c{d: 1}",
    "!self.a || -1 < 2",
    "self.a[0].b(1, 2)",
    "a.?b.c",
    "a[?0]",
    "[?a, b]",
    "{?'a': b}",
    "size(self) <= 10 && self in ['a', 'b']",
    "(a + b) * c / d % e - f",
    "--a",
    "!-5",
    "f(a ? b : c)",
    "\"\"\"a\n'b'\"\"\" + r'\\' + b'\\x00'",
    ".a.f(1)",
    "[,]",
    "{1: 2,}",
];

const TOKENS: [&str; 48] = [
    "a", "in", "true", "null", "1", "2u", "1.5", ".5", "0x1f", "'s'", "b'x'", "r'y'", "[", "]",
    "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*", "/", "%", "==", "!=", "<", "<=",
    ">", ">=", "&&", "||", "`", "=", "@", "&", "|", "'", "\"", "\\", "\n", "0X1", "// c\n", "é",
];

fn rejected(source: &str) -> Vec<Issue> {
    parse(source).err().unwrap_or_default()
}

/// Syntax errors of the `cel` crate.
fn oracle(source: &str) -> Vec<String> {
    let parser = cel::parser::Parser::new().enable_optional_syntax(true);
    let errors = parser.parse(source).err().map(|e| e.errors);
    errors
        .into_iter()
        .flatten()
        .filter(|e| e.msg.starts_with("Syntax error"))
        .map(|e| format!("{}:{}: {}", e.pos.0, e.pos.1, e.msg))
        .collect()
}

fn syntax_errors(source: &str) -> Vec<String> {
    rejected(source)
        .iter()
        .filter(|issue| issue.message.starts_with("Syntax error"))
        .map(|i| format!("{}:{}: {}", i.line, i.column + 1, i.message))
        .collect()
}

#[test]
fn errors_have_the_words_of_cel_go() {
    for (source, expected) in WORDED {
        let expected: Vec<String> = expected
            .iter()
            .map(|e| {
                let (place, text) = e.split_once(": ").expect("place");
                let text = text.replace("EXPRESSION", EXPRESSION);
                format!("{place}: Syntax error: {text}")
            })
            .collect();
        assert_eq!(syntax_errors(source), expected, "{source}");
    }
}

#[test]
fn other_errors_are_reported_beside_syntax_errors() {
    let messages: Vec<String> = rejected("package +")
        .into_iter()
        .map(|i| i.message)
        .collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(
        messages[0].starts_with("Syntax error: mismatched input '<EOF>'"),
        "{messages:?}"
    );
    assert_eq!(messages[1], "reserved identifier: package");
}

#[test]
fn hostile_source_is_described_within_bounds() {
    for source in [
        "@".repeat(90_000),
        ") (".repeat(30_000),
        format!("+{}", "(".repeat(90_000)),
        format!("+{}", "a?".repeat(40_000)),
        format!("+{}", "-".repeat(90_000)),
        format!("{}a +", "a.b.".repeat(20_000)),
        "1 2 ".repeat(20_000),
    ] {
        let found = rejected(&source).len();
        assert!((1..=101).contains(&found), "{found} errors");
    }
}

/// Applies cel-go's exception for `true`, `false` and `null` where an identifier has to follow.
///
/// cel-go (parser/parser.go) matches ANTLR's message with the regular expression `'.(true|false|null)'`, whose dot it does not
/// escape: any one character may precede the word, so that `!-true` is worded like `a.true`, and `!- true` is not.
fn as_cel_go_words(message: &str) -> String {
    let Some((place, input)) = message.split_once("no viable alternative at input '") else {
        return message.to_owned();
    };
    let mut input = input.chars();
    input.next();
    match input.as_str().strip_suffix('\'') {
        Some(word @ ("true" | "false" | "null")) => format!("{place}mismatched input '{word}'"),
        _ => message.to_owned(),
    }
}

fn broken() -> impl Strategy<Value = String> {
    let valid = prop::sample::select(&VALID[..]);
    let edit = (
        any::<prop::sample::Index>(),
        0..4_usize,
        prop::option::of(prop::sample::select(&TOKENS[..])),
    );
    let mutated = (valid, prop::collection::vec(edit, 1..4)).prop_map(|(valid, edits)| {
        let mut chars: Vec<char> = valid.chars().collect();
        for (index, removed, inserted) in edits {
            let at = index.index(chars.len() + 1);
            let end = (at + removed).min(chars.len());
            chars.splice(at..end, inserted.unwrap_or_default().chars());
        }
        chars.into_iter().collect()
    });
    let random = prop::collection::vec(prop::sample::select(&TOKENS[..]), 1..8);
    prop_oneof![3 => mutated, 1 => random.prop_map(|tokens| tokens.join(" "))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn what_the_grammar_rejects_is_rejected(source in broken()) {
        let (found, expected) = (syntax_errors(&source), oracle(&source));
        prop_assert_eq!(found.is_empty(), expected.is_empty(), "{:?}: {:?}, {:?}", source, found, expected);
        if let (Some(found), Some(expected)) = (found.first(), expected.first()) {
            let known = |text: &str| {
                let text = text.split(" expecting ").next().unwrap_or_default();
                text.replace('\n', "\\n")
            };
            let expected = as_cel_go_words(expected);
            prop_assert_eq!(known(found), known(&expected), "{:?}", source);
        }
    }
}
