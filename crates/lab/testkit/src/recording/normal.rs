//! Placeholders for what differs from run to run: times, uids, generated names.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use serde_json::Value;

use super::Subject;
use super::watched::Key;

const TIME: &str = "<time>";
const UID: &str = "<uid>";
const HIDDEN: &str = "<some value>";
/// Lengths of the groups of hexadecimal digits of a uid.
const UID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// The names and uids seen so far.
pub(super) struct Names {
    replaced: Vec<(String, String)>,
    hidden: BTreeSet<String>,
    /// Placeholders of uids.
    uids: BTreeMap<String, String>,
    /// Placeholders of generated names.
    generated: BTreeMap<String, String>,
    /// How many names were generated from a prefix.
    counts: BTreeMap<(String, String), usize>,
}

impl Names {
    pub(super) fn new(subject: &Subject) -> Self {
        Self {
            replaced: subject.replaced.clone(),
            hidden: subject.hidden.clone(),
            uids: BTreeMap::new(),
            generated: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn learn(&mut self, key: &Key, meta: &ObjectMeta) {
        let (kind, _, name) = key;
        if let Some(prefix) = &meta.generate_name
            && !self.generated.contains_key(name)
        {
            let count = self
                .counts
                .entry((kind.clone(), prefix.clone()))
                .or_default();
            *count += 1;
            let placeholder = format!("{prefix}<{count}>");
            self.generated.insert(name.clone(), placeholder);
        }
        if let Some(uid) = &meta.uid
            && !self.uids.contains_key(uid)
        {
            let name = self.text(name);
            self.uids
                .insert(uid.clone(), format!("<uid of {kind} {name}>"));
        }
    }

    /// How a trace names an object.
    pub(super) fn label(&self, (kind, namespace, name): &Key) -> String {
        if namespace.is_empty() {
            return self.text(&format!("{kind} {name}"));
        }
        self.text(&format!("{kind} {namespace}/{name}"))
    }

    /// A value with placeholders; conditions are sorted by type, since some programs write them in any order.
    pub(super) fn normal(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| {
                    let value = if self.hidden.contains(name) {
                        Value::from(HIDDEN)
                    } else {
                        self.normal(value)
                    };
                    (self.text(name), value)
                };
                fields.iter().map(field).collect()
            }
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.normal(item)).collect();
                if items.iter().all(is_condition) {
                    items.sort_by_key(|item| item["type"].as_str().map(str::to_owned));
                }
                Value::Array(items)
            }
            Value::String(text) => Value::from(self.text(text)),
            other => other.clone(),
        }
    }

    /// A text, such as a name or the path of a field, with placeholders.
    pub(super) fn text(&self, text: &str) -> String {
        if is_time(text) {
            return TIME.to_owned();
        }
        let mut text = text.to_owned();
        // A longer name may begin with a shorter one.
        let mut names: Vec<_> = self.generated.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, placeholder) in names {
            text = text.replace(name, placeholder);
        }
        for (from, to) in self
            .uids
            .iter()
            .chain(self.replaced.iter().map(|(a, b)| (a, b)))
        {
            text = text.replace(from, to);
        }
        without_uids(&text)
    }
}

/// A value with a placeholder for all times.
pub(super) fn timeless(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, timeless(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(timeless).collect(),
        Value::String(text) if is_time(&text) => Value::from(TIME),
        other => other,
    }
}

fn is_time(text: &str) -> bool {
    text.len() >= "2026-01-01T00:00:00Z".len() && text.parse::<Timestamp>().is_ok()
}

pub(super) fn is_condition(item: &Value) -> bool {
    item["type"].is_string() && item["status"].is_string()
}

/// A text with a placeholder for the uids of objects that are not watched.
fn without_uids(text: &str) -> String {
    let mut rest = text;
    let mut result = String::new();
    while let Some(char) = rest.chars().next() {
        if let Some(after) = after_uid(rest) {
            result.push_str(UID);
            rest = after;
        } else {
            result.push(char);
            rest = rest.get(char.len_utf8()..).unwrap_or_default();
        }
    }
    result
}

/// What follows a uid at the beginning of a text.
fn after_uid(text: &str) -> Option<&str> {
    let mut rest = text;
    for (index, length) in UID_GROUPS.into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-')?;
        }
        let (group, after) = rest.split_at_checked(length)?;
        if !group.bytes().all(|it| it.is_ascii_hexdigit()) {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names() -> Names {
        let subject = Subject::new([])
            .replacing("127.0.0.1:7777", "<server>")
            .hiding("hash");
        let mut names = Names::new(&subject);
        for name in ["vm-x", "vm-xyz"] {
            let meta = ObjectMeta {
                generate_name: Some("vm-".to_owned()),
                uid: Some(format!("0000000{}-0000-0000-0000-000000000000", name.len())),
                ..ObjectMeta::default()
            };
            names.learn(&("Pod".to_owned(), "a".to_owned(), name.to_owned()), &meta);
        }
        names
    }

    #[test]
    fn values_that_differ_from_run_to_run_are_placeholders() {
        let value = json!({
            "hash": "abc",
            "time": "2026-11-18T20:03:00Z",
            "micro": "2026-11-18T20:03:00.123456Z",
            "text": "pods vm-xyz and vm-x at 127.0.0.1:7777",
            "owner": "00000004-0000-0000-0000-000000000000",
            "other": "by é 12345678-aaaa-bbbb-cccc-123456789012.",
            "number": 3,
        });
        assert_eq!(
            names().normal(&value),
            json!({
                "hash": "<some value>",
                "time": "<time>",
                "micro": "<time>",
                "text": "pods vm-<2> and vm-<1> at <server>",
                "owner": "<uid of Pod vm-<1>>",
                "other": "by é <uid>.",
                "number": 3,
            })
        );
    }

    #[test]
    fn conditions_are_sorted_and_other_lists_are_not() {
        let value = json!({
            "conditions": [{ "type": "B", "status": "True" }, { "type": "A", "status": "False" }],
            "others": ["b", "a"],
        });
        assert_eq!(
            names().normal(&value),
            json!({
                "conditions": [{ "type": "A", "status": "False" }, { "type": "B", "status": "True" }],
                "others": ["b", "a"],
            })
        );
    }
}
