//! Whether a rendered configuration is made from the current MachineConfigs.
//!
//! A changed MachineConfig was a source before the change as well, so its name among the sources proves nothing. Only
//! the content does: all of its settings have to be in the rendered configuration, and settings that no source contains
//! any more must not be.

use std::collections::BTreeSet;

use kube_core::DynamicObject;
use serde_json::{Map, Value};

/// The compared lists of an Ignition configuration: their paths and keys.
const LISTS: [(&str, &str, &str); 2] = [
    ("/spec/config/storage/files", "path", "file"),
    ("/spec/config/systemd/units", "name", "unit"),
];

/// The first setting of a MachineConfig that is missing in a rendered configuration.
pub(super) fn lacks(rendered: &DynamicObject, config: &DynamicObject) -> Option<String> {
    let has: BTreeSet<_> = arguments(rendered).collect();
    if let Some(argument) = arguments(config).find(|argument| !has.contains(argument)) {
        return Some(format!("kernel argument {argument}"));
    }
    // Older Ignition versions are converted when rendered, and then look different.
    if !is_current(config) {
        return None;
    }
    LISTS.iter().find_map(|(list, key, called)| {
        let rendered = entries(rendered, list);
        let mut ours = entries(config, list).iter();
        let missing = ours.find(|entry| {
            let mut named = rendered.iter().filter(|other| other[key] == entry[key]);
            !named.any(|other| covers(other, entry))
        })?;
        let name = missing[key].as_str().unwrap_or_default();
        Some(format!("{called} {name}"))
    })
}

/// The first setting of a rendered configuration that no source contains any more.
pub(super) fn is_left_over(rendered: &DynamicObject, sources: &[&DynamicObject]) -> Option<String> {
    let declared: BTreeSet<_> = sources.iter().copied().flat_map(arguments).collect();
    if let Some(argument) = arguments(rendered).find(|argument| !declared.contains(argument)) {
        return Some(format!("kernel argument {argument}"));
    }
    LISTS.iter().find_map(|(list, key, called)| {
        let declared: BTreeSet<_> = sources
            .iter()
            .flat_map(|source| entries(source, list))
            .filter_map(|entry| entry[key].as_str())
            .collect();
        let mut names = entries(rendered, list)
            .iter()
            .filter_map(|entry| entry[key].as_str());
        let left = names.find(|name| !declared.contains(name))?;
        Some(format!("{called} {left}"))
    })
}

fn arguments(config: &DynamicObject) -> impl Iterator<Item = &str> {
    let list = config.data.pointer("/spec/kernelArguments");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str)
}

fn entries<'a>(config: &'a DynamicObject, list: &str) -> &'a [Value] {
    let list = config.data.pointer(list).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Whether it uses the Ignition version of rendered configurations.
fn is_current(config: &DynamicObject) -> bool {
    let version = config.data.pointer("/spec/config/ignition/version");
    version
        .and_then(Value::as_str)
        .is_some_and(|version| version.starts_with("3."))
}

/// Whether a value contains everything of another. Empty values are ignored: serializers may omit them.
fn covers(has: &Value, declared: &Value) -> bool {
    match (has, declared) {
        (_, Value::Null) => true,
        (has, Value::Object(declared)) => {
            let none = Map::new();
            let has = has.as_object().unwrap_or(&none);
            declared
                .iter()
                .all(|(field, declared)| covers(has.get(field).unwrap_or(&Value::Null), declared))
        }
        (has, Value::Array(declared)) => {
            let has = has.as_array().map_or(&[][..], Vec::as_slice);
            declared
                .iter()
                .all(|declared| has.iter().any(|has| covers(has, declared)))
        }
        (has, declared) => has == declared,
    }
}
