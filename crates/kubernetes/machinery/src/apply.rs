//! Server-side apply: field ownership and conflicts.
//!
//! The rules are those of `structured-merge-diff` v6 and `apimachinery/pkg/util/managedfields`.
//!
//! ```text
//! POST, PUT, patch:  new object ------------------- update --> new object with owners
//! apply:             configuration, live object --- apply ---> merged object with owners, or 409
//!                                                      |
//!            default, mutate, validate <---------------+
//!                      |
//!                   finish --> unchanged: answer with the live object, store nothing
//!                      |
//!                    store
//! ```
//!
//! How the REST layer calls this, once it has a [`Request`]:
//!
//! 1. Check the name of the manager with [`validate_field_manager`]; the manager
//!    is the `fieldManager` option or else [`manager_from_user_agent`].
//! 2. For anything but apply: decode, default and prune the new object, in the version of the
//!    request, then call [`update`].
//! 3. For apply: call [`apply`], then default and prune the result.
//! 4. Admit, put back what the endpoint does not write (its reset fields; for custom resources
//!    `status` on the object itself, `metadata` and `spec` on `/status`), and validate. `managedFields` that fail [`validate_managed_fields`] after mutation are
//!    put back to what they were, with a warning.
//! 5. For an object that exists, call [`finish`] last; if it returns `true`, store nothing.

mod apply_op;
mod conflict;
mod crd_schema;
mod error;
mod fields_v1;
mod finish;
mod last_applied;
mod managed;
mod manager_name;
mod object_meta;
mod path;
mod prune;
mod request;
mod scale;
mod schema;
mod set;
mod tracking;
mod typed;
mod update_op;

#[cfg(test)]
mod tests;

pub use apply_op::apply;
pub use conflict::{Conflict, Conflicts};
pub use crd_schema::crd_schema;
pub use error::ApplyError;
pub use fields_v1::FieldsV1Error;
pub use finish::finish;
pub use managed::{ManagedFieldsError, Operation, validate_managed_fields};
pub use manager_name::{manager_from_user_agent, validate_field_manager};
pub use object_meta::object_meta_type;
pub use path::{PathElement, path_text, values_equal};
pub use request::{Request, Versions};
pub use scale::ScaleHandler;
pub use schema::{ListKey, ListRelation, ListType, MapType, Scalar, Schema, Type, TypeRef};
pub use set::FieldSet;
pub use typed::{Comparison, Duplicates, Typed, TypedError, TypedErrors};
pub use update_op::update;
