//! Writing with Go's `encoding/json` rules.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// `value` in compact form. A value that cannot be serialized (a map whose keys are not strings)
/// becomes `null`; API types and [`Value`] never do.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    serialize(&mut out, value, CompactFormatter);
    out
}

/// `value` in compact form, as text.
pub fn to_string(value: &Value) -> String {
    // The writer emits nothing but UTF-8, so nothing is ever replaced here.
    String::from_utf8(to_vec(value)).unwrap_or_default()
}

/// `value` indented by two spaces, as kube-apiserver prints for people. Unlike after compact output,
/// the server sends no newline after it.
pub fn to_vec_pretty<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    serialize(&mut out, value, PrettyFormatter::new());
    out
}

/// Appends `value` in compact form.
pub fn write_into(out: &mut Vec<u8>, value: &Value) {
    serialize(out, value, CompactFormatter);
}

fn serialize<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T, layout: impl Formatter) {
    let start = out.len();
    let mut serializer = Serializer::with_formatter(&mut *out, GoFormatter(layout));
    if value.serialize(&mut serializer).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// The layout of another formatter with Go's numbers and escapes.
struct GoFormatter<F>(F);

impl<F: Formatter> Formatter for GoFormatter<F> {
    fn write_f32<W: ?Sized + Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        write_float(writer, f64::from(value.abs()), &value)
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write_float(writer, value.abs(), &value)
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write_fragment(writer, fragment)
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        write_escape(writer, &escape)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// Go's `floatEncoder`: shortest digits, exponent form below 1e-6 and from 1e21 on, `+` kept in
/// the exponent.
fn write_float<W, F>(writer: &mut W, magnitude: f64, value: &F) -> io::Result<()>
where
    W: ?Sized + Write,
    F: std::fmt::Display + std::fmt::LowerExp,
{
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write!(writer, "{digits}e+{exponent}")
            }
            _ => writer.write_all(text.as_bytes()),
        }
    } else {
        write!(writer, "{value}")
    }
}

/// Bytes that serde_json leaves alone and Go may not: `<`, `>`, `&` and the lead byte of
/// U+2028 and U+2029.
// Go escapes these so that JSON can stand in HTML (`encoding/json`, `SetEscapeHTML` on by default). Bodies are
// compared byte by byte in places, for example in `last-applied-configuration`.
const fn suspicious(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | 0xe2)
}

fn write_fragment<W: ?Sized + Write>(writer: &mut W, fragment: &str) -> io::Result<()> {
    let bytes = fragment.as_bytes();
    let mut start = 0;
    let mut at = 0;
    while let Some(offset) = bytes[at..].iter().position(|b| suspicious(*b)) {
        at += offset;
        let (escaped, length): (&[u8], usize) = match bytes[at..] {
            [b'<', ..] => (b"\\u003c", 1),
            [b'>', ..] => (b"\\u003e", 1),
            [b'&', ..] => (b"\\u0026", 1),
            [0xe2, 0x80, 0xa8, ..] => (b"\\u2028", 3),
            [0xe2, 0x80, 0xa9, ..] => (b"\\u2029", 3),
            _ => {
                at += 1;
                continue;
            }
        };
        writer.write_all(&bytes[start..at])?;
        writer.write_all(escaped)?;
        at += length;
        start = at;
    }
    writer.write_all(&bytes[start..])
}

fn write_escape<W: ?Sized + Write>(writer: &mut W, escape: &CharEscape) -> io::Result<()> {
    match escape {
        CharEscape::Quote => writer.write_all(b"\\\""),
        CharEscape::ReverseSolidus => writer.write_all(b"\\\\"),
        CharEscape::Solidus => writer.write_all(b"/"),
        CharEscape::Backspace => writer.write_all(b"\\b"),
        CharEscape::FormFeed => writer.write_all(b"\\f"),
        CharEscape::LineFeed => writer.write_all(b"\\n"),
        CharEscape::CarriageReturn => writer.write_all(b"\\r"),
        CharEscape::Tab => writer.write_all(b"\\t"),
        CharEscape::AsciiControl(byte) => write!(writer, "\\u{byte:04x}"),
    }
}
