//! The subset of Helm's template language that the chart uses; anything else is an error.

use serde_json::{Value, json};

/// A rendered template.
pub(super) fn render(template: &str, values: &Value, namespace: &str, apis: &[&str]) -> String {
    let context = json!({
        "Values": values,
        "Release": { "Namespace": namespace },
        "Chart": { "AppVersion": crate::VERSION },
        "Capabilities": { "APIVersions": apis },
    });
    let mut out = String::new();
    // Whether each open `if` is true.
    let mut open: Vec<bool> = Vec::new();
    let mut rest = template;
    while let Some((before, action)) = rest.split_once("{{") {
        let (trims, action) = match action.strip_prefix('-') {
            Some(action) => (true, action),
            None => (false, action),
        };
        let before = if trims { before.trim_end() } else { before };
        let shown = open.iter().all(|it| *it);
        if shown {
            out.push_str(before);
        }
        let (action, after) = end_of(action);
        let action = action.trim();
        if let Some(condition) = action.strip_prefix("if ") {
            open.push(truth(&evaluate(condition, &context)));
        } else if action == "end" {
            open.pop().expect("an if for this end");
        } else if shown {
            match evaluate(action, &context) {
                Value::String(text) => out.push_str(&text),
                other => out.push_str(&other.to_string()),
            }
        }
        rest = after;
    }
    assert!(open.is_empty(), "an end for every if");
    assert!(!rest.contains("}}"));
    out + rest
}

/// The text before the closing braces, and the text after; braces in strings do not count.
fn end_of(text: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '"' | '`') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, '}') if text[at..].starts_with("}}") => return (&text[..at], &text[at + 2..]),
            _ => {}
        }
    }
    panic!("no end in {text:.60}");
}

/// Truth of a value, as in Go templates.
fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn evaluate(text: &str, context: &Value) -> Value {
    let words = words(text);
    let mut steps = words.split(|word| word == "|");
    let first = steps.next().expect("an expression");
    let mut value = call(first, None, context);
    for step in steps {
        value = call(step, Some(value), context);
    }
    value
}

/// Tokens; parentheses and quotes form one token.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut depth, mut quote) = (0, None);
    for letter in text.trim().chars() {
        match (quote, letter) {
            (None, '"' | '`') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ' ') if depth == 0 => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        words.last_mut().expect("a word").push(letter);
    }
    words.retain(|word| !word.is_empty());
    words
}

fn call(words: &[String], piped: Option<Value>, context: &Value) -> Value {
    let (first, rest) = words.split_first().expect("a word");
    let is_function = first.starts_with(|it: char| it.is_ascii_alphabetic());
    if let Some(list) = first.strip_suffix(".Has") {
        let item = operand(rest.first().expect("an item"), context);
        let list = operand(list, context);
        return json!(list.as_array().expect("a list").contains(&item));
    }
    if !is_function {
        assert!(rest.is_empty() && piped.is_none(), "{words:?}");
        return operand(first, context);
    }
    let mut arguments: Vec<Value> = rest.iter().map(|it| operand(it, context)).collect();
    arguments.extend(piped);
    match (first.as_str(), arguments.as_slice()) {
        ("has", [item, list]) => json!(list.as_array().expect("a list").contains(item)),
        ("and", all) => all
            .iter()
            .find(|it| !truth(it))
            .or_else(|| all.last())
            .unwrap()
            .clone(),
        ("or", all) => all
            .iter()
            .find(|it| truth(it))
            .or_else(|| all.last())
            .unwrap()
            .clone(),
        ("not", [value]) => json!(!truth(value)),
        ("index", [list, at]) => list[usize::try_from(at.as_u64().unwrap()).unwrap()].clone(),
        ("gt", [one, other]) => json!(one.as_i64().unwrap() > other.as_i64().unwrap()),
        ("int", [number]) => json!(number.as_i64().unwrap()),
        ("quote", [text]) => json!(format!("{:?}", text.as_str().expect("a text"))),
        ("toJson", [value]) => json!(value.to_string()),
        ("join", [between, list]) => {
            let items = list.as_array().expect("a list").iter();
            let items: Vec<&str> = items.map(|it| it.as_str().expect("a text")).collect();
            json!(items.join(between.as_str().expect("a text")))
        }
        (function, arguments) => panic!("{function} of {arguments:?}"),
    }
}

fn operand(word: &str, context: &Value) -> Value {
    if let Some(inner) = word.strip_prefix('(') {
        return evaluate(inner.strip_suffix(')').expect("its end"), context);
    }
    if let Some(text) = word.strip_prefix(['"', '`']) {
        return json!(text.strip_suffix(['"', '`']).expect("its end"));
    }
    if let Ok(number) = word.parse::<i64>() {
        return json!(number);
    }
    let path = word.strip_prefix('.').unwrap_or_else(|| panic!("{word}"));
    let mut value = context;
    for key in path.split('.') {
        value = value.get(key).unwrap_or_else(|| panic!("no {word}"));
    }
    value.clone()
}
