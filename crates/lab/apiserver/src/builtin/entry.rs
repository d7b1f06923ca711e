//! One built-in kind as data and small functions.

use jiff::Timestamp;
use serde_json::Value;

use crate::builtin::entry::Cell::{At, Text};
use crate::builtin::print;
use crate::builtin::value::{Read as _, keep, remove, same};
pub(crate) use crate::errors::Errors;
use crate::kind::{Grace, Part, WriteContext};

/// How a cell of a table is read from an object.
#[derive(Clone, Copy)]
pub(crate) enum Cell {
    /// A string, empty when absent.
    Text(&'static str),
    /// A string; the second text when it is absent. For fields that are pointers in Go.
    IfSet(&'static str, &'static str),
    /// A string; the second text when it is absent or empty.
    IfNotEmpty(&'static str, &'static str),
    /// An integer, zero when absent.
    Number(&'static str),
    /// A boolean, false when absent.
    Flag(&'static str),
    /// Number of items or entries.
    Count(&'static str),
    /// Computed from the object.
    Of(fn(&Value) -> Value),
    /// Computed from the object and the current time.
    At(fn(&Value, Timestamp) -> Value),
}

impl Cell {
    /// The value of the cell.
    pub(crate) fn read(self, object: &Value, now: Timestamp) -> Value {
        match self {
            Self::Text(path) => object.text(path).into(),
            Self::IfSet(path, otherwise) => object.maybe_text(path).unwrap_or(otherwise).into(),
            Self::IfNotEmpty(path, otherwise) => print::or(object.text(path), otherwise),
            Self::Number(path) => object.number(path).into(),
            Self::Flag(path) => object.is_true(path).into(),
            Self::Count(path) => object.count(path).into(),
            Self::Of(read) => read(object),
            Self::At(read) => read(object, now),
        }
    }
}

/// A column of the table form.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) format: &'static str,
    pub(crate) description: &'static str,
    pub(crate) priority: i32,
    pub(crate) cell: Cell,
}

/// A column: name, type, cell, description. The type `wide` is a string of the wide form.
macro_rules! column {
    ($name:literal wide $cell:expr => $description:literal) => {
        $crate::builtin::entry::Column {
            priority: 1,
            ..column!($name string $cell => $description)
        }
    };
    ($name:literal $kind:ident $cell:expr => $description:literal) => {
        $crate::builtin::entry::Column {
            name: $name,
            kind: stringify!($kind),
            format: "",
            description: $description,
            priority: 0,
            cell: $cell,
        }
    };
}
pub(crate) use column;

/// The first column of nearly every table.
pub(crate) const NAME: Column = Column {
    format: "name",
    description: machinery::table::NAME_DESCRIPTION,
    ..column!("Name" string Text("metadata.name") => "")
};

/// Time since creation.
pub(crate) const AGE: Column = Column {
    description: machinery::table::AGE_DESCRIPTION,
    ..column!("Age" string At(print::age) => "")
};

const CREATED: Column =
    column!("Created At" date Text("metadata.creationTimestamp") => "When the object was created");

/// An operation that a kind supports beyond the usual ones, or a restriction of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capability {
    /// `metadata.generation` is kept.
    Generation,
    /// It has a status subresource.
    Status,
    /// It has a scale subresource.
    Scale,
    /// PUT creates.
    CreateOnUpdate,
    /// PUT needs a resourceVersion.
    ConditionalUpdate,
    /// DELETE returns the object.
    DeleteReturnsObject,
}

/// Reads the value of a selectable field.
pub(crate) type Selectable = (&'static str, fn(&Value) -> String);

/// A selectable field that is a string in the object, at the same path.
macro_rules! selectable_text {
    ($path:literal) => {
        ($path, |object| object.text($path).to_owned())
    };
}
pub(crate) use selectable_text;

/// Properties and rules of a built-in kind, besides its type.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) capabilities: &'static [Capability],
    /// Fills in defaults.
    pub(crate) default: fn(&mut Value),
    /// Initial state of a new object. Without a status in the type the default changes nothing.
    pub(crate) prepare_create: fn(&mut Value, WriteContext<'_>),
    /// Restores the fields that an update of each part may not change.
    pub(crate) prepare_update: fn(&mut Value, &Value, Part<'_>, WriteContext<'_>),
    /// Checks of a new object.
    pub(crate) validate: fn(&Value) -> Errors,
    /// Checks of a changed object.
    pub(crate) validate_update: fn(&Value, &Value, Part<'_>) -> Errors,
    /// Warnings about a successful write.
    pub(crate) warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// The form of names.
    pub(crate) name: fn(&str, bool) -> Vec<String>,
    pub(crate) selectable: &'static [Selectable],
    pub(crate) columns: &'static [Column],
    /// The form of an object that `columns` read; `None` for the object itself.
    pub(crate) table_form: Option<fn(&Value) -> Value>,
    pub(crate) grace: fn(&Value, Option<i64>) -> Grace,
    /// Whether a change counts as a new generation.
    pub(crate) new_generation: fn(&Value, &Value) -> bool,
    /// Warning that every request for the kind gets.
    pub(crate) deprecation: Option<&'static str>,
    /// Fields that writes to `/status` never own.
    pub(crate) status_resets: &'static [&'static str],
    /// Fields that writes to the main endpoint never own; `None` follows from having a status.
    pub(crate) main_resets: Option<&'static [&'static str]>,
}

impl Entry {
    /// Whether the kind has the capability.
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// A namespaced kind with the default rules.
    pub(crate) const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            short_names: &[],
            categories: &[],
            namespaced: true,
            capabilities: &[],
            default: |_| (),
            prepare_create: drop_status,
            prepare_update: keep_other_part,
            validate: |_| Errors::new(),
            validate_update: |_, _, _| Errors::new(),
            warnings: |_, _| Vec::new(),
            name: machinery::names::name_is_dns_subdomain,
            selectable: &[],
            columns: &[NAME, CREATED],
            table_form: None,
            grace: |_, _| Grace::Immediate,
            new_generation: content_changed,
            deprecation: None,
            status_resets: &["spec"],
            main_resets: None,
        }
    }
}

/// Drops the status of a new object.
pub(crate) fn drop_status(object: &mut Value, _: WriteContext<'_>) {
    remove(object, "status");
}

/// The usual rule: the main endpoint leaves status alone, `/status` leaves spec alone.
pub(crate) fn keep_other_part(new: &mut Value, old: &Value, part: Part<'_>, _: WriteContext<'_>) {
    match part {
        Part::Status => keep(new, old, "spec"),
        Part::Main | Part::Other(_) => keep(new, old, "status"),
    }
}

/// Whether anything but metadata and status changed.
pub(crate) fn content_changed(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return false;
    };
    let matters = |key: &str| !matches!(key, "metadata" | "status" | "kind" | "apiVersion");
    new.keys()
        .chain(old.keys())
        .filter(|key| matters(key))
        .any(|key| {
            !same(
                new.get(key).unwrap_or(&Value::Null),
                old.get(key).unwrap_or(&Value::Null),
            )
        })
}

/// Runs a check on both create and update of the main endpoint, and nothing on `/status`.
macro_rules! on_update {
    ($check:expr) => {
        |new, _old, part| match part {
            $crate::kind::Part::Status => $crate::errors::Errors::new(),
            _ => $check(new),
        }
    };
}
pub(crate) use on_update;
