//! A custom resource, and a server that does what the REST layer does around this module.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apply::{
    ApplyError, FieldSet, Request, Schema, TypeRef, Versions, apply, crd_schema, finish, update,
};
use crate::schema::{self as structural, ListType, MapType, SchemaType};
use crate::status::Status;

pub(super) const VERSION: &str = "rec.example.com/v1";

fn of(schema_type: SchemaType) -> structural::Schema {
    structural::Schema {
        schema_type: Some(schema_type),
        ..structural::Schema::default()
    }
}

fn object(fields: &[(&str, structural::Schema)]) -> structural::Schema {
    structural::Schema {
        properties: fields
            .iter()
            .map(|(name, field)| ((*name).to_owned(), field.clone()))
            .collect(),
        ..of(SchemaType::Object)
    }
}

fn map(entries: structural::Schema) -> structural::Schema {
    structural::Schema {
        additional_properties: Some(Box::new(entries)),
        ..of(SchemaType::Object)
    }
}

fn list(items: structural::Schema, kind: Option<ListType>, keys: &[&str]) -> structural::Schema {
    structural::Schema {
        items: Some(Box::new(items)),
        list_type: kind,
        list_map_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..of(SchemaType::Array)
    }
}

/// A schema with one of everything.
pub(super) fn thing_schema() -> structural::Schema {
    let string = of(SchemaType::String);
    let integer = of(SchemaType::Integer);
    let with_default = |schema: &structural::Schema, value: Value| structural::Schema {
        default: Some(value),
        ..schema.clone()
    };
    let port = object(&[
        ("port", integer.clone()),
        ("proto", with_default(&string, json!("TCP"))),
        ("name", string.clone()),
        (
            "opts",
            object(&[("a", string.clone()), ("b", string.clone())]),
        ),
    ]);
    let spec = object(&[
        ("replicas", with_default(&integer, json!(1))),
        ("name", string.clone()),
        ("mode", with_default(&string, json!("auto"))),
        ("enabled", of(SchemaType::Boolean)),
        ("plain", list(string.clone(), None, &[])),
        ("tags", list(string.clone(), Some(ListType::Set), &[])),
        ("ports", list(port, Some(ListType::Map), &["port", "proto"])),
        ("labels", map(string.clone())),
        (
            "nested",
            object(&[
                (
                    "x",
                    object(&[("y", string.clone()), ("z", integer.clone())]),
                ),
                (
                    "m",
                    map(object(&[("v", integer.clone()), ("w", string.clone())])),
                ),
            ]),
        ),
        (
            "atomicMap",
            structural::Schema {
                map_type: Some(MapType::Atomic),
                ..object(&[("a", string.clone()), ("b", string.clone())])
            },
        ),
        (
            "free",
            structural::Schema {
                preserve_unknown_fields: true,
                ..of(SchemaType::Object)
            },
        ),
        ("qty", structural::Schema::default()),
    ]);
    let condition = object(&[("type", string.clone()), ("status", string.clone())]);
    let status = object(&[
        ("phase", string),
        (
            "conditions",
            list(condition, Some(ListType::Map), &["type"]),
        ),
    ]);
    object(&[("spec", spec), ("status", status)])
}

/// One version and no conversion.
pub(super) struct OneVersion(Arc<Schema>, TypeRef);

impl OneVersion {
    pub(super) fn new(schema: &structural::Schema) -> Self {
        let (schema, root) = crd_schema(schema, false);
        Self(schema, root)
    }
}

impl Versions for OneVersion {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        (api_version == VERSION).then(|| (self.0.clone(), self.1.clone()))
    }

    fn convert(&self, _: &Value, _: &str) -> Option<Value> {
        None
    }
}

/// Stores one object, and counts how often it did.
pub(super) struct Server {
    pub(super) versions: OneVersion,
    pub(super) object: Option<Value>,
    pub(super) writes: u32,
    clock: i64,
}

impl Server {
    pub(super) fn new() -> Self {
        let versions = OneVersion::new(&thing_schema());
        Self {
            versions,
            object: None,
            writes: 0,
            clock: 1_700_000_000,
        }
    }

