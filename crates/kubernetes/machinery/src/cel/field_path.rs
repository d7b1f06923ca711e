//! `fieldPath` of a rule: a JSON path of fields and map keys (`cel.ValidFieldPath`).

use crate::field::Path;
use crate::schema::Schema;

/// The path `text` spells if it leads to something `schema` declares.
pub fn valid_field_path<'s>(text: &str, schema: &'s Schema) -> Result<(Path, &'s Schema), String> {
    let tokens = tokens(text);
    let mut tokens = tokens.iter().map(String::as_str);
    let mut schema = schema;
    let mut path = Path::root();
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|t| t.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                unescape(inner)?
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if !schema.properties.is_empty() {
            path = path.child(&name);
            schema = schema
                .properties
                .get(&name)
                .ok_or("does not refer to a valid field")?;
        } else if let Some(values) = &schema.additional_properties {
            path = path.key(&name);
            schema = values;
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
        if token == "[" {
            match tokens.next() {
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
                None => return Err(end()),
            }
        }
    }
    Ok((path, schema))
}

/// Delimiters one by one, quoted strings and the text between whole.
fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut current = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '.' | '[' | ']' => {
                if !current.is_empty() {
                    out.push(std::mem::take(&mut current));
                }
                out.push(c.to_string());
            }
            '\'' if current.is_empty() => {
                current.push(c);
                let mut previous = c;
                for inner in chars.by_ref() {
                    current.push(inner);
                    if inner == '\'' && previous != '\\' {
                        break;
                    }
                    previous = inner;
                }
                out.push(std::mem::take(&mut current));
            }
            c => current.push(c),
        }
    }
    if !current.is_empty() {
        out.push(current);
    }
    out
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\'') => '\'',
            Some('\\') | None => '\\',
            Some(other) => {
                return Err(format!(
                    "invalid string literal: invalid escape char \\{other}"
                ));
            }
        });
    }
    Ok(out)
}
