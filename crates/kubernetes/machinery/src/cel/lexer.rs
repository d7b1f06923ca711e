//! Tokens of the language.

use std::sync::Arc;

use super::issue::Issue;
use super::parser::SYNTAX_ERROR;

/// A token and where it starts, in code points.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// Offset.
    pub(crate) pos: usize,
    /// What.
    pub(crate) kind: TokenKind,
}

/// Kinds of tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    /// Operator or bracket.
    Punct(&'static str),
    /// Name.
    Ident(String),
    /// A name in backticks, which Kubernetes does not enable.
    EscapedIdent,
    /// `1`, `0x1f`; the sign is not part of it.
    Int { digits: String, radix: u32 },
    /// `1u`
    Uint { digits: String, radix: u32 },
    /// `1.5`
    Double(String),
    /// `'a'`
    String(Arc<str>),
    /// `b'a'`
    Bytes(Arc<[u8]>),
    /// End of the source.
    End,
}

/// Longest first, so that the first match is the right one.
const PUNCTUATION: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "?", ":", "+", "-", "*", "/", "%", "(", ")",
    "[", "]", "{", "}", ".", ",",
];

/// Splits `source` into tokens.
pub(crate) fn tokenize(source: &str) -> Result<Vec<Token>, Issue> {
    Lexer {
        source,
        // Positions in messages are counted in code points, so bytes would need a conversion for every error.
        chars: source.chars().collect(),
        at: 0,
    }
    .run()
}

