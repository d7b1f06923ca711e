//! Objects: fields of Kubernetes, KubeVirt and OpenShift kinds.

use api::advisor::FIELD_MANAGER;
use api::hco;
use api::openshift::payloads;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::names::{is_password, is_secret, is_user_data};
use super::{Found, REDACTED, Rule, scan, text};

/// Annotations in which clients keep the object as it was applied, some of them compressed: kubectl, rancher, kapp, kopf,
/// banzaicloud's operators.
const APPLIED: [&str; 6] = [
    "last-applied",
    "last-handled-configuration",
    "objectset.rio.cattle.io/applied",
    "kapp.k14s.io/original",
    "banzaicloud.com/last-applied",
    "kubectl.kubernetes.io/original",
];

/// Fields with expressions and schemas, where names like `token` are part of the language.
const CODE: [&str; 5] = [
    "expr",
    "expression",
    "messageExpression",
    "openAPIV3Schema",
    "rule",
];

/// Fields with public data that would only cost time.
const PUBLIC: [&str; 2] = ["caBundle", "certificate-authority-data"];

/// How the strings of a value are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// By all rules.
    All,
    /// Documents that Medley's decisions depend on: values of variables are not removed wholesale.
    Own,
    /// Expressions and schemas: only values that are recognised without a name.
    Code,
}

#[derive(Clone, Copy)]
struct Context {
    mode: Mode,
    nesting: usize,
}

/// Whether objects of a kind are credentials as a whole, their names included. They are not collected at all.
pub(crate) fn is_credential(group: &str, plural: &str) -> bool {
    group == "oauth.openshift.io" && plural.ends_with("tokens")
}

/// Removes secrets from an object, or from a document that was found within other texts.
pub(super) fn clean(object: &mut Value, nesting: usize, found: &mut Found) {
    let mode = Mode::All;
    value(object, Context { mode, nesting }, found);
}

fn value(found_value: &mut Value, context: Context, found: &mut Found) {
    match found_value {
        Value::String(input) => string(input, context, found),
        Value::Array(items) => {
            let is_command = words(items, found);
            for it in items.iter_mut().filter(|_| !is_command) {
                value(it, context, found);
            }
        }
        Value::Object(fields) => object(fields, context, found),
        _ => {}
    }
}

fn string(input: &mut String, context: Context, found: &mut Found) {
    let clean = match context.mode {
        Mode::Code => text::clean_code(input, found),
        Mode::All | Mode::Own => text::clean(input, context.nesting, found),
    };
    if clean != *input {
        *input = clean.into_owned();
    }
}

/// A map, which may be an object of the API: on its own, in a list, in a template or in a revision.
fn object(fields: &mut Map<String, Value>, context: Context, found: &mut Found) {
    let kind = fields.get("kind").and_then(Value::as_str);
    let mut context = context;
    match kind {
        Some("Secret") => secret(fields, found),
        Some("ConfigMap") => config_map(fields, context, found),
        Some("MachineConfig") if !is_applied_by_us(fields) => files(fields, found),
        // A CRD has a property `password` without having one; by the rules for values its schema
        // would lose every field of that name.
        Some("CustomResourceDefinition") => context.mode = Mode::Code,
        _ => {}
    }
    rename(fields, found);
    if let Some(annotations) = annotations(fields) {
        applied(annotations, found);
    }
    pair(fields, found);
    for (name, field) in fields {
        member(name, field, context, found);
    }
}

fn member(name: &str, field: &mut Value, context: Context, found: &mut Found) {
    match name {
        "env" if context.mode == Mode::All => environment(field, found),
        "httpHeaders" => values(field, Rule::Header, found),
        "extraHeaders" => headers(field, found),
        // Managed fields are names of fields and keys of list entries, cleaned as names of a map are.
        _ if PUBLIC.contains(&name) => return,
        _ if name == "managedFields" || CODE.contains(&name) => {
            let mode = Mode::Code;
            return value(field, Context { mode, ..context }, found);
        }
        _ if is_user_data(name) => user_data(name, field, found),
        _ if is_secret(name) && context.mode == Mode::Code => defaults(field, found),
        _ if is_secret(name) => named(name, field, found),
        _ => {}
    }
    value(field, context, found);
}

/// The data of a Secret, and the names of its keys in managed fields.
fn secret(fields: &mut Map<String, Value>, found: &mut Found) {
    for field in ["data", "stringData"] {
        if fields.remove(field).is_some() {
            found.add(Rule::SecretData);
        }
    }
    if let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        // They list the keys of `data`, and kubectl creates keys from file names such as `id_rsa`.
        meta.remove("managedFields");
    }
}

