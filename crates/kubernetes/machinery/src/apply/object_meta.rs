//! The merge type of `metadata`, the same for every kind.

use std::sync::LazyLock;

use super::schema::{ListKey, MapType, Scalar, TypeRef};

static OBJECT_META: LazyLock<TypeRef> = LazyLock::new(|| {
    let string = TypeRef::scalar(Scalar::String);
    let numeric = TypeRef::scalar(Scalar::Numeric);
    let boolean = TypeRef::scalar(Scalar::Boolean);
    // Formatted strings, such as times, are untyped in the conversion from OpenAPI.
    let time = TypeRef::scalar(Scalar::Untyped);
    let owner = TypeRef::from(MapType {
        // One owner reference is a unit: an applier that owned `name` of a reference while another owns its `uid`
        // could point it at an object that does not exist.
        atomic: true,
        fields: [
            ("apiVersion", &string),
            ("blockOwnerDeletion", &boolean),
            ("controller", &boolean),
            ("kind", &string),
            ("name", &string),
            ("uid", &string),
        ]
        .into_iter()
        .map(|(name, field)| (name.into(), field.clone()))
        .collect(),
        element: None,
    });
    TypeRef::closed([
        ("annotations", TypeRef::map_of(string.clone())),
        ("creationTimestamp", time.clone()),
        ("deletionGracePeriodSeconds", numeric.clone()),
        ("deletionTimestamp", time),
        ("finalizers", TypeRef::set_of(string.clone())),
        ("generateName", string.clone()),
        ("generation", numeric),
        ("labels", TypeRef::map_of(string.clone())),
        ("managedFields", TypeRef::Opaque),
        ("name", string.clone()),
        ("namespace", string.clone()),
        (
            "ownerReferences",
            TypeRef::list_map(owner, [ListKey::new("uid")]),
        ),
        ("resourceVersion", string.clone()),
        ("selfLink", string.clone()),
        ("uid", string),
    ])
});

/// The merge type of `metadata`: labels and annotations entry by entry, finalizers a set, owner
/// references found by uid and each replaced as a whole.
pub fn object_meta_type() -> TypeRef {
    OBJECT_META.clone()
}
