//! Built-in types as the strategic merge patch sees them.

use machinery::patch::{PatchStrategy, StrategicField, StrategicType, TypeKind};

use super::table::{Scalar, Shape, TypeId, table};

/// A built-in type for [`machinery::patch::strategic_merge_patch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strategic(Sort);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Type(TypeId),
    /// One byte of a byte list.
    Byte,
}

impl Strategic {
    /// The type with this id.
    pub(crate) fn new(id: TypeId) -> Self {
        Self(Sort::Type(id))
    }
}

impl StrategicType for Strategic {
    /// Go's `reflect.Kind`. Types with their own JSON form are structs without JSON fields.
    fn kind(&self) -> TypeKind<'_> {
        let Sort::Type(id) = self.0 else {
            return TypeKind::Other("uint8");
        };
        let ty = table().get(id);
        match &ty.shape {
            Shape::Struct(_) => TypeKind::Struct(ty.name),
            Shape::Map(..) => TypeKind::Map,
            Shape::List(_) => TypeKind::Other("slice"),
            Shape::Scalar(scalar) => match scalar {
                Scalar::String => TypeKind::Other("string"),
                Scalar::Bool => TypeKind::Other("bool"),
                Scalar::Int32 => TypeKind::Other("int32"),
                Scalar::Int64 => TypeKind::Other("int64"),
                Scalar::Float64 => TypeKind::Other("float64"),
                Scalar::Bytes => TypeKind::Other("slice"),
                other => {
                    let name = other.go_name();
                    TypeKind::Struct(name.rsplit('.').next().unwrap_or(name))
                }
            },
        }
    }

    fn field(&self, name: &str) -> Option<StrategicField<'_>> {
        let Sort::Type(id) = self.0 else { return None };
        let field = table().structure(id)?.field(name)?;
        let mut out = match &table().get(field.ty).shape {
            Shape::List(item) => StrategicField::list(Self::new(*item)),
            Shape::Scalar(Scalar::Bytes) => StrategicField::list(Self(Sort::Byte)),
            _ => StrategicField::single(Self::new(field.ty)),
        };
        if let Some(patch) = field.patch() {
            out.strategy = PatchStrategy::from_tag(patch.strategy);
            out.merge_key = patch.merge_key;
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests;
