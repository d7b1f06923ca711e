//! Parser of the table files.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The table files, in the order in which a kind is looked up in a group and version.
const FILES: [&str; 22] = [
    include_str!("tables/core_v1.types"),
    include_str!("tables/admissionregistration_v1.types"),
    include_str!("tables/apiextensions_v1.types"),
    include_str!("tables/apiregistration_v1.types"),
    include_str!("tables/apps_v1.types"),
    include_str!("tables/authentication_v1.types"),
    include_str!("tables/authorization_v1.types"),
    include_str!("tables/autoscaling_v1.types"),
    include_str!("tables/autoscaling_v2.types"),
    include_str!("tables/batch_v1.types"),
    include_str!("tables/certificates_v1.types"),
    include_str!("tables/coordination_v1.types"),
    include_str!("tables/discovery_v1.types"),
    include_str!("tables/events_v1.types"),
    include_str!("tables/networking_v1.types"),
    include_str!("tables/node_v1.types"),
    include_str!("tables/policy_v1.types"),
    include_str!("tables/rbac_v1.types"),
    include_str!("tables/scheduling_v1.types"),
    include_str!("tables/storage_v1.types"),
    include_str!("tables/meta_v1.types"),
    include_str!("tables/types.types"),
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(&FILES));

/// The table of all built-in types; read on first use.
pub(crate) fn table() -> &'static Table {
    &TABLE
}

/// A type in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TypeId(u16);

/// Types without components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// Text.
    String,
    /// True or false.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating point number.
    Float64,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A time with seconds.
    Time,
    /// A time with microseconds.
    MicroTime,
    /// An amount such as `500m` or `2Gi`.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// `runtime.RawExtension`: any object.
    RawExtension,
    /// `metav1.FieldsV1`: a field set.
    FieldsV1,
    /// `apiextensions.JSON`: any JSON.
    Json,
    /// A schema, or true or false.
    SchemaOrBool,
    /// A schema or a list of them.
    SchemaOrArray,
    /// A schema or a list of property names.
    SchemaOrStrings,
}

impl Scalar {
    /// The name in the table and Go's name.
    const NAMES: [(Self, &'static str, &'static str); 16] = [
        (Self::String, "string", "string"),
        (Self::Bool, "bool", "bool"),
        (Self::Int32, "int32", "int32"),
        (Self::Int64, "int64", "int64"),
        (Self::Float64, "float64", "float64"),
        (Self::Bytes, "bytes", "[]uint8"),
        (Self::Time, "Time", "v1.Time"),
        (Self::MicroTime, "MicroTime", "v1.MicroTime"),
        (Self::Quantity, "Quantity", "resource.Quantity"),
        (Self::IntOrString, "IntOrString", "intstr.IntOrString"),
        (Self::RawExtension, "RawExtension", "runtime.RawExtension"),
        (Self::FieldsV1, "FieldsV1", "v1.FieldsV1"),
        (Self::Json, "JSON", "v1.JSON"),
        (
            Self::SchemaOrBool,
            "SchemaOrBool",
            "v1.JSONSchemaPropsOrBool",
        ),
        (
            Self::SchemaOrArray,
            "SchemaOrArray",
            "v1.JSONSchemaPropsOrArray",
        ),
        (
            Self::SchemaOrStrings,
            "SchemaOrStrings",
            "v1.JSONSchemaPropsOrStringArray",
        ),
    ];

    /// The name that Go's reflection prints.
    pub(super) fn go_name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(s, _, _)| *s == self)
            .map_or("", |(_, _, go)| go)
    }
}

/// Structure of a type.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A type without components.
    Scalar(Scalar),
    /// A list of items.
    List(TypeId),
    /// A map from strings (of the first type) to values.
    Map(TypeId, TypeId),
    /// A struct.
    Struct(Struct),
}

/// The fields of a struct.
#[derive(Debug, Default)]
pub(crate) struct Struct {
    /// All fields by JSON name, including those of embedded structs.
    pub(crate) fields: Box<[Field]>,
    /// Protobuf numbers and types of embedded structs.
    pub(crate) embedded: Box<[(u16, TypeId)]>,
    /// Whether server-side apply replaces it as a whole.
    pub(crate) atomic: bool,
    /// Whether it has apiVersion and kind.
    pub(crate) kind: bool,
}

impl Struct {
    /// The field with this JSON name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields
            .binary_search_by(|field| field.name.cmp(name))
            .ok()
            .map(|i| &self.fields[i])
    }
}

