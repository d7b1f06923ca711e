//! The fields that an installed CRD accepts: clusters have different versions of an operator, and a profile only sends
//! the fields that the installed one supports.

use machinery::schema::Schema;
use serde_json::{Value, json};

use crate::snapshot::{GroupKind, Snapshot};

/// The schema of an installed CRD, in the version that is read.
#[derive(Debug)]
pub struct Installed {
    schema: Option<Schema>,
}

/// A field in a schema.
#[derive(Debug, Clone, Copy)]
pub enum Field<'a> {
    /// It is declared.
    Declared(&'a Schema),
    /// It is not declared, but accepted: the schema is open or not readable.
    Undeclared,
    /// It would be pruned or rejected.
    Unknown,
}

impl Installed {
    /// The schema of a kind; if it is not installed or not readable, everything is accepted.
    pub fn of(snapshot: &Snapshot, of: GroupKind) -> Self {
        Self {
            schema: read(snapshot, of),
        }
    }

    /// The field at a dotted path. The segment `[]` enters list items.
    pub fn field(&self, path: &str) -> Field<'_> {
        let Some(mut schema) = self.schema.as_ref() else {
            return Field::Undeclared;
        };
        for step in path.split('.').filter(|step| !step.is_empty()) {
            let below = match step {
                "[]" => schema.items.as_deref(),
                name => schema.properties.get(name),
            };
            match below {
                Some(below) => schema = below,
                None if schema.preserve_unknown_fields => return Field::Undeclared,
                None => return Field::Unknown,
            }
        }
        Field::Declared(schema)
    }

    /// Whether a field can be set.
    pub fn accepts(&self, path: &str) -> bool {
        !matches!(self.field(path), Field::Unknown)
    }

    /// Whether a field can be set, and is not deprecated as ignored.
    pub fn heeds(&self, path: &str) -> bool {
        match self.field(path) {
            // A schema has no field for it: controller-gen copies Go's comments into the description, and they are
            // written in either case.
            Field::Declared(schema) => !schema.description.to_lowercase().contains("deprecated"),
            Field::Undeclared => true,
            Field::Unknown => false,
        }
    }

    /// The allowed values of a field, if it is an enum.
    pub fn values(&self, path: &str) -> Option<Vec<&str>> {
        let Field::Declared(schema) = self.field(path) else {
            return None;
        };
        let values: Vec<&str> = schema
            .enum_values
            .iter()
            .filter_map(Value::as_str)
            .collect();
        (!values.is_empty()).then_some(values)
    }
}

fn read(snapshot: &Snapshot, of: GroupKind) -> Option<Schema> {
    let kind = snapshot.kind(of)?;
    let versions = &kind.definition.as_ref()?.spec.versions;
    let version = versions
        .iter()
        .find(|version| version.name == kind.version)?;
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    Schema::parse(&json!(schema)).ok()
}
