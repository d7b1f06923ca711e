//! From text to steps, with the errors of the upstream parser.

use serde_json::Value;

use super::{Node, Operator, Slice};

/// Longest path accepted; upstream sets no limit, and no column in use comes near.
const MAX_LENGTH: usize = 8192;

/// A text that is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text ends or breaks off inside an action.
    #[error("unclosed action")]
    Unclosed,
    /// A character with no meaning at its place.
    #[error("unrecognized character in action: U+{:04X} '{}'", u32::from(*.0), .0)]
    Character(char),
    /// A bare word; only kubectl's own templates have a use for some.
    #[error("unrecognized identifier {0}")]
    Identifier(String),
    /// `....`
    #[error("invalid multiple recursive descent")]
    RepeatedDescent,
    /// A number that is none.
    #[error("cannot parse number {0}")]
    Number(String),
    /// `[` without `]`
    #[error("unterminated array")]
    UnterminatedArray,
    /// Neither an index, a range, a list of these nor a quoted name.
    #[error("invalid array index {0}")]
    ArrayIndex(String),
    /// An index too large to count.
    #[error("array index {0} is not a number")]
    ArrayIndexNumber(String),
    /// `[?(` without `)`
    #[error("unterminated filter")]
    UnterminatedFilter,
    /// `[?(...)` without `]`
    #[error("unclosed array expect ]")]
    UnclosedFilter,
    /// Something like `=>`.
    #[error("unrecognized filter operator {0}")]
    Operator(String),
    /// A quote that does not end.
    #[error("unterminated quoted string")]
    UnterminatedQuote,
    /// A quote with an escape that is none.
    #[error("unquote string {0} error invalid syntax")]
    Quote(String),
    /// More text than any sensible path has.
    #[error("path of {0} bytes is too long, at most {MAX_LENGTH} are accepted")]
    TooLong(usize),
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    /// Text outside of braces.
    Text(Value),
    /// `{...}`
    Path(Vec<Node>),
    /// `{range ...}`
    Range(Vec<Node>),
    /// `{end}`
    End,
}

/// The parts of a template: text, and actions in braces.
pub(super) fn template(mut text: &str) -> Result<Vec<Part>, ParseError> {
    let mut parts = Vec::new();
    while let Some((before, after)) = text.split_once('{') {
        if !before.is_empty() {
            parts.push(Part::Text(Value::from(before)));
        }
        let mut parser = Parser {
            rest: after,
            nodes: Vec::new(),
            has_words: true,
            word: None,
        };
        while !parser.rest.starts_with('}') {
            if parser.rest.is_empty() {
                return Err(ParseError::Unclosed);
            }
            parser.step()?;
        }
        text = &parser.rest[1..];
        parts.push(match parser.word {
            Some(Word::Range) => Part::Range(parser.nodes),
            Some(Word::End) => Part::End,
            None => Part::Path(parser.nodes),
        });
    }
    if !text.is_empty() {
        parts.push(Part::Text(Value::from(text)));
    }
    Ok(parts)
}

/// The words of templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Range,
    End,
}

/// The steps of the text between braces.
pub(super) fn action(text: &str) -> Result<Vec<Node>, ParseError> {
    if text.len() > MAX_LENGTH {
        return Err(ParseError::TooLong(text.len()));
    }
    let mut parser = Parser {
        rest: text,
        nodes: Vec::new(),
        has_words: false,
        word: None,
    };
    while !parser.rest.is_empty() {
        parser.step()?;
    }
    Ok(parser.nodes)
}

struct Parser<'a> {
    rest: &'a str,
    nodes: Vec<Node>,
    /// Whether this is an action of a template, which may begin with a word.
    has_words: bool,
    /// The word of this action.
    word: Option<Word>,
}

