//! The properties of a kind for the REST layer: names, and hooks called in a fixed order.
//!
//! Built-in kinds and custom resources both implement this; the REST layer does not distinguish them.
//!
//! ```text
//! create: decode -> default -> prepare_create -> validate -> store
//! update: decode -> default -> prepare_update -> validate_update -> store
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use machinery::apply::{FieldSet, TypeRef};
use machinery::gvk::{GroupResource, GroupVersionKind};
use machinery::table::Column;
use serde_json::Value;

use crate::errors::Errors;

/// The names and fixed properties of a kind in one version.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent fact about a kind, as upstream's strategies state them"
)]
pub(crate) struct KindInfo {
    /// Group, version, kind.
    pub(crate) gvk: GroupVersionKind,
    /// Plural, the path segment.
    pub(crate) plural: String,
    /// Singular.
    pub(crate) singular: String,
    /// Kind of the list; usually the kind with the suffix `List`.
    pub(crate) list_kind: String,
    /// Abbreviations for kubectl.
    pub(crate) short_names: Vec<String>,
    /// Groupings for kubectl, such as `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects are namespaced.
    pub(crate) namespaced: bool,
    /// Whether `metadata.generation` counts changes outside metadata and status.
    pub(crate) has_generation: bool,
    /// Whether status is a subresource.
    pub(crate) has_status: bool,
    /// Paths of the scale subresource, if the kind has one.
    pub(crate) scale: Option<ScalePaths>,
    /// Warning for every request of the kind in this version.
    pub(crate) deprecation: Option<String>,
    /// PUT of a missing object creates it.
    pub(crate) create_on_update: bool,
    /// PUT without a resourceVersion is accepted.
    pub(crate) unconditional_update: bool,
    /// DELETE returns the object rather than a `Status`.
    pub(crate) delete_returns_object: bool,
}

impl KindInfo {
    /// Group and plural, as errors name it.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.gvk.group, &self.plural)
    }
}

/// JSON paths of a scale subresource, such as `.spec.replicas`.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    /// Desired replicas.
    pub(crate) spec_replicas: String,
    /// Observed replicas.
    pub(crate) status_replicas: String,
    /// Label selector in string form; for built-in kinds the path of a `LabelSelector` object.
    pub(crate) label_selector: Option<String>,
}

/// The outcome of a delete for a kind with graceful deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grace {
    /// Remove at once.
    Immediate,
    /// Set `deletionTimestamp` this many seconds ahead and wait for a controller to finish it.
    Seconds(i64),
}

/// The part of an object that a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// Another subresource that updates the object, such as `scale` or `finalize`.
    Other(&'a str),
}

/// Time and user of a write; hooks take nothing from the environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteContext<'a> {
    /// Time of the write.
    pub(crate) now: Timestamp,
    /// User of the write.
    pub(crate) user: &'a str,
}

/// The result of decoding a JSON or YAML body.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// The object, without unknown fields and with values in canonical form.
    pub(crate) object: Value,
    /// Paths of dropped fields, in the order of the strict decoding error.
    pub(crate) unknown: Vec<String>,
    /// Other warnings.
    pub(crate) warnings: Vec<String>,
}

/// Findings of a validation: errors stop the write, warnings do not.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Errors.
    pub(crate) errors: Errors,
    /// Warnings.
    pub(crate) warnings: Vec<String>,
}

/// The behaviour of a kind. Everything is a pure function of its arguments.
pub(crate) trait Strategy: Send + Sync {
    /// Checks types, drops unknown fields, canonicalises values (quantities, times, zero values
    /// that Go omits). The error is the Go decoder's text without the prefix `X in version "v1"
    /// cannot be handled as a X: `. Metadata is handled as well.
    fn decode(&self, raw: Value) -> Result<Decoded, String>;

    /// The same for an object merged by server-side apply. It has been checked against the merge
    /// type already, and applied values are not canonicalised before validation.
    fn decode_applied(&self, merged: Value) -> Result<Value, String> {
        self.decode(merged).map(|decoded| decoded.object)
    }

    /// Sets defaults. Runs after decoding and after every patch; idempotent.
    fn default(&self, object: &mut Value);

    /// Puts a new object into its initial state (status dropped, fields the server owns set).
    fn prepare_create(&self, object: &mut Value, context: WriteContext<'_>);

    /// Restores the fields that this part must not change, before an update is validated.
    fn prepare_update(
        &self,
        new: &mut Value,
        old: &Value,
        part: Part<'_>,
        context: WriteContext<'_>,
    );

    /// Whether a change made through a part starts a new generation, for kinds that count them.
    fn new_generation(&self, new: &Value, old: &Value, part: Part<'_>) -> bool;

    /// Normalizes an object as a round trip through storage would, for kinds whose storage format
    /// loses distinctions that JSON has.
    fn settle(&self, _object: &mut Value) {}

    /// Validates a new object. Metadata common to all kinds is validated by the caller, except the
    /// form of the name.
    fn validate_create(&self, object: &Value) -> Findings;

    /// Validates a changed object against its previous state.
    fn validate_update(&self, new: &Value, old: &Value, part: Part<'_>) -> Findings;

    /// Errors in the form of `metadata.name` for this kind (path segment, DNS subdomain, DNS label,
    /// ...). `prefix` means that the name is a generateName.
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

    /// The outcome of a delete with the given `gracePeriodSeconds`.
    fn grace(&self, _object: &Value, _requested: Option<i64>) -> Grace {
        Grace::Immediate
    }
}