    fn request<'a>(
        &'a self,
        manager: &'a str,
        subresource: &'a str,
        reset: &'a FieldSet,
    ) -> Request<'a> {
        Request {
            versions: &self.versions,
            manager,
            api_version: VERSION,
            kind: "Thing",
            subresource,
            reset,
            now: Timestamp::from_second(self.clock).unwrap(),
        }
    }

    fn reset(subresource: &str) -> FieldSet {
        FieldSet::of_fields(if subresource == "status" {
            &["metadata", "spec"]
        } else {
            &["status"]
        })
    }

    pub(super) fn apply(&mut self, manager: &str, body: Value) -> Result<(), ApplyError> {
        self.apply_to("", manager, body, false)
    }

    pub(super) fn force(&mut self, manager: &str, body: Value) {
        self.apply_to("", manager, body, true).unwrap();
    }

    /// Applies `body`, with the parts that identify the object added.
    pub(super) fn apply_to(
        &mut self,
        subresource: &str,
        manager: &str,
        body: Value,
        force: bool,
    ) -> Result<(), ApplyError> {
        self.clock += 1;
        let reset = Self::reset(subresource);
        let request = self.request(manager, subresource, &reset);
        let merged = apply(&request, self.object.as_ref(), &identified(body), force)?;
        self.store(subresource, merged);
        Ok(())
    }

    /// The answer of an apply that fails.
    pub(super) fn refused(&mut self, manager: &str, body: Value) -> Status {
        Status::from(self.apply(manager, body).unwrap_err())
    }

    /// Writes an object as it is, as PUT and the other patches do.
    pub(super) fn put(&mut self, subresource: &str, manager: &str, mut object: Value) {
        self.clock += 1;
        default(&mut object);
        let reset = Self::reset(subresource);
        let request = self.request(manager, subresource, &reset);
        update(&request, self.object.as_ref(), &mut object);
        self.store(subresource, object);
    }

    /// Changes the live object with a merge patch.
    pub(super) fn patch(&mut self, subresource: &str, manager: &str, patch: &Value) {
        let mut object = self.object.clone().unwrap();
        crate::patch::merge_patch(&mut object, patch).unwrap();
        self.put(subresource, manager, object);
    }

    fn put_back(&self, subresource: &str, object: &mut Value) {
        if subresource == "status" {
            // Only status is written; everything else is as it was.
            let Some(live) = self.object.clone() else {
                return;
            };
            let new = std::mem::replace(object, live);
            put(object, "status", new.get("status").cloned());
            let managed = new["metadata"].get("managedFields");
            put(&mut object["metadata"], "managedFields", managed.cloned());
        } else {
            let status = self.object.as_ref().and_then(|live| live.get("status"));
            put(object, "status", status.cloned());
        }
    }

    fn store(&mut self, subresource: &str, mut object: Value) {
        default(&mut object);
        self.put_back(subresource, &mut object);
        if object["metadata"].get("uid").is_none() {
            object["metadata"]["uid"] = json!("u-1");
        }
        if let Some(live) = &self.object
            && finish(live, &mut object)
        {
            return;
        }
        self.writes += 1;
        self.object = Some(object);
    }

    pub(super) fn spec(&self) -> &Value {
        &self.object.as_ref().unwrap()["spec"]
    }

    pub(super) fn metadata(&self, field: &str) -> &Value {
        &self.object.as_ref().unwrap()["metadata"][field]
    }

    /// The owners as `manager operation[/subresource][ at time]` with what they own, in wire order.
    pub(super) fn owners(&self) -> Vec<(String, Value)> {
        let entries = self
            .metadata("managedFields")
            .as_array()
            .cloned()
            .unwrap_or_default();
        entries
            .iter()
            .map(|entry| {
                let text = |name: &str| entry.get(name).and_then(Value::as_str);
                let mut who = format!(
                    "{} {}",
                    text("manager").unwrap(),
                    text("operation").unwrap()
                );
                if let Some(subresource) = text("subresource") {
                    who = format!("{who}/{subresource}");
                }
                if text("time").is_none() {
                    who = format!("{who} timeless");
                }
                assert_eq!(text("fieldsType"), Some("FieldsV1"));
                (who, entry["fieldsV1"].clone())
            })
            .collect()
    }

    /// What one owner owns.
    pub(super) fn owned_by(&self, who: &str) -> Value {
        let owners: BTreeMap<String, Value> = self.owners().into_iter().collect();
        owners.get(who).cloned().unwrap_or(Value::Null)
    }
}

/// Adds what identifies the object.
pub(super) fn identified(mut body: Value) -> Value {
    body["apiVersion"] = json!(VERSION);
    body["kind"] = json!("Thing");
    body["metadata"]["name"] = json!("a");
    body
}

fn put(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object[field] = value,
        None => {
            object.as_object_mut().unwrap().remove(field);
        }
    }
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    // Metadata is decoded into a type that omits empty fields.
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let empty = [json!({}), json!([])];
        metadata.retain(|name, value| name == "managedFields" || !empty.contains(value));
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, value) in [("replicas", json!(1)), ("mode", json!("auto"))] {
        let there = spec.entry(name).or_insert(Value::Null);
        if there.is_null() {
            *there = value;
        }
    }
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        port.as_object_mut()
            .unwrap()
            .entry("proto")
            .or_insert_with(|| json!("TCP"));
    }
}
