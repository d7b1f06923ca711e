//! In-flight gates: work in the cluster that a disruptive item would interrupt, such as live migrations.
//!
//! ```text
//! ApprovalPolicy spec.inFlightGates --Floor::gates--> Probes (kind, expression)
//!      the edge lists each kind --Matcher::is_in_flight, object by object--> Readings --message--> the item waits
//! ```
//!
//! A gate that cannot be evaluated holds as well: to go on would do the damage that the administrator ruled out.

#[cfg(test)]
mod tests;

use std::fmt;

use api::approval::{GatePreset, InFlightGate};
use jiff::SignedDuration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use machinery::cel::{Environment, EvalError, Expression, VarType};
use machinery::schema::Schema;
use serde_json::Value;

/// How often the objects of a gate that holds an item are listed again.
pub const POLL_INTERVAL: SignedDuration = SignedDuration::from_secs(15);

/// Beginning of the message of an item that waits for a gate.
pub const WAITS: &str = "Waiting until it has finished:";

/// Objects that a message names; the others are counted.
const NAMED_OBJECTS: usize = 3;

/// CEL cost of one gate, for all of its objects. The API server allows a tenth for the rules of one object; an
/// expression over a few fields costs about ten, so this is enough for any number of objects that a cluster holds.
const BUDGET: u64 = 100_000_000;

/// The objects of one kind that a gate depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The gate, as messages name it.
    pub gate: String,
    /// The group; empty for the core group.
    pub group: String,
    /// The versions to read, preferred first.
    pub versions: Vec<String>,
    /// The kind.
    pub kind: String,
    /// CEL over `object`: true while it is in flight.
    pub expression: String,
    /// Whether nothing is in flight if the kind is not installed. Otherwise it is an error: a kind that an administrator
    /// misspelt would never hold anything.
    pub optional: bool,
}

/// A kind of a preset.
struct Preset {
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
    plural: &'static str,
    expression: &'static str,
}

/// KubeVirt's migrations end in one of two phases (`IsFinal` in api/core/v1/types.go).
const MIGRATIONS: &[Preset] = &[Preset {
    group: "kubevirt.io",
    versions: &["v1"],
    kind: "VirtualMachineInstanceMigration",
    plural: "virtualmachineinstancemigrations",
    expression: "!has(object.status) || !has(object.status.phase) || !(object.status.phase in ['Succeeded', 'Failed'])",
}];

/// Uploads are left out: they wait for a client, possibly for ever.
const IMPORTS: &[Preset] = &[
    Preset {
        group: "cdi.kubevirt.io",
        versions: &["v1beta1"],
        kind: "DataVolume",
        plural: "datavolumes",
        expression: "has(object.status) && has(object.status.phase) && (object.status.phase.endsWith('InProgress') || object.status.phase in ['ImportScheduled', 'CloneScheduled'])",
    },
    Preset {
        group: "cdi.kubevirt.io",
        versions: &["v1beta1"],
        kind: "DataImportCron",
        plural: "dataimportcrons",
        expression: "has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Progressing' && c.status == 'True')",
    },
];

/// Phases of Velero that nothing follows; a partial failure is an end as well.
const BACKUPS: &[Preset] = &[
    Preset {
        group: "velero.io",
        versions: &["v1"],
        kind: "Backup",
        plural: "backups",
        expression: VELERO,
    },
    Preset {
        group: "velero.io",
        versions: &["v1"],
        kind: "Restore",
        plural: "restores",
        expression: VELERO,
    },
];

const VELERO: &str = "!has(object.status) || !has(object.status.phase) || !(object.status.phase in ['Completed', 'PartiallyFailed', 'Failed', 'FailedValidation', 'Deleting'])";

const PRESETS: [GatePreset; 3] = [
    GatePreset::Migrations,
    GatePreset::Imports,
    GatePreset::Backups,
];

fn kinds(preset: GatePreset) -> &'static [Preset] {
    match preset {
        GatePreset::Migrations => MIGRATIONS,
        GatePreset::Imports => IMPORTS,
        GatePreset::Backups => BACKUPS,
    }
}

/// Group and plural of each kind of the presets, for RBAC rules.
pub fn preset_resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    let presets = PRESETS.into_iter().flat_map(kinds);
    presets.map(|preset| (preset.group, preset.plural))
}

