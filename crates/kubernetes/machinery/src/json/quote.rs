//! Go's `%q` (`strconv.Quote`) and `%v` of floats.

use std::fmt::Write as _;

/// A string as Go's `%q` prints it.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_quoted(&mut out, c);
    }
    out.push('"');
    out
}

/// A float in Go's shortest form, with an exponent below -4 and from `exponent_from` on: 21 for `%v` of
/// `fmt`, 6 for `g` of `strconv`.
pub(crate) fn go_float(float: f64, exponent_from: i32) -> String {
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(power) if float != 0.0 && !(-4..exponent_from).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.abs())
        }
        _ => float.to_string(),
    }
}

/// Whether Go's `unicode.IsPrint` holds: letters, marks, numbers, punctuation, symbols and the
/// ASCII space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // The standard library escapes exactly the non-printable characters, except that it escapes
    // combining marks as well when nothing stands before them; hence the letter in front.
    let mut buffer = String::with_capacity(1 + c.len_utf8());
    buffer.push('a');
    buffer.push(c);
    buffer.escape_debug().nth(1) != Some('\\')
}

/// The byte of a JSON syntax error as Go's `encoding/json` shows it.
pub(super) fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => {
            let mut out = String::from("'");
            push_quoted(&mut out, char::from(other));
            out.push('\'');
            out
        }
    }
}

fn push_quoted(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        c if is_print(c) => out.push(c),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        c => {
            let code = u32::from(c);
            // Writing to a String cannot fail.
            let _ = match code {
                0..0x20 | 0x7f => write!(out, "\\x{code:02x}"),
                0x20..0x1_0000 => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
        }
    }
}
