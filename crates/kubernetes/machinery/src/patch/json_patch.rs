//! JSON patch (RFC 6902), with the habits of the library kube-apiserver uses for it.
//!
//! They differ from the RFC, which is why no ready-made crate fits: indices may be negative,
//! `replace` sets members that are not there, copying a missing member gives null, and whatever
//! stands before the first slash of a path is ignored.

use serde_json::{Map, Value};

use super::PatchError;
use crate::json;

/// More operations than this are refused.
// `maxJSONPatchOperations` of `apiserver/pkg/endpoints/handlers/patch.go`.
pub const MAX_OPERATIONS: usize = 10_000;

/// `copy` operations of one patch may add this many bytes in all, so that a short patch cannot
/// double a document over and over.
// `JSONPatchMaxCopyBytes` of `apiserver/pkg/server/config.go`, which is also the limit of a request.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// A patch that has been read.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Value>,
    /// Findings of strict validation about the patch itself, ready to be shown: unknown and duplicate
    /// members of operations. Empty if the patch was not checked.
    pub findings: Vec<String>,
}

impl JsonPatch {
    /// Decodes a patch. `checked` tells whether unknown and duplicate members are detected
    /// (`fieldValidation` is `Warn` or `Strict`); the operations are typed only then.
    pub fn decode(bytes: &[u8], checked: bool) -> Result<Self, PatchError> {
        let malformed = |text: String| {
            PatchError::Malformed(if checked {
                format!("error decoding patch: {text}")
            } else {
                text
            })
        };
        let decoded = json::decode(bytes).map_err(|error| malformed(error.to_string()))?;
        let (list_type, item_type) = if checked {
            ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
        } else {
            ("jsonpatch.Patch", "jsonpatch.Operation")
        };
        let operations = match decoded.value {
            Value::Null => Vec::new(),
            Value::Array(operations) => operations,
            other => return Err(malformed(cannot_read(&other, "Go value", list_type))),
        };
        let mut findings = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            match operation {
                Value::Object(members) if checked => {
                    check_members(members, index, &mut findings).map_err(malformed)?;
                }
                Value::Object(_) | Value::Null => {}
                other => return Err(malformed(cannot_read(other, "Go value", item_type))),
            }
        }
        if checked {
            let duplicates = decoded.duplicates.iter();
            findings
                .extend(duplicates.map(|path| format!("json patch duplicate field \"{path}\"")));
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(PatchError::TooManyOperations(operations.len()));
        }
        Ok(Self {
            operations,
            findings,
        })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// What the operations make of a document, in turn.
    pub fn apply(&self, doc: Value) -> Result<Value, PatchError> {
        let mut draft = Draft { doc, copied: 0 };
        for operation in &self.operations {
            draft.run(operation).map_err(PatchError::Unprocessable)?;
        }
        Ok(draft.doc)
    }
}

/// Reads and applies a JSON patch in one go, checked as by default; if it fails, `doc` stays as it was.
pub fn json_patch(doc: &mut Value, operations: &[u8]) -> Result<(), PatchError> {
    *doc = JsonPatch::decode(operations, true)?.apply(doc.clone())?;
    Ok(())
}

fn cannot_read(found: &Value, into: &str, ty: &str) -> String {
    format!(
        "json: cannot unmarshal {} into {into} of type {ty}",
        json::go_type(found)
    )
}

fn check_members(
    members: &Map<String, Value>,
    index: usize,
    findings: &mut Vec<String>,
) -> Result<(), String> {
    for (name, value) in members {
        match name.as_str() {
            "op" | "path" | "from" => {
                if !value.is_string() && !value.is_null() {
                    let place = format!("Go struct field jsonPatchOp.{name}");
                    return Err(cannot_read(value, &place, "string"));
                }
            }
            "value" => {}
            unknown => findings.push(format!("json patch unknown field \"[{index}].{unknown}\"")),
        }
    }
    Ok(())
}

/// A document while operations change it.
struct Draft {
    doc: Value,
    copied: usize,
}

/// The object or list an operation works on, and the member or index in it.
struct Target<'a> {
    parent: &'a mut Value,
    key: String,
    depth: usize,
}

