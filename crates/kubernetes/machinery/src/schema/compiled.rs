//! A schema made ready once, so that checking an object compiles nothing.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use super::regexp;
use super::types::Schema;
use super::validate::Checker;
use crate::field::{FieldError, Path};

/// The schema of one CRD version with its patterns compiled.
#[derive(Debug, Clone)]
pub struct CompiledSchema {
    schema: Schema,
    patterns: HashMap<String, Regex>,
}

impl CompiledSchema {
    /// Compiles the patterns of `schema`; the error names one that is invalid.
    pub fn new(schema: Schema) -> Result<Self, String> {
        let mut patterns = HashMap::new();
        collect(&schema, &mut patterns)?;
        Ok(Self { schema, patterns })
    }

    /// Reads and compiles the `openAPIV3Schema` of a CRD version.
    pub fn parse(json: &Value) -> Result<Self, String> {
        Self::new(Schema::parse(json)?)
    }

    /// The schema itself.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// All errors of an object against the schema, reported below `path` (the root for whole objects).
    ///
    /// Neither list-type uniqueness nor rules nor embedded metadata are checked here.
    pub fn validate(&self, value: &Value, path: &Path) -> Vec<FieldError> {
        self.checker(path).run(&self.schema, value, None)
    }

    /// As [`validate`](Self::validate), but violations in parts that the update leaves unchanged are
    /// tolerated (`CRDValidationRatcheting`).
    pub fn validate_update(&self, new: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
        self.checker(path).run(&self.schema, new, Some(old))
    }

    /// The status of an object written through its `status` subresource: messages speak of paths below
    /// the status, fields are those of the whole object. No `status` schema means no errors.
    pub fn validate_status(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match self.schema.properties.get("status") {
            Some(schema) => self.checker(&Path::new("status")).run(schema, new, old),
            None => Vec::new(),
        }
    }

    /// A default value against the node it stands in. Patterns are looked up among those compiled.
    pub(super) fn validate_default(
        &self,
        node: &Schema,
        value: &Value,
        path: &Path,
    ) -> Vec<FieldError> {
        Checker {
            int_or_string: false,
            ..self.checker(path)
        }
        .run(node, value, None)
    }

    fn checker<'a>(&'a self, base: &'a Path) -> Checker<'a> {
        Checker {
            patterns: &self.patterns,
            base,
            int_or_string: true,
        }
    }
}

fn collect(schema: &Schema, patterns: &mut HashMap<String, Regex>) -> Result<(), String> {
    // By text: generated CRDs repeat the pattern of quantities hundreds of times,
    // and a compiled program takes kilobytes.
    if !schema.pattern.is_empty() && !patterns.contains_key(&schema.pattern) {
        patterns.insert(schema.pattern.clone(), regexp::compile(&schema.pattern)?);
    }
    let below = schema
        .properties
        .values()
        .chain(schema.additional_properties.as_deref())
        .chain(schema.items.as_deref())
        .chain(schema.not.as_deref())
        .chain(&schema.all_of)
        .chain(&schema.any_of)
        .chain(&schema.one_of);
    for child in below {
        collect(child, patterns)?;
    }
    Ok(())
}
