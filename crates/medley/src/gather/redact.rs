//! Taking secrets out of what is collected.
//!
//! It errs on the side of taking out too much: whoever helps can ask for a value, but nobody can take one back.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

use crate::snapshot::LAST_APPLIED;

/// What is written instead.
pub(super) const REDACTED: &str = "<redacted>";

/// Fields that hold a secret, whatever is in them, if their name ends like this.
const ENDINGS: [&str; 11] = [
    "accesskey",
    "apikey",
    "authorization",
    "credentials",
    "dockerconfigjson",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "token",
];

/// What virtual machines are told at their first start: users, passwords, keys.
const USER_DATA: [&str; 4] = [
    "networkData",
    "networkDataBase64",
    "userData",
    "userDataBase64",
];

/// What looks like a secret in a text, and what to keep of it.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let words = "passw(?:or)?d|passphrase|token|secret|credential|api[-_]?key|access[-_]?key|private[-_]?key|authorization";
    [
        (
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)".to_owned(),
            REDACTED,
        ),
        (
            r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?".to_owned(),
            REDACTED,
        ),
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}".to_owned(), "$1 <redacted>"),
        (r"(://)[^/\s@]+@".to_owned(), "$1<redacted>@"),
        (
            format!(r#"(?i)((?:{words})[a-z0-9_.-]*\\?["']?\s*[=:]\s*)(\\?"[^"]*"|'[^']*'|[^\s,;&"'}}]+)"#),
            "$1<redacted>",
        ),
    ]
    .into_iter()
    .filter_map(|(pattern, instead)| {
        // Every pattern is tried by a test.
        let regex = Regex::new(&pattern).ok()?;
        Some(Pattern { regex, instead })
    })
    .collect()
});

struct Pattern {
    regex: Regex,
    instead: &'static str,
}

/// A text without what looks like a secret; counts what was taken out.
pub(super) fn text(text: &str, taken: &mut usize) -> String {
    let mut text = text.to_owned();
    for pattern in PATTERNS.iter() {
        let mut found = 0;
        let replaced = pattern.regex.replace_all(&text, |captures: &Captures<'_>| {
            let mut instead = String::new();
            captures.expand(pattern.instead, &mut instead);
            // What was taken out before is not counted again.
            if instead != captures[0] {
                found += 1;
            }
            instead
        });
        if found > 0 {
            text = replaced.into_owned();
            *taken += found;
        }
    }
    text
}

/// An object without secrets; counts what was taken out.
pub(super) fn object(object: &mut Value, taken: &mut usize) {
    if object["kind"] == "Secret"
        && let Some(fields) = object.as_object_mut()
    {
        for field in ["data", "stringData"] {
            *taken += usize::from(fields.remove(field).is_some());
        }
    }
    if let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        // It holds the whole object once more, as text.
        *taken += usize::from(annotations.remove(LAST_APPLIED).is_some());
    }
    value(object, taken);
}

fn value(found: &mut Value, taken: &mut usize) {
    match found {
        Value::String(said) => {
            let clean = text(said, taken);
            if clean != *said {
                *said = clean;
            }
        }
        Value::Array(items) => list(items, taken),
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == "env" {
                    environment(field, taken);
                }
                if is_secret(name) && field.as_str().is_some_and(|it| !it.is_empty()) {
                    *field = REDACTED.into();
                    *taken += 1;
                } else {
                    value(field, taken);
                }
            }
        }
        _ => {}
    }
}

/// Words of a command line: a flag whose value is a secret is followed by it.
fn list(items: &mut [Value], taken: &mut usize) {
    let mut follows = false;
    for item in items {
        if follows && item.is_string() {
            *item = REDACTED.into();
            *taken += 1;
            follows = false;
            continue;
        }
        follows = item
            .as_str()
            .is_some_and(|word| word.starts_with('-') && !word.contains('=') && is_secret(word));
        value(item, taken);
    }
}

/// What variables are set to; where else a value comes from is no secret.
fn environment(variables: &mut Value, taken: &mut usize) {
    for variable in variables.as_array_mut().into_iter().flatten() {
        let value = variable.get_mut("value");
        if let Some(value) = value.filter(|it| it.as_str().is_some_and(|it| !it.is_empty())) {
            *value = REDACTED.into();
            *taken += 1;
        }
    }
}

fn is_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    USER_DATA.contains(&name) || ENDINGS.iter().any(|ending| plain.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clean(said: &str) -> String {
        text(said, &mut 0)
    }

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(PATTERNS.len(), 5);
    }

    #[test]
    fn what_looks_like_a_secret_is_taken_out_of_texts() {
        for (said, expected) in [
            ("--password=hunter2 --v=2", "--password=<redacted> --v=2"),
            (r#"{"token":"abc","a":1}"#, r#"{"token":<redacted>,"a":1}"#),
            ("DB_PASSWORD: 'hun ter2'", "DB_PASSWORD: <redacted>"),
            ("api-key = hunter2", "api-key = <redacted>"),
            (
                "authorization: Bearer abcdef.ghi",
                "authorization: <redacted> <redacted>",
            ),
            ("sent Bearer abcdef.ghi", "sent Bearer <redacted>"),
            ("jwt eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl!", "jwt <redacted>!"),
            (
                "pulling https://user:hunter2@quay.io/x",
                "pulling https://<redacted>@quay.io/x",
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest",
                "<redacted>\nrest",
            ),
            ("-----BEGIN PRIVATE KEY-----\nabc", "<redacted>"),
        ] {
            let found = clean(said);
            assert!(
                !found.contains("hunter2") && !found.contains("abc"),
                "{found}"
            );
            assert_eq!(found, expected, "{said}");
        }
    }

    #[test]
    fn what_helps_stays() {
        for said in [
            "sha256:5f0c1a2b3c4d5e6f",
            "quay.io/x/y@sha256:5f0c1a2b3c4d5e6f",
            "no node of arm64 supports EPYC-Rome",
            "docker://quay.io/containerdisks/fedora:43",
            "system:serviceaccount:medley-system:medley-operator",
        ] {
            assert_eq!(clean(said), said);
        }
    }

    #[test]
    fn objects_lose_their_secrets_and_nothing_else() {
        let mut pod = json!({
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "annotations": { LAST_APPLIED: "hunter2", "kept": "yes" },
            },
            "spec": {
                "automountServiceAccountToken": true,
                "containers": [{
                    "name": "c",
                    "args": ["--registry-token", "hunter2", "--name", "x"],
                    "env": [
                        { "name": "A", "value": "hunter2" },
                        { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
                    ],
                }],
                "volumes": [{ "name": "v", "secret": { "secretName": "s" } }],
                "userData": "hunter2",
            },
        });
        let mut taken = 0;
        object(&mut pod, &mut taken);
        assert_eq!(
            pod,
            json!({
                "kind": "Pod",
                "metadata": { "name": "p", "annotations": { "kept": "yes" } },
                "spec": {
                    "automountServiceAccountToken": true,
                    "containers": [{
                        "name": "c",
                        "args": ["--registry-token", REDACTED, "--name", "x"],
                        "env": [
                            { "name": "A", "value": REDACTED },
                            { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
                        ],
                    }],
                    "volumes": [{ "name": "v", "secret": { "secretName": "s" } }],
                    "userData": REDACTED,
                },
            })
        );
        assert_eq!(taken, 4);
        let mut secret = json!({ "kind": "Secret", "data": { "a": "hunter2" } });
        object(&mut secret, &mut taken);
        assert_eq!(secret, json!({ "kind": "Secret" }));
    }
}
