//! Reading label selectors (`labels.Parse`).

use std::collections::BTreeSet;

use super::label::{Operator, Requirement, check_key};
use crate::field::{Path, aggregate};

/// A piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Word,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

/// Reads the requirements of a selector.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser {
        tokens: scan(text),
        position: 0,
    };
    let mut requirements = Vec::new();
    loop {
        let (token, literal) = parser.peek();
        match token {
            Token::Word | Token::Not => {
                let requirement = parser
                    .requirement()
                    .map_err(|error| format!("unable to parse requirement: {error}"))?;
                requirements.push(requirement);
                let (token, literal) = parser.next();
                match token {
                    Token::End => return Ok(requirements),
                    Token::Comma => {
                        let (token, literal) = parser.peek();
                        if token != Token::Word && token != Token::Not {
                            return Err(format!(
                                "found '{literal}', expected: identifier after ','"
                            ));
                        }
                    }
                    _ => {
                        return Err(format!(
                            "found '{literal}', expected: ',' or 'end of string'"
                        ));
                    }
                }
            }
            Token::End => return Ok(requirements),
            _ => {
                return Err(format!(
                    "found '{literal}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
    }
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Splits the text; the last token is always `End`. A NUL ends a word, and the text if it stands
/// where a token would begin, as it does upstream.
fn scan(text: &str) -> Vec<(Token, &str)> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next().filter(|c| *c != '\0') else {
            tokens.push((Token::End, ""));
            return tokens;
        };
        let (token, length) = if is_symbol(first) {
            symbol(rest)
        } else {
            let ends = |c: char| is_symbol(c) || is_space(c) || c == '\0';
            let length = rest.find(ends).unwrap_or(rest.len());
            (word(&rest[..length]), length)
        };
        tokens.push((token, &rest[..length]));
        rest = &rest[length..];
        if token == Token::Word || token == Token::In || token == Token::NotIn {
            rest = rest.strip_prefix('\0').unwrap_or(rest);
        }
    }
}

fn word(text: &str) -> Token {
    match text {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Word,
    }
}

/// The operator at the start of `text` and its length.
fn symbol(text: &str) -> (Token, usize) {
    // Two characters before one: `==` would otherwise be read as two `=`.
    let known = [
        ("==", Token::DoubleEquals),
        ("!=", Token::NotEquals),
        ("=", Token::Equals),
        ("!", Token::Not),
        ("(", Token::Open),
        (")", Token::Close),
        (",", Token::Comma),
        (">", Token::Greater),
    ];
    known
        .into_iter()
        .find(|(literal, _)| text.starts_with(literal))
        .map_or((Token::Less, 1), |(literal, token)| (token, literal.len()))
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    position: usize,
}

impl<'a> Parser<'a> {
    /// The token at hand, `in` and `notin` taken as words.
    fn peek(&self) -> (Token, &'a str) {
        let (token, literal) = self
            .tokens
            .get(self.position)
            .copied()
            .unwrap_or((Token::End, ""));
        match token {
            // Only `operator` reads the token itself, so both words are keywords in that
            // one position: `in in (notin)` is valid.
            Token::In | Token::NotIn => (Token::Word, literal),
            _ => (token, literal),
        }
    }

    fn next(&mut self) -> (Token, &'a str) {
        let found = self.peek();
        self.position += 1;
        found
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut literal) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, literal) = self.next();
        }
        if token != Token::Word {
            return Err(format!("found '{literal}', expected: identifier"));
        }
        let key = literal;
        if let Some(error) = check_key(key, &Path::root()) {
            return Err(error.to_string());
        }
        let bare = matches!(self.peek().0, Token::End | Token::Comma);
        let (operator, values) = if negated {
            (Operator::DoesNotExist, BTreeSet::new())
        } else if bare {
            (Operator::Exists, BTreeSet::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                Operator::In | Operator::NotIn => self.values()?,
                _ => self.exact_value()?,
            };
            (operator, values)
        };
        let values = values.into_iter().map(str::to_owned).collect();
        Requirement::new(key, operator, values, &Path::root()).map_err(|errors| aggregate(&errors))
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let (token, literal) = self
            .tokens
            .get(self.position)
            .copied()
            .unwrap_or((Token::End, ""));
        self.position += 1;
        match token {
            Token::In => Ok(Operator::In),
            Token::Equals => Ok(Operator::Equals),
            Token::DoubleEquals => Ok(Operator::DoubleEquals),
            Token::Greater => Ok(Operator::GreaterThan),
            Token::Less => Ok(Operator::LessThan),
            Token::NotIn => Ok(Operator::NotIn),
            Token::NotEquals => Ok(Operator::NotEquals),
            _ => Err(format!(
                "found '{literal}', expected: in, notin, =, ==, !=, gt, lt"
            )),
        }
    }

    /// `(a,b)`; values may be empty.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let (token, literal) = self.next();
        if token != Token::Open {
            return Err(format!("found '{literal}' expected: '('"));
        }
        let (token, literal) = self.peek();
        match token {
            Token::Word | Token::Comma => {
                let values = self.value_list()?;
                self.position += 1;
                Ok(values)
            }
            Token::Close => {
                self.position += 1;
                // `x in ()` asks for the empty value and not for an impossible one;
                // upstream's `parseValues` does the same.
                Ok(BTreeSet::from([""]))
            }
            _ => Err(format!(
                "found '{literal}', expected: ',', ')' or identifier"
            )),
        }
    }

    /// The values up to, not including, the closing parenthesis.
    fn value_list(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let mut values = BTreeSet::new();
        loop {
            let (token, literal) = self.next();
            let (following, following_literal) = self.peek();
            match token {
                Token::Word => {
                    values.insert(literal);
                    match following {
                        Token::Comma => {}
                        Token::Close => return Ok(values),
                        _ => {
                            return Err(format!(
                                "found '{following_literal}', expected: ',' or ')'"
                            ));
                        }
                    }
                }
                Token::Comma => {
                    // `(,a)`: an empty value before the first comma.
                    if values.is_empty() {
                        values.insert("");
                    }
                    match following {
                        Token::Close => {
                            values.insert("");
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert("");
                        }
                        _ => {}
                    }
                }
                _ => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<&'a str>, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([""]));
        }
        match self.next() {
            (Token::Word, literal) => Ok(BTreeSet::from([literal])),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }
}