/// One field of a struct.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, one word each in the table"
)]
pub(crate) struct Field {
    /// Name in JSON.
    pub(crate) name: &'static str,
    /// Its type, without the pointer.
    pub(crate) ty: TypeId,
    /// Whether absent differs from empty.
    pub(crate) pointer: bool,
    /// Written even when empty.
    pub(crate) always: bool,
    /// Clients have to set it.
    pub(crate) required: bool,
    /// A zero struct is left out.
    pub(crate) omit_zero: bool,
    /// Names of the embedded structs it comes from, with a trailing dot; empty for an own field.
    pub(crate) embedded_in: Box<str>,
    number: u16,
    facts: &'static str,
}

/// How server-side apply merges a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Items are unique scalars.
    Set,
    /// Items are objects identified by these keys, separated by commas.
    Map(&'static str),
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patch {
    /// Strategies, separated by commas: `merge`, `replace`, `retainKeys`.
    pub(crate) strategy: &'static str,
    /// The key that identifies list items.
    pub(crate) merge_key: Option<&'static str>,
}

impl Field {
    /// The protobuf number; `None` for a field of an embedded struct, which is in that message.
    pub(crate) fn number(&self) -> Option<u16> {
        (self.embedded_in.is_empty() && self.number != 0).then_some(self.number)
    }

    fn fact(&self, name: &str) -> Option<&'static str> {
        self.facts
            .split(' ')
            .find_map(|fact| fact.strip_prefix(name)?.strip_prefix('='))
    }

    /// How server-side apply merges the list; `None` when it is not declared.
    pub(crate) fn list_type(&self) -> Option<ListType> {
        match self.fact("list")? {
            "set" => Some(ListType::Set),
            "atomic" => Some(ListType::Atomic),
            map => map.strip_prefix("map:").map(ListType::Map),
        }
    }

    /// How a strategic merge patch merges it; `None` when it is not declared.
    pub(crate) fn patch(&self) -> Option<Patch> {
        let fact = self.fact("patch")?;
        Some(match fact.split_once(':') {
            Some((strategy, key)) => Patch {
                strategy,
                merge_key: Some(key),
            },
            None => Patch {
                strategy: fact,
                merge_key: None,
            },
        })
    }

    /// Whether the field's map or struct is replaced as a whole (`true`) or merged (`false`),
    /// overriding its type; `None` when it is not declared.
    pub(crate) fn atomic(&self) -> Option<bool> {
        self.facts.split(' ').find_map(|fact| match fact {
            "atomic" => Some(true),
            "granular" => Some(false),
            _ => None,
        })
    }

    /// The documented default, as JSON text.
    pub(crate) fn default(&self) -> Option<&'static str> {
        self.fact("default")
    }
}

/// A type and its names.
#[derive(Debug)]
pub(crate) struct Type {
    /// Package, such as `core/v1`.
    pub(crate) package: &'static str,
    /// Name; empty for an unnamed list or map and for a plain scalar.
    pub(crate) name: &'static str,
    /// Its structure.
    pub(crate) shape: Shape,
    /// A named list that protobuf wraps in a message of its own.
    pub(crate) message: bool,
    /// Accepted values, separated by commas; empty when they are not restricted.
    pub(crate) accepted: &'static str,
}

/// A package of types.
#[derive(Debug, Clone, Copy)]
struct Package {
    name: &'static str,
    group: &'static str,
    version: &'static str,
    model: &'static str,
}

/// All built-in types.
#[derive(Debug, Default)]
pub(crate) struct Table {
    types: Vec<Type>,
    index: HashMap<(&'static str, &'static str), TypeId>,
    packages: Vec<Package>,
    /// Lines that did not parse; a test verifies that there are none.
    problems: Vec<String>,
}

impl Table {
    /// The type with this id.
    pub(crate) fn get(&self, id: TypeId) -> &Type {
        &self.types[usize::from(id.0)]
    }

    /// The struct with this id; `None` for another type.
    pub(crate) fn structure(&self, id: TypeId) -> Option<&Struct> {
        match &self.get(id).shape {
            Shape::Struct(structure) => Some(structure),
            _ => None,
        }
    }

    /// All structs.
    pub(super) fn structures(&self) -> impl Iterator<Item = (TypeId, &Struct)> {
        (0_u16..)
            .zip(&self.types)
            .filter_map(|(id, ty)| match &ty.shape {
                Shape::Struct(structure) => Some((TypeId(id), structure)),
                _ => None,
            })
    }

    /// The type of this name with its package, such as `core/v1.Container`.
    pub(crate) fn find(&self, name: &str) -> Option<TypeId> {
        let (package, name) = name.rsplit_once('.')?;
        self.lookup(package, name)
    }

