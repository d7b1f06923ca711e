//! Values after a secret name: `name: value`, `--name value`, `<Name>value</Name>`, `?name=value`.
//!
//! Each function returns the text without such values, or `None` if it has none.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::names::{is_header, is_password, is_secret};
use super::{Found, REDACTED, Rule};

/// A name and what separates it from its value. An escaped line break before a name is not part of it.
static SEPARATED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let expression =
        r#"(?:\\+[nrt])?([A-Za-z0-9_./~-]+)(\\*["'`]?\s*(?:=>|:=|[=:]|%3[DdAa])[ \t]*)"#;
    Regex::new(expression).ok()
});

/// User information of URLs. The password may contain `@`, and `/` if it was not encoded.
static USER_INFO: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(://)([^\s/?#"'<>]*@|[^\s/@:"'<>]+:[^\s@"'<>]*@)(sha\d+:)?"#).ok()
});

/// Secret query parameters whose names mean that only in a URL: shared access signatures, signed
/// requests, API keys.
static QUERY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names = "sig|signature|key|code|x-amz-[a-z-]+|x-goog-[a-z-]+|access_key_id|awsaccesskeyid|auth|session|sv";
    Regex::new(&format!(r#"(?i)([?&](?:amp;)?(?:{names})=)[^&\s"'<>\\]+"#)).ok()
});

static ELEMENT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"<([A-Za-z_][A-Za-z0-9_.:-]*)(?:\s[^<>]*)?>").ok());

/// A flag and the word after it; `'` and `"` may quote a word.
static FLAG: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = r#"(\\*"[^"]*"|\\*'[^']*'|\S+)"#;
    Regex::new(&format!(
        r#"(^|[\s"'`(;|&,\[])(--?[A-Za-z][A-Za-z0-9_.-]*)(\\*["']?,?\s+){word}"#
    ))
    .ok()
});

/// A short flag with its value in the same word: `-pVALUE`.
static ATTACHED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(^|[\s"'`(;|&,\[])-p([^\s"'`]+)"#).ok());

/// `echo user:password | chpasswd`.
static CHPASSWD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"([A-Za-z0-9_.-]+:)([^\s"'|]+)(\\*["']?\s*\|\s*(?:sudo\s+)?chpasswd)"#).ok()
});

/// Flags of a single dash that begin like `-p`, and are words of their own.
const LONG_FLAGS: [&str; 24] = [
    "age", "ath", "aths", "attern", "eriod", "id", "idfile", "latform", "lugin", "olicy", "ool",
    "ort", "orts", "prof", "refix", "rint", "riority", "rocess", "rofile", "roject", "rotocol",
    "rovider", "roxy", "ull",
];

/// Removes user information and secret parameters of URLs.
pub(super) fn urls(input: &str, found: &mut Found) -> Option<String> {
    let mut text = None;
    if input.contains("://")
        && let Some(regex) = USER_INFO.as_ref()
    {
        text = replaced(regex, input, Rule::Url, found, |captures| {
            // An image with a port and a digest: `docker://host:5000/name@sha256:...`.
            let is_digest = captures.get(3).is_some();
            (!is_digest && &captures[2] != "<redacted>@").then(|| "://<redacted>@".to_owned())
        });
    }
    let now = text.as_deref().unwrap_or(input);
    if now.contains('?')
        && let Some(regex) = QUERY.as_ref()
    {
        let clean = replaced(regex, now, Rule::Url, found, |captures| {
            let instead = format!("{}{REDACTED}", &captures[1]);
            (instead != captures[0]).then_some(instead)
        });
        text = clean.or(text);
    }
    text
}

/// Removes the content of elements with a secret name.
pub(super) fn xml(input: &str, found: &mut Found) -> Option<String> {
    if !input.contains("</") {
        return None;
    }
    let elements = ELEMENT.as_ref()?;
    let mut clean = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(captures) = elements.captures_at(input, at) {
        let whole = captures.get(0)?;
        at = whole.end();
        let name = &captures[1];
        let local = name.rsplit(':').next().unwrap_or(name);
        if whole.as_str().ends_with("/>") || !is_secret(local) {
            continue;
        }
        // Without an end tag everything after it is removed.
        let end = input[at..].find(&format!("</{name}"));
        let end = end.map_or(input.len(), |it| at + it);
        if &input[at..end] != REDACTED {
            clean.push_str(&input[done..at]);
            clean.push_str(REDACTED);
            found.add(Rule::Xml);
            done = end;
        }
        at = end;
    }
    (done > 0).then(|| clean + &input[done..])
}

