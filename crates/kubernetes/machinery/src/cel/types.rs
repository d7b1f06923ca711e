//! Types of expressions, and when one stands for another (cel-go `checker/types.go`).

use std::fmt;
use std::sync::Arc;

use super::decl::{Decl, ObjectDecl, Shape};

/// A type.
#[derive(Debug, Clone)]
pub(crate) enum Type {
    /// Known at run time only.
    Dyn,
    /// Of something that is already reported.
    Error,
    /// `null`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `timestamp`
    Timestamp,
    /// `duration`
    Duration,
    /// A type of the Kubernetes libraries.
    Opaque(Opaque),
    /// `list(T)`
    List(Arc<Self>),
    /// `map(K, V)`
    Map(Arc<(Self, Self)>),
    /// `optional_type(T)`
    Optional(Arc<Self>),
    /// `type(T)`
    Meta(Arc<Self>),
    /// An object of a schema.
    Object(Arc<ObjectDecl>),
    /// A parameter of a declaration.
    Param(char),
    /// A variable to be found by unification.
    Var(usize),
}

/// Types of the Kubernetes libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opaque {
    /// `url()`
    Url,
    /// `quantity()`
    Quantity,
    /// `ip()`
    Ip,
    /// `cidr()`
    Cidr,
    /// `semver()`
    Semver,
    /// `format.*()`
    Format,
}

impl Opaque {
    /// Name in messages and of `type()`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Url => "kubernetes.URL",
            Self::Quantity => "kubernetes.Quantity",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
            Self::Semver => "kubernetes.Semver",
            Self::Format => "kubernetes.NamedFormat",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Opaque(o) => f.write_str(o.name()),
            Self::List(t) => write!(f, "list({t})"),
            Self::Map(kv) => write!(f, "map({}, {})", kv.0, kv.1),
            Self::Optional(t) => write!(f, "optional_type({t})"),
            Self::Meta(t) => write!(f, "type({t})"),
            Self::Object(o) => f.write_str(&o.type_name),
            Self::Param(c) => write!(f, "{c}"),
            Self::Var(n) => write!(f, "_var{n}"),
        }
    }
}

impl Type {
    /// `list(T)`
    pub(crate) fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    /// `map(K, V)`
    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// `optional_type(T)`
    pub(crate) fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// The type of values seen through `decl`.
    pub(crate) fn of(decl: &Decl) -> Self {
        match &decl.shape {
            // The checker has no union types. A rule has to test `type(self.port) == int` itself.
            Shape::Dyn | Shape::IntOrString => Self::Dyn,
            Shape::Bool => Self::Bool,
            Shape::Int => Self::Int,
            Shape::Double => Self::Double,
            Shape::String => Self::String,
            Shape::Bytes => Self::Bytes,
            Shape::Date | Shape::DateTime => Self::Timestamp,
            Shape::Duration => Self::Duration,
            Shape::List(list) => Self::list(Self::of(&list.items)),
            Shape::Map(values) => Self::map(Self::String, Self::of(values)),
            Shape::Object(object) => Self::Object(Arc::clone(object)),
        }
    }

    /// Whether anything goes.
    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Structural equality.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::List(a), Self::List(b))
            | (Self::Optional(a), Self::Optional(b))
            | (Self::Meta(a), Self::Meta(b)) => a.same(b),
            (Self::Map(a), Self::Map(b)) => a.0.same(&b.0) && a.1.same(&b.1),
            // By identity: two nodes of a schema are two types even if their fields are equal,
            // as upstream names each type after its path.
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b),
            (Self::Param(a), Self::Param(b)) => a == b,
            (Self::Var(a), Self::Var(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The name without parameters, as `type()` gives it.
    pub(crate) fn runtime_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Map(_) => "map".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            Self::Meta(_) => "type".to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether null stands for such a value.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Opaque(_)
                | Self::Optional(_)
                | Self::Object(_)
                | Self::Duration
                | Self::Timestamp
        )
    }

    fn is_equal_or_less_specific(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Var(_) | Self::Param(_), _) | (Self::Meta(_), Self::Meta(_)) => true,
            (_, Self::Dyn | Self::Var(_) | Self::Param(_)) => false,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => {
                a.is_equal_or_less_specific(b)
            }
            (Self::Map(a), Self::Map(b)) => {
                a.0.is_equal_or_less_specific(&b.0) && a.1.is_equal_or_less_specific(&b.1)
            }
            _ => self.same(other),
        }
    }

    /// The more general of two types that stand for each other.
    pub(crate) fn most_general(self, other: Self) -> Self {
        if self.is_equal_or_less_specific(&other) {
            self
        } else {
            other
        }
    }

    /// Replaces parameters of a declaration by fresh variables, numbered from `base`.
    pub(crate) fn instantiate(&self, base: usize) -> Self {
        match self {
            Self::Param(c) => {
                Self::Var(base + usize::from(u8::try_from(*c).unwrap_or(b'A') - b'A'))
            }
            Self::List(t) => Self::list(t.instantiate(base)),
            Self::Optional(t) => Self::optional(t.instantiate(base)),
            Self::Meta(t) => Self::Meta(Arc::new(t.instantiate(base))),
            Self::Map(kv) => Self::map(kv.0.instantiate(base), kv.1.instantiate(base)),
            other => other.clone(),
        }
    }
}

