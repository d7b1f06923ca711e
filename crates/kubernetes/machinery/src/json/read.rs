//! Reading as `sigs.k8s.io/json` does: strict syntax, integers kept, duplicate keys reported.
//!
//! The parser is written by hand because the error texts are part of the API: they follow the
//! states of Go's `encoding/json` scanner.

use serde_json::{Map, Number, Value};

use super::quote::quote_byte;

/// How deep lists and objects may nest.
///
/// Go stops at 10000. Everything that later walks a value (validation, merging, dropping it) does
/// so recursively, so the limit is one that fits a small thread stack many times over; no CRD in
/// use comes near it.
pub const MAX_DEPTH: usize = 256;

/// `sigs.k8s.io/json` keeps that many strictness findings and drops the rest.
// The list becomes `Warning` headers; a hostile document of a million repeated keys must not.
pub(super) const MAX_DUPLICATES: usize = 100;

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The document; of keys given twice the last one counts.
    pub value: Value,
    /// Paths of keys given more than once (`spec.ports[0].name`), each once, in reading order.
    pub duplicates: Vec<String>,
    /// The error of a strict YAML decoder about them (`yaml: unmarshal errors:\n  line 2: ...`); never
    /// set for JSON.
    pub strict_error: Option<String>,
}

/// Why a document could not be read, in the words Go would use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    message: String,
    offset: usize,
}

impl DecodeError {
    pub(super) fn new(message: impl Into<String>, offset: usize) -> Self {
        Self {
            message: message.into(),
            offset,
        }
    }

    /// The text of the error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in the input, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

/// Reads one JSON document.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut parser = Parser::new(bytes);
    let value = parser.value(0)?;
    parser.skip_space();
    if let Some(byte) = parser.peek() {
        return Err(parser.unexpected(byte, "after top-level value"));
    }
    match parser.overflow {
        Some(error) => Err(error),
        None => Ok(Decoded {
            value,
            duplicates: parser.duplicates.found,
            strict_error: None,
        }),
    }
}

/// Collects paths of keys given twice.
#[derive(Default)]
pub(super) struct Duplicates {
    pub(super) found: Vec<String>,
    /// The path of the value being read, in pieces: building the text costs only when needed.
    pub(super) path: Vec<PathSegment>,
}

/// One step down.
pub(super) enum PathSegment {
    /// Into an object field.
    Key(String),
    /// Into a list item.
    Index(usize),
}

impl Duplicates {
    /// Notes that `key` was given before, below the current path.
    pub(super) fn note(&mut self, key: &str) {
        if self.found.len() >= MAX_DUPLICATES {
            return;
        }
        let mut text = String::new();
        for step in &self.path {
            match step {
                PathSegment::Key(name) => push_key(&mut text, name),
                PathSegment::Index(index) => {
                    text.push('[');
                    text.push_str(&index.to_string());
                    text.push(']');
                }
            }
        }
        push_key(&mut text, key);
        if !self.found.contains(&text) {
            self.found.push(text);
        }
    }
}

fn push_key(text: &mut String, key: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(key);
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    duplicates: Duplicates,
    /// A number no float can hold. Go reads on, because a syntax error counts more.
    overflow: Option<DecodeError>,
}