impl Draft {
    /// Runs an operation; errors are worded as upstream's library words them, because webhooks and
    /// their users see them.
    fn run(&mut self, operation: &Value) -> Result<(), String> {
        let kind = operation
            .get("op")
            .and_then(Value::as_str)
            .unwrap_or("unknown");
        let text = |name: &str| {
            operation.get(name).and_then(Value::as_str).ok_or_else(|| {
                let comma = if name == "from" { "," } else { "" };
                format!(
                    "{kind} operation failed to decode {name}: operation{comma} missing {name} \
                     field: {MISSING}"
                )
            })
        };
        // An operation without a value carries null.
        let value = || operation.get("value").unwrap_or(&Value::Null);
        let at = |path: &str, why: String| format!("error in {kind} for path: '{path}': {why}");
        let nowhere = |what: &str, path: &str| {
            format!("{kind} operation does not apply: {what}: {path}: {MISSING}")
        };
        match kind {
            "add" | "remove" => {
                let path = text("path")?;
                let target = self
                    .find(path)
                    .ok_or_else(|| nowhere("doc is missing path", &format!("\"{path}\"")))?;
                if kind == "add" {
                    target.add(value().clone()).map_err(|why| at(path, why))
                } else {
                    target.remove().map(drop).map_err(|why| at(path, why))
                }
            }
            "replace" => self.replace(text("path")?, value()),
            "move" => {
                let (from, path) = (text("from")?, text("path")?);
                let moved = self
                    .find(from)
                    .ok_or_else(|| nowhere("doc is missing from path", from))?
                    .remove()
                    .map_err(|why| at(last_piece(from), why))?;
                self.find(path)
                    .ok_or_else(|| nowhere("doc is missing destination path", path))?
                    .add(moved)
                    .map_err(|why| at(path, why))
            }
            "copy" => {
                let (from, path) = (text("from")?, text("path")?);
                let copy = self
                    .find(from)
                    .ok_or_else(|| nowhere("doc is missing from path", from))?
                    .get()
                    .map_err(|why| format!("error in copy for from: '{from}': {why}"))?
                    .clone();
                self.copied = self.copied.saturating_add(json::to_vec(&copy).len());
                if self.copied > MAX_COPIED_BYTES {
                    return Err(format!("copies exceed {MAX_COPIED_BYTES} bytes"));
                }
                self.find(path)
                    .ok_or_else(|| nowhere("doc is missing destination path", path))?
                    .add(copy)
                    .map_err(|why| format!("error while adding value during copy: {why}"))
            }
            "test" => self.test(text("path")?, value()),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn replace(&mut self, path: &str, value: &Value) -> Result<(), String> {
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array".to_owned());
            }
            self.doc = value.clone();
            return Ok(());
        }
        let nowhere = |what: &str| {
            format!("replace operation does not apply: doc is missing {what}: {path}: {MISSING}")
        };
        let target = self.find(path).ok_or_else(|| nowhere("path"))?;
        target.check_depth(value)?;
        match target.parent {
            Value::Object(map) => {
                map.insert(target.key, value.clone());
            }
            Value::Array(items) => {
                let slot = position(&target.key, items.len())
                    .ok()
                    .and_then(|index| items.get_mut(index));
                *slot.ok_or_else(|| nowhere("key"))? = value.clone();
            }
            _ => return Err(nowhere("path")),
        }
        Ok(())
    }

    fn test(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let found = if path.is_empty() {
            &self.doc
        } else {
            self.find(path)
                .ok_or_else(|| {
                    format!("test operation does not apply: is missing path: {path}: {MISSING}")
                })?
                .get()
                .map_err(|why| format!("error in test for path: '{path}': {why}"))?
        };
        if found == value {
            Ok(())
        } else {
            Err(format!("testing value {path} failed: test failed"))
        }
    }

