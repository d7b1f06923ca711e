//! One built-in kind as data and small functions.

use jiff::Timestamp;
use machinery::field::FieldError;
use serde_json::Value;

use crate::builtin::print;
use crate::builtin::value::{keep, remove, same};
use crate::kind::{Grace, Part, WriteContext};

/// Errors found in an object, in the order they are reported.
pub(crate) type Errors = Vec<FieldError>;

/// A column of the table form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) format: &'static str,
    pub(crate) description: &'static str,
    pub(crate) priority: i32,
}

/// A column that is always shown.
pub(crate) const fn column(
    name: &'static str,
    kind: &'static str,
    description: &'static str,
) -> Column {
    Column {
        name,
        kind,
        format: "",
        description,
        priority: 0,
    }
}

/// A column of the wide form only.
pub(crate) const fn wide(
    name: &'static str,
    kind: &'static str,
    description: &'static str,
) -> Column {
    Column {
        name,
        kind,
        format: "",
        description,
        priority: 1,
    }
}

/// The first column of nearly every table.
pub(crate) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: machinery::table::NAME_DESCRIPTION,
    priority: 0,
};

/// Time since creation.
pub(crate) const AGE: Column = column("Age", "string", machinery::table::AGE_DESCRIPTION);

/// Supported operations of a kind.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent capabilities of a kind, named by upstream"
)]
pub(crate) struct Capabilities {
    /// `metadata.generation` is kept.
    pub(crate) generation: bool,
    /// It has a status subresource.
    pub(crate) status: bool,
    /// It has a scale subresource.
    pub(crate) scale: bool,
    /// PUT creates.
    pub(crate) create_on_update: bool,
    /// PUT needs a resourceVersion.
    pub(crate) conditional_update: bool,
    /// DELETE returns the object.
    pub(crate) delete_returns_object: bool,
}

impl Capabilities {
    /// No special operations.
    pub(crate) const NONE: Self = Self {
        generation: false,
        status: false,
        scale: false,
        create_on_update: false,
        conditional_update: false,
        delete_returns_object: false,
    };
}

/// Reads the value of a selectable field.
pub(crate) type Selectable = (&'static str, fn(&Value) -> String);

/// Properties and rules of a built-in kind, besides its type.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) capabilities: Capabilities,
    /// Fills in defaults.
    pub(crate) default: fn(&mut Value),
    /// Initial state of a new object.
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
    pub(crate) cells: fn(&Value, Timestamp) -> Vec<Value>,
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
    /// A namespaced kind with the default rules.
    pub(crate) const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            singular,
            short_names: &[],
            categories: &[],
            namespaced: true,
            capabilities: Capabilities::NONE,
            default: |_| (),
            prepare_create: drop_status,
            prepare_update: keep_other_part,
            validate: |_| Vec::new(),
            validate_update: |_, _, _| Vec::new(),
            warnings: |_, _| Vec::new(),
            name: machinery::names::name_is_dns_subdomain,
            selectable: &[],
            columns: &[NAME, CREATED],
            cells: print::name_and_creation,
            grace: |_, _| Grace::Immediate,
            new_generation: content_changed,
            deprecation: None,
            status_resets: &["spec"],
            main_resets: None,
        }
    }
}

const CREATED: Column = column("Created At", "date", "When the object was created");

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
            $crate::kind::Part::Status => Vec::new(),
            _ => $check(new),
        }
    };
}
pub(crate) use on_update;
