//! The installation for kustomize: the base is the output of `medley manifests`, and overlays add
//! to it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Files, documents};
use crate::{Error, Object, Options, Part, objects};

const BASE: &str = "kustomize/base";
const OVERLAYS: &str = "kustomize/overlays";

pub(super) fn files() -> Result<Files, Error> {
    let plain = Options::default();
    let base = objects(&plain)?;
    let mut files = Files::new();
    let mut parts: BTreeMap<Part, Vec<Value>> = BTreeMap::new();
    for object in base.clone() {
        parts.entry(object.part).or_default().push(object.value);
    }
    let names: Vec<String> = parts.keys().map(|part| format!("{part}.yaml")).collect();
    for (part, objects) in parts {
        files.insert(format!("{BASE}/{part}.yaml"), documents(&objects)?);
    }
    files.insert(
        format!("{BASE}/kustomization.yaml"),
        kustomization(&names, Vec::new())?,
    );

    let monitored = objects(&Options {
        monitoring: true,
        ..plain.clone()
    })?;
    overlay(&mut files, "monitoring", &base, monitored)?;
    let with_console = objects(&Options {
        console: true,
        ..plain
    })?;
    overlay(&mut files, "console", &base, with_console)?;
    let on_openshift = objects(&Options {
        openshift: true,
        monitoring: true,
        ..Options::default()
    })?;
    overlay(&mut files, "openshift", &base, on_openshift)?;
    Ok(files)
}

/// The difference between the base and the manifests of other options: more objects, and patches of those that differ.
/// Only arguments of a program have a patch of their own, so that two overlays can both add some.
fn overlay(
    files: &mut Files,
    name: &str,
    base: &[Object],
    wanted: Vec<Object>,
) -> Result<(), Error> {
    let name_of = |value: &Value| (value["kind"].clone(), value["metadata"]["name"].clone());
    let (mut new, mut patches) = (Vec::new(), Vec::new());
    for Object { value, .. } in wanted {
        let before = base.iter().find(|it| name_of(&it.value) == name_of(&value));
        match before {
            None => new.push(value),
            Some(before) => patches.extend(patch(&before.value, &value)?),
        }
    }
    let folder = format!("{OVERLAYS}/{name}");
    let resources = ["../../base".to_owned(), format!("{name}.yaml")];
    files.insert(format!("{folder}/{name}.yaml"), documents(&new)?);
    files.insert(
        format!("{folder}/kustomization.yaml"),
        kustomization(&resources, patches)?,
    );
    Ok(())
}

/// The patch that makes one object of another, as JSON patch: additions of fields and of list items.
fn patch(before: &Value, after: &Value) -> Result<Option<Value>, Error> {
    let mut operations = Vec::new();
    additions("", before, after, &mut operations);
    if operations.is_empty() {
        return Ok(None);
    }
    let version = after["apiVersion"].as_str().unwrap_or_default();
    let mut target = json!({ "kind": after["kind"], "name": after["metadata"]["name"] });
    if let Some((group, _)) = version.split_once('/') {
        target["group"] = group.into();
    }
    let patch = super::yaml(&operations)?;
    Ok(Some(json!({ "target": target, "patch": patch })))
}

fn additions(path: &str, before: &Value, after: &Value, operations: &mut Vec<Value>) {
    let add = |path: String, value: &Value| json!({ "op": "add", "path": path, "value": value });
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                match old.get(key) {
                    None => operations.push(add(path, value)),
                    Some(old) => additions(&path, old, value, operations),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.iter().all(Value::is_object) => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                additions(&format!("{path}/{at}"), old, new, operations);
            }
            // Optional items, such as volumes, come after the others.
            let more = new.iter().skip(old.len());
            operations.extend(more.map(|item| add(format!("{path}/-"), item)));
        }
        (Value::Array(old), Value::Array(new)) => {
            let more = new.iter().filter(|it| !old.contains(it));
            operations.extend(more.map(|item| add(format!("{path}/-"), item)));
        }
        _ if before != after => operations.push(add(path.to_owned(), after)),
        _ => {}
    }
}

fn kustomization(resources: &[String], patches: Vec<Value>) -> Result<String, Error> {
    let mut object = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    });
    if !patches.is_empty() {
        object["patches"] = patches.into();
    }
    documents(&[object])
}