/// The bindings of type variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings {
    bound: Vec<Option<Type>>,
}

impl Bindings {
    /// A new variable.
    pub(crate) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Var(self.bound.len() - 1)
    }

    /// Reserves variables for the parameters of a declaration and returns the first index.
    pub(crate) fn reserve(&mut self, count: usize) -> usize {
        let base = self.bound.len();
        self.bound.resize(base + count, None);
        base
    }

    fn find(&self, t: &Type) -> Option<Type> {
        match t {
            Type::Var(n) => self.bound.get(*n).cloned().flatten(),
            _ => None,
        }
    }

    fn bind(&mut self, var: &Type, to: Type) {
        if let Type::Var(n) = var
            && let Some(slot) = self.bound.get_mut(*n)
        {
            *slot = Some(to);
        }
    }

    /// `t` with known variables replaced; unknown ones become `dyn` if `finally`.
    pub(crate) fn substitute(&self, t: &Type, finally: bool) -> Type {
        if let Some(found) = self.find(t) {
            return self.substitute(&found, finally);
        }
        match t {
            Type::Var(_) if finally => Type::Dyn,
            Type::List(t) => Type::list(self.substitute(t, finally)),
            Type::Optional(t) => Type::optional(self.substitute(t, finally)),
            Type::Meta(t) => Type::Meta(Arc::new(self.substitute(t, finally))),
            Type::Map(kv) => Type::map(
                self.substitute(&kv.0, finally),
                self.substitute(&kv.1, finally),
            ),
            other => other.clone(),
        }
    }

    /// Whether all pairs stand for each other; learns from it if so and forgets if not.
    pub(crate) fn assign_all(&mut self, left: &[Type], right: &[Type]) -> bool {
        if left.len() != right.len() {
            return false;
        }
        let before = self.clone();
        let fits = left.iter().zip(right).all(|(l, r)| self.unify(l, r));
        if !fits {
            *self = before;
        }
        fits
    }

    /// Whether two types stand for each other; learns from it if so and forgets if not.
    pub(crate) fn assign(&mut self, left: &Type, right: &Type) -> bool {
        self.assign_all(std::slice::from_ref(left), std::slice::from_ref(right))
    }

    fn unify(&mut self, left: &Type, right: &Type) -> bool {
        if matches!(right, Type::Var(_)) {
            match self.substitution(left, right) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if matches!(left, Type::Var(_)) {
            return self.substitution(right, left).0;
        }
        if left.is_dyn_or_error() || right.is_dyn_or_error() {
            return true;
        }
        match (left, right) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.unify(a, b)
            }
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            // `type(a) == type(b)` has to compile for any two types: it compares what they are at run time.
            (Type::Meta(_), Type::Meta(_)) => true,
            _ => left.same(right),
        }
    }

    /// `(valid, whether the variable was bound)`
    fn substitution(&mut self, t: &Type, var: &Type) -> (bool, bool) {
        if t.same(var) {
            return (true, true);
        }
        if let Some(bound) = self.find(var) {
            if t.same(&bound) {
                return (true, true);
            }
            if self.unify(t, &bound) {
                let general = t.clone().most_general(bound);
                if !self.occurs(var, &general) {
                    self.bind(var, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        // A variable bound to a list of itself would make `substitute` recurse without end.
        if self.occurs(var, t) {
            return (false, false);
        }
        self.bind(var, t.clone());
        (true, false)
    }

    fn occurs(&self, var: &Type, within: &Type) -> bool {
        if var.same(within) {
            return true;
        }
        match within {
            Type::Var(_) => self.find(within).is_some_and(|t| self.occurs(var, &t)),
            Type::List(t) | Type::Optional(t) | Type::Meta(t) => self.occurs(var, t),
            Type::Map(kv) => self.occurs(var, &kv.0) || self.occurs(var, &kv.1),
            _ => false,
        }
    }
}
