//! `metadata` of objects: reading and changing it in place, decoding, validation, name generation
//! (`apimachinery/pkg/apis/meta/v1`, `apimachinery/pkg/api/validation/objectmeta.go`).
//!
//! The accessors take whole objects and treat absent, null and mistyped fields alike: as unset.
//! [`decode_object_meta`] is where types are enforced.

mod access;
mod decode;
mod generate;
mod owners;
#[cfg(test)]
mod tests;
mod validate;

pub use access::{
    annotation, annotations, api_version, creation_timestamp, deletion_grace_period_seconds,
    deletion_timestamp, finalizers, generate_name_base, generation, is_deleting, kind, label,
    labels, managed_fields, metadata, metadata_mut, name, namespace, remove, resource_version, set,
    set_annotation, set_creation_timestamp, set_deletion_timestamp, set_finalizers, set_generation,
    set_label, set_managed_fields, set_name, set_namespace, set_resource_version, set_uid, uid,
};
pub(crate) use decode::decode_fields;
pub use decode::decode_object_meta;
pub use generate::{GENERATED_SUFFIX_LENGTH, MAX_GENERATED_NAME_BASE, generate_name};
pub use owners::{
    OwnerReference, controller_of, dedup_owner_references, duplicate_owners_warning,
    owner_references,
};
pub use validate::{
    ANNOTATIONS_MAX, finalizer_warnings, validate_annotations, validate_labels,
    validate_managed_fields, validate_object_meta, validate_object_meta_update,
};
pub(crate) use validate::{FIELD_MANAGER_MAX, validate_manager};
