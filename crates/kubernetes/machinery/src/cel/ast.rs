//! The expression tree. Macros are nodes of their own rather than expanded calls, so that they can
//! run in linear time while costing what their expansion would cost upstream.

use std::sync::Arc;

/// Deepest tree that is accepted; bounds the stack of everything that walks it.
// cel-go's parser allows 250 levels of recursion. Check, estimate and evaluation recurse here, with larger frames;
// rules in use stay below twenty.
pub(crate) const MAX_DEPTH: u16 = 100;

/// One node.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    /// Number of the node, dense from zero.
    pub(crate) id: usize,
    /// Code point offset errors point at.
    pub(crate) pos: usize,
    /// Height of the tree below, this node included.
    pub(crate) depth: u16,
    /// What it is.
    pub(crate) kind: Kind,
}

/// Kinds of nodes.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A constant.
    Literal(Literal),
    /// A variable or a type name.
    Ident(String),
    /// `operand.field`, or `has(operand.field)` if `test`.
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    /// `operand.?field`.
    OptSelect { operand: Box<Expr>, field: String },
    /// Operators, functions and methods. `&&` and `||` hold all terms of a chain.
    Call {
        target: Option<Box<Expr>>,
        name: String,
        args: Vec<Expr>,
    },
    /// `[a, ?b]`.
    List(Vec<Element>),
    /// `{k: v, ?k: v}`.
    Map(Vec<Entry>),
    /// `Name{field: value}`: no message types are declared, so the check reports every one.
    Struct { name: String, fields: Vec<Expr> },
    /// A macro that binds variables.
    Macro(Box<Macro>),
}

/// Element of a list literal.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    /// The value, an optional if `optional`.
    pub(crate) value: Expr,
    /// Left out if the optional is empty.
    pub(crate) optional: bool,
}

/// Entry of a map literal.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    /// Value, an optional if `optional`.
    pub(crate) value: Expr,
    /// Left out if the optional is empty.
    pub(crate) optional: bool,
}

/// Constants.
#[derive(Debug, Clone)]
pub(crate) enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `'a'`
    String(Arc<str>),
    /// `b'a'`
    Bytes(Arc<[u8]>),
}

/// A macro with its variables.
#[derive(Debug, Clone)]
pub(crate) struct Macro {
    pub(crate) kind: MacroKind,
    /// The iterated value, or the optional of `optMap`.
    pub(crate) range: Expr,
    pub(crate) var: String,
    /// Second variable of the two-variable forms.
    pub(crate) var2: Option<String>,
    /// Condition of the forms that filter and transform.
    pub(crate) filter: Option<Expr>,
    /// The expression in which the variables are bound.
    pub(crate) body: Expr,
}

/// Which macro.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MacroKind {
    /// `all`
    All,
    /// `exists`
    Exists,
    /// `exists_one`, `existsOne`
    ExistsOne,
    /// `map`, `transformList`
    Map,
    /// `filter`
    Filter,
    /// `transformMap`
    TransformMap,
    /// `transformMapEntry`
    TransformMapEntry,
    /// `sortBy`
    SortBy,
    /// `optMap`
    OptMap,
    /// `optFlatMap`
    OptFlatMap,
}

impl Kind {
    /// The nodes right below, in the order of the source.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Ident(_) => Vec::new(),
            Self::Select { operand, .. } | Self::OptSelect { operand, .. } => vec![operand],
            Self::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Self::List(items) => items.iter().map(|item| &item.value).collect(),
            Self::Map(entries) => entries.iter().flat_map(|e| [&e.key, &e.value]).collect(),
            Self::Struct { fields, .. } => fields.iter().collect(),
            Self::Macro(node) => {
                let head = [&node.range].into_iter().chain(&node.filter);
                head.chain([&node.body]).collect()
            }
        }
    }
}

impl Expr {
    /// The dotted name this node spells, if it is an identifier or selections from one.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select {
                operand,
                field,
                test: false,
            } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Whether upstream plans this node as an attribute: a variable with qualifiers.
    pub(crate) fn is_attribute(&self) -> bool {
        match &self.kind {
            Kind::Ident(_) => true,
            Kind::Select {
                operand,
                test: false,
                ..
            }
            | Kind::OptSelect { operand, .. } => operand.is_attribute(),
            Kind::Call {
                target: None,
                name,
                args,
            } if name == "_[_]" || name == "_[?_]" => args.first().is_some_and(Self::is_attribute),
            _ => false,
        }
    }

    /// Whether this is a constant, or a literal that consists of constants; upstream folds those.
    pub(crate) fn is_constant(&self) -> bool {
        match &self.kind {
            Kind::Literal(_) => true,
            Kind::List(items) => items.iter().all(|e| !e.optional && e.value.is_constant()),
            Kind::Map(entries) => entries
                .iter()
                .all(|e| !e.optional && e.key.is_constant() && e.value.is_constant()),
            _ => false,
        }
    }
}
