//! Kinds as the REST layer meets them: decoded, defaulted, prepared, checked, shown.

use std::sync::Arc;

use jiff::Timestamp;
use machinery::gvk::{GroupResource, split_api_version};
use serde_json::{Value, json};

use super::admission::{self, Lookup};
use super::registry;
use super::value::{Read, set};
use crate::kind::{KindInfo, Part, Strategy, WriteContext};

struct Nothing;

impl Lookup for Nothing {
    fn get(&self, _: &GroupResource, _: &str) -> Option<Value> {
        None
    }

    fn list(&self, _: &GroupResource) -> Vec<Value> {
        Vec::new()
    }
}

pub(super) fn find(object: &Value) -> (KindInfo, Arc<dyn Strategy>) {
    let (group, version) = split_api_version(object.text("apiVersion")).unwrap();
    registry()
        .into_iter()
        .find(|(info, _)| {
            info.gvk.group == group
                && info.gvk.version == version
                && info.gvk.kind == object.text("kind")
        })
        .unwrap()
}

pub(super) fn context() -> WriteContext<'static> {
    WriteContext {
        now: "2026-11-15T21:22:45Z".parse().unwrap(),
        user: "admin",
    }
}

pub(super) const UID: &str = "8d3a0a8e-5d0e-4a53-9a7b-0d8c0f5f6a11";

/// A new object as it would be stored.
pub(super) fn created(given: &Value) -> Value {
    let (info, strategy) = find(given);
    let mut object = strategy.decode(given.clone()).unwrap().object;
    if info.namespaced {
        set(&mut object, "metadata.namespace", "default");
    }
    set(&mut object, "metadata.uid", UID);
    strategy.default(&mut object);
    admission::admit_create(&info.group_resource(), &mut object, &Nothing).unwrap();
    strategy.prepare_create(&mut object, context());
    object
}

/// Errors of creating an object.
pub(super) fn create_errors(given: &Value) -> Vec<String> {
    let (_, strategy) = find(given);
    let object = created(given);
    strategy
        .validate_create(&object)
        .errors
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Errors of changing an object as a merge of top-level paths.
pub(super) fn update_errors(old: &Value, changes: &[(&str, Value)]) -> Vec<String> {
    let (_, strategy) = find(old);
    let old = created(old);
    let mut new = old.clone();
    for (path, value) in changes {
        set(&mut new, path, value.clone());
    }
    strategy.default(&mut new);
    strategy.prepare_update(&mut new, &old, Part::Main, context());
    let findings = strategy.validate_update(&new, &old, Part::Main);
    findings.errors.iter().map(ToString::to_string).collect()
}

/// What was created on a genuine server, and what it stored.
#[test]
fn new_objects_are_stored_as_a_genuine_server_stores_them() {
    for line in include_str!("tests/created.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut given = case.at("given").clone();
        if case.at("given").text("kind") == "Service" {
            // The server hands out the address.
            set(&mut given, "spec.clusterIP", "10.0.0.128");
        }
        let mut object = created(&given);
        let text = object.to_string().replace(UID, "<uid>");
        object = serde_json::from_str(&text).unwrap();
        for field in ["uid", "namespace"] {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
        assert_eq!(object, *case.at("stored"), "{}", case.text("name"));
    }
}

#[test]
fn every_kind_has_a_type_and_is_listed_once() {
    let kinds = registry();
    assert_eq!(kinds.len(), super::entries().count());
    let mut names: Vec<String> = kinds.iter().map(|(info, _)| info.gvk.to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), kinds.len());
}

#[test]
fn defaulting_twice_changes_nothing() {
    for line in include_str!("tests/created.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let object = created(case.at("given"));
        let mut again = object.clone();
        find(&object).1.default(&mut again);
        assert_eq!(again, object, "{}", case.text("name"));
    }
}

#[test]
fn tables_have_a_cell_for_every_column() {
    let now: Timestamp = "2026-11-15T21:22:45Z".parse().unwrap();
    for (info, strategy) in registry() {
        for object in [
            json!({}),
            json!({ "metadata": { "name": "x" }, "spec": {}, "status": {} }),
        ] {
            let cells = strategy.cells(&object, now);
            assert_eq!(cells.len(), strategy.columns().len(), "{}", info.gvk);
        }
    }
}

/// Rules have to cope with objects that are almost empty.
#[test]
fn rules_survive_empty_objects() {
    for (info, strategy) in registry() {
        let mut object = json!({ "metadata": { "name": "x", "uid": "y" } });
        strategy.default(&mut object);
        strategy.prepare_create(&mut object, context());
        let _ = strategy.validate_create(&object);
        for part in [Part::Main, Part::Status, Part::Other("approval")] {
            let mut new = object.clone();
            strategy.prepare_update(&mut new, &object, part, context());
            let _ = strategy.validate_update(&new, &object, part);
        }
        let _ = (strategy.grace(&object, None), info);
    }
}
