//! Cells of custom resources from `additionalPrinterColumns`
//! (`apiextensions-apiserver/pkg/registry/customresource/tableconvertor`).

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE_DESCRIPTION, Column};
use crate::json::go_quote;
use crate::jsonpath::{JsonPath, text};
use crate::time::age;

/// A column and where its cells come from.
#[derive(Debug, Clone, PartialEq)]
pub struct PrinterColumn {
    column: Column,
    path: JsonPath,
}

/// A column whose path cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized column definition {}", go_quote(.0))]
pub struct UnreadableColumn(pub String);

impl PrinterColumn {
    /// Reads one entry of `additionalPrinterColumns`.
    pub fn from_definition(definition: &Value) -> Result<Self, UnreadableColumn> {
        let text = |field: &str| {
            definition
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let json_path = text("jsonPath");
        let path =
            JsonPath::parse(json_path).map_err(|_| UnreadableColumn(json_path.to_owned()))?;
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {json_path}"),
            given => given.to_owned(),
        };
        let priority = definition
            .get("priority")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let column = Column {
            name: text("name").to_owned(),
            column_type: text("type").to_owned(),
            format: text("format").to_owned(),
            description,
            priority: i32::try_from(priority).unwrap_or(i32::MAX),
        };
        Ok(Self { column, path })
    }

    /// The heading.
    pub fn column(&self) -> &Column {
        &self.column
    }

    /// The cell of one object; null when there is nothing to show.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        // A path that fails on one object leaves an empty cell: one odd object
        // must not make `kubectl get` fail for all.
        let found = self.path.find(object).unwrap_or_default();
        // The first result only, as upstream prints: a column with several values would have no type.
        let Some(value) = found.first() else {
            return Value::Null;
        };
        match self.column.column_type.as_str() {
            "string" => Value::from(text(value)),
            "integer" => value
                .as_i64()
                .or_else(|| truncated(value))
                .map_or(Value::Null, Value::from),
            "number" => value.as_f64().map_or(Value::Null, Value::from),
            "boolean" => value.as_bool().map_or(Value::Null, Value::from),
            "date" => value
                .as_str()
                .map_or(Value::Null, |text| age(Some(text), now).into()),
            _ => Value::Null,
        }
    }
}

/// The columns of a custom resource after the name: those asked for, or the age when none are.
pub fn custom_columns(definitions: &[Value]) -> Result<Vec<PrinterColumn>, UnreadableColumn> {
    if definitions.is_empty() {
        let age = serde_json::json!({
            "name": "Age",
            "type": "date",
            "description": AGE_DESCRIPTION,
            "jsonPath": ".metadata.creationTimestamp",
        });
        return Ok(vec![PrinterColumn::from_definition(&age)?]);
    }
    definitions
        .iter()
        .map(PrinterColumn::from_definition)
        .collect()
}

/// A float without its fraction.
fn truncated(value: &Value) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "Go cuts the fraction off here as well"
    )]
    value.as_f64().map(|float| float as i64)
}
