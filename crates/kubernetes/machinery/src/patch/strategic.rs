//! Strategic merge patch: a merge patch that knows which lists are keyed
//! (`apimachinery/pkg/util/strategicpatch`).

mod lists;
mod merge;
mod order;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::PatchError;
use crate::json::{self, Decoded, go_quote};

pub use merge::strategic_merge_patch;

/// What the strategic merge has to know of a Go type: its fields and how they merge.
///
/// Object safe, and cheap to make on the way down: a table can hand out small boxed references.
pub trait StrategicType {
    /// The kind of type. Kinds other than `Open` differ only in error texts.
    fn kind(&self) -> TypeKind<'_>;

    /// The field with this JSON name; asked of structs only. `None` is an unknown field.
    fn field(&self, name: &str) -> Option<StrategicField<'_>>;
}

impl<T: StrategicType + ?Sized> StrategicType for &T {
    fn kind(&self) -> TypeKind<'_> {
        (**self).kind()
    }

    fn field(&self, name: &str) -> Option<StrategicField<'_>> {
        (**self).field(name)
    }
}

/// The sort of a type, as Go's `reflect` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeKind<'a> {
    /// A struct and its name (`PodSpec`).
    Struct(&'a str),
    /// A map with free keys; merging objects or lists below its entries is refused.
    Map,
    /// A scalar or something else without fields, under its Go name (`string`, `slice`).
    Other(&'a str),
    /// Nothing is known: every member is merged plainly, lists are replaced.
    Open,
}

impl TypeKind<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Struct(_) => "struct",
            Self::Map => "map",
            Self::Other(name) => name,
            Self::Open => "interface",
        }
    }
}

/// A field of a struct.
pub struct StrategicField<'a> {
    /// The type of the value; of the items, if the field is a list.
    pub ty: Box<dyn StrategicType + 'a>,
    /// Whether the field is a list.
    pub list: bool,
    /// `patchStrategy`.
    pub strategy: PatchStrategy,
    /// `patchMergeKey`: identifies the items of a merging list.
    pub merge_key: Option<&'a str>,
}

impl<'a> StrategicField<'a> {
    /// A field that is no list and has no strategy: objects merge.
    pub fn single(ty: impl StrategicType + 'a) -> Self {
        Self {
            ty: Box::new(ty),
            list: false,
            strategy: PatchStrategy::Default,
            merge_key: None,
        }
    }

    /// A list that is replaced as a whole.
    pub fn list(items: impl StrategicType + 'a) -> Self {
        Self {
            list: true,
            ..Self::single(items)
        }
    }

    /// A merging list whose items are identified by `key`.
    #[must_use]
    pub fn keyed(mut self, key: &'a str) -> Self {
        self.strategy = PatchStrategy::Merge;
        self.merge_key = Some(key);
        self
    }
}

/// How a field takes a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PatchStrategy {
    /// Objects merge, lists are replaced.
    #[default]
    Default,
    /// Lists merge too.
    Merge,
    /// Objects are replaced too.
    Replace,
}

impl PatchStrategy {
    /// Parses a `patchStrategy` tag such as `merge,retainKeys`. The `retainKeys` part is for clients
    /// that generate patches; the server follows the directive wherever it is.
    pub fn from_tag(tag: &str) -> Self {
        tag.split(',')
            .find_map(|part| match part {
                "merge" => Some(Self::Merge),
                "replace" => Some(Self::Replace),
                _ => None,
            })
            .unwrap_or_default()
    }
}

/// The type nothing is known about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Opaque;

impl StrategicType for Opaque {
    fn kind(&self) -> TypeKind<'_> {
        TypeKind::Open
    }

    fn field(&self, _name: &str) -> Option<StrategicField<'_>> {
        None
    }
}

/// Reads a strategic merge patch; null is a patch that changes nothing.
pub fn decode_strategic_patch(bytes: &[u8]) -> Result<Decoded, PatchError> {
    let mut decoded =
        json::decode(bytes).map_err(|error| PatchError::Malformed(error.to_string()))?;
    if decoded.value.is_null() {
        decoded.value = Value::Object(serde_json::Map::new());
    }
    must_be_object(&decoded.value)?;
    Ok(decoded)
}

fn must_be_object(patch: &Value) -> Result<(), PatchError> {
    if patch.is_object() {
        return Ok(());
    }
    let found = json::go_type(patch);
    Err(PatchError::Malformed(format!(
        "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )))
}

/// The field an object is merged into (`LookupPatchMetadataForStruct`).
fn object_field<'a>(
    ty: &'a dyn StrategicType,
    name: &str,
) -> Result<StrategicField<'a>, PatchError> {
    match ty.kind() {
        TypeKind::Open => Ok(StrategicField::single(Opaque)),
        TypeKind::Struct(of) => ty.field(name).ok_or_else(|| {
            PatchError::Internal(format!(
                "unable to find api field in struct {of} for the json field {}",
                go_quote(name)
            ))
        }),
        other => Err(PatchError::Internal(format!(
            "merging an object in json but data type is not struct, instead is: {}",
            other.name()
        ))),
    }
}

/// The field a list is merged into (`LookupPatchMetadataForSlice`).
fn list_field<'a>(ty: &'a dyn StrategicType, name: &str) -> Result<StrategicField<'a>, PatchError> {
    let field = object_field(ty, name)?;
    if field.ty.kind() == TypeKind::Open {
        return Ok(field);
    }
    if !field.list {
        return Err(PatchError::Internal(format!(
            "expected slice or array type, but got: {}",
            // The kind of the parent and not of the field: upstream prints `s.T` (`strategicpatch/meta.go`).
            ty.kind().name()
        )));
    }
    if field.ty.kind() == TypeKind::Other("slice") {
        return Err(PatchError::Internal("unexpected slice of slice".to_owned()));
    }
    Ok(field)
}
