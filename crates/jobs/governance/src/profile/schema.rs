//! What an installed definition accepts: operators come in vintages, and a profile only sends what
//! the one at hand knows.

use machinery::schema::Schema;
use serde_json::{Value, json};

use crate::snapshot::{GroupKind, Snapshot};

/// The schema of an installed kind, in the version that is read.
#[derive(Debug)]
pub struct Installed {
    schema: Option<Schema>,
}

/// A field in a schema.
#[derive(Debug, Clone, Copy)]
pub enum Field<'a> {
    /// It is declared.
    Declared(&'a Schema),
    /// Nothing is said of it, and nothing is refused: schemas that are open or cannot be read.
    Undeclared,
    /// It would be dropped or refused.
    Unknown,
}

impl Installed {
    /// The schema of a kind; one that is not installed or cannot be read accepts everything.
    pub fn of(snapshot: &Snapshot, of: GroupKind) -> Self {
        Self {
            schema: read(snapshot, of),
        }
    }

    /// The field at a dotted path. Lists are entered by the step `[]`.
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

    /// Whether a field can be set, and somebody still looks at it.
    pub fn heeds(&self, path: &str) -> bool {
        match self.field(path) {
            Field::Declared(schema) => !schema.description.to_lowercase().contains("deprecated"),
            Field::Undeclared => true,
            Field::Unknown => false,
        }
    }

    /// The values that a field can have, if they are enumerated.
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
