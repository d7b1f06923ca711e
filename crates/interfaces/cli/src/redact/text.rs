//! Texts: values of fields, messages, logs, and documents within them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

use super::{Found, MAX_NESTING, REDACTED, Rule, encoded, objects, scan};

/// Every text with a secret matches this. Most strings of a cluster do not, and are done after this
/// one match.
static TRIGGER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = "pass|pwd|pw\\b|secret|token|cred|key|auth|cookie|bearer|basic|jwt|otp|psk|dsn|sas|userdata|networkdata";
    let shapes = r"-----BEGIN|PuTTY|://|eyJ|A[KS]IA|AIza|ya29|gh[pousr]_|github_pat|glpat|xox[a-z]|[sr]k_(?:live|test)|npm_|dop_v1|pypi-|SG\.|hvs\.|GOCSPX|sha256~|\$[0-9a-z]+\$|8Q~|\s-[pua]|(?:^|[^.\w])[a-z0-9]{6}\.[a-z0-9]{16}";
    let encoded = "[A-Za-z0-9+/_-]{20}";
    Regex::new(&format!("(?i:{words})|{shapes}|^-[pua]|{encoded}")).ok()
});

struct Shape {
    regex: Regex,
    rule: Rule,
    instead: &'static str,
}

/// Secrets that are recognised by their form, with the rule and the replacement.
static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let key = |regex| (regex, Rule::PrivateKey, REDACTED);
    let token = |regex| (regex, Rule::Token, REDACTED);
    let shapes: [(&str, Rule, &'static str); 21] = [
        key(
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        ),
        key(r"(?s)PuTTY-User-Key-File-\d:.*"),
        key(r"AGE-SECRET-KEY-1[0-9A-Z]{20,}"),
        token(r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*"),
        (
            r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}",
            Rule::Header,
            "$1 <redacted>",
        ),
        // AWS, Google, Azure.
        token(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"),
        token(r"\bAIza[0-9A-Za-z_-]{35}"),
        token(r"\bya29\.[0-9A-Za-z_-]{10,}"),
        token(r"\bGOCSPX-[0-9A-Za-z_-]{10,}"),
        token(r"[0-9A-Za-z_~.-]{3}8Q~[0-9A-Za-z_~.-]{30,}"),
        // Forges, registries, chat, payment.
        token(
            r"\b(?:gh[pousr]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,})",
        ),
        token(r"\bxox[a-z]-[0-9A-Za-z-]{8,}"),
        (
            r"(hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]+",
            Rule::Token,
            "$1<redacted>",
        ),
        token(r"\b[sr]k_(?:live|test)_[0-9A-Za-z]{10,}"),
        token(r"\b(?:npm_[0-9A-Za-z]{30,}|dop_v1_[0-9a-f]{32,}|pypi-[0-9A-Za-z_-]{16,})"),
        token(r"\bSG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}"),
        token(r"\bhv[sbr]\.[0-9A-Za-z_-]{20,}"),
        // OpenShift's tokens, and those that nodes join with (kubeadm).
        token(r"sha256~[A-Za-z0-9_-]{20,}"),
        (
            r"(^|[^.\w/-])[a-z0-9]{6}\.[a-z0-9]{16}([^.\w/-]|$)",
            Rule::Token,
            "$1<redacted>$2",
        ),
        // crypt(3), bcrypt, argon2: `$6$salt$hash`.
        token(
            r"\$(?:[0-9][0-9a-z]?|y|gy|sha1|argon2[a-z]*|pbkdf2[a-z0-9-]*)\$[./A-Za-z0-9=,+$-]{8,}",
        ),
        // `login x password y` of .netrc has no separators.
        (
            r"(?i)(login\s+\S+\s+password\s+)\S+",
            Rule::NamedField,
            "$1<redacted>",
        ),
    ];
    let shapes = shapes.into_iter();
    // A test checks that every expression compiles.
    shapes
        .filter_map(|(regex, rule, instead)| {
            let regex = Regex::new(regex).ok()?;
            Some(Shape {
                regex,
                rule,
                instead,
            })
        })
        .collect()
});

