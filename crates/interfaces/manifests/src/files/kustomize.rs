//! The installation for kustomize: the base is the output of `medley manifests`, and overlays add
//! to it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Files, documents};
use crate::{ACCOUNT, Error, Object, Options, Part, objects};

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
    Ok(files)
}

/// The difference between the base and the manifests of other options: more objects, and more
/// arguments of the operator.
fn overlay(
    files: &mut Files,
    name: &str,
    base: &[Object],
    wanted: Vec<Object>,
) -> Result<(), Error> {
    let before = base.iter().find_map(arguments);
    let after = wanted.iter().find_map(arguments);
    let known = before.unwrap_or_default();
    let more = after.unwrap_or_default();
    let more = more.iter().filter(|it| !known.contains(it));
    let operations: Vec<Value> = more
        .map(|argument| {
            json!({
                "op": "add",
                "path": "/spec/template/spec/containers/0/args/-",
                "value": argument,
            })
        })
        .collect();
    let mut patches = Vec::new();
    if !operations.is_empty() {
        patches.push(json!({
            "target": { "group": "apps", "kind": "Deployment", "name": ACCOUNT },
            "patch": super::yaml(&operations)?,
        }));
    }
    let is_new = |object: &Object| {
        let name = |value: &Value| (value["kind"].clone(), value["metadata"]["name"].clone());
        !base.iter().any(|it| name(&it.value) == name(&object.value))
    };
    let new = wanted.into_iter().filter(is_new).map(|it| it.value);
    let new: Vec<Value> = new.collect();
    let folder = format!("{OVERLAYS}/{name}");
    let resources = ["../../base".to_owned(), format!("{name}.yaml")];
    files.insert(format!("{folder}/{name}.yaml"), documents(&new)?);
    files.insert(
        format!("{folder}/kustomization.yaml"),
        kustomization(&resources, patches)?,
    );
    Ok(())
}

/// The arguments of the operator, if this is its Deployment.
fn arguments(object: &Object) -> Option<Vec<Value>> {
    let value = &object.value;
    let is_operator = value["kind"] == "Deployment" && value["metadata"]["name"] == ACCOUNT;
    let arguments = value["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    arguments.filter(|_| is_operator).cloned()
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
