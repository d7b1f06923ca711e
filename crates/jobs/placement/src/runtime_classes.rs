//! RuntimeClasses for the builds of Windows that a cluster has.
//!
//! ```text
//! nodes --wanted--> windows-20348         where the node is of that build
//!                   windows-17763-hyperv  in a utility VM, on the newest nodes that have the handler
//! wanted + live classes + pods that use them --plan--> serve, remove, keep
//! ```
//!
//! The handler of a class is immutable (`ValidateRuntimeClassUpdate`), and so is the class of a pod. A class with
//! another handler therefore gets another name (`windows-17763-v2`), and the old one is deleted when no pod uses it any
//! more. Classes of other managers are never changed, and their names are not reused.

pub mod roles;
#[cfg(test)]
mod tests;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::names;
use wanted::Wanted;
pub use wanted::{MissingHandler, windows_builds};

/// The changes to RuntimeClasses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClassPlan {
    /// Classes to delete, by name; deleted first, so that their names are free for new ones.
    pub remove: Vec<String>,
    /// Classes that should exist.
    pub serve: Vec<ServedClass>,
    /// Obsolete classes that pods still use.
    pub keep: Vec<KeptClass>,
    /// Classes that are not created, and why.
    pub withheld: Vec<MissingHandler>,
}

/// A class that should exist.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedClass {
    /// Its name.
    pub name: String,
    /// The RuntimeClass, with only the fields that Medley manages.
    pub object: Value,
    /// The number of nodes with its handler.
    pub nodes: usize,
    /// Whether the live object already matches.
    pub is_there: bool,
}

/// A class that no node serves any more, but that pods use.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptClass {
    /// Its name.
    pub name: String,
    /// The RuntimeClass, annotated with the reason.
    pub object: Value,
    /// The number of pods that use it.
    pub pods: usize,
    /// Whether the live object already has the reason.
    pub is_there: bool,
}

impl KeptClass {
    /// Why it is kept, and what to do about it.
    pub fn reason(&self) -> String {
        reason(self.pods)
    }
}

fn reason(pods: usize) -> String {
    let pods = match pods {
        1 => "1 pod uses".to_owned(),
        pods => format!("{pods} pods use"),
    };
    format!("no node serves it any more, but {pods} it: it is deleted when no pod uses it any more")
}

/// Managed classes that no node serves any more, by name. The caller has to count the pods that use them.
pub fn obsolete(cluster: &Cluster, existing: &[Value]) -> BTreeSet<String> {
    let (wanted, _) = wanted::wanted(cluster);
    let kept = kept_names(&wanted, existing);
    let ours = existing.iter().filter(|class| is_ours(class));
    ours.map(name)
        .filter(|name| !kept.values().any(|kept| kept == name))
        .map(ToOwned::to_owned)
        .collect()
}

/// Plans the classes of a cluster. `users` counts the pods of classes that are [`obsolete`].
pub fn plan(cluster: &Cluster, existing: &[Value], users: &BTreeMap<String, usize>) -> ClassPlan {
    let (wanted, withheld) = wanted::wanted(cluster);
    let mut plan = ClassPlan {
        withheld,
        ..ClassPlan::default()
    };
    for obsolete in obsolete(cluster, existing) {
        match users.get(&obsolete).copied().unwrap_or_default() {
            // Only without pods: a workload could not recreate a pod whose class is gone, because the API server
            // rejects it.
            0 => plan.remove.push(obsolete),
            pods => plan.keep.extend(kept(&obsolete, pods, existing)),
        }
    }
    let kept = kept_names(&wanted, existing);
    let mut taken: BTreeSet<&str> = existing.iter().map(name).collect();
    for gone in &plan.remove {
        taken.remove(gone.as_str());
    }
    for class in &wanted {
        let name = match kept.get(class.base.as_str()) {
            Some(name) => (*name).to_owned(),
            None => free_name(&class.base, &taken),
        };
        let object = class.object(&name);
        plan.serve.push(ServedClass {
            is_there: existing.iter().any(|it| has(it, &object)),
            name,
            object,
            nodes: class.nodes,
        });
    }
    plan
}

/// Names of classes whose handler is still right, by their base name.
fn kept_names<'a>(wanted: &'a [Wanted], existing: &'a [Value]) -> BTreeMap<&'a str, &'a str> {
    let mut kept = BTreeMap::new();
    for class in wanted {
        let right = existing.iter().find(|it| {
            is_ours(it) && base(name(it)) == class.base && it["handler"] == *class.handler
        });
        if let Some(right) = right {
            kept.insert(class.base.as_str(), name(right));
        }
    }
    kept
}

/// An obsolete class kept for its pods, annotated with the reason.
fn kept(wanted: &str, pods: usize, existing: &[Value]) -> Option<KeptClass> {
    let class = existing.iter().find(|class| name(class) == wanted)?;
    let mut annotations = class["metadata"]["annotations"].clone();
    annotations[names::WHY] = reason(pods).into();
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": wanted,
            "labels": { names::MANAGED_BY: names::MEDLEY },
            "annotations": ours(&annotations),
        },
        "handler": class["handler"],
        "scheduling": class["scheduling"],
    });
    Some(KeptClass {
        name: wanted.to_owned(),
        is_there: has(class, &object),
        object,
        pods,
    })
}

const API_VERSION: &str = "node.k8s.io/v1";
const KIND: &str = "RuntimeClass";

/// The annotations that Medley manages.
fn ours(annotations: &Value) -> Value {
    let all = annotations.as_object().into_iter().flatten();
    let ours = all.filter(|(key, _)| key.starts_with("medley.dev/"));
    ours.map(|(key, value)| (key.clone(), value.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn is_ours(class: &Value) -> bool {
    class["metadata"]["labels"][names::MANAGED_BY] == names::MEDLEY
}

fn name(class: &Value) -> &str {
    class["metadata"]["name"].as_str().unwrap_or_default()
}

/// The name without its version: `windows-17763` of `windows-17763-v2`.
fn base(name: &str) -> &str {
    match name.rsplit_once("-v") {
        Some((base, version)) if version.parse::<u32>().is_ok() => base,
        _ => name,
    }
}

/// The base name, or the first version of it that is not taken.
fn free_name(base: &str, taken: &BTreeSet<&str>) -> String {
    let versions = (2u32..).map(|version| format!("{base}-v{version}"));
    let mut names = std::iter::once(base.to_owned()).chain(versions);
    // There are more versions than classes.
    names
        .find(|name| !taken.contains(name.as_str()))
        .unwrap_or_default()
}

/// Whether a class has all wanted fields. Additions of other managers are ignored, except obsolete annotations of ours.
fn has(class: &Value, wanted: &Value) -> bool {
    let meta = |object: &Value| ours(&object["metadata"]["annotations"]);
    name(class) == name(wanted)
        && is_ours(class)
        && class["handler"] == wanted["handler"]
        // Compared as a whole: scheduling is applied as a unit, and other managers have no reason to add to it.
        && class["scheduling"] == wanted["scheduling"]
        && meta(class) == meta(wanted)
}
