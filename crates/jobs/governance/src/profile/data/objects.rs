//! Objects from a file as a snapshot, to evaluate a profile without a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_core::DynamicObject;
use serde_json::Value;

use super::KindUse;
use crate::snapshot::{Kind, Snapshot};

/// A snapshot of these objects; items of lists count one by one. All kinds that the profile uses are installed, in the
/// version of the objects, or in the best one.
pub fn snapshot(uses: &[KindUse], objects: Vec<Value>) -> Result<Snapshot, String> {
    let mut all = Vec::new();
    for object in objects {
        match object.get("items").and_then(Value::as_array) {
            Some(items) => all.extend(items.iter().cloned()),
            None if object.is_null() => {}
            None => all.push(object),
        }
    }
    let mut kinds: Vec<Kind> = uses
        .iter()
        .map(|one| Kind {
            version: one.versions.first().copied().unwrap_or_default().to_owned(),
            plural: one.plural.to_owned(),
            definition: None,
            objects: BTreeMap::new(),
        })
        .collect();
    for object in all {
        let text = |field: &str| {
            object
                .pointer(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (group, version) = match text("/apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text("/apiVersion")),
        };
        let of = |one: &&KindUse| one.of.group == group && one.of.kind == text("/kind");
        let Some(index) = uses.iter().position(|one| of(&one)) else {
            // A file may have more than the profile reads, like a snapshot of a cluster.
            continue;
        };
        let key = (
            text("/metadata/namespace").to_owned(),
            text("/metadata/name").to_owned(),
        );
        let version = version.to_owned();
        let read: DynamicObject = serde_json::from_value(object.clone())
            .map_err(|error| format!("{} {}: {error}", uses[index].of.kind, key.1))?;
        if !uses[index].versions.contains(&version.as_str()) {
            return Err(format!(
                "{} {} is of version {version}; the profile uses {}",
                uses[index].of.kind,
                key.1,
                uses[index].versions.join(", ")
            ));
        }
        kinds[index].version = version;
        kinds[index].objects.insert(key, Arc::new(read));
    }
    let mut snapshot = Snapshot::default();
    for (one, kind) in uses.iter().zip(kinds) {
        snapshot.insert(one.of, kind);
    }
    Ok(snapshot)
}
