//! Admission of a HyperConverged: validation, defaults and warnings.
//!
//! The rules about the switch are upstream's: the deprecated feature gate is migrated to the field,
//! and must not contradict it.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::cdi::annotations::IMMEDIATE_BIND;
use api::hco::{Gate, GateName, Images, MULTI_ARCH, MULTI_ARCH_PROPOSED, Version};
use api::ssp::{ARCHITECTURES, DataImportCronTemplate, ENABLE};

use serde_json::{Value, json};

use super::merge::set_import_defaults;
use crate::list::ArchitectureList;

const FIELD: &str = "spec.workloadSources.enableMultiArchBootImageImport";

/// The outcome of an admission review.
#[derive(Debug, Clone, PartialEq)]
pub enum HcoAdmission {
    /// It is admitted, with changes.
    Accepted(Box<Changes>),
    /// It is denied.
    Denied(Denial),
}

/// Mutations and warnings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// The value to set the field to.
    pub field: Option<bool>,
    /// Whether to remove the feature gate from the list.
    pub remove_gates: bool,
    /// The templates with defaults; `None` if nothing was missing.
    pub templates: Option<Vec<DataImportCronTemplate>>,
    /// Admission warnings shown by kubectl.
    pub warnings: Vec<String>,
}

impl Changes {
    /// The changed spec of a HyperConverged of this API version.
    pub fn apply_to(&self, version: Version, spec: &Value) -> Value {
        let mut spec = spec.clone();
        let set = |spec: &mut Value, name: &str, value: Value| match version {
            Version::V1 => spec["workloadSources"][name] = value,
            Version::V1Beta1 => spec[name] = value,
        };
        if let Some(on) = self.field {
            set(&mut spec, MULTI_ARCH, json!(on));
        }
        if let Some(templates) = &self.templates {
            set(&mut spec, "dataImportCronTemplates", json!(templates));
        }
        if self.remove_gates
            && let Some(gates) = spec["featureGates"].as_array_mut()
        {
            let names = [MULTI_ARCH, MULTI_ARCH_PROPOSED];
            gates.retain(|gate| {
                let name = gate["name"].as_str().unwrap_or_default();
                !names.iter().any(|gone| name.eq_ignore_ascii_case(gone))
            });
        }
        spec
    }
}

/// Why it is denied. Upstream's messages where upstream has the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The feature gate and the field contradict each other.
    #[error(
        "the deprecated {MULTI_ARCH} feature gate, and the {FIELD} field contradict each other; the feature gate must not be set, or should be equal to the field"
    )]
    Contradiction,
    /// The enable annotation of a template is not a boolean.
    #[error(
        "invalid annotation in the {template} dataImportCronTemplate: {ENABLE} is {value:?}; \"true\" and \"false\" are accepted"
    )]
    Enable {
        /// The template.
        template: String,
        /// The value of the annotation.
        value: String,
    },
    /// An enabled template has no spec.
    #[error("dataImportCronTemplate {0:?} has no spec; one that is not disabled needs it")]
    NoSpec(String),
    /// A template has no name.
    #[error("missing name in dataImportCronTemplate")]
    NoName,
    /// Two templates have the same name.
    #[error("{0} dataImportCronTemplate is already defined; names have to be unique")]
    Duplicate(String),
}

/// Reviews a HyperConverged that is created, or updated from `old`.
pub fn review(old: Option<&Images>, new: &Images) -> HcoAdmission {
    let mut changes = Changes::default();
    if let Err(denial) = templates(new, &mut changes) {
        return HcoAdmission::Denied(denial);
    }
    if new.proposed_field.is_some() || new.gates.iter().any(|gate| gate.name == GateName::Proposed)
    {
        changes.warnings.push(format!(
            "{MULTI_ARCH_PROPOSED} was renamed to {MULTI_ARCH}; please use the {FIELD} field instead"
        ));
    }
    if new.version == Version::V1
        && let Err(denial) = switch(old, new, &mut changes)
    {
        return HcoAdmission::Denied(denial);
    }
    HcoAdmission::Accepted(Box::new(changes))
}

