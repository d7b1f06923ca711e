//! Regular expressions with Go's syntax and meaning, run by the `regex` crate.
//!
//! Both engines are linear-time and share most of the syntax, but not all of it: Go's `\d`, `\w` and
//! `\s` are ASCII, a `{` that starts no repetition is a literal, classes have no set operations, and
//! doubled repetitions are errors. A pattern is therefore read by Go's rules (`regexp/syntax`) and
//! written anew.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// Go refuses repetition counts above this.
// `maxRepeat`, unexported, in Go's `regexp/syntax/parse.go`.
const MAX_REPEAT: u32 = 1000;
/// How large a compiled program may become.
// Any user who may create a CRD can supply patterns, and each is kept for as long as the CRD exists. Go bounds the
// same by `maxSize` of the parsed expression.
const SIZE_LIMIT: usize = 4 << 20;
/// The named classes there are.
const POSIX: &str =
    "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit";
/// How deep groups may nest.
// Go allows 1000 (`maxHeight`). Both compilers recurse; 200 fits the stack of a
// worker thread, and real patterns have a handful.
const NEST_LIMIT: u32 = 200;

/// Compiles a Go pattern; the error is in Go's words.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, &[SIZE_LIMIT]).map(|(regex, _)| regex)
}

/// Compiles a Go pattern into a program of at most the last of the given sizes, and returns the index of
/// the size that sufficed.
pub(crate) fn compile_within(pattern: &str, sizes: &[usize]) -> Result<(Regex, usize), String> {
    let reader = Reader {
        text: pattern,
        at: 0,
    };
    let fail = |why: &str| format!("error parsing regexp: {why}");
    let translated = reader.translate().map_err(|why| fail(&why))?;
    for (index, size) in sizes.iter().enumerate() {
        let built = RegexBuilder::new(&translated)
            .size_limit(*size)
            .dfa_size_limit(SIZE_LIMIT)
            .nest_limit(NEST_LIMIT)
            .build();
        match built {
            Ok(regex) => return Ok((regex, index)),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => {
                return Err(fail(&fault("invalid or unsupported syntax", pattern)));
            }
        }
    }
    Err(fail("expression too large"))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// One member of a character class.
enum Member {
    Char(char),
    Set(String),
}

fn fault(code: &str, expression: &str) -> String {
    format!("{code}: `{expression}`")
}

fn literal(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        out.push(c);
    } else {
        // Every other ASCII character in hexadecimal: the crate gives meaning to characters that Go takes literally,
        // such as `&&` and `~~` in classes.
        let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
    }
}