    fn lookup(&self, package: &str, name: &str) -> Option<TypeId> {
        self.index.get(&(package, name)).copied()
    }

    /// The type of a kind. Options such as `DeleteOptions` exist in every group, as upstream
    /// registers them everywhere.
    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let is_kind = |id: &TypeId| self.structure(*id).is_some_and(|s| s.kind);
        self.packages
            .iter()
            .filter(|p| p.group == group && p.version == version && !p.model.is_empty())
            .find_map(|p| self.lookup(p.name, kind).filter(is_kind))
            .or_else(|| {
                kind.ends_with("Options")
                    .then(|| self.lookup("meta/v1", kind).filter(is_kind))?
            })
    }

    /// Group and version of a package's kinds.
    pub(super) fn group_version(&self, package: &str) -> (&'static str, &'static str) {
        self.package(package)
            .map_or(("", ""), |p| (p.group, p.version))
    }

    fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|p| p.name == name)
    }

    /// The name of the type as Go's reflection prints it, such as `[]v1.Container`.
    pub(crate) fn go_name(&self, id: TypeId) -> String {
        let ty = self.get(id);
        if !ty.name.is_empty() {
            let package = ty.package.rsplit('/').next().unwrap_or_default();
            return format!("{package}.{}", ty.name);
        }
        match &ty.shape {
            Shape::Scalar(scalar) => scalar.go_name().to_owned(),
            Shape::List(item) => format!("[]{}", self.go_name(*item)),
            Shape::Map(key, value) => {
                format!("map[{}]{}", self.go_name(*key), self.go_name(*value))
            }
            Shape::Struct(_) => String::new(),
        }
    }

    /// The name of the type's model in OpenAPI, such as `io.k8s.api.core.v1.Container`.
    pub(crate) fn model_name(&self, id: TypeId) -> String {
        let ty = self.get(id);
        let model = self.package(ty.package).map_or("", |p| p.model);
        format!("{model}.{}", ty.name)
    }

    fn read(files: &[&'static str]) -> Self {
        let mut table = Self::default();
        for (scalar, word, _) in Scalar::NAMES {
            table.add("", word, Shape::Scalar(scalar));
        }
        for file in files {
            table.declare(file);
        }
        for file in files {
            table.define(file);
        }
        table.flatten();
        table
    }

    fn add(&mut self, package: &'static str, key: &'static str, shape: Shape) -> TypeId {
        let id = TypeId(u16::try_from(self.types.len()).unwrap_or(u16::MAX));
        self.types.push(Type {
            package,
            name: "",
            shape,
            message: false,
            accepted: "",
        });
        self.index.insert((package, key), id);
        id
    }

    /// First pass: every name gets an id, so that types may refer to later ones.
    fn declare(&mut self, file: &'static str) {
        let mut package = "";
        for line in file.lines().filter(|line| !line.starts_with(' ')) {
            let mut words = line.split(' ');
            let (word, name) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            match word {
                "package" => {
                    let fact = |key: &str| {
                        line.split(' ')
                            .find_map(|fact| fact.strip_prefix(key)?.strip_prefix('='))
                            .unwrap_or_default()
                    };
                    self.packages.push(Package {
                        name,
                        group: fact("group"),
                        version: fact("version"),
                        model: fact("model"),
                    });
                    package = name;
                }
                "kind" | "type" => {
                    let structure = Struct {
                        kind: word == "kind",
                        atomic: words.any(|fact| fact == "atomic"),
                        ..Struct::default()
                    };
                    let id = self.add(package, name, Shape::Struct(structure));
                    self.types[usize::from(id.0)].name = name;
                }
                "name" => {
                    let id = self.add(package, name, Shape::Scalar(Scalar::String));
                    self.types[usize::from(id.0)].name = name;
                }
                _ => self.problems.push(line.to_owned()),
            }
        }
    }

    /// Second pass: fields of structs and the types of names.
    fn define(&mut self, file: &'static str) {
        let mut package = "";
        let mut current: Option<TypeId> = None;
        let mut fields: Vec<Field> = Vec::new();
        let mut embedded: Vec<(u16, TypeId)> = Vec::new();
        for line in file.lines().chain(std::iter::once("end")) {
            if let Some(field) = line.strip_prefix("  ") {
                let mut parts = field.splitn(4, ' ');
                let (Some(name), Some(ty), Some(number)) =
                    (parts.next(), parts.next(), parts.next())
                else {
                    self.problems.push(line.to_owned());
                    continue;
                };
                let facts = parts.next().unwrap_or_default();
                let (pointer, ty) = match ty.strip_prefix('*') {
                    Some(ty) => (true, ty),
                    None => (false, ty),
                };
                let (Some(ty), Ok(number)) = (self.resolve(package, ty), number.parse()) else {
                    self.problems.push(line.to_owned());
                    continue;
                };
                if name == "~" {
                    embedded.push((number, ty));
                    continue;
                }
                let mut field = Field {
                    name,
                    ty,
                    pointer,
                    always: false,
                    required: false,
                    omit_zero: false,
                    embedded_in: Box::default(),
                    number,
                    facts,
                };
                for fact in facts.split(' ').filter(|fact| !fact.is_empty()) {
                    match fact {
                        "req" => (field.always, field.required) = (true, true),
                        "always" => field.always = true,
                        "required" => field.required = true,
                        "omitzero" => field.omit_zero = true,
                        "atomic" | "granular" => {}
                        known if known.contains('=') => {}
                        _ => self.problems.push(line.to_owned()),
                    }
                }
                fields.push(field);
                continue;
            }
            if let Some(id) = current.take()
                && let Shape::Struct(structure) = &mut self.types[usize::from(id.0)].shape
            {
                structure.fields = std::mem::take(&mut fields).into_boxed_slice();
                structure.embedded = std::mem::take(&mut embedded).into_boxed_slice();
            }
            let mut words = line.split(' ');
            match (words.next(), words.next()) {
                (Some("package"), Some(name)) => package = name,
                (Some("kind" | "type"), Some(name)) => {
                    current = self.index.get(&(package, name)).copied();
                }
                (Some("name"), Some(name)) => self.define_name(package, name, line),
                _ => {}
            }
        }
    }

    /// `name <Name> <type> [message] [enum=<values>]`; accepted values may contain spaces.
    fn define_name(&mut self, package: &'static str, name: &'static str, line: &'static str) {
        let mut parts = line.splitn(4, ' ').skip(2);
        let id = self.index.get(&(package, name)).copied();
        let target = parts.next().and_then(|text| self.resolve(package, text));
        let (Some(id), Some(target)) = (id, target) else {
            self.problems.push(line.to_owned());
            return;
        };
        let shape = match &self.get(target).shape {
            Shape::Scalar(scalar) => Shape::Scalar(*scalar),
            Shape::List(item) => Shape::List(*item),
            Shape::Map(key, value) => Shape::Map(*key, *value),
            Shape::Struct(_) => {
                self.problems.push(line.to_owned());
                return;
            }
        };
        let ty = &mut self.types[usize::from(id.0)];
        ty.shape = shape;
        match parts.next() {
            None => {}
            Some("message") => ty.message = true,
            Some(fact) => match fact.strip_prefix("enum=") {
                Some(accepted) => ty.accepted = accepted,
                None => self.problems.push(line.to_owned()),
            },
        }
    }

    /// The id of a type expression, which is added when it is new.
    fn resolve(&mut self, package: &'static str, text: &'static str) -> Option<TypeId> {
        if let Some(id) = self
            .index
            .get(&("", text))
            .or_else(|| self.index.get(&(package, text)))
        {
            return Some(*id);
        }
        let shape = if let Some(item) = text.strip_prefix("[]") {
            Shape::List(self.resolve(package, item)?)
        } else if let Some((key, value)) = text.strip_prefix("map[").and_then(|t| t.split_once(']'))
        {
            Shape::Map(self.resolve(package, key)?, self.resolve(package, value)?)
        } else {
            let (package, name) = text.rsplit_once('.')?;
            return self.index.get(&(package, name)).copied();
        };
        Some(self.add(package, text, shape))
    }

    /// Third pass: adds the fields of embedded structs to the containing struct, and sorts all by
    /// name.
    fn flatten(&mut self) {
        let ids: Vec<TypeId> = self.index.values().copied().collect();
        for id in ids {
            let mut fields = Vec::new();
            self.collect_fields(id, "", &mut fields, 0);
            if let Shape::Struct(structure) = &mut self.types[usize::from(id.0)].shape {
                fields.sort_unstable_by_key(|field| field.name);
                structure.fields = fields.into_boxed_slice();
            }
        }
    }

    fn collect_fields(&self, id: TypeId, prefix: &str, fields: &mut Vec<Field>, depth: usize) {
        let Some(structure) = self.structure(id).filter(|_| depth < 4) else {
            return;
        };
        for field in structure
            .fields
            .iter()
            .filter(|field| field.embedded_in.is_empty())
        {
            fields.push(Field {
                embedded_in: prefix.into(),
                ..field.clone()
            });
        }
        for (_, inner) in &structure.embedded {
            let prefix = format!("{prefix}{}.", self.get(*inner).name);
            self.collect_fields(*inner, &prefix, fields, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests;