/// Replaces the values of a ConfigMap by their sizes, unless Medley's decisions depend on it: names
/// of keys stay. A digest would let a reader test guessed passwords.
fn config_map(fields: &mut Map<String, Value>, context: Context, found: &mut Found) {
    let is_own = is_read_by_us(fields);
    for (field, encoded) in [("data", false), ("binaryData", true)] {
        let entries = fields.get_mut(field).and_then(Value::as_object_mut);
        for (_, entry) in entries.into_iter().flatten() {
            let Value::String(input) = entry else {
                continue;
            };
            if is_own && !encoded {
                document(input, context, found);
                continue;
            }
            // A snapshot of a copy that was restored from a snapshot is redacted twice, and must
            // not change.
            if is_outlined(input) || input.is_empty() {
                continue;
            }
            let size = if encoded {
                STANDARD.decode(&*input).map_or(input.len(), |it| it.len())
            } else {
                input.len()
            };
            let outline = format!("<redacted: {size} bytes>");
            *input = if encoded {
                // The API allows only base64 here.
                STANDARD.encode(outline)
            } else {
                outline
            };
            found.add(Rule::ConfigMapValue);
        }
    }
}

fn is_outlined(input: &str) -> bool {
    let outline = |it: &str| it.starts_with("<redacted: ") && it.ends_with(" bytes>");
    let decoded = STANDARD.decode(input).ok();
    let decoded = decoded.and_then(|it| String::from_utf8(it).ok());
    outline(input) || decoded.is_some_and(|it| outline(&it))
}

/// Whether controllers read the content of a ConfigMap: releases, templates of golden images,
/// applied governance plans.
fn is_read_by_us(fields: &Map<String, Value>) -> bool {
    let meta = fields.get("metadata").unwrap_or(&Value::Null);
    meta["labels"][payloads::LABEL] == payloads::LABELLED
        || meta["annotations"][payloads::IMAGE].is_string()
        || meta["name"] == hco::TEMPLATES
        || is_applied_by_us(fields)
}

fn is_applied_by_us(fields: &Map<String, Value>) -> bool {
    let meta = fields.get("metadata").unwrap_or(&Value::Null);
    let managers = meta["managedFields"].as_array();
    let mut managers = managers.into_iter().flatten();
    managers.any(|it| it["manager"] == FIELD_MANAGER)
}

/// A document that Medley reads is rewritten only if a value was removed: otherwise it stays
/// unchanged, including comments.
fn document(input: &mut String, context: Context, found: &mut Found) {
    let context = Context {
        mode: Mode::Own,
        nesting: context.nesting + 1,
    };
    let parsed: Option<Vec<Value>> = serde_saphyr::from_multiple(input).ok();
    let parsed = parsed.filter(|all| all.iter().any(|it| it.is_object() || it.is_array()));
    let Some(mut documents) = parsed else {
        return string(input, context, found);
    };
    let before = documents.clone();
    let mut inside = Found::default();
    for document in &mut documents {
        value(document, context, &mut inside);
    }
    let mut outside = Found::default();
    // Comments are not part of the parsed documents, so the text is searched as well.
    let is_clean =
        documents == before && text::clean(input, context.nesting, &mut outside) == *input;
    if is_clean {
        return;
    }
    // Secrets that occur only in comments are removed with the comments.
    if documents == before {
        inside = outside;
    }
    let written: Result<Vec<String>, _> = documents.iter().map(serde_saphyr::to_string).collect();
    match written {
        Ok(written) => {
            *input = written.join("---\n");
            inside.0.iter().for_each(|(rule, count)| {
                *found.0.entry(*rule).or_default() += count;
            });
        }
        Err(_) => string(input, context, found),
    }
}

/// Files and units of a MachineConfig: they include keys of nodes, which carry no mark.
fn files(fields: &mut Map<String, Value>, found: &mut Found) {
    let Some(config) = fields.get_mut("spec").and_then(|it| it.get_mut("config")) else {
        return;
    };
    for (list, field) in [
        ("/storage/files", "/contents/source"),
        ("/storage/files", "/contents/inline"),
        ("/systemd/units", "/contents"),
    ] {
        let items = config.pointer_mut(list).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            if let Some(contents) = item.pointer_mut(field) {
                redact(contents, Rule::FileContents, found);
            }
        }
    }
}

/// Annotations of an object, or of its pod template.
fn annotations(fields: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let meta = fields.get_mut("metadata")?;
    meta.get_mut("annotations")?.as_object_mut()
}

fn applied(annotations: &mut Map<String, Value>, found: &mut Found) {
    annotations.retain(|name, _| {
        let is_applied = APPLIED.iter().any(|it| name.contains(it));
        if is_applied {
            found.add(Rule::AppliedConfiguration);
        }
        !is_applied
    });
}