    /// Walks to the parent of what `path` names.
    fn find(&mut self, path: &str) -> Option<Target<'_>> {
        // The first piece is ignored, even if it is not empty.
        let (_, below) = path.split_once('/')?;
        let (way, key) = below
            .rsplit_once('/')
            .map_or((None, below), |(way, key)| (Some(way), key));
        let mut parent = &mut self.doc;
        let mut depth = 1;
        for piece in way.into_iter().flat_map(|way| way.split('/')) {
            let piece = unescape(piece);
            let next = match parent {
                Value::Object(map) => map.get_mut(&piece),
                Value::Array(items) => {
                    let index = position(&piece, items.len()).ok()?;
                    items.get_mut(index)
                }
                _ => None,
            };
            parent = next?;
            depth += 1;
        }
        (parent.is_object() || parent.is_array()).then(|| Target {
            parent,
            key: unescape(key),
            depth,
        })
    }
}

impl<'a> Target<'a> {
    fn get(self) -> Result<&'a Value, String> {
        match self.parent {
            Value::Object(map) => Ok(map.get(&self.key).unwrap_or(&Value::Null)),
            Value::Array(items) => {
                let index = position(&self.key, items.len())?;
                items.get(index).ok_or_else(|| out_of_range(&self.key))
            }
            _ => Err(out_of_range(&self.key)),
        }
    }

    fn add(self, value: Value) -> Result<(), String> {
        self.check_depth(&value)?;
        match self.parent {
            Value::Object(map) => {
                map.insert(self.key, value);
            }
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                // One place more than there are items: the end counts.
                let index = position(&self.key, items.len() + 1).map_err(|why| {
                    if why.starts_with("strconv") {
                        format!("value was not a proper array index: '{}': {why}", self.key)
                    } else {
                        why
                    }
                })?;
                if index > items.len() {
                    return Err(out_of_range(&self.key));
                }
                items.insert(index, value);
            }
            _ => return Err(out_of_range(&self.key)),
        }
        Ok(())
    }

    fn remove(self) -> Result<Value, String> {
        match self.parent {
            Value::Object(map) => map.remove(&self.key).ok_or_else(|| no_such_key(&self.key)),
            Value::Array(items) => {
                let index = position(&self.key, items.len())?;
                if index >= items.len() {
                    return Err(out_of_range(&self.key));
                }
                Ok(items.remove(index))
            }
            _ => Err(no_such_key(&self.key)),
        }
    }

    /// Operations can nest what was read piece by piece; the result obeys the limit of reading.
    fn check_depth(&self, value: &Value) -> Result<(), String> {
        if json::is_deeper_than(value, json::MAX_DEPTH.saturating_sub(self.depth)) {
            let max = json::MAX_DEPTH;
            return Err(format!("the result is nested deeper than {max}"));
        }
        Ok(())
    }
}

/// The index `text` means in a list with `places` places; negative ones count from the end.
fn position(text: &str, places: usize) -> Result<usize, String> {
    let index: i64 = text.parse().map_err(|_| {
        format!(
            "strconv.Atoi: parsing {}: invalid syntax",
            json::go_quote(text)
        )
    })?;
    let distance = usize::try_from(index.unsigned_abs()).map_err(|_| out_of_range(text))?;
    if index >= 0 {
        Ok(distance)
    } else {
        places
            .checked_sub(distance)
            .ok_or_else(|| out_of_range(text))
    }
}

/// Undoes the escapes of RFC 6901 in one pass.
fn unescape(piece: &str) -> String {
    let mut out = String::with_capacity(piece.len());
    let mut rest = piece;
    while let Some(at) = rest.find('~') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        (out, rest) = match escape.as_bytes().get(1) {
            Some(b'1') => (out + "/", &escape[2..]),
            Some(b'0') => (out + "~", &escape[2..]),
            _ => (out + "~", &escape[1..]),
        };
    }
    out + rest
}

/// Upstream's text for a missing value.
const MISSING: &str = "missing value";

fn no_such_key(key: &str) -> String {
    format!("Unable to remove nonexistent key: {key}: {MISSING}")
}

fn out_of_range(key: &str) -> String {
    format!("Unable to access invalid index: {key}: invalid index referenced")
}

/// The last piece of a path, which is what errors of a move show.
fn last_piece(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