struct Lexer<'s> {
    source: &'s str,
    chars: Vec<char>,
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn issue(&self, at: usize, message: impl Into<String>) -> Issue {
        Issue::at(self.source, at, message)
    }

    fn run(mut self) -> Result<Vec<Token>, Issue> {
        let mut tokens = Vec::new();
        loop {
            self.skip_blank();
            let pos = self.at;
            let Some(c) = self.peek(0) else {
                tokens.push(Token {
                    pos,
                    kind: TokenKind::End,
                });
                return Ok(tokens);
            };
            let kind = if let Some(prefix) = self.string_prefix() {
                self.string(prefix)?
            } else if c.is_ascii_alphabetic() || c == '_' {
                self.ident()
            } else if c.is_ascii_digit()
                || (c == '.' && self.peek(1).is_some_and(|d| d.is_ascii_digit()))
            {
                self.number()
            } else if let Some(p) = PUNCTUATION.iter().find(|p| self.starts_with(p)) {
                self.at += p.len();
                TokenKind::Punct(p)
            } else if c == '`' {
                self.escaped_ident()?
            } else {
                return Err(self.issue(pos, SYNTAX_ERROR));
            };
            tokens.push(Token { pos, kind });
        }
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(i, c)| self.peek(i) == Some(c))
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek(0) {
            if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else if matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn ident(&mut self) -> TokenKind {
        let start = self.at;
        while self
            .peek(0)
            .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            self.at += 1;
        }
        TokenKind::Ident(self.chars[start..self.at].iter().collect())
    }

    fn escaped_ident(&mut self) -> Result<TokenKind, Issue> {
        let start = self.at;
        self.at += 1;
        let name = self.digits(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c));
        if name.is_empty() || self.peek(0) != Some('`') {
            return Err(self.issue(start, SYNTAX_ERROR));
        }
        self.at += 1;
        Ok(TokenKind::EscapedIdent)
    }

    fn digits(&mut self, accept: fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(accept) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn number(&mut self) -> TokenKind {
        let is_digit = |c: char| c.is_ascii_digit();
        if self.peek(0) == Some('0')
            && self.peek(1) == Some('x')
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            let digits = self.digits(|c| c.is_ascii_hexdigit());
            return self.integer(digits, 16);
        }
        let start = self.at;
        let digits = self.digits(is_digit);
        let mut double = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(is_digit) {
            double = true;
            self.at += 1;
            self.digits(is_digit);
        }
        // Only with digits behind it: `1e` is the number 1 and a name, which the
        // parser then rejects where cel-go does.
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(is_digit) {
                double = true;
                self.at += 1 + sign;
                self.digits(is_digit);
            }
        }
        if double {
            return TokenKind::Double(self.chars[start..self.at].iter().collect());
        }
        self.integer(digits, 10)
    }

    fn integer(&mut self, digits: String, radix: u32) -> TokenKind {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            TokenKind::Uint { digits, radix }
        } else {
            TokenKind::Int { digits, radix }
        }
    }

    /// `(raw, bytes, letters)` if a string starts here.
    fn string_prefix(&self) -> Option<(bool, bool, usize)> {
        let is_quote = |c: Option<char>| matches!(c, Some('"' | '\''));
        let (mut raw, mut bytes, mut letters) = (false, false, 0);
        while letters < 2 {
            match self.peek(letters) {
                Some('r' | 'R') if !raw => raw = true,
                // `br''` is a prefix and `rb''` is not: cel-go's grammar has one order.
                Some('b' | 'B') if !bytes && !raw => bytes = true,
                _ => break,
            }
            letters += 1;
        }
        is_quote(self.peek(letters)).then_some((raw, bytes, letters))
    }

    fn string(&mut self, (raw, bytes, letters): (bool, bool, usize)) -> Result<TokenKind, Issue> {
        let start = self.at;
        self.at += letters;
        let quote = self.peek(0).unwrap_or('"');
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let width = if triple { 3 } else { 1 };
        self.at += width;
        let mut out: Vec<u8> = Vec::new();
        loop {
            let Some(c) = self.peek(0) else {
                return Err(self.issue(start, SYNTAX_ERROR));
            };
            if c == quote && (!triple || (0..3).all(|i| self.peek(i) == Some(quote))) {
                self.at += width;
                break;
            }
            if !triple && matches!(c, '\n' | '\r') {
                return Err(self.issue(start, SYNTAX_ERROR));
            }
            self.at += 1;
            if c == '\\' && !raw {
                self.escape(&mut out, bytes)
                    .map_err(|message| self.issue(start, message))?;
            } else if c == '\r' && triple {
                // Line ends are normalised in long strings.
                if self.peek(0) != Some('\n') {
                    out.push(b'\n');
                }
            } else {
                let mut buffer = [0; 4];
                out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
        }
        if bytes {
            return Ok(TokenKind::Bytes(out.into()));
        }
        match String::from_utf8(out) {
            Ok(text) => Ok(TokenKind::String(text.into())),
            Err(_) => Err(self.issue(start, "invalid string literal: not UTF-8")),
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>, bytes: bool) -> Result<(), &'static str> {
        let c = self.peek(0).ok_or(SYNTAX_ERROR)?;
        self.at += 1;
        let simple = match c {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '?' | '"' | '\'' | '`' => u8::try_from(c).ok(),
            _ => None,
        };
        if let Some(byte) = simple {
            out.push(byte);
            return Ok(());
        }
        let (code, is_byte) = match c {
            'x' | 'X' => (self.code(2, 16)?, true),
            'u' => (self.code(4, 16)?, false),
            'U' => (self.code(8, 16)?, false),
            // Three octal digits, at most 0377: a larger code would not fit a byte.
            '0'..='3' => {
                self.at -= 1;
                (self.code(3, 8)?, true)
            }
            _ => return Err(SYNTAX_ERROR),
        };
        if bytes {
            let byte = u8::try_from(code).ok().filter(|_| is_byte);
            out.push(byte.ok_or("unable to unescape string")?);
            return Ok(());
        }
        let mut buffer = [0; 4];
        let decoded = char::from_u32(code).ok_or("invalid unicode code point")?;
        out.extend_from_slice(decoded.encode_utf8(&mut buffer).as_bytes());
        Ok(())
    }

    fn code(&mut self, width: usize, radix: u32) -> Result<u32, &'static str> {
        let text: String = self
            .chars
            .get(self.at..self.at + width)
            .ok_or(SYNTAX_ERROR)?
            .iter()
            .collect();
        if !text.chars().all(|c| c.is_digit(radix)) {
            return Err(SYNTAX_ERROR);
        }
        self.at += width;
        u32::from_str_radix(&text, radix).map_err(|_| SYNTAX_ERROR)
    }
}