/// The probes of a gate. `policy` names the ApprovalPolicy.
pub fn probes(policy: &str, gate: &InFlightGate) -> Vec<Probe> {
    let name = format!("{} of ApprovalPolicy {policy}", gate.name);
    if let Some(preset) = gate.preset {
        let ready_made = kinds(preset).iter().map(|preset| Probe {
            gate: name.clone(),
            group: preset.group.to_owned(),
            versions: preset.versions.iter().map(|&it| it.to_owned()).collect(),
            kind: preset.kind.to_owned(),
            expression: preset.expression.to_owned(),
            optional: true,
        });
        return ready_made.collect();
    }
    let objects = gate.objects.clone().unwrap_or_default();
    let (group, version) = objects
        .api_version
        .split_once('/')
        .unwrap_or(("", &objects.api_version));
    vec![Probe {
        gate: name,
        group: group.to_owned(),
        versions: vec![version.to_owned()],
        kind: objects.kind.clone(),
        expression: gate.expression.clone().unwrap_or_default(),
        optional: false,
    }]
}

/// The schema of a version of a kind, unless it keeps fields that it does not have: of those it says nothing.
pub fn schema(definition: &CustomResourceDefinition, version: &str) -> Option<Schema> {
    let mut versions = definition.spec.versions.iter();
    let version = versions.find(|known| known.name == version)?;
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    let schema = serde_json::to_value(schema).ok()?;
    let keeps = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    let parts = schema["properties"].as_object()?;
    if keeps(&schema) || parts.values().any(keeps) {
        return None;
    }
    Schema::parse(&schema).ok()
}

/// A compiled expression, and the rest of its budget.
#[derive(Debug)]
pub struct Matcher {
    expression: Expression,
    left: u64,
}

impl Probe {
    /// Compiles the expression; `schema` is that of the kind, if it is known. Fields that it does not have are errors.
    pub fn compile(&self, schema: Option<&Schema>) -> Result<Matcher, String> {
        let object = match schema {
            Some(schema) if !self.optional => VarType::Object(Box::new(schema.clone()), true),
            _ => VarType::Dyn,
        };
        let environment = Environment::new().with("object", &object);
        let expression = Expression::compile(&self.expression, &environment)?;
        let result = expression.result_name();
        if !["bool", "dyn"].contains(&result.as_str()) {
            return Err(format!("the expression yields {result} instead of bool"));
        }
        Ok(Matcher {
            expression,
            left: BUDGET,
        })
    }
}

impl Matcher {
    /// Whether an object is in flight.
    pub fn is_in_flight(&mut self, object: &Value) -> Result<bool, String> {
        let result = self.expression.eval(&[("object", object)], &mut self.left);
        match result {
            Ok(Value::Bool(is_in_flight)) => Ok(is_in_flight),
            Ok(other) => Err(format!(
                "the expression yields {other} instead of true or false"
            )),
            Err(EvalError::Failed(why)) => Err(why),
            Err(error @ EvalError::BudgetExceeded) => Err(error.to_string()),
        }
    }
}

/// What was found for a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The gate, as messages name it.
    pub gate: String,
    /// The kind.
    pub kind: String,
    /// The objects in flight by namespace and name, or why that is not known.
    pub found: Result<Vec<(String, String)>, String>,
}

impl Reading {
    /// Whether it holds an item.
    pub fn holds(&self) -> bool {
        self.found.as_ref().map_or(true, |found| !found.is_empty())
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gate, kind, found } = self;
        match found {
            Err(why) => write!(f, "gate {gate} cannot be evaluated: {why}"),
            Ok(objects) => {
                for (index, (namespace, name)) in objects.iter().take(NAMED_OBJECTS).enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    let slash = if namespace.is_empty() { "" } else { "/" };
                    write!(f, "{comma}{kind} {namespace}{slash}{name}")?;
                }
                if let Some(more @ 1..) = objects.len().checked_sub(NAMED_OBJECTS) {
                    write!(f, " and {more} more")?;
                }
                write!(f, " (gate {gate})")
            }
        }
    }
}

/// The message of an item that these readings hold; `None` if they hold nothing.
pub fn message(readings: &[Reading]) -> Option<String> {
    let holding = readings.iter().filter(|reading| reading.holds());
    let holding: Vec<_> = holding.map(ToString::to_string).collect();
    (!holding.is_empty()).then(|| format!("{WAITS} {}", holding.join("; ")))
}