/// The inside of the ASCII class behind a Perl escape, and whether it is negated.
fn perl(c: char) -> Option<(&'static str, bool)> {
    Some(match c {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        'w' => ("0-9A-Za-z_", false),
        'W' => ("0-9A-Za-z_", true),
        's' => ("\\t\\n\\x0c\\r\\x20", false),
        'S' => ("\\t\\n\\x0c\\r\\x20", true),
        _ => return None,
    })
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn translate(mut self) -> Result<String, String> {
        let mut out = String::with_capacity(self.text.len() + 16);
        let mut open = 0_u32;
        // Where the operand of a repetition may be: false at the start, after `(` and after `|`.
        let mut operand = false;
        // The repetition just read, for the error about doubled ones.
        let mut repeated: Option<usize> = None;
        while let Some(c) = self.peek() {
            let start = self.at;
            match c {
                '(' => {
                    let flags_only = self.group(&mut out)?;
                    if !flags_only {
                        open += 1;
                        if open > NEST_LIMIT {
                            return Err(fault("expression nests too deeply", self.text));
                        }
                        operand = false;
                    }
                    repeated = None;
                }
                ')' => {
                    if open == 0 {
                        return Err(fault("unexpected )", self.text));
                    }
                    open -= 1;
                    self.at += 1;
                    out.push(')');
                    (operand, repeated) = (true, None);
                }
                '|' => {
                    self.at += 1;
                    out.push('|');
                    (operand, repeated) = (false, None);
                }
                '*' | '+' | '?' | '{' => {
                    let Some(op) = self.repetition(c)? else {
                        self.at += 1;
                        literal(&mut out, c);
                        (operand, repeated) = (true, None);
                        continue;
                    };
                    if !operand {
                        return Err(fault("missing argument to repetition operator", op));
                    }
                    if let Some(first) = repeated {
                        let both = self.text.get(first..self.at).unwrap_or_default();
                        return Err(fault("invalid nested repetition operator", both));
                    }
                    out.push_str(op);
                    repeated = Some(start);
                }
                '[' => {
                    self.class(&mut out)?;
                    (operand, repeated) = (true, None);
                }
                '\\' => {
                    self.escape(&mut out)?;
                    (operand, repeated) = (true, None);
                }
                '^' | '$' | '.' => {
                    self.at += 1;
                    out.push(c);
                    (operand, repeated) = (true, None);
                }
                c => {
                    self.at += c.len_utf8();
                    literal(&mut out, c);
                    (operand, repeated) = (true, None);
                }
            }
        }
        if open > 0 {
            return Err(fault("missing closing )", self.text));
        }
        Ok(out)
    }

    /// The repetition operator at hand with its `?`, or `None` for a `{` that is a literal.
    fn repetition(&mut self, c: char) -> Result<Option<&'a str>, String> {
        let start = self.at;
        if c == '{' {
            let Some(end) = self.rest().find('}') else {
                return Ok(None);
            };
            let inside = self.rest().get(1..end).unwrap_or_default();
            let (low, high) = match inside.split_once(',') {
                None => (inside, Some(inside)),
                Some((low, "")) => (low, None),
                Some((low, high)) => (low, Some(high)),
            };
            let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            // Go reads no number with a leading zero here.
            let number = |s: &str| digits(s) && (s.len() == 1 || !s.starts_with('0'));
            if !number(low) || !high.is_none_or(number) {
                return Ok(None);
            }
            let whole = self.rest().get(..=end).unwrap_or_default();
            let low = low.parse().unwrap_or(u32::MAX);
            let high = high.map_or(low, |h| h.parse().unwrap_or(u32::MAX));
            if low > MAX_REPEAT || high > MAX_REPEAT || low > high {
                return Err(fault("invalid repeat count", whole));
            }
            self.at += end + 1;
        } else {
            self.at += 1;
        }
        if self.peek() == Some('?') {
            self.at += 1;
        }
        Ok(self.text.get(start..self.at))
    }

    /// Copies a group opening; true if it only sets flags.
    fn group(&mut self, out: &mut String) -> Result<bool, String> {
        if !self.rest().starts_with("(?") {
            self.at += 1;
            out.push('(');
            return Ok(false);
        }
        let rest = self.rest();
        let named = rest
            .strip_prefix("(?P<")
            .or_else(|| rest.strip_prefix("(?<"));
        if let Some(after) = named
            && !after.starts_with(['=', '!'])
        {
            let Some(end) = rest.find('>') else {
                return Err(fault("invalid named capture", rest));
            };
            let name = after.split('>').next().unwrap_or_default();
            let valid =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !valid {
                return Err(fault(
                    "invalid named capture",
                    rest.get(..=end).unwrap_or_default(),
                ));
            }
            // Names are never used: a plain group avoids the other engine's rules about them.
            self.at += end + 1;
            out.push('(');
            return Ok(false);
        }
        let mut length = 2;
        for c in rest.get(2..).unwrap_or_default().chars() {
            length += c.len_utf8();
            match c {
                'i' | 'm' | 's' | 'U' | '-' => {}
                ':' | ')' => {
                    let opening = rest.get(..length).unwrap_or_default();
                    if opening.ends_with("-:") || opening.ends_with("-)") {
                        break;
                    }
                    out.push_str(opening);
                    self.at += length;
                    return Ok(c == ')');
                }
                _ => break,
            }
        }
        let shown = rest.get(..length).unwrap_or(rest);
        Err(fault("invalid or unsupported Perl syntax", shown))
    }

    fn escape(&mut self, out: &mut String) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.next() else {
            return Err(fault("trailing backslash at end of expression", ""));
        };
        match c {
            'A' | 'z' => {
                out.push('\\');
                out.push(c);
            }
            // Go's word boundary is ASCII; the crate's follows Unicode by default.
            'b' => out.push_str("(?-u:\\b)"),
            'B' => out.push_str("\\B"),
            'Q' => {
                let rest = self.rest();
                let (quoted, length) = rest
                    .find("\\E")
                    .map_or((rest, rest.len()), |end| (&rest[..end], end + 2));
                quoted.chars().for_each(|c| literal(out, c));
                self.at += length;
            }
            'C' => return Err(fault("invalid escape sequence", "\\C")),
            _ => {
                self.at = start;
                match self.member()? {
                    Member::Char(c) => literal(out, c),
                    Member::Set(set) => {
                        let _ = write!(out, "[{set}]");
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads one escape or character that stands for characters.
    fn member(&mut self) -> Result<Member, String> {
        let start = self.at;
        let c = self
            .next()
            .ok_or_else(|| fault("missing closing ]", self.text))?;
        if c != '\\' {
            return Ok(Member::Char(c));
        }
        let Some(c) = self.next() else {
            return Err(fault("trailing backslash at end of expression", ""));
        };
        if let Some((set, negated)) = perl(c) {
            return Ok(Member::Set(if negated {
                format!("[^{set}]")
            } else {
                set.to_owned()
            }));
        }
        match c {
            'p' | 'P' => return self.property(start, c == 'P'),
            'a' => return Ok(Member::Char('\x07')),
            'f' => return Ok(Member::Char('\x0c')),
            't' => return Ok(Member::Char('\t')),
            'n' => return Ok(Member::Char('\n')),
            'r' => return Ok(Member::Char('\r')),
            'v' => return Ok(Member::Char('\x0b')),
            'x' => return self.hex(start),
            '0'..='7' => {
                // \0 to \377; a single digit other than 0 would be a back reference.
                let mut value = c.to_digit(8).unwrap_or_default();
                let next = self.peek().and_then(|n| n.to_digit(8));
                if c == '0' || next.is_some() {
                    for _ in 0..2 {
                        let Some(digit) = self.peek().and_then(|n| n.to_digit(8)) else {
                            break;
                        };
                        value = value * 8 + digit;
                        self.at += 1;
                    }
                    if let Some(c) = char::from_u32(value) {
                        return Ok(Member::Char(c));
                    }
                }
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => return Ok(Member::Char(c)),
            _ => {}
        }
        Err(fault(
            "invalid escape sequence",
            self.text.get(start..self.at).unwrap_or_default(),
        ))
    }

    fn hex(&mut self, start: usize) -> Result<Member, String> {
        let braces = self.rest().strip_prefix('{');
        let digits = match braces {
            Some(after) => after.split('}').next().unwrap_or_default(),
            None => self.rest().get(..2).unwrap_or_default(),
        };
        self.at += digits.len() + usize::from(braces.is_some());
        let c = u32::from_str_radix(digits, 16)
            .ok()
            .and_then(char::from_u32);
        match c {
            Some(c) if braces.is_none() || self.next() == Some('}') => Ok(Member::Char(c)),
            _ => {
                let shown = self.text.get(start..self.at).unwrap_or_default();
                Err(fault("invalid escape sequence", shown))
            }
        }
    }

    fn property(&mut self, start: usize, negated: bool) -> Result<Member, String> {
        let name = match self.next() {
            Some('{') => {
                let name = self.rest().split('}').next().unwrap_or_default();
                self.at += (name.len() + 1).min(self.rest().len());
                name
            }
            Some(c) => self
                .text
                .get(self.at - c.len_utf8()..self.at)
                .unwrap_or_default(),
            None => "",
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, !negated),
            None => (name, negated),
        };
        let set = format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' });
        if name.is_empty() || Regex::new(&set).is_err() {
            let shown = self.text.get(start..self.at).unwrap_or_default();
            return Err(fault("invalid character class range", shown));
        }
        Ok(Member::Set(set))
    }

    fn class(&mut self, out: &mut String) -> Result<(), String> {
        let whole = self.rest();
        self.at += 1;
        out.push('[');
        if self.peek() == Some('^') {
            self.at += 1;
            out.push('^');
        }
        let mut first = true;
        loop {
            match self.peek() {
                None => return Err(fault("missing closing ]", whole)),
                Some(']') if !first => {
                    self.at += 1;
                    out.push(']');
                    return Ok(());
                }
                _ => {}
            }
            first = false;
            if let Some(end) = self
                .rest()
                .strip_prefix("[:")
                .and_then(|_| self.rest().find(":]"))
            {
                let name = self.rest().get(..end + 2).unwrap_or_default();
                let bare = name.trim_start_matches("[:").trim_start_matches('^');
                if !POSIX
                    .split(' ')
                    .any(|class| bare.strip_suffix(":]") == Some(class))
                {
                    return Err(fault("invalid character class range", name));
                }
                out.push_str(name);
                self.at += end + 2;
                continue;
            }
            let start = self.at;
            let low = match self.member().map_err(|e| {
                if self.rest().is_empty() && e.starts_with("missing") {
                    fault("missing closing ]", whole)
                } else {
                    e
                }
            })? {
                Member::Set(set) => {
                    out.push_str(&set);
                    continue;
                }
                Member::Char(c) => c,
            };
            literal(out, low);
            if self.rest().starts_with('-')
                && !self.rest().starts_with("-]")
                && self.rest().len() > 1
            {
                self.at += 1;
                let high_at = self.at;
                let high = match self.member()? {
                    Member::Char(high) if high >= low => high,
                    Member::Set(_) => {
                        let shown = self.text.get(high_at..self.at).unwrap_or_default();
                        return Err(fault("invalid escape sequence", shown));
                    }
                    Member::Char(_) => {
                        let shown = self.text.get(start..self.at).unwrap_or_default();
                        return Err(fault("invalid character class range", shown));
                    }
                };
                out.push('-');
                literal(out, high);
            }
        }
    }
}
