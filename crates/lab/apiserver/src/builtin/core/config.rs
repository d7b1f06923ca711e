//! Config maps and secrets (`ValidateConfigMap`, `ValidateSecret`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::field::{FieldError, Path};
use machinery::json;
use serde_json::Value;
use x509_parser::pem::Pem;

use crate::builtin::check;
use crate::builtin::entry::Cell::{Count, Of, Text};
use crate::builtin::entry::{AGE, Entry, Errors, NAME, column, selectable_text};
use crate::builtin::value::{Read, fill_empty, keep, object_at, remove};
use crate::kind::{Part, WriteContext};

/// Maximum size of the data in bytes.
// `MaxSecretSize` in `pkg/apis/core/types.go`: below the request limit of etcd, because Secrets
// grow by a third in base64.
const MAX_SIZE: usize = 1024 * 1024;

/// Config maps.
pub(crate) const CONFIG_MAP: Entry = Entry {
    short_names: &["cm"],
    validate: validate_config_map,
    validate_update: |new, old, _| {
        let mut errors = check_frozen(new, old, &["data", "binaryData"]);
        errors += validate_config_map(new);
        errors
    },
    columns: &[
        NAME,
        column!("Data" string Of(|map| (map.count("data") + map.count("binaryData")).into())
            => "How many entries there are"),
        AGE,
    ],
    ..Entry::new("", "v1", "ConfigMap", "configmaps")
};

/// Secrets.
pub(crate) const SECRET: Entry = Entry {
    default: default_secret,
    prepare_update: |new: &mut Value, old: &Value, _: Part<'_>, _: WriteContext<'_>| {
        if new.text("type").is_empty() {
            keep(new, old, "type");
        }
    },
    validate: validate_secret,
    warnings: |secret, _| tls_warnings(secret),
    validate_update: |new, old, _| {
        let mut errors = check::unchanged(new, old, "type");
        errors += check_frozen(new, old, &["data"]);
        errors += validate_secret(new);
        errors
    },
    selectable: &[selectable_text!("type")],
    columns: &[
        NAME,
        column!("Type" string Text("type") => "What the secret is for"),
        column!("Data" string Count("data") => "How many entries there are"),
        AGE,
    ],
    ..Entry::new("", "v1", "Secret", "secrets")
};

/// An object marked immutable keeps the mark and the data.
fn check_frozen(new: &Value, old: &Value, fields: &[&str]) -> Errors {
    if !old.is_true("immutable") {
        return Errors::new();
    }
    let detail = "field is immutable when `immutable` is set";
    let mut errors = Errors::new();
    if !new.is_true("immutable") {
        errors.forbidden(&Path::new("immutable"), detail);
    }
    for field in fields {
        if new.at(field) != old.at(field) {
            errors.forbidden(&Path::new(field), detail);
        }
    }
    errors
}

fn validate_config_map(map: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut size = 0;
    for (key, value) in map.entries("data") {
        let path = Path::new("data").key(key);
        errors += check::config_key(&path, key);
        if map.entry("binaryData", key).is_some() {
            errors.invalid(&path, key, "duplicate of key present in binaryData");
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in map.entries("binaryData") {
        errors += check::config_key(&Path::new("binaryData").key(key), key);
        size += decoded(value).len();
    }
    if size > MAX_SIZE {
        // Upstream reports this at a path with one empty name, which prints as a pair of brackets.
        errors.too_long(&Path::new("[]"), MAX_SIZE);
    }
    errors
}

fn decoded(value: &Value) -> Vec<u8> {
    value
        .as_str()
        .and_then(|text| STANDARD.decode(text).ok())
        .unwrap_or_default()
}

/// `stringData` is for writing only: it goes into `data`.
fn default_secret(secret: &mut Value) {
    fill_empty(secret, "type", "Opaque");
    let Some(plain) = secret.map("stringData").cloned() else {
        return;
    };
    if let (false, Some(data)) = (plain.is_empty(), object_at(secret, "data")) {
        for (key, value) in plain {
            let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }
    remove(secret, "stringData");
}

fn validate_secret(secret: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("data");
    let mut size = 0;
    for (key, value) in secret.entries("data") {
        errors += check::config_key(&path.key(key), key);
        size += decoded(value).len();
    }
    if size > MAX_SIZE {
        errors.too_long(&path, MAX_SIZE);
    }
    let has = |key: &str| secret.entry("data", key).is_some();
    let missing = |key: &str| FieldError::required(&path.key(key), "");
    match secret.text("type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if secret.annotation(key).unwrap_or_default().is_empty() {
                errors.required(&Path::new("metadata.annotations").key(key), "");
            }
        }
        "kubernetes.io/dockercfg" => errors += check_docker(secret, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => {
            errors += check_docker(secret, ".dockerconfigjson");
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            errors += [missing("username"), missing("password")];
        }
        "kubernetes.io/ssh-auth" => {
            let key = secret
                .entry("data", "ssh-privatekey")
                .map(decoded)
                .unwrap_or_default();
            if key.is_empty() {
                errors.push(missing("ssh-privatekey"));
            }
        }
        "kubernetes.io/tls" => {
            errors += ["tls.crt", "tls.key"]
                .into_iter()
                .filter(|key| !has(key))
                .map(missing);
        }
        _ => {}
    }
    errors
}

fn check_docker(secret: &Value, key: &str) -> Errors {
    let path = Path::new("data").key(key);
    let Some(value) = secret.entry("data", key) else {
        return FieldError::required(&path, "").into();
    };
    // Go decodes into a map: null is an empty one.
    let detail = match json::decode(&decoded(value)) {
        Ok(read) if read.value.is_object() || read.value.is_null() => return Errors::new(),
        Ok(read) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json::go_type(&read.value)
        ),
        Err(error) => error.to_string(),
    };
    FieldError::invalid(&path, "<secret contents redacted>", detail).into()
}

/// Warns about TLS secrets without a certificate or key. Whether they match is not checked.
fn tls_warnings(secret: &Value) -> Vec<String> {
    if secret.text("type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let parts = [("tls.crt", "certificate"), ("tls.key", "key")];
    let empty = parts.into_iter().find(|(key, _)| {
        let bytes = secret.entry("data", key).map(decoded).unwrap_or_default();
        Pem::iter_from_buffer(&bytes)
            .next()
            .is_none_or(|pem| pem.is_err())
    });
    empty
        .map(|(_, what)| format!("tls: failed to find any PEM data in {what} input"))
        .into_iter()
        .collect()
}