impl<'a> Parser<'a> {
    fn step(&mut self) -> Result<(), ParseError> {
        if let Some(rest) = self.rest.strip_prefix("[?(") {
            self.rest = rest;
            return self.filter();
        }
        if let Some(rest) = self.rest.strip_prefix("..") {
            self.rest = rest;
            return self.recursive();
        }
        let Some(first) = self.rest.chars().next() else {
            return Ok(());
        };
        let after = &self.rest[first.len_utf8()..];
        match first {
            // A path is one line upstream, too: its parser takes a line break for the end of the input.
            '\r' | '\n' => Err(ParseError::Unclosed),
            ' ' | '@' | '$' => {
                self.rest = after;
                Ok(())
            }
            '[' => {
                self.rest = after;
                self.array()
            }
            '"' | '\'' => self.quote(first),
            '.' => {
                self.rest = after;
                self.field();
                Ok(())
            }
            '+' | '-' => self.number(),
            c if c.is_numeric() => self.number(),
            c if c == '_' || c.is_alphabetic() => self.identifier(),
            c => Err(ParseError::Character(c)),
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Up to the next terminator that no backslash precedes.
    fn field(&mut self) {
        let mut end = self.rest.len();
        let mut escaped = false;
        for (at, c) in self.rest.char_indices() {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if is_terminator(c) {
                end = at;
                break;
            }
        }
        let name = self.take(end);
        self.nodes.push(match name {
            // Only the bare star: `a*` is a field of that name.
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        });
    }

    fn recursive(&mut self) -> Result<(), ParseError> {
        if self.nodes.last() == Some(&Node::Recursive) {
            return Err(ParseError::RepeatedDescent);
        }
        self.nodes.push(Node::Recursive);
        if self
            .rest
            .starts_with(|c: char| c == '_' || c.is_alphanumeric())
        {
            self.field();
        }
        Ok(())
    }

    fn identifier(&mut self) -> Result<(), ParseError> {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let word = self.take(end);
        let value = match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "range" | "end" if self.has_words && self.word.is_none() => {
                let is_range = word == "range";
                self.word = Some(if is_range { Word::Range } else { Word::End });
                return Ok(());
            }
            other => return Err(ParseError::Identifier(other.to_owned())),
        };
        self.nodes.push(Node::Literal(value));
        Ok(())
    }

    fn number(&mut self) -> Result<(), ParseError> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..]
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .map_or(self.rest.len(), |at| at + sign);
        if digits == 0 {
            return Err(ParseError::Number(String::new()));
        }
        let text = self.take(digits);
        let integer = text.parse::<i64>().map(Value::from).ok();
        let float = || {
            text.parse::<f64>()
                .ok()
                .filter(|f| f.is_finite())
                .map(Value::from)
        };
        let value = integer
            .or_else(float)
            .ok_or_else(|| ParseError::Number(text.to_owned()))?;
        self.nodes.push(Node::Literal(value));
        Ok(())
    }

    fn quote(&mut self, quote: char) -> Result<(), ParseError> {
        let bytes = self.rest.as_bytes();
        let mut end = 1;
        loop {
            match bytes.get(end) {
                None | Some(b'\n') => return Err(ParseError::UnterminatedQuote),
                Some(b) if char::from(*b) == quote && bytes[end - 1] != b'\\' => break,
                Some(_) => end += 1,
            }
        }
        let quoted = self.take(end + 1);
        let text = unquote(&quoted[1..quoted.len() - 1], quote)
            .ok_or_else(|| ParseError::Quote(quoted.to_owned()))?;
        self.nodes.push(Node::Literal(Value::String(text)));
        Ok(())
    }

    fn array(&mut self) -> Result<(), ParseError> {
        let end = self
            .rest
            .find([']', '\n'])
            .ok_or(ParseError::UnterminatedArray)?;
        if self.rest.as_bytes()[end] == b'\n' {
            return Err(ParseError::UnterminatedArray);
        }
        let text = self.take(end);
        self.take(1);
        if text.contains(',') {
            let mut union = Vec::new();
            for part in text.split(',') {
                union.push(selection(part.trim_matches(' '))?);
            }
            self.nodes.push(Node::Union(union));
        } else {
            self.nodes.extend(selection(text)?);
        }
        Ok(())
    }

    fn filter(&mut self) -> Result<(), ParseError> {
        let mut pair: Option<char> = None;
        let mut closed = false;
        let mut before = '(';
        let mut end = None;
        for (at, c) in self.rest.char_indices() {
            match c {
                '\n' => return Err(ParseError::UnterminatedFilter),
                '"' | '\'' if pair.is_none() => pair = Some(c),
                '"' | '\'' if pair == Some(c) && before != '\\' => closed = true,
                // One pair of quotes is tracked, as upstream does. A second quoted text with a parenthesis in it ends
                // the filter early, there as here.
                ')' if pair.is_some() == closed => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
            before = c;
        }
        let text = self.take(end.ok_or(ParseError::UnterminatedFilter)?);
        self.take(1);
        self.rest = self
            .rest
            .strip_prefix(']')
            .ok_or(ParseError::UnclosedFilter)?;
        self.nodes.push(comparison(text)?);
        Ok(())
    }
}

