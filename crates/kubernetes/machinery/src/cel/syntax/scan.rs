//! Tokens as the reference grammar's lexer splits broken source: it reports what it cannot
//! read, skips it and goes on, where ours stops.

use super::set::{self, TokenType};

/// A piece of the source, in code points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// First code point.
    pub(super) start: usize,
    /// After the last one.
    pub(super) end: usize,
    /// `None` for white space and comments, which the parser does not see.
    pub(super) token: Option<TokenType>,
}

/// Pieces of the source, the last of which is the end; and what is no token, from its start up to
/// and including the code point at which that was certain.
pub(super) fn scan(chars: &[char]) -> (Vec<Piece>, Vec<std::ops::Range<usize>>) {
    let (mut pieces, mut unreadable) = (Vec::new(), Vec::new());
    let mut start = 0;
    while start < chars.len() {
        start = match next(chars, start) {
            Ok((token, end)) => {
                pieces.push(Piece { start, end, token });
                end
            }
            Err(at) => {
                let end = (at + 1).min(chars.len());
                unreadable.push(start..end);
                end
            }
        };
    }
    pieces.push(Piece {
        start,
        end: start,
        token: Some(set::END),
    });
    (pieces, unreadable)
}

type Next = Result<(Option<TokenType>, usize), usize>;

/// The longest token at `at` and its end, or the code point at which there can be none.
fn next(chars: &[char], at: usize) -> Next {
    let peek = |ahead: usize| chars.get(at + ahead).copied().unwrap_or('\0');
    let c = peek(0);
    let token = |token: TokenType, length: usize| Ok((Some(token), at + length));
    let letters = match (c, peek(1)) {
        ('b' | 'B', 'r' | 'R') => 2,
        ('b' | 'B' | 'r' | 'R', _) => 1,
        _ => 0,
    };
    if is_quote(peek(letters)) {
        let raw = letters > 0 && matches!(peek(letters - 1), 'r' | 'R');
        let bytes = matches!(c, 'b' | 'B');
        let kind = if bytes { set::BYTES } else { set::STRING };
        match string(chars, at + letters, raw) {
            Ok(end) => return Ok((Some(kind), end)),
            // A prefix alone is a name.
            Err(fail) if letters == 0 => return Err(fail),
            Err(_) => {}
        }
    }
    match c {
        ' ' | '\t' | '\r' | '\n' | '\u{c}' => {
            let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}');
            Ok((None, run(chars, at, blank)))
        }
        '/' if peek(1) == '/' => Ok((None, run(chars, at, |c| c != '\n'))),
        'a'..='z' | 'A'..='Z' | '_' => {
            let end = run(chars, at, |c| c.is_ascii_alphanumeric() || c == '_');
            let text: String = chars[at..end].iter().collect();
            Ok((Some(set::word(&text)), end))
        }
        '0'..='9' => Ok(number(chars, at)),
        '.' if peek(1).is_ascii_digit() => Ok(number(chars, at)),
        '`' => {
            let inner = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
            let end = run(chars, at + 1, inner);
            if chars.get(end) == Some(&'`') && end > at + 1 {
                token(set::ESC_IDENTIFIER, end + 1 - at)
            } else {
                Err(end)
            }
        }
        '=' | '!' | '<' | '>' if peek(1) == '=' => token(set::punct(&[c, '=']), 2),
        '&' | '|' if peek(1) == c => token(set::punct(&[c, c]), 2),
        '&' | '|' | '=' => Err(at + 1),
        _ => match set::punct(&[c]) {
            set::END => Err(at),
            found => token(found, 1),
        },
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'')
}

fn run(chars: &[char], at: usize, accept: impl Fn(char) -> bool) -> usize {
    at + chars[at..].iter().take_while(|c| accept(**c)).count()
}

fn number(chars: &[char], at: usize) -> (Option<TokenType>, usize) {
    let digit = |c: char| c.is_ascii_digit();
    let is = |at: usize, accept: &dyn Fn(char) -> bool| chars.get(at).is_some_and(|c| accept(*c));
    let suffixed = |end: usize| {
        if is(end, &|c| matches!(c, 'u' | 'U')) {
            (Some(set::NUM_UINT), end + 1)
        } else {
            (Some(set::NUM_INT), end)
        }
    };
    if chars[at] == '0' && is(at + 1, &|c| c == 'x') && is(at + 2, &|c| c.is_ascii_hexdigit()) {
        return suffixed(run(chars, at + 2, |c| c.is_ascii_hexdigit()));
    }
    let whole = run(chars, at, digit);
    let mut end = whole;
    if is(end, &|c| c == '.') && is(end + 1, &digit) {
        end = run(chars, end + 1, digit);
    }
    if is(end, &|c| matches!(c, 'e' | 'E')) {
        let sign = usize::from(is(end + 1, &|c| matches!(c, '+' | '-')));
        if is(end + 1 + sign, &digit) {
            end = run(chars, end + 1 + sign, digit);
        }
    }
    if end > whole {
        (Some(set::NUM_FLOAT), end)
    } else {
        suffixed(whole)
    }
}

/// The end of the string whose quote is at `at`, or where it cannot go on.
fn string(chars: &[char], at: usize, raw: bool) -> Result<usize, usize> {
    let quote = chars[at];
    let closes = |at: usize| chars.get(at) == Some(&quote);
    if closes(at + 1) {
        // Three quotes without their end are an empty string and a quote.
        let long = closes(at + 2).then(|| {
            body(
                chars,
                at + 3,
                raw,
                |at| (0..3).all(|i| closes(at + i)),
                false,
            )
        });
        return Ok(match long {
            Some(Ok(end)) => end + 3,
            _ => at + 2,
        });
    }
    body(chars, at + 1, raw, closes, true).map(|end| end + 1)
}

fn body(
    chars: &[char],
    mut at: usize,
    raw: bool,
    closes: impl Fn(usize) -> bool,
    one_line: bool,
) -> Result<usize, usize> {
    loop {
        if closes(at) {
            return Ok(at);
        }
        match chars.get(at) {
            None => return Err(at),
            Some('\n' | '\r') if one_line => return Err(at),
            Some('\\') if !raw => at = escape(chars, at + 1)?,
            Some(_) => at += 1,
        }
    }
}

/// The end of an escape sequence, after its backslash.
fn escape(chars: &[char], at: usize) -> Result<usize, usize> {
    let (width, radix) = match chars.get(at) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => (0, 16),
        Some('x' | 'X') => (2, 16),
        Some('u') => (4, 16),
        Some('U') => (8, 16),
        Some('0'..='3') => (2, 8),
        _ => return Err(at),
    };
    let end = at + 1 + width;
    match (at + 1..end).find(|i| !chars.get(*i).is_some_and(|c| c.is_digit(radix))) {
        Some(fail) => Err(fail),
        None => Ok(end),
    }
}
