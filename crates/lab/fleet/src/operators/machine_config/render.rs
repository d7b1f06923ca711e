//! Merges the configurations of a pool into a rendered one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::openshift::annotations::RELEASE_VERSION;
use k8s_openapi::api::core::v1::ObjectReference;
use machinery::selector::LabelSelector;
use serde_json::{Map, Value, json};

use crate::hash;
use crate::names::{SIMULATED, annotation, annotation_is_true, label, name_of};
use crate::operators::names::ROLE_LABEL;
use crate::operators::{MachineConfig, MachineConfigPool, MachineConfigSpec};

/// Ignition version of rendered configurations.
const RENDERED_VERSION: &str = "3.5.0";
/// Supported Ignition versions.
const SUPPORTED_VERSIONS: [&str; 7] = ["2.2", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5"];

/// A rendered configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rendered {
    /// Its name, derived from its content.
    pub(super) name: String,
    pub(super) spec: MachineConfigSpec,
    /// Its sources in merge order.
    pub(super) source: Vec<ObjectReference>,
    /// The release of the operating system, if a source is annotated with it.
    pub(super) release: Option<String>,
}

/// Renders the configurations that a pool selects, or returns why it cannot.
pub(super) fn render(
    pool: &MachineConfigPool,
    configs: &[Arc<MachineConfig>],
) -> Result<Rendered, String> {
    let selected = select(pool, configs)?;
    let mut config = json!({ "ignition": { "version": RENDERED_VERSION } });
    let mut spec = MachineConfigSpec::default();
    let (mut arguments, mut extensions) = (Vec::new(), Vec::new());
    for part in &selected {
        let name = name_of(&part.metadata);
        if let Some(more) = part.spec.config.as_ref().filter(|it| !it.is_null()) {
            merge(&mut config, understood(name, more)?);
        }
        // All arguments, including repeated ones: the kernel uses the last.
        arguments.extend(part.spec.kernel_arguments.clone().unwrap_or_default());
        for extension in part.spec.extensions.iter().flatten() {
            if !extensions.contains(extension) {
                extensions.push(extension.clone());
            }
        }
        // Any part can enable it, and none can disable it again.
        spec.fips = Some(spec.fips == Some(true) || part.spec.fips == Some(true));
        let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        spec.kernel_type = non_empty(&part.spec.kernel_type).or(spec.kernel_type);
        spec.os_image_url = non_empty(&part.spec.os_image_url).or(spec.os_image_url);
    }
    config["ignition"]["version"] = json!(RENDERED_VERSION);
    spec.config = Some(config);
    spec.kernel_arguments = Some(arguments);
    spec.extensions = Some(extensions);
    let content = json!(spec).to_string();
    let pool_name = name_of(&pool.metadata);
    Ok(Rendered {
        // By content, as upstream: the same sources give the same name, and no node reboots for
        // them.
        name: format!("rendered-{pool_name}-{:032x}", hash::of(content.as_bytes())),
        spec,
        source: selected.iter().map(|part| reference(part)).collect(),
        release: selected
            .iter()
            .rev()
            .find_map(|part| annotation(&part.metadata, RELEASE_VERSION).map(str::to_owned)),
    })
}

/// The configurations of a pool: those of workers first, because custom pools override what they
/// inherit, and by name within each group.
fn select<'a>(
    pool: &MachineConfigPool,
    configs: &'a [Arc<MachineConfig>],
) -> Result<Vec<&'a MachineConfig>, String> {
    let wanted = json!(pool.spec.machine_config_selector);
    let selector = LabelSelector::from_label_selector_object(&wanted)
        .map_err(|error| format!("invalid label selector: {error}"))?;
    let mut selected: Vec<&MachineConfig> = configs
        .iter()
        .map(AsRef::as_ref)
        .filter(|config| selector.matches(|key| label(&config.metadata, key)))
        .collect();
    if selected.is_empty() {
        return Err(format!(
            "no MachineConfigs found matching selector {selector}"
        ));
    }
    selected.sort_by_key(|config| {
        let others = label(&config.metadata, ROLE_LABEL) != Some("worker");
        (others, name_of(&config.metadata))
    });
    Ok(selected)
}

