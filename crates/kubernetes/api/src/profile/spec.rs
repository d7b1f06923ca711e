//! The spec of PlatformProfile.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::status::PlatformProfileStatus;
use crate::advisor::Impact;

/// A named set of changes, computed by expressions.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "medley.dev",
    version = "v1alpha1",
    kind = "PlatformProfile",
    plural = "platformprofiles",
    status = "PlatformProfileStatus",
    schema = "disabled",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct PlatformProfileSpec {
    /// The purpose, as a sentence.
    pub description: String,
    /// The category, a label value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The impact before a plan determines it.
    pub impact: Impact,
    /// The impact, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact_summary: Option<String>,
    /// The documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// Whether a configuration with action Ignore is created for it (true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertised: Option<bool>,
    /// The structural schema of the options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Value>,
    /// The kinds it reads or writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindSpec>,
    /// The objects that expressions see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<ReadSpec>,
    /// Texts, such as the contents of files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
    /// Named values. Each may refer to those before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<VariableSpec>,
    /// Options that cannot be used, beyond what the schema says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<RefusalSpec>,
    /// Values of other objects that the plan depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputSpec>,
    /// The changes, in the order of execution.
    pub items: Vec<ItemSpec>,
    /// What may fail although everything is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WarningSpec>,
    /// The options that request a manually set value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopt: Vec<Adoption>,
}

/// A kind of objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindSpec {
    /// Its name in this profile.
    pub name: String,
    /// Its group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The plural resource name.
    pub resource: String,
    /// Usable versions, best first.
    pub versions: Vec<String>,
    /// Only objects with this name are read. Only of kinds of Kubernetes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// Whether objects that the profile created may be deleted (true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletable: Option<bool>,
    /// Makes the kind a prerequisite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<Requirement>,
}

/// When a kind has to be installed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// What to do if it is not.
    pub remedy: String,
    /// The version in messages; the last one of the kind if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Only if this expression over the options is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

/// Objects that expressions see, as a variable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadSpec {
    /// The variable.
    pub name: String,
    /// The kind, by its name in this profile.
    pub of: String,
    /// One object, empty while it does not exist. All objects of the kind, as a list, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// The most objects of a list (500).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_objects: Option<u32>,
    /// The schema of the objects; fields are not checked if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Of MachineConfigPools, only those that take MachineConfigs with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taking: Option<BTreeMap<String, String>>,
    /// Fields of the installed kind, of which the variable `fields` shows whether it accepts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// The name of an object; parts in `${}` are expressions over the options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether an object in another namespace is taken where there is none in this one (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_namespace: Option<bool>,
}

/// A named value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VariableSpec {
    /// The variable.
    pub name: String,
    /// The expression.
    pub expression: String,
}

/// Options that cannot be used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusalSpec {
    /// The expression that is true for them.
    pub when: String,
    /// Why; a template.
    pub message: String,
}

/// A value of another object that the plan depends on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputSpec {
    /// The name, as a key of the variable `inputs`.
    pub name: String,
    /// Whether it is used; always if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The object, by the name of a read of one object.
    pub read: String,
    /// The dotted path of the field; a template.
    pub path: String,
    /// The value in the plan; an expression that sees the field as `raw`, null if it is not set.
    pub derived: String,
}

/// A change of one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemSpec {
    /// Its name.
    pub name: String,
    /// Whether it is requested; always if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The object that is changed.
    pub target: TargetSpec,
    /// The desired fields, without apiVersion, kind and name; a template.
    pub object: Value,
    /// The managed fields, as dotted paths; templates. Those that the object does not set are left out.
    pub managed: Vec<String>,
    /// The impact: the level of the first rule that applies. That of the profile if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impact: Vec<ImpactRule>,
    /// What the change is; a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Items that have to be in force first, if they are requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// Whether the change has taken effect: the state of the first rule that applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<HealthRule>,
}

/// The object that an item changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSpec {
    /// The kind, by its name in this profile.
    pub of: String,
    /// Its name; a template.
    pub name: String,
    /// Its namespace; a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A rule for the impact of a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImpactRule {
    /// When it applies; always if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The impact.
    pub level: ImpactLevel,
}

/// The impact of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImpactLevel {
    /// Low.
    #[default]
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// That of a MachineConfig: by its pools, and by the node disruption policies of the cluster.
    MachineConfig,
}

/// Another item that has to be in force first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// The item.
    pub item: String,
    /// When it is needed; always if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

/// A rule for the health of a changed object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthRule {
    /// When it applies: an expression that sees the object as `live`. Always if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The state.
    pub state: HealthState,
    /// What is reported; a template that sees the object as `live`.
    pub message: String,
}

/// Whether a change has taken effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HealthState {
    /// It has.
    #[default]
    Healthy,
    /// Not yet.
    Waiting,
    /// It cannot.
    Failed,
}

/// What may fail although everything is applied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WarningSpec {
    /// When it applies; always if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The warning; a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Several warnings: an expression whose value is a list of strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<String>,
}

/// The options that request a manually set value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adoption {
    /// The fields, as dotted paths.
    pub paths: Vec<String>,
    /// Whether the rule is for a field that was removed (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<bool>,
    /// The values that an option can express: an expression that sees the field as `live`. All if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Why the others cannot be adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The options; a template that sees the field as `live`.
    pub options: Value,
}
