//! Regular expressions of RE2 in the syntax of the `regex` crate.

use regex::{Regex, RegexBuilder};

/// Compiled programs up to this size are small.
const SMALL: usize = 128 * 1024;
/// Larger ones are refused.
const LARGE: usize = 1024 * 1024;

/// Compiles `pattern`; also returns whether the program is large, which makes it slower to run.
pub(crate) fn compile(pattern: &str) -> Result<(Regex, bool), String> {
    let translated = translate(pattern);
    let build = |limit: usize| {
        RegexBuilder::new(&translated)
            .size_limit(limit)
            .dfa_size_limit(LARGE)
            .nest_limit(60)
            .build()
    };
    match build(SMALL) {
        Ok(regex) => Ok((regex, false)),
        Err(regex::Error::CompiledTooBig(_)) => match build(LARGE) {
            Ok(regex) => Ok((regex, true)),
            Err(_) => Err("error parsing regexp: expression too large".to_owned()),
        },
        Err(_) => Err(format!("error parsing regexp: {}", problem(pattern))),
    }
}

/// The error of a pattern, in Go's words for unbalanced brackets.
fn problem(pattern: &str) -> String {
    let mut class = None;
    let mut groups = 0_usize;
    let mut chars = pattern.char_indices();
    while let Some((at, c)) = chars.next() {
        match (c, class) {
            ('\\', _) => {
                chars.next();
            }
            ('[', None) => class = Some(at),
            (']', Some(start)) if at > start + 1 => class = None,
            ('(', None) => groups += 1,
            (')', None) if groups == 0 => return format!("unexpected ): `{pattern}`"),
            (')', None) => groups -= 1,
            _ => {}
        }
    }
    match class {
        Some(start) => format!("missing closing ]: `{}`", &pattern[start..]),
        None if groups > 0 => format!("missing closing ): `{pattern}`"),
        None => format!("invalid syntax: `{pattern}`"),
    }
}

/// RE2's classes are of ASCII, brackets do not nest, and a brace that starts no repetition is
/// itself.
fn translate(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut in_class = false;
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        at += 1;
        match (c, next) {
            ('\\', Some('Q')) if !in_class => {
                at += 1;
                while at < chars.len() && !(chars[at] == '\\' && chars.get(at + 1) == Some(&'E')) {
                    out.push_str(&regex::escape(&chars[at].to_string()));
                    at += 1;
                }
                at = (at + 2).min(chars.len());
            }
            ('\\', Some(escaped)) => {
                at += 1;
                match (escaped, in_class) {
                    ('d', false) => out.push_str("[0-9]"),
                    ('d', true) => out.push_str("0-9"),
                    // Within a class this nests, which keeps the negation to itself.
                    ('D', _) => out.push_str("[^0-9]"),
                    ('w', false) => out.push_str("[0-9A-Za-z_]"),
                    ('w', true) => out.push_str("0-9A-Za-z_"),
                    ('W', _) => out.push_str("[^0-9A-Za-z_]"),
                    ('s', false) => out.push_str(r"[\t\n\f\r ]"),
                    ('s', true) => out.push_str(r"\t\n\f\r "),
                    ('S', _) => out.push_str(r"[^\t\n\f\r ]"),
                    ('b', false) => out.push_str(r"(?-u:\b)"),
                    ('B', false) => out.push_str(r"(?-u:\B)"),
                    (other, _) if other.is_ascii_alphanumeric() => {
                        out.push('\\');
                        out.push(other);
                    }
                    (other, _) => out.push_str(&regex::escape(&other.to_string())),
                }
            }
            ('[', _) if !in_class => {
                in_class = true;
                out.push('[');
                if next == Some('^') {
                    out.push('^');
                    at += 1;
                }
                // A bracket right at the start is itself.
                if chars.get(at) == Some(&']') {
                    out.push_str("\\]");
                    at += 1;
                }
            }
            ('[', Some(':')) if in_class => {
                while let Some(&inner) = chars.get(at - 1) {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                    at += 1;
                }
            }
            ('[' | '&' | '~', _) if in_class => {
                out.push('\\');
                out.push(c);
            }
            (']', _) if in_class => {
                in_class = false;
                out.push(']');
            }
            ('{', _) if !in_class && !is_repetition(&chars[at..]) => out.push_str("\\{"),
            _ => out.push(c),
        }
    }
    out
}

/// Whether `2}`, `2,}` or `2,3}` follows.
fn is_repetition(rest: &[char]) -> bool {
    let Some(end) = rest.iter().position(|c| *c == '}') else {
        return false;
    };
    let inner: String = rest[..end].iter().collect();
    let (low, high) = inner.split_once(',').unwrap_or((&inner, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}