/// Number of shapes that compiled, for the test that all of them do.
#[cfg(test)]
pub(super) fn shapes() -> usize {
    SHAPES.len()
}

/// A text without secrets. `nesting` counts the documents that this text is within.
pub(super) fn clean<'a>(input: &'a str, nesting: usize, found: &mut Found) -> Cow<'a, str> {
    if !is_suspect(input) {
        return Cow::Borrowed(input);
    }
    // Removed rather than left: a document in this many layers is one that hides something, or a
    // loop.
    if nesting > MAX_NESTING {
        found.add(Rule::Encoded);
        return Cow::Borrowed(REDACTED);
    }
    // Documents before expressions: in JSON a value has a name, and its end is known. The
    // expressions would have to guess both.
    if let Some(document) = json(input, nesting, found) {
        return Cow::Owned(document);
    }
    let mut text = Cow::Borrowed(input);
    if input.contains('\n')
        && let Some(lines) = json_lines(input, nesting, found)
    {
        text = Cow::Owned(lines);
    }
    for step in [
        with_shapes,
        scan::urls,
        scan::xml,
        scan::assignments,
        scan::flags,
    ] {
        if let Some(clean) = step(&text, found) {
            text = Cow::Owned(clean);
        }
    }
    if let Some(clean) = encoded::clean(&text, nesting, found) {
        text = Cow::Owned(clean);
    }
    text
}

/// The same for code and schemas, where `token = x` is not an assignment: only secrets that are
/// recognised by their form.
pub(super) fn clean_code<'a>(input: &'a str, found: &mut Found) -> Cow<'a, str> {
    if !is_suspect(input) {
        return Cow::Borrowed(input);
    }
    let mut text = Cow::Borrowed(input);
    for step in [with_shapes, scan::urls] {
        if let Some(clean) = step(&text, found) {
            text = Cow::Owned(clean);
        }
    }
    text
}

/// Whether any rule could apply. Digests and UIDs, which are in every object, are spared the search for base64.
fn is_suspect(input: &str) -> bool {
    if input.len() < 4 || input == REDACTED {
        return false;
    }
    let bare = input.strip_prefix("sha256:").unwrap_or(input);
    if bare.bytes().all(|c| c.is_ascii_hexdigit() || c == b'-') {
        return false;
    }
    // Without the expression every text is searched.
    TRIGGER.as_ref().is_none_or(|it| it.is_match(input))
}

/// A JSON document with secrets removed; `None` if the text is not JSON or its fields hold no
/// secret.
fn json(input: &str, nesting: usize, found: &mut Found) -> Option<String> {
    let trimmed = input.trim();
    if !trimmed.starts_with(['{', '[', '"']) {
        return None;
    }
    let mut document: Value = serde_json::from_str(trimmed).ok()?;
    let before = document.clone();
    objects::clean(&mut document, nesting + 1, found);
    (document != before).then(|| document.to_string())
}

/// Lines of JSON, as in logs.
fn json_lines(input: &str, nesting: usize, found: &mut Found) -> Option<String> {
    let mut changed = false;
    let lines = input.split('\n').map(|line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let clean = line
            .starts_with('{')
            .then(|| json(line, nesting, found))
            .flatten();
        changed |= clean.is_some();
        clean.map_or(Cow::Borrowed(line), Cow::Owned)
    });
    let lines: Vec<Cow<'_, str>> = lines.collect();
    changed.then(|| lines.join("\n"))
}

fn with_shapes(input: &str, found: &mut Found) -> Option<String> {
    let mut text = Cow::Borrowed(input);
    for shape in SHAPES.iter() {
        let mut count = 0;
        let replaced = shape.regex.replace_all(&text, |captures: &Captures<'_>| {
            let mut instead = String::new();
            captures.expand(shape.instead, &mut instead);
            // An earlier replacement is not counted again.
            if instead != captures[0] {
                count += 1;
            }
            instead
        });
        if count > 0 {
            text = Cow::Owned(replaced.into_owned());
            (0..count).for_each(|_| found.add(shape.rule));
        }
    }
    matches!(text, Cow::Owned(_)).then(|| text.into_owned())
}