/// Removes values behind `=` and `:`.
pub(super) fn assignments(input: &str, found: &mut Found) -> Option<String> {
    let separated = SEPARATED.as_ref()?;
    let mut clean = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(captures) = separated.captures_at(input, at) {
        let (whole, name) = (captures.get(0)?, captures.get(1)?);
        // Not after the value: it may have a name of its own, as in `--from-literal=password=x`.
        at = whole.end();
        let value = is_secret(name.as_str())
            .then(|| value(input, name.range(), at))
            .flatten();
        let Some(value) = value else {
            continue;
        };
        clean.push_str(&input[done..value.start]);
        clean.push_str(REDACTED);
        found.add(if is_header(name.as_str()) {
            Rule::Header
        } else {
            Rule::NamedField
        });
        done = value.end;
        at = value.end;
    }
    (done > 0).then(|| clean + &input[done..])
}

/// Where the value of a name is, if there is one to remove.
fn value(
    input: &str,
    name: std::ops::Range<usize>,
    start: usize,
) -> Option<std::ops::Range<usize>> {
    let rest = &input[start..];
    if let Some(quoted) = quoted(rest) {
        let inner = &rest[quoted.clone()];
        let removed = inner.is_empty() || inner == REDACTED;
        return (!removed).then(|| start + quoted.start..start + quoted.end);
    }
    let line_end = rest.find(['\n', '\r']).unwrap_or(rest.len());
    let line = &rest[..line_end];
    let before = &input[..name.start];
    let line_start = before.rfind('\n').map_or(0, |it| it + 1);
    // YAML, properties and headers: the name is the first of its line, and the value goes to its end.
    let leads = before[line_start..]
        .chars()
        .all(|c| c.is_whitespace() || matches!(c, '-' | '"' | '\'' | '#'));
    let indicator = line.split('#').next().unwrap_or_default().trim();
    let is_block = indicator
        .strip_prefix(['|', '>'])
        .is_some_and(|it| it.chars().all(|c| matches!(c, '+' | '-' | '0'..='9')));
    if leads && (indicator.is_empty() || is_block) {
        let indent = name.start - line_start;
        return block(input, start + line_end, indent);
    }
    let word = line.split_whitespace().next()?;
    let plain = word.trim_end_matches([',', ';', '}', ']', ')']);
    // `tokens: 100` is a limit; `password: 123456` is a password.
    let is_number = plain.parse::<f64>().is_ok() && !is_password(&input[name.clone()]);
    if word.starts_with(['{', '[', '&'])
        || word.starts_with("map[")
        || plain.is_empty()
        || matches!(plain, "true" | "false" | "null" | "nil" | REDACTED)
        || plain.starts_with(REDACTED)
        || is_number
    {
        return None;
    }
    let length = if leads || is_header(&input[name]) {
        line.trim_end().len()
    } else {
        line.len() - line.trim_start().len() + word.len()
    };
    Some(start..start + length)
}

/// The lines that belong to a name by their indentation.
fn block(input: &str, start: usize, indent: usize) -> Option<std::ops::Range<usize>> {
    let mut end = start;
    let mut first = None;
    for line in input[start..].split_inclusive('\n') {
        let content = line.trim();
        let depth = line.len() - line.trim_start().len();
        let belongs = depth > indent || (depth == indent && content.starts_with("- "));
        if !content.is_empty() && !belongs {
            break;
        }
        if !content.is_empty() && first.is_none() {
            // A map has names of its own.
            let is_map = content.split_once(':').is_some_and(|(name, _)| {
                !name.is_empty() && !name.contains(char::is_whitespace) && content.ends_with(':')
            });
            if is_map || content == REDACTED {
                return None;
            }
            first = Some(end + depth);
        }
        end += line.len();
    }
    first.map(|first| first..start + input[start..end].trim_end().len())
}

