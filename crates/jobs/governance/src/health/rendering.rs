//! Whether a rendered configuration is made from MachineConfigs as they are now.
//!
//! A MachineConfig that is changed was among the sources before, and its name there says nothing about
//! what it is now. Only the content tells: what it says has to be in the rendering, and what no source
//! says any more must not be.

use std::collections::BTreeSet;

use kube_core::DynamicObject;
use serde_json::{Map, Value};

/// The parts of an Ignition configuration that are compared: where entries are, and what names them.
const LISTS: [(&str, &str, &str); 2] = [
    ("/spec/config/storage/files", "path", "file"),
    ("/spec/config/systemd/units", "name", "unit"),
];

/// What of a MachineConfig is not in a rendering, if anything.
pub(super) fn lacks(rendered: &DynamicObject, config: &DynamicObject) -> Option<String> {
    let has: BTreeSet<_> = arguments(rendered).collect();
    if let Some(argument) = arguments(config).find(|argument| !has.contains(argument)) {
        return Some(format!("kernel argument {argument}"));
    }
    // Older configurations are converted before they are rendered, and then say the same otherwise.
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

/// What a rendering has that none of its sources says any more, if anything.
pub(super) fn is_left_over(rendered: &DynamicObject, sources: &[&DynamicObject]) -> Option<String> {
    let said: BTreeSet<_> = sources.iter().copied().flat_map(arguments).collect();
    if let Some(argument) = arguments(rendered).find(|argument| !said.contains(argument)) {
        return Some(format!("kernel argument {argument}"));
    }
    LISTS.iter().find_map(|(list, key, called)| {
        let said: BTreeSet<_> = sources
            .iter()
            .flat_map(|source| entries(source, list))
            .filter_map(|entry| entry[key].as_str())
            .collect();
        let mut names = entries(rendered, list)
            .iter()
            .filter_map(|entry| entry[key].as_str());
        let left = names.find(|name| !said.contains(name))?;
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

/// Whether it is written in the version of Ignition that renderings are written in.
fn is_current(config: &DynamicObject) -> bool {
    let version = config.data.pointer("/spec/config/ignition/version");
    version
        .and_then(Value::as_str)
        .is_some_and(|version| version.starts_with("3."))
}

/// Whether a value says everything that another says. What is empty says nothing: it is there or not
/// as whoever writes it likes.
fn covers(has: &Value, said: &Value) -> bool {
    match (has, said) {
        (_, Value::Null) => true,
        (has, Value::Object(said)) => {
            let none = Map::new();
            let has = has.as_object().unwrap_or(&none);
            said.iter()
                .all(|(field, said)| covers(has.get(field).unwrap_or(&Value::Null), said))
        }
        (has, Value::Array(said)) => {
            let has = has.as_array().map_or(&[][..], Vec::as_slice);
            said.iter()
                .all(|said| has.iter().any(|has| covers(has, said)))
        }
        (has, said) => has == said,
    }
}
