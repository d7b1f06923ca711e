//! The built-in kinds.
//!
//! Every kind is an [`entry::Entry`]: names and properties as data, rules as small functions on JSON
//! objects. Shared rules are next to them: pod specs, labels, resources, checks, table cells.
//!
//! ```text
//! types (decoding, merging) --+
//!                             +--> BuiltinStrategy --> REST layer
//! entries (rules) ------------+
//! ```

pub(crate) mod admission;
mod admission_registration;
mod apiextensions;
mod apps;
pub(crate) mod autoscaling;
mod batch;
mod certificates;
pub(crate) mod check;
mod coordination;
mod core;
mod diff;
mod discovery;
mod entry;
pub(crate) mod events;
mod ip;
pub(crate) mod labels;
mod layout;
mod networking;
mod node;
pub(crate) mod pod_identity;
mod pod_spec;
mod policy;
pub(crate) mod print;
mod rbac;
mod resources;
mod scheduling;
mod storage;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::sync::Arc;

use jiff::Timestamp;
use machinery::apply::{FieldSet, Schema, TypeRef};
use machinery::gvk::GroupVersionKind;
use machinery::patch::StrategicType;
use machinery::table::Column;
use serde_json::Value;

use crate::builtin::entry::{Capability, Entry};
use crate::kind::{Decoded, Findings, Grace, KindInfo, Part, ScalePaths, Strategy, WriteContext};
use crate::types::{self, Strategic, TypeId};

/// All built-in kinds with their strategies for the REST layer.
pub(crate) fn registry() -> Vec<(KindInfo, Arc<dyn Strategy>)> {
    entries()
        .filter_map(|entry| Some((info(entry), strategy(entry)?)))
        .collect()
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    [
        core::ENTRIES,
        &[core::event::EVENTS_V1],
        admission_registration::ENTRIES,
        apiextensions::ENTRIES,
        apps::ENTRIES,
        autoscaling::ENTRIES,
        batch::ENTRIES,
        certificates::ENTRIES,
        coordination::ENTRIES,
        discovery::ENTRIES,
        networking::ENTRIES,
        node::ENTRIES,
        policy::ENTRIES,
        rbac::ENTRIES,
        scheduling::ENTRIES,
        storage::ENTRIES,
    ]
    .into_iter()
    .flatten()
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn info(entry: &Entry) -> KindInfo {
    let scale = entry.has(Capability::Scale).then(|| ScalePaths {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: Some(".spec.selector".to_owned()),
    });
    KindInfo {
        gvk: GroupVersionKind::new(entry.group, entry.version, entry.kind),
        plural: entry.plural.to_owned(),
        singular: entry.kind.to_lowercase(),
        list_kind: format!("{}List", entry.kind),
        short_names: owned(entry.short_names),
        categories: owned(entry.categories),
        namespaced: entry.namespaced,
        has_generation: entry.has(Capability::Generation),
        has_status: entry.has(Capability::Status),
        scale,
        deprecation: entry.deprecation.map(str::to_owned),
        create_on_update: entry.has(Capability::CreateOnUpdate),
        unconditional_update: !entry.has(Capability::ConditionalUpdate),
        delete_returns_object: entry.has(Capability::DeleteReturnsObject),
    }
}

/// `None` for a kind without a type in the table; a test verifies that there is none.
fn strategy(entry: &'static Entry) -> Option<Arc<dyn Strategy>> {
    let type_id = types::table().kind(entry.group, entry.version, entry.kind)?;
    Some(Arc::new(BuiltinStrategy {
        entry,
        type_id,
        strategic: Strategic::new(type_id),
    }))
}

/// A kind's type and rules.
struct BuiltinStrategy {
    entry: &'static Entry,
    type_id: TypeId,
    strategic: Strategic,
}

impl Strategy for BuiltinStrategy {
    fn decode(&self, raw: Value) -> Result<Decoded, String> {
        let decoded = types::decode_json(self.type_id, raw)?;
        Ok(Decoded {
            object: decoded.object,
            unknown: decoded.unknown,
            warnings: Vec::new(),
        })
    }

    fn default(&self, object: &mut Value) {
        (self.entry.default)(object);
    }

    fn prepare_create(&self, object: &mut Value, context: WriteContext<'_>) {
        (self.entry.prepare_create)(object, context);
    }

    fn prepare_update(
        &self,
        new: &mut Value,
        old: &Value,
        part: Part<'_>,
        context: WriteContext<'_>,
    ) {
        (self.entry.prepare_update)(new, old, part, context);
    }

    fn new_generation(&self, new: &Value, old: &Value, part: Part<'_>) -> bool {
        part != Part::Status && (self.entry.new_generation)(new, old)
    }

    fn settle(&self, object: &mut Value) {
        types::settle(self.type_id, object);
    }

    fn validate_create(&self, object: &Value) -> Findings {
        Findings {
            errors: (self.entry.validate)(object),
            warnings: (self.entry.warnings)(object, None),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part<'_>) -> Findings {
        let warnings = match part {
            Part::Main => (self.entry.warnings)(new, Some(old)),
            _ => Vec::new(),
        };
        Findings {
            errors: (self.entry.validate_update)(new, old, part),
            warnings,
        }
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        (self.entry.name)(name, prefix)
    }

    fn merge_type(&self) -> (Arc<Schema>, TypeRef) {
        (types::merge_schema(), types::merge_type(self.type_id))
    }

    fn reset_fields(&self, part: Part<'_>) -> FieldSet {
        let fields: &[&str] = match part {
            Part::Status if self.entry.has(Capability::Status) => self.entry.status_resets,
            Part::Main => match self.entry.main_resets {
                Some(fields) => fields,
                None if self.entry.has(Capability::Status) => &["status"],
                None => &[],
            },
            Part::Status | Part::Other(_) => &[],
        };
        let paths: Vec<Vec<&str>> = fields
            .iter()
            .map(|path| path.split('.').collect())
            .collect();
        let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
        FieldSet::of_paths(&paths)
    }

    fn strategic(&self) -> Option<&dyn StrategicType> {
        Some(&self.strategic)
    }

    fn selectable(&self, object: &Value, field: &str) -> Option<String> {
        let (_, read) = self
            .entry
            .selectable
            .iter()
            .find(|(name, _)| *name == field)?;
        Some(read(object))
    }

    fn is_selectable(&self, field: &str) -> bool {
        self.entry.selectable.iter().any(|(name, _)| *name == field)
    }

    fn columns(&self) -> Vec<Column> {
        let columns = self.entry.columns.iter();
        let column = |column: &entry::Column| {
            Column::new(column.name, column.kind, column.description)
                .with_format(column.format)
                .with_priority(column.priority)
        };
        columns.map(column).collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let converted = self.entry.table_form.map(|convert| convert(object));
        let object = converted.as_ref().unwrap_or(object);
        let columns = self.entry.columns.iter();
        columns
            .map(|column| column.cell.read(object, now))
            .collect()
    }

    fn grace(&self, object: &Value, requested: Option<i64>) -> Grace {
        (self.entry.grace)(object, requested)
    }
}