impl<'a> Parser<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            duplicates: Duplicates::default(),
            overflow: None,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn unexpected(&self, byte: u8, context: &str) -> DecodeError {
        DecodeError::new(
            format!("invalid character {} {context}", quote_byte(byte)),
            self.at,
        )
    }

    fn end_of_input(&self) -> DecodeError {
        DecodeError::new("unexpected end of JSON input", self.at)
    }

    /// The next byte that is not space, not consumed.
    fn next_token(&mut self) -> Result<u8, DecodeError> {
        self.skip_space();
        self.peek().ok_or_else(|| self.end_of_input())
    }

    fn value(&mut self, depth: usize) -> Result<Value, DecodeError> {
        match self.next_token()? {
            open @ (b'{' | b'[') if depth >= MAX_DEPTH => {
                Err(self.unexpected(open, "exceeded max depth"))
            }
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => Ok(Value::String(self.string()?)),
            b't' => self.literal(b"true", Value::Bool(true)),
            b'f' => self.literal(b"false", Value::Bool(false)),
            b'n' => self.literal(b"null", Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            other => Err(self.unexpected(other, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &[u8], value: Value) -> Result<Value, DecodeError> {
        for expected in word {
            match self.peek() {
                Some(byte) if byte == *expected => self.at += 1,
                Some(byte) => {
                    let word = String::from_utf8_lossy(word);
                    let expected = char::from(*expected);
                    let context = format!("in literal {word} (expecting '{expected}')");
                    return Err(self.unexpected(byte, &context));
                }
                None => return Err(self.end_of_input()),
            }
        }
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Value, DecodeError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.next_token()? == b']' {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.duplicates.path.push(PathSegment::Index(items.len()));
            items.push(self.value(depth + 1)?);
            self.duplicates.path.pop();
            match self.next_token()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                other => return Err(self.unexpected(other, "after array element")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, DecodeError> {
        self.at += 1;
        let mut map = Map::new();
        if self.next_token()? == b'}' {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            let key = match self.next_token()? {
                b'"' => self.string()?,
                other => {
                    return Err(
                        self.unexpected(other, "looking for beginning of object key string")
                    );
                }
            };
            match self.next_token()? {
                b':' => self.at += 1,
                other => return Err(self.unexpected(other, "after object key")),
            }
            self.member(&mut map, key, depth)?;
            match self.next_token()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                other => return Err(self.unexpected(other, "after object key:value pair")),
            }
        }
    }

    fn member(
        &mut self,
        map: &mut Map<String, Value>,
        key: String,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if map.contains_key(&key) {
            self.duplicates.note(&key);
        }
        // Only containers below can add findings, so scalars skip the bookkeeping.
        let (key, value) = if matches!(self.next_token()?, b'{' | b'[') {
            self.duplicates.path.push(PathSegment::Key(key));
            let value = self.value(depth + 1)?;
            match self.duplicates.path.pop() {
                Some(PathSegment::Key(key)) => (key, value),
                _ => return Err(self.end_of_input()),
            }
        } else {
            (key, self.value(depth + 1)?)
        };
        map.insert(key, value);
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    /// At least one digit has to come now.
    fn need_digits(&mut self, context: &str) -> Result<(), DecodeError> {
        if self.digits() > 0 {
            return Ok(());
        }
        Err(match self.peek() {
            Some(byte) => self.unexpected(byte, context),
            None => self.end_of_input(),
        })
    }

    fn number(&mut self) -> Result<Value, DecodeError> {
        let start = self.at;
        let mut integer = true;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.need_digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            self.need_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.need_digits("in exponent of numeric literal")?;
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        if let Some(number) = parse_number(text, integer) {
            return Ok(Value::Number(number));
        }
        if self.overflow.is_none() {
            let message =
                format!("json: cannot unmarshal number {text} into Go value of type float64");
            self.overflow = Some(DecodeError::new(message, self.at));
        }
        Ok(Value::Null)
    }

    fn string(&mut self) -> Result<String, DecodeError> {
        self.at += 1;
        let start = self.at;
        // The common string has no escapes and is copied in one piece.
        loop {
            match self.peek() {
                Some(b'"') => {
                    let raw = &self.bytes[start..self.at];
                    self.at += 1;
                    return Ok(owned(raw));
                }
                Some(b'\\') => return self.string_with_escapes(start),
                Some(byte) if byte < 0x20 => {
                    return Err(self.unexpected(byte, "in string literal"));
                }
                Some(_) => self.at += 1,
                None => return Err(self.end_of_input()),
            }
        }
    }

    fn string_with_escapes(&mut self, start: usize) -> Result<String, DecodeError> {
        let mut text = owned(&self.bytes[start..self.at]);
        let mut run = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    text.push_str(&String::from_utf8_lossy(&self.bytes[run..self.at]));
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    text.push_str(&String::from_utf8_lossy(&self.bytes[run..self.at]));
                    self.at += 1;
                    text.push(self.escape()?);
                    run = self.at;
                }
                Some(byte) if byte < 0x20 => {
                    return Err(self.unexpected(byte, "in string literal"));
                }
                Some(_) => self.at += 1,
                None => return Err(self.end_of_input()),
            }
        }
    }

    /// The character after a backslash.
    fn escape(&mut self) -> Result<char, DecodeError> {
        let byte = self.peek().ok_or_else(|| self.end_of_input())?;
        let c = match byte {
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'\\' | b'/' | b'"' => char::from(byte),
            b'u' => {
                self.at += 1;
                let unit = self.hex4()?;
                return self.code_point(unit);
            }
            other => return Err(self.unexpected(other, "in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn hex4(&mut self) -> Result<u32, DecodeError> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.peek().ok_or_else(|| self.end_of_input())?;
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(self.unexpected(byte, "in \\u hexadecimal character escape"));
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Joins surrogate pairs; a lone half becomes U+FFFD as in Go.
    fn code_point(&mut self, unit: u32) -> Result<char, DecodeError> {
        if !(0xd800..0xdc00).contains(&unit) || !self.bytes[self.at..].starts_with(b"\\u") {
            return Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let before = self.at;
        self.at += 2;
        let low = self.hex4()?;
        if (0xdc00..0xe000).contains(&low) {
            let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at = before;
        Ok(char::REPLACEMENT_CHARACTER)
    }
}

/// The text of raw string bytes; invalid UTF-8 is replaced, as in Go.
fn owned(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

/// Integers of 64 bits stay integers, everything else is a float; `None` when no float holds it.
pub(super) fn parse_number(text: &str, integer: bool) -> Option<Number> {
    if integer && let Ok(number) = text.parse::<i64>() {
        return Some(Number::from(number));
    }
    let float: f64 = text.parse().ok()?;
    // Written out and read again, a negative zero is just zero.
    Number::from_f64(if float == 0.0 { 0.0 } else { float })
}
