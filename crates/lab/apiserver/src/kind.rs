//! What the REST layer has to know of a kind: its names, and the hooks it calls in a fixed order.
//!
//! Built-in kinds and custom resources are both this; the REST layer never asks which one it has.
//!
//! ```text
//! create: decode -> default -> prepare_create -> validate -> store
//! update: decode -> default -> prepare_update -> validate_update -> store
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use machinery::apply::{FieldSet, TypeRef};
use machinery::field::FieldError;
use machinery::gvk::{GroupResource, GroupVersionKind};
use machinery::table::Column;
use serde_json::Value;

/// The names and fixed properties of a kind in one version.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent fact about a kind, as upstream's strategies state them"
)]
pub struct KindInfo {
    /// Group, version, kind.
    pub gvk: GroupVersionKind,
    /// Plural, the path segment.
    pub plural: String,
    /// Singular.
    pub singular: String,
    /// Kind of the list; usually the kind with `List` behind it.
    pub list_kind: String,
    /// Abbreviations for kubectl.
    pub short_names: Vec<String>,
    /// Groupings for kubectl, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether `metadata.generation` counts changes outside metadata and status.
    pub has_generation: bool,
    /// Whether status is a subresource of its own.
    pub has_status: bool,
    /// Where replicas live, for kinds with a scale subresource.
    pub scale: Option<ScalePaths>,
    /// Warning that every use of the kind in this version gets.
    pub deprecation: Option<String>,
    /// PUT of a missing object creates it.
    pub create_on_update: bool,
    /// PUT without a resourceVersion is accepted.
    pub unconditional_update: bool,
    /// DELETE answers with the object rather than a `Status`.
    pub delete_returns_object: bool,
}

impl KindInfo {
    /// Group and plural, as errors name it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.gvk.group, &self.plural)
    }
}

/// JSON paths behind a scale subresource, such as `.spec.replicas`.
#[derive(Debug, Clone)]
pub struct ScalePaths {
    /// Desired replicas.
    pub spec_replicas: String,
    /// Observed replicas.
    pub status_replicas: String,
    /// Label selector in string form; for built-in kinds the path of a `LabelSelector` object.
    pub label_selector: Option<String>,
}

/// How a delete of a kind with graceful deletion goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// Remove at once.
    Immediate,
    /// Set `deletionTimestamp` this many seconds ahead and wait for someone to finish it.
    Seconds(i64),
}

/// Which part of an object a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// Another subresource that updates the object, such as `scale` or `finalize`.
    Other(&'a str),
}

/// Time and identity of a write; hooks take nothing from the environment.
#[derive(Debug, Clone, Copy)]
pub struct WriteContext<'a> {
    /// When.
    pub now: Timestamp,
    /// By whom.
    pub user: &'a str,
}

/// What comes out of decoding a body that was JSON or YAML.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The object, unknown fields dropped and values in canonical form.
    pub object: Value,
    /// Paths of fields that were dropped, in the order the strict decoding error lists them.
    pub unknown: Vec<String>,
    /// Other warnings.
    pub warnings: Vec<String>,
}

/// Findings of a validation: errors stop the write, warnings do not.
#[derive(Debug, Default)]
pub struct Findings {
    /// What is wrong.
    pub errors: Vec<FieldError>,
    /// What is only worth saying.
    pub warnings: Vec<String>,
}

impl From<Vec<FieldError>> for Findings {
    fn from(errors: Vec<FieldError>) -> Self {
        Self {
            errors,
            warnings: Vec::new(),
        }
    }
}

/// The behaviour of a kind. Everything is a pure function of its arguments.
pub trait Strategy: Send + Sync {
    /// Checks types, drops unknown fields, canonicalises values (quantities, times, zero values that
    /// Go omits). The error is the Go decoder's text without the `X in version "v1" cannot be
    /// handled as a X: ` in front. Metadata is handled as well.
    fn decode(&self, raw: Value) -> Result<Decoded, String>;

    /// The same for an object that server-side apply has merged. It has been checked against the
    /// merge type already, and what was applied stays as it is until it is validated.
    fn decode_applied(&self, merged: Value) -> Result<Value, String> {
        self.decode(merged).map(|decoded| decoded.object)
    }

    /// Fills in what clients may leave out. Runs after decoding and after every patch; idempotent.
    fn default(&self, object: &mut Value);

    /// Puts a new object into its initial state (status dropped, fields the server owns set).
    fn prepare_create(&self, object: &mut Value, context: WriteContext<'_>);

    /// Keeps what this part must not change, before an update is validated.
    fn prepare_update(
        &self,
        new: &mut Value,
        old: &Value,
        part: Part<'_>,
        context: WriteContext<'_>,
    );

    /// Whether a change made through a part starts a new generation, for kinds that count them.
    fn new_generation(&self, new: &Value, old: &Value, part: Part<'_>) -> bool;

    /// What is left of an object after a trip through storage, for kinds whose storage format
    /// cannot tell everything apart that JSON can.
    fn settle(&self, _object: &mut Value) {}

    /// Checks a new object. Metadata common to all kinds is checked by the caller, except the name's form.
    fn validate_create(&self, object: &Value) -> Findings;

    /// Checks a changed object against what it was.
    fn validate_update(&self, new: &Value, old: &Value, part: Part<'_>) -> Findings;

    /// Errors in the form of `metadata.name` for this kind (path segment, DNS subdomain, DNS label, ...).
    /// `prefix` says that the name is a generateName.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String>;

    /// The type that drives server-side apply.
    fn merge_type(&self) -> (Arc<machinery::apply::Schema>, TypeRef);

    /// Fields that writes to this part never own (`status` on the main endpoint, and so on).
    fn reset_fields(&self, part: Part<'_>) -> FieldSet;

    /// The type that drives strategic merge; `None` for custom resources, which have none.
    fn strategic(&self) -> Option<&dyn machinery::patch::StrategicType>;

    /// Value of a selectable field; `None` when the field is not selectable for this kind.
    /// `metadata.name` and `metadata.namespace` are handled by the caller.
    fn selectable(&self, object: &Value, field: &str) -> Option<String>;

    /// Whether the field may be used in a field selector.
    fn is_selectable(&self, field: &str) -> bool;

    /// Columns of the table, Name included.
    fn columns(&self) -> Vec<Column>;

    /// Cells for one object, one per column.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;

    /// How a delete with the given `gracePeriodSeconds` goes on.
    fn grace(&self, _object: &Value, _requested: Option<i64>) -> Grace {
        Grace::Immediate
    }
}
