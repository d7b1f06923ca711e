//! The annotations of an object under admission, and the patch that sets them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Annotations of the live object, of the request, and as admitted.
pub(super) struct Annotations {
    old: BTreeMap<String, String>,
    requested: BTreeMap<String, String>,
    wanted: BTreeMap<String, String>,
    /// Whether the object has `metadata.annotations`.
    exists: bool,
}

impl Annotations {
    /// Reads the annotations; the error names the invalid one.
    pub(super) fn new(old: Option<&Value>, new: &Value) -> Result<Self, String> {
        let Some(metadata) = new.get("metadata").and_then(Value::as_object) else {
            return Err("The object has no metadata; an object is needed".to_owned());
        };
        let requested = read(metadata)?;
        let old = old
            .and_then(|old| old.get("metadata"))
            .and_then(Value::as_object);
        Ok(Self {
            old: old.map(read).transpose()?.unwrap_or_default(),
            wanted: requested.clone(),
            requested,
            exists: metadata.get("annotations").is_some_and(Value::is_object),
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.wanted.get(name).map(String::as_str)
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        self.wanted.insert(name.to_owned(), value);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.wanted.remove(name);
    }

    /// Forces an annotation to its former value, or to the one that admission computed, whatever the request contains.
    pub(super) fn guard(&mut self, name: &str, now: Option<String>, warnings: &mut Vec<String>) {
        let (requested, old) = (self.requested.get(name), self.old.get(name));
        if requested != old && (requested.is_none() || requested != now.as_ref()) {
            let what = match requested {
                Some(_) => "setting",
                None => "removing",
            };
            warnings.push(format!(
                "{what} annotation {name} has no effect: it is written by admission alone"
            ));
        }
        match now.or_else(|| old.cloned()) {
            Some(value) => self.set(name, value),
            None => self.remove(name),
        }
    }

    /// The JSON patch from the requested to the admitted annotations.
    pub(super) fn patch(&self) -> Vec<Value> {
        if self.wanted == self.requested {
            return Vec::new();
        }
        if !self.exists {
            return vec![json!({"op": "add", "path": ANNOTATIONS_PATH, "value": self.wanted})];
        }
        let path = |name: &str| {
            format!(
                "{ANNOTATIONS_PATH}/{}",
                name.replace('~', "~0").replace('/', "~1")
            )
        };
        let mut patch = Vec::new();
        for (name, value) in &self.wanted {
            if self.requested.get(name) != Some(value) {
                // `add` replaces an existing member (RFC 6902, 4.1); `replace` would fail for a new one.
                patch.push(json!({"op": "add", "path": path(name), "value": value}));
            }
        }
        for name in self.requested.keys() {
            if !self.wanted.contains_key(name) {
                patch.push(json!({"op": "remove", "path": path(name)}));
            }
        }
        patch
    }
}

const ANNOTATIONS_PATH: &str = "/metadata/annotations";

fn read(metadata: &Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let annotations = match metadata.get("annotations") {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(annotations)) => annotations,
        Some(other) => return Err(format!("metadata.annotations is {other}; a map is needed")),
    };
    let mut read = BTreeMap::new();
    for (name, value) in annotations {
        let Some(value) = value.as_str() else {
            return Err(format!("Annotation {name} is {value}; a text is needed"));
        };
        read.insert(name.clone(), value.to_owned());
    }
    Ok(read)
}
