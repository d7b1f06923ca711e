//! `meta.k8s.io/v1` `Table`: lists as people read them, made by the server.

mod cells;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::{Map, Value, json};

pub use cells::{PrinterColumn, UnreadableColumn, custom_columns};

/// One entry of `columnDefinitions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// OpenAPI type of the cells: `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub column_type: String,
    /// OpenAPI format; `name` marks the column with the object name.
    pub format: String,
    /// What the cells mean.
    pub description: String,
    /// 0 is always shown, more only in wide output.
    pub priority: i32,
}

impl Column {
    /// A column that is always shown.
    pub fn new(name: &str, column_type: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            column_type: column_type.to_owned(),
            format: String::new(),
            description: description.to_owned(),
            priority: 0,
        }
    }

    /// The first column of every table.
    pub fn object_name() -> Self {
        Self::new("Name", "string", NAME_DESCRIPTION).with_format("name")
    }

    /// The last column of most tables.
    pub fn age() -> Self {
        Self::new("Age", "string", AGE_DESCRIPTION)
    }

    /// With a format.
    #[must_use]
    pub fn with_format(mut self, format: &str) -> Self {
        format.clone_into(&mut self.format);
        self
    }

    /// Shown in wide output only.
    #[must_use]
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }
}

/// What the column of names shows.
pub const NAME_DESCRIPTION: &str = "Name of the object, unique for its kind within a namespace.";

/// What the column of ages shows.
pub const AGE_DESCRIPTION: &str = "Time since the server created the object.";

/// How much of each object goes along with its row (`?includeObject=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// A `PartialObjectMetadata`; what an empty parameter means as well.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter; `None` when the value is not one of the known ones.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            // Metadata by default: kubectl needs names and labels of the rows, and
            // whole objects would double the answer.
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }

    /// What goes along with a row of `object`.
    fn part_of(self, object: &Value) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Object => object.clone(),
            Self::Metadata => partial_object_metadata(object),
        }
    }
}

/// The `PartialObjectMetadata` of an object.
pub fn partial_object_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new())),
    })
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// As many as there are columns.
    pub cells: Vec<Value>,
    /// What goes along; null for nothing.
    pub object: Value,
}

impl Row {
    /// The row of one object.
    pub fn new(cells: Vec<Value>, object: &Value, include: IncludeObject) -> Self {
        Self {
            cells,
            object: include.part_of(object),
        }
    }
}

/// A whole table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Version of the list, or of the single object.
    pub resource_version: String,
    /// Token for the next page, empty on the last.
    pub continue_token: String,
    /// How many objects come after this page, when known.
    pub remaining_item_count: Option<i64>,
    /// Headings; empty for watch events after the first.
    pub columns: Vec<Column>,
    /// Lines.
    pub rows: Vec<Row>,
}

impl Table {
    /// The table in wire form.
    pub fn into_value(self) -> Value {
        let mut metadata = Map::new();
        if !self.resource_version.is_empty() {
            metadata.insert("resourceVersion".into(), self.resource_version.into());
        }
        if !self.continue_token.is_empty() {
            metadata.insert("continue".into(), self.continue_token.into());
        }
        if let Some(count) = self.remaining_item_count {
            metadata.insert("remainingItemCount".into(), count.into());
        }
        let rows: Vec<Value> = self
            .rows
            .into_iter()
            .map(|row| json!({ "cells": row.cells, "object": row.object }))
            .collect();
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            // Go writes a list that was never made as null.
            "columnDefinitions": Some(self.columns).filter(|columns| !columns.is_empty()),
            "rows": rows,
        })
    }
}