/// The text between quotes, which may be escaped where a document is quoted in another. Without an
/// end quote it is the rest.
fn quoted(rest: &str) -> Option<std::ops::Range<usize>> {
    let escapes = rest.len() - rest.trim_start_matches('\\').len();
    let quote = rest[escapes..].chars().next()?;
    if !matches!(quote, '"' | '\'' | '`') {
        return None;
    }
    let start = escapes + 1;
    let ends = rest[start..].match_indices(quote).find(|(at, _)| {
        let before = &rest[start..start + at];
        let escaped = before.len() - before.trim_end_matches('\\').len();
        // In `"a\\"` the backslash is escaped, not the quote.
        escaped == escapes || (escapes == 0 && escaped.is_multiple_of(2))
    });
    let end = ends.map_or(rest.len(), |(at, _)| start + at - escapes.min(at));
    Some(start..end)
}

/// Removes the words after secret flags, and users' passwords that are piped to chpasswd.
pub(super) fn flags(input: &str, found: &mut Found) -> Option<String> {
    let mut text: Option<String> = None;
    if let Some(regex) = CHPASSWD.as_ref() {
        text = replaced(regex, input, Rule::CommandLine, found, |captures| {
            (&captures[2] != REDACTED)
                .then(|| format!("{}{REDACTED}{}", &captures[1], &captures[3]))
        });
    }
    let now = text.as_deref().unwrap_or(input);
    text = followed(now, found).or(text);
    if let Some(regex) = ATTACHED.as_ref() {
        let now = text.as_deref().unwrap_or(input);
        let clean = replaced(regex, now, Rule::CommandLine, found, |captures| {
            is_attached(&captures[2]).then(|| format!("{}-p{REDACTED}", &captures[1]))
        });
        text = clean.or(text);
    }
    text
}

/// Removes the words after secret flags. The word after another flag may be a command line of its own, as in
/// `sh -c 'login --token x'`.
fn followed(input: &str, found: &mut Found) -> Option<String> {
    let flags = FLAG.as_ref()?;
    let mut clean = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(captures) = flags.captures_at(input, at) {
        let (flag, word) = (captures.get(2)?, captures.get(4)?);
        // Not after the word: it may itself be a flag with a value.
        at = flag.end();
        let is_removed = word.as_str().contains(REDACTED);
        if is_removed || !takes_secret(flag.as_str(), word.as_str(), input) {
            continue;
        }
        clean.push_str(&input[done..word.start()]);
        clean.push_str(REDACTED);
        found.add(Rule::CommandLine);
        done = word.end();
        at = done;
    }
    (done > 0).then(|| clean + &input[done..])
}

/// Whether the word after a flag is a secret, in this command line.
pub(super) fn takes_secret(flag: &str, value: &str, line: &str) -> bool {
    match flag {
        "-p" => true,
        "-u" => value.contains(':'),
        // Short flags mean different things in every program; these two are passwords in the
        // clients of redis and LDAP, and removing the word after every `-a` would leave no command
        // line readable.
        "-a" => line.contains("redis"),
        "-w" => line.contains("ldap"),
        _ => flag.starts_with('-') && !flag.contains('=') && is_secret(flag),
    }
}

/// Whether what follows `-p` in the same word is its value, not the rest of a longer flag.
fn is_attached(rest: &str) -> bool {
    let name = rest.split('=').next().unwrap_or(rest);
    let word = name.split('-').next().unwrap_or(name);
    let is_long = LONG_FLAGS.contains(&word);
    // `-password=x` and the like are assignments.
    let is_removed = rest.starts_with(REDACTED) || rest.ends_with(REDACTED);
    !(is_long || is_removed || is_secret(&format!("p{name}")))
}

/// A text in which matches are replaced that the function has a replacement for.
fn replaced(
    regex: &Regex,
    input: &str,
    rule: Rule,
    found: &mut Found,
    instead: impl Fn(&Captures<'_>) -> Option<String>,
) -> Option<String> {
    let mut changed = false;
    let clean = regex.replace_all(input, |captures: &Captures<'_>| {
        if let Some(instead) = instead(captures) {
            changed = true;
            found.add(rule);
            instead
        } else {
            captures[0].to_owned()
        }
    });
    changed.then(|| clean.into_owned())
}
