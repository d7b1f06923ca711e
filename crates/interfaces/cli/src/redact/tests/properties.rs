//! A secret in random carriers and nesting never appears in the output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Removed, object, text};

/// A password with special characters.
fn secret() -> impl Strategy<Value = String> {
    "[A-Za-z0-9]{4}[A-Za-z0-9!#$%+,.:;=?@_~-]{6,20}[A-Za-z0-9]{4}"
}

/// A text that carries the secret.
fn carried(secret: &str, by: usize) -> String {
    match by {
        0 => format!("password: {secret}"),
        1 => format!("connect --db-password={secret} --v=2"),
        2 => format!("login --token {secret} now"),
        3 => format!("<unattend><Password><Value>{secret}</Value></Password></unattend>"),
        4 => format!("https://user:{secret}@host.example/path"),
        5 => json!({ "auths": { "quay.io": { "auth": secret } } }).to_string(),
        6 => format!(
            "apiVersion: v1\nkind: Config\nusers:\n- user:\n    client-key-data: {secret}\n"
        ),
        7 => format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----"),
        8 => format!("Authorization: Custom {secret}"),
        9 => format!("msg=\"x\" api_key=\"{secret}\" level=info"),
        _ => format!("mysql -u root -p {secret} db"),
    }
}
const CARRIERS: usize = 11;

/// A text nested in another.
fn wrapped(inner: String, how: usize) -> String {
    match how {
        0 => STANDARD.encode(inner),
        1 => json!({ "a": [1, inner], "b": "x" }).to_string(),
        2 => json!(inner).to_string(),
        3 => format!("{}\n{inner}\nafter\n", json!({ "level": "info" })),
        _ => inner,
    }
}

/// An object that carries the text.
fn placed(inner: &str, secret: &str, at: usize) -> Value {
    match at {
        0 => json!({ "kind": "Pod", "metadata": { "annotations": { "a": inner } } }),
        1 => json!({ "kind": "Pod", "spec": { "containers": [{ "args": ["x", inner] }] } }),
        2 => json!({ "kind": "Event", "message": inner }),
        3 => json!({ "kind": "ConfigMap", "data": { "any": secret } }),
        4 => {
            json!({ "kind": "Pod", "spec": { "containers": [{ "env": [{ "name": "ANY", "value": secret }] }] } })
        }
        5 => {
            json!({ "kind": "VirtualMachine", "spec": { "x": [{ "cloudInitNoCloud": { "userData": secret } }] } })
        }
        6 => {
            json!({ "kind": "List", "items": [{ "kind": "Secret", "data": { "any": STANDARD.encode(secret) } }] })
        }
        7 => {
            json!({ "kind": "Pod", "spec": { "containers": [{ "command": ["x", "--client-secret", secret] }] } })
        }
        8 => json!({ "kind": "ControllerRevision", "data": { "spec": { "template": { "spec": {
            "containers": [{ "livenessProbe": { "httpGet": { "httpHeaders": [{ "name": "X", "value": secret }] } } }] } } } } }),
        _ => json!({ "kind": "Any", "spec": { "deep": { "adminPassword": secret } } }),
    }
}
const PLACES: usize = 10;

#[track_caller]
fn is_absent(secret: &str, from: &str) {
    let forms = [
        secret.to_owned(),
        STANDARD.encode(secret),
        json!(secret).to_string().trim_matches('"').to_owned(),
    ];
    for form in forms {
        assert!(!from.contains(&form), "{form} in {from}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nested_secret_is_never_printed(
        secret in secret(),
        by in 0..CARRIERS,
        wraps in proptest::collection::vec(0..5_usize, 0..4),
        at in 0..PLACES,
    ) {
        let inner = wraps.iter().fold(carried(&secret, by), |inner, how| wrapped(inner, *how));
        let mut removed = Removed::default();
        let clean = text("text", &inner, &mut removed);
        is_absent(&secret, &clean);
        prop_assert!(!STANDARD.encode(&secret).is_empty() && removed.total() > 0, "{} of {}", clean, inner);
        // A text that was only encoded is removed as well.
        if wraps.last() == Some(&0) {
            prop_assert!(!clean.contains(&inner), "{}", clean);
        }

        let mut value = placed(&inner, &secret, at);
        let mut removed = Removed::default();
        object(&mut value, "document", &mut removed);
        is_absent(&secret, &value.to_string());
        prop_assert!(removed.total() > 0, "{}", value);
        // A second pass finds nothing: the placeholder is not taken for a secret.
        let once = value.clone();
        let mut again = Removed::default();
        object(&mut value, "document", &mut again);
        prop_assert_eq!(value, once);
        prop_assert_eq!(again.total(), 0);
    }

    #[test]
    fn redaction_accepts_any_text(input in any::<String>(), lines in "(?s)[ -~\n]{0,200}") {
        for input in [input, lines] {
            let once = text("text", &input, &mut Removed::default());
            let mut value = json!({ "kind": "Pod", "a": input.clone(), input.clone(): [input] });
            object(&mut value, "document", &mut Removed::default());
            prop_assert!(once.len() < usize::MAX);
        }
    }
}