/// Entries of lists that are a name and a value, such as parameters of templates.
fn pair(fields: &mut Map<String, Value>, found: &mut Found) {
    let name = ["name", "key", "Name", "Key"]
        .into_iter()
        .find_map(|it| fields.get(it));
    let is_secret = name.and_then(Value::as_str).is_some_and(is_secret);
    if !is_secret {
        return;
    }
    for field in ["value", "Value", "default"] {
        if let Some(value) = fields.get_mut(field) {
            redact(value, Rule::NamedField, found);
        }
    }
}

/// Names in a map that are secrets themselves: registries with user information, entries of sets in managed fields.
fn rename(fields: &mut Map<String, Value>, found: &mut Found) {
    let names: Vec<(String, String)> = fields
        .keys()
        .filter(|name| name.len() > 8)
        .filter_map(|name| {
            let clean = text::clean_code(name, found);
            (clean != *name).then(|| (name.clone(), clean.into_owned()))
        })
        .collect();
    for (name, clean) in names {
        if let Some(value) = fields.remove(&name) {
            fields.insert(clean, value);
        }
    }
}

/// Values of environment variables; `valueFrom` is only a reference.
fn environment(variables: &mut Value, found: &mut Found) {
    match variables {
        Value::Array(_) => values(variables, Rule::EnvironmentValue, found),
        // Some kinds have a map of names and values.
        Value::Object(fields) => {
            for (_, value) in fields {
                redact(value, Rule::EnvironmentValue, found);
            }
        }
        _ => {}
    }
}

/// `value` of each entry.
fn values(entries: &mut Value, rule: Rule, found: &mut Found) {
    for entry in entries.as_array_mut().into_iter().flatten() {
        if let Some(value) = entry.get_mut("value") {
            redact(value, rule, found);
        }
    }
}

/// Headers that CDI sends along with a request for a disk: `Name: value`.
fn headers(lines: &mut Value, found: &mut Found) {
    for line in lines.as_array_mut().into_iter().flatten() {
        let Some(input) = line.as_str() else {
            continue;
        };
        let clean = match input.split_once(':') {
            Some((name, _)) => format!("{name}: {REDACTED}"),
            None => REDACTED.to_owned(),
        };
        if clean != input {
            found.add(Rule::Header);
            *line = clean.into();
        }
    }
}

fn user_data(name: &str, field: &mut Value, found: &mut Found) {
    if field.as_str().is_none_or(str::is_empty) {
        return;
    }
    let instead = if name.ends_with("Base64") {
        STANDARD.encode(REDACTED)
    } else {
        REDACTED.to_owned()
    };
    if *field != instead {
        *field = instead.into();
        found.add(Rule::UserData);
    }
}

/// A field with a secret name: strings, lists of them, and numbers if they are passwords. Maps have names of their own,
/// and a reference to a Secret is one.
fn named(name: &str, field: &mut Value, found: &mut Found) {
    match field {
        Value::String(_) => redact(field, Rule::NamedField, found),
        Value::Number(_) if is_password(name) => {
            *field = REDACTED.into();
            found.add(Rule::NamedField);
        }
        Value::Array(items) => {
            for item in items {
                if item.is_string() {
                    redact(item, Rule::NamedField, found);
                }
            }
        }
        _ => {}
    }
}

/// Defaults of fields with a secret name in a schema.
fn defaults(schema: &mut Value, found: &mut Found) {
    for field in ["default", "example"] {
        if let Some(value) = schema.get_mut(field) {
            redact(value, Rule::NamedField, found);
        }
    }
}

fn redact(value: &mut Value, rule: Rule, found: &mut Found) {
    if value
        .as_str()
        .is_some_and(|it| !it.is_empty() && it != REDACTED)
    {
        *value = json!(REDACTED);
        found.add(rule);
    }
}

/// Words of a command line, where a secret follows its flag. Whether the list is one is decided by its flags, since kinds
/// have many names for it; returns whether it was.
fn words(items: &mut [Value], found: &mut Found) -> bool {
    let is_flag = |it: &Value| it.as_str().is_some_and(|it| it.starts_with('-'));
    if !items.iter().any(is_flag) {
        return false;
    }
    let line: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
    let line = line.join(" ");
    let mut flag: Option<String> = None;
    for item in items {
        let Value::String(word) = item else {
            flag = None;
            continue;
        };
        let follows = flag.take();
        flag = Some(word.clone());
        if let Some(before) = follows
            && scan::takes_secret(&before, word, &line)
        {
            redact(item, Rule::CommandLine, found);
            flag = None;
            continue;
        }
        let clean = text::clean(word, 0, found);
        if clean != *word {
            *word = clean.into_owned();
        }
    }
    true
}