/// The inside of a filter: `left operator right`, or a path that has to lead somewhere.
fn comparison(text: &str) -> Result<Node, ParseError> {
    const OPERATORS: [char; 4] = ['!', '<', '>', '='];
    let start = text.find(OPERATORS).unwrap_or(0);
    let length = text[start..].find(|c| !OPERATORS.contains(&c)).unwrap_or(0);
    if start == 0 || length == 0 {
        return Ok(Node::Filter {
            left: action(text)?,
            comparison: None,
        });
    }
    let left = action(&text[..start])?;
    let right = action(&text[start + length..])?;
    let operator = match &text[start..start + length] {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        other => return Err(ParseError::Operator(other.to_owned())),
    };
    Ok(Node::Filter {
        left,
        comparison: Some((operator, right)),
    })
}

/// What stands in brackets: a quoted name, an index or a range.
fn selection(text: &str) -> Result<Vec<Node>, ParseError> {
    let quoted = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
    if let Some(name) = quoted.filter(|name| !name.contains('\'')) {
        // Upstream reads the name like a field, so a dot in it has to be escaped here as well.
        return action(&format!(".{name}"));
    }
    let text = if text == "*" { ":" } else { text };
    let invalid = || ParseError::ArrayIndex(text.to_owned());
    let mut parts = text.split(':');
    let (start, end, step) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if parts.next().is_some() {
        return Err(invalid());
    }
    let number = |text: &str| -> Result<Option<i64>, ParseError> {
        if text.is_empty() {
            return Ok(None);
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid());
        }
        let number = text
            .parse()
            .map_err(|_| ParseError::ArrayIndexNumber(text.to_owned()))?;
        Ok(Some(number))
    };
    let start = number(start)?;
    let (end, derived) = match end {
        Some(end) => (number(end)?, false),
        // A single index is the range of one item. `derived` remembers it, since `[-1]` gives the end 0, which an
        // explicit `[-1:0]` must not mean.
        None => (Some(start.unwrap_or(0).saturating_add(1)), true),
    };
    let step = number(step.unwrap_or_default())?;
    Ok(vec![Node::Slice(Slice {
        start,
        end,
        derived,
        step,
    })])
}

fn is_terminator(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

/// The text between quotes with Go's escapes; `None` if it is malformed.
pub(crate) fn unquote(text: &str, quote: char) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            return None;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '\\' => '\\',
            'x' => code_point(&mut chars, 2)?,
            'u' => code_point(&mut chars, 4)?,
            'U' => code_point(&mut chars, 8)?,
            c if c == quote => c,
            _ => return None,
        });
    }
    Some(out)
}

/// A character given by its number in hexadecimal digits.
fn code_point(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let code: String = chars.take(digits).collect();
    if code.len() != digits || !code.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    char::from_u32(u32::from_str_radix(&code, 16).ok()?)
}