fn reference(config: &MachineConfig) -> ObjectReference {
    ObjectReference {
        api_version: Some("machineconfiguration.openshift.io/v1".to_owned()),
        kind: Some("MachineConfig".to_owned()),
        name: config.metadata.name.clone(),
        ..ObjectReference::default()
    }
}

/// Checks that the configuration is in a supported Ignition version.
fn understood<'a>(name: &str, config: &'a Value) -> Result<&'a Value, String> {
    let version = config.pointer("/ignition/version").and_then(Value::as_str);
    let known = version.is_some_and(|version| {
        SUPPORTED_VERSIONS.iter().any(|known| {
            version
                .strip_prefix(known)
                .is_some_and(|rest| rest.starts_with('.'))
        })
    });
    if known {
        return Ok(config);
    }
    Err(format!(
        "parsing Ignition config of MachineConfig {name} failed: unknown version {}. Supported spec versions: {}",
        version.map_or_else(|| "(none)".to_owned(), |version| format!("{version:?}")),
        SUPPORTED_VERSIONS.join(", "),
    ))
}

/// Merges `more` into a configuration: entries with a path or name replace earlier ones with the
/// same identity, other lists are appended, and scalars are overwritten.
fn merge(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(base), Value::Array(more)) => {
            for item in more {
                let same = identity(item).and_then(|id| {
                    let mut known = base.iter();
                    known.position(|known| identity(known) == Some(id))
                });
                match same {
                    Some(at) => replace(&mut base[at], item),
                    None if base.contains(item) => {}
                    None => base.push(item.clone()),
                }
            }
        }
        (base, more) => *base = more.clone(),
    }
}

/// The identity of a list entry: its path or name.
fn identity(item: &Value) -> Option<&str> {
    let item = item.as_object()?;
    item.get("path").or_else(|| item.get("name"))?.as_str()
}

/// A file is replaced as a whole, a unit or user field by field.
fn replace(known: &mut Value, item: &Value) {
    let whole = |item: &Map<String, Value>| item.contains_key("path");
    match (known, item) {
        (Value::Object(known), Value::Object(item)) if !whole(item) => {
            for (key, value) in item {
                merge(known.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (known, item) => *known = item.clone(),
    }
}

/// Whether a configuration rendered by another operator is equivalent, so that its name is kept: a
/// cluster copied into the lab does not reboot all nodes because the simulated operator renders
/// under another name.
pub(super) fn is_as_good(
    theirs: &MachineConfig,
    made_of: &[ObjectReference],
    ours: &Rendered,
) -> bool {
    let names = |source: &[ObjectReference]| -> BTreeSet<String> {
        source.iter().filter_map(|it| it.name.clone()).collect()
    };
    let arguments = |spec: &MachineConfigSpec| spec.kernel_arguments.clone().unwrap_or_default();
    // A copied configuration may lack its files; then they are not compared.
    let has_files = theirs.spec.config.as_ref().is_some_and(Value::is_object);
    let same = |list: &str, content: &str| {
        !has_files || contents(&theirs.spec, list, content) == contents(&ours.spec, list, content)
    };
    !annotation_is_true(&theirs.metadata, SIMULATED)
        && names(made_of) == names(&ours.source)
        && arguments(&theirs.spec) == arguments(&ours.spec)
        && same("/storage/files", "/contents/source")
        && same("/systemd/units", "/contents")
}

/// The contents of list entries, by identity. An empty file equals one without a source.
fn contents<'a>(
    spec: &'a MachineConfigSpec,
    list: &str,
    content: &str,
) -> BTreeMap<&'a str, &'a str> {
    let list = spec.config.as_ref().and_then(|config| config.pointer(list));
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    entries
        .filter_map(|entry| {
            let holds = entry.pointer(content).and_then(Value::as_str);
            Some((identity(entry)?, holds.unwrap_or_default()))
        })
        .collect()
}

/// Whether the kernel arguments enable PSI: of several `psi=` the last takes effect.
pub(super) fn has_psi(config: &MachineConfig) -> bool {
    let arguments = config.spec.kernel_arguments.iter().flatten();
    let last = arguments
        .filter_map(|argument| argument.strip_prefix("psi="))
        .next_back();
    last == Some("1")
}

#[cfg(test)]
mod tests;
