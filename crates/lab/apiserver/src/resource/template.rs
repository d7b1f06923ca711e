//! Encoded objects with a placeholder for the revision.
//!
//! Only the writer knows the revision, one object at a time; all other encoding happens before,
//! concurrently in the callers.

use bytes::Bytes;
use machinery::json;
use serde_json::{Map, Value};

/// An encoded object that lacks only its resourceVersion.
pub(crate) struct Template {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Template {
    /// Encodes an object. With `type_first` kind and apiVersion come first, as Go writes built-in
    /// kinds; otherwise all keys are sorted, as for custom resources.
    pub(crate) fn new(object: &Value, type_first: bool) -> Self {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let metadata = fields
            .get("metadata")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let mut head = Vec::with_capacity(1024);
        let mut tail = Vec::with_capacity(1024);
        head.push(b'{');
        if type_first {
            for name in ["kind", "apiVersion"] {
                write_field(&mut head, name, fields.get(name).unwrap_or(&Value::Null));
                head.push(b',');
            }
        }
        let leads = |name: &str| type_first && matches!(name, "kind" | "apiVersion");
        for (name, value) in fields
            .iter()
            .filter(|(name, _)| name.as_str() < "metadata" && !leads(name))
        {
            write_field(&mut head, name, value);
            head.push(b',');
        }
        head.extend_from_slice(b"\"metadata\":{");
        for (name, value) in metadata
            .iter()
            .filter(|(name, _)| name.as_str() < "resourceVersion")
        {
            write_field(&mut head, name, value);
            head.push(b',');
        }
        head.extend_from_slice(b"\"resourceVersion\":\"");
        tail.push(b'"');
        for (name, value) in metadata
            .iter()
            .filter(|(name, _)| name.as_str() > "resourceVersion")
        {
            tail.push(b',');
            write_field(&mut tail, name, value);
        }
        tail.push(b'}');
        for (name, value) in fields.iter().filter(|(name, _)| name.as_str() > "metadata") {
            tail.push(b',');
            write_field(&mut tail, name, value);
        }
        tail.push(b'}');
        Self { head, tail }
    }

    /// Size without the revision.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The bytes at a revision.
    pub(crate) fn at(mut self, revision: u64) -> Bytes {
        self.head.extend_from_slice(revision.to_string().as_bytes());
        self.head.extend_from_slice(&self.tail);
        self.head.into()
    }
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &Value) {
    json::write_into(out, &Value::from(name));
    out.push(b':');
    json::write_into(out, value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_revision_lands_in_metadata() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "spec": 1,
            "metadata": {"name": "x", "uid": "u", "resourceVersion": "3"},
        });
        let custom = Template::new(&object, false).at(7);
        assert_eq!(
            custom.as_ref(),
            br#"{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"x","resourceVersion":"7","uid":"u"},"spec":1}"#
        );
        let builtin = Template::new(&object, true).at(7);
        assert!(builtin.starts_with(br#"{"kind":"ConfigMap","apiVersion":"v1","data""#));
        let same: Value = serde_json::from_slice(&builtin).unwrap();
        assert_eq!(same, serde_json::from_slice::<Value>(&custom).unwrap());
    }
}