fn switch(old: Option<&Images>, new: &Images, changes: &mut Changes) -> Result<(), Denial> {
    let (gate, field) = (gate(new), field(new));
    let Some(gate) = gate else {
        return Ok(());
    };
    let Some(field) = field else {
        changes.field = Some(gate.on);
        changes.warnings.push(deprecated(gate));
        return Ok(());
    };
    let Some(old) = old else {
        return if gate.on == field {
            changes.warnings.push(deprecated(gate));
            Ok(())
        } else {
            Err(Denial::Contradiction)
        };
    };
    // The table of pkg/webhooks/mutator/fg_to_fields.go in HCO: what the request changed is what
    // its author means; if it changed both in different ways, nothing can be inferred.
    let gate_changed = self::gate(old).map(|gate| gate.on) != Some(gate.on);
    let field_changed = self::field(old) != Some(field);
    match (gate_changed, field_changed) {
        (true, true) if gate.on != field => Err(Denial::Contradiction),
        (true, false) if gate.on != field => {
            changes.field = Some(gate.on);
            changes.warnings.push(deprecated(gate));
            Ok(())
        }
        (false, true) => {
            changes.remove_gates = true;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn deprecated(gate: Gate) -> String {
    format!(
        "feature gate {} is deprecated; please use the {FIELD} field instead",
        gate.name.as_str()
    )
}

fn gate(images: &Images) -> Option<Gate> {
    let find = |name| images.gates.iter().find(|gate| gate.name == name).copied();
    find(GateName::Current).or_else(|| find(GateName::Proposed))
}

fn field(images: &Images) -> Option<bool> {
    images.field.or(images.proposed_field)
}

fn templates(images: &Images, changes: &mut Changes) -> Result<(), Denial> {
    let mut names = BTreeSet::new();
    let mut templates = images.templates.clone();
    for template in &mut templates {
        let name = template.name().to_owned();
        if name.is_empty() {
            return Err(Denial::NoName);
        }
        if !names.insert(name.clone()) {
            return Err(Denial::Duplicate(name));
        }
        let mut enabled = true;
        if let Some(value) = template.annotation(ENABLE) {
            match value.to_ascii_lowercase().as_str() {
                "true" => {}
                "false" => enabled = false,
                _ => {
                    return Err(Denial::Enable {
                        template: name,
                        value: value.to_owned(),
                    });
                }
            }
        }
        if enabled && template.spec.is_none() {
            return Err(Denial::NoSpec(name));
        }
        if let Some(text) = template.annotation(ARCHITECTURES) {
            changes.warnings.extend(listed(&name, text));
        }
        set_defaults(template);
    }
    if templates != images.templates {
        changes.templates = Some(templates);
    }
    Ok(())
}

/// Warnings about a list of architectures. Upstream does not warn, and drops unknown or untrimmed
/// entries silently.
fn listed(name: &str, text: &str) -> Vec<String> {
    let listed = ArchitectureList::parse(text);
    let mut warnings = Vec::new();
    if !listed.unknown.is_empty() {
        warnings.push(format!(
            "dataImportCronTemplate {name}: {ARCHITECTURES} lists unsupported architectures {}; they are ignored; amd64, arm64 and s390x are supported",
            listed.unknown.join(", ")
        ));
    }
    if listed.untidy {
        warnings.push(format!(
            "dataImportCronTemplate {name}: {ARCHITECTURES} is {text:?}; it is parsed as {:?}",
            listed.known.join(",")
        ));
    }
    warnings
}

/// Sets the defaults of a template.
fn set_defaults(template: &mut DataImportCronTemplate) {
    template
        .metadata
        .annotations
        .get_or_insert_default()
        .entry(IMMEDIATE_BIND.to_owned())
        .or_insert_with(|| "true".to_owned());
    if let Some(spec) = &mut template.spec {
        set_import_defaults(spec);
    }
}
