//! What the configuration that advertises a profile says about it: its options and its prerequisites.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use api::advisor::ProfileOptions;
use serde_json::{Value, json};

use crate::profile::Profile;
use crate::snapshot::GroupKind;

/// The member of `spec.options` of each profile that has options. The rules of the CRD bind them to each other.
const OPTIONS: [(&str, &str); 3] = [
    ("load-aware-rebalancing", "loadAware"),
    ("virt-higher-density", "virtHigherDensity"),
    ("node-health-remediation", "nodeHealth"),
];

/// The options of a profile with their types, defaults and ranges, one per line, as the CRD declares them; empty if it
/// has none.
pub fn options(profile: &str) -> String {
    let Some((_, member)) = OPTIONS.iter().find(|(name, _)| *name == profile) else {
        return String::new();
    };
    let definition = json!(api::advisor::definition());
    let path = format!(
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/options/properties/{member}"
    );
    let mut text = String::new();
    let prefix = format!("options.{member}");
    lines(&prefix, definition.pointer(&path), &mut text);
    text
}

/// Appends a line for each scalar property of an object.
fn lines(prefix: &str, schema: Option<&Value>, text: &mut String) {
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    for (name, schema) in properties.into_iter().flatten() {
        let path = format!("{prefix}.{name}");
        let is_atomic = schema["x-kubernetes-map-type"] == "atomic";
        if schema["properties"].is_object() && !is_atomic {
            lines(&path, Some(schema), text);
            continue;
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{path} ({}", schema["type"].as_str().unwrap_or("any"));
        if !schema["default"].is_null() {
            let _ = write!(text, ", default {}", plain(&schema["default"]));
        }
        if let (Some(minimum), Some(maximum)) =
            (schema["minimum"].as_f64(), schema["maximum"].as_f64())
        {
            let _ = write!(text, ", {minimum} to {maximum}");
        }
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<String> = values.iter().map(plain).collect();
            let _ = write!(text, ", one of {}", values.join(", "));
        }
        text.push(')');
        // The CRD's description repeats default and range for `kubectl explain`.
        let about = schema["description"].as_str().unwrap_or_default();
        let purpose = about.split_inclusive(". ").next().unwrap_or_default();
        let _ = writeln!(text, ": {}", purpose.trim_end());
    }
}

/// A value without the quotes of a string.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The kinds that a profile needs by default, with their versions: `KubeDescheduler (operator.openshift.io/v1)`.
///
/// `served` has the version of an installed kind that the profile would use. Of a kind that is not installed, every
/// version will do that the profile supports.
pub fn prerequisites(
    profile: &dyn Profile,
    served: impl Fn(&GroupKind, &[&str]) -> Option<String>,
) -> String {
    let all = profile.prerequisites(&ProfileOptions::default());
    let named = all.iter().map(|one| {
        let mut uses = profile.uses().iter();
        let only = [one.version];
        let versions = uses
            .find(|uses| uses.of == one.of)
            .map_or(&only[..], |uses| uses.versions);
        let version = served(&one.of, versions).unwrap_or_else(|| versions.join(" or "));
        format!("{} ({}/{version})", one.of.kind, one.of.group)
    });
    named.collect::<Vec<_>>().join(", ")
}
