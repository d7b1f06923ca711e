//! What the expressions of a data profile see of the cluster.

use std::collections::BTreeMap;

use api::advisor::TargetRef;
use api::profile::ReadSpec;
use machinery::cel::{Environment, VarType};
use machinery::schema::Schema;
use serde_json::{Map, Value, json};

use super::formula::{Findings, Values};
use super::options::check_schema;
use super::template::Template;
use crate::profile::kinds::{MACHINE_CONFIG, MACHINE_CONFIG_POOL};
use crate::profile::schema::{Field, Installed};
use crate::profile::{KindUse, Refusal, pools};
use crate::snapshot::{GroupKind, Snapshot, whole};

/// Objects of a list, unless the profile says otherwise.
const MAX_OBJECTS: u32 = 500;

/// A variable with objects.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) name: String,
    path: String,
    /// The index of the kind.
    kind: usize,
    what: Objects,
    fields: Vec<String>,
}

#[derive(Debug)]
enum Objects {
    /// One, by name.
    One {
        name: Box<Template>,
        namespace: Option<Box<Template>>,
        any_namespace: bool,
    },
    /// All, up to a number.
    All(usize),
    /// The MachineConfigPools that take MachineConfigs with these labels.
    Pools(Value),
}

/// An object that a read names, existing or not.
#[derive(Debug)]
pub(super) struct Located {
    /// Its reference.
    pub(super) target: TargetRef,
    /// The object; empty if it does not exist.
    pub(super) object: Value,
}

impl Read {
    /// Compiles a read; also returns the type of its variable. Names are templates over `options`.
    pub(super) fn compile(
        found: &mut Findings,
        options: &Environment,
        path: &str,
        spec: &ReadSpec,
        (kind, uses): (usize, &KindUse),
    ) -> Option<(Self, VarType)> {
        let item = match &spec.schema {
            None => VarType::Dyn,
            Some(schema) => {
                let at = format!("{path}.schema");
                check_schema(found, &at, schema);
                match Schema::parse(&with_metadata(schema)) {
                    Ok(schema) => VarType::Object(Box::new(schema), false),
                    Err(error) => {
                        found.error(&at, error);
                        return None;
                    }
                }
            }
        };
        let most = spec.max_objects.unwrap_or(MAX_OBJECTS);
        let list = |item| VarType::ListUpTo(Box::new(item), most.into());
        let (what, variable) = match (&spec.object, &spec.taking) {
            (Some(_), Some(_)) => {
                found.error(path, "object and taking cannot both be set");
                return None;
            }
            (None, Some(labels)) => {
                if uses.of != MACHINE_CONFIG_POOL {
                    let at = format!("{path}.taking");
                    found.error(&at, "only MachineConfigPools take MachineConfigs");
                }
                let pool = Schema::parse(&pool_schema()).ok()?;
                let pool = VarType::Object(Box::new(pool), false);
                (
                    Objects::Pools(json!(labels)),
                    VarType::ListUpTo(Box::new(pool), MAX_POOLS),
                )
            }
            (Some(object), None) => {
                let mut text = |name: &str, source: &String| {
                    let at = format!("{path}.object.{name}");
                    Template::text(found, options, &at, source)
                };
                let name = Box::new(text("name", &object.name)?);
                let namespace = match &object.namespace {
                    Some(namespace) => Some(Box::new(text("namespace", namespace)?)),
                    None => None,
                };
                let any_namespace = object.any_namespace.unwrap_or_default();
                let what = Objects::One {
                    name,
                    namespace,
                    any_namespace,
                };
                (what, item)
            }
            (None, None) => (Objects::All(most as usize), list(item)),
        };
        let read = Self {
            name: spec.name.clone(),
            path: path.to_owned(),
            kind,
            what,
            fields: spec.fields.clone(),
        };
        Some((read, variable))
    }

    /// Whether it is of one object.
    pub(super) fn is_single(&self) -> bool {
        matches!(self.what, Objects::One { .. })
    }

    /// Whether it needs MachineConfigs as well.
    pub(super) fn needs_machine_configs(&self) -> bool {
        matches!(self.what, Objects::Pools(_))
    }

    /// Whether the variable `fields` has something of it.
    pub(super) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The templates of its names.
    pub(super) fn templates(&self) -> Vec<&Template> {
        match &self.what {
            Objects::One {
                name, namespace, ..
            } => [name]
                .into_iter()
                .chain(namespace)
                .map(|it| &**it)
                .collect(),
            Objects::All(_) | Objects::Pools(_) => Vec::new(),
        }
    }
}

/// The type of the variable `fields`: by read and path.
pub(super) fn fields_variable() -> VarType {
    let field = json!({ "type": "object", "properties": {
        "accepted": { "type": "boolean" },
        "heeded": { "type": "boolean" },
        "values": { "type": "array", "maxItems": 256, "items": { "type": "string", "maxLength": 256 } },
    }});
    let field = Schema::parse(&field).map_or(VarType::Dyn, |schema| {
        VarType::Object(Box::new(schema), false)
    });
    VarType::Map(Box::new(VarType::Map(Box::new(field))))
}

/// Sets the variables of all reads; returns the objects that were read by name.
pub(super) fn gather(
    reads: &[Read],
    kinds: &[(String, KindUse)],
    snapshot: &Snapshot,
    values: &mut Values,
    budget: &mut u64,
) -> Result<BTreeMap<String, Located>, Refusal> {
    let versions: Map<String, Value> = kinds
        .iter()
        .map(|(name, uses)| (name.clone(), json!(version(uses, snapshot))))
        .collect();
    values.set("versions", Value::Object(versions));
    let mut located = BTreeMap::new();
    let mut fields = Map::new();
    for read in reads {
        let Some((_, uses)) = kinds.get(read.kind) else {
            continue;
        };
        if read.has_fields() {
            fields.insert(read.name.clone(), support(read, uses.of, snapshot));
        }
        let value = match &read.what {
            Objects::All(most) => {
                let all: Vec<Value> = snapshot.list(uses.of).map(|it| whole(it)).collect();
                if all.len() > *most {
                    return Err(Refusal::Unreadable(format!(
                        "{}: there are {} objects of kind {}, and maxObjects is {most}",
                        read.path,
                        all.len(),
                        uses.of.kind
                    )));
                }
                Value::Array(all)
            }
            Objects::Pools(labels) => Value::Array(pools::described(snapshot, labels)),
            Objects::One {
                name,
                namespace,
                any_namespace,
            } => {
                let at = |field: &str| format!("{}.object.{field}", read.path);
                let name = name.rendered(&at("name"), values, budget)?;
                let namespace = match namespace {
                    Some(namespace) => {
                        Some(namespace.rendered(&at("namespace"), values, budget)?)
                    }
                    None => None,
                };
                let found = locate(uses, snapshot, name, namespace, *any_namespace);
                let object = found.object.clone();
                located.insert(read.name.clone(), found);
                object
            }
        };
        values.set(&read.name, value);
    }
    values.set("fields", Value::Object(fields));
    Ok(located)
}

/// The served version of a kind; the last one while it is not installed.
pub(super) fn version<'a>(uses: &KindUse, snapshot: &'a Snapshot) -> &'a str {
    let installed = snapshot.kind(uses.of).map(|kind| kind.version.as_str());
    installed
        .or_else(|| uses.versions.last().copied())
        .unwrap_or_default()
}

/// The reference to an object of a kind.
pub(super) fn reference(
    uses: &KindUse,
    snapshot: &Snapshot,
    name: String,
    namespace: Option<String>,
) -> TargetRef {
    let version = version(uses, snapshot);
    TargetRef {
        api_version: if uses.of.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", uses.of.group)
        },
        kind: uses.of.kind.to_owned(),
        name,
        namespace,
    }
}

fn locate(
    uses: &KindUse,
    snapshot: &Snapshot,
    name: String,
    namespace: Option<String>,
    any_namespace: bool,
) -> Located {
    let here = namespace.as_deref().unwrap_or_default();
    let mut object = snapshot.get(uses.of, here, &name);
    if object.is_none() && any_namespace {
        // The expected namespace first: a leftover object elsewhere must not win by its place in the order.
        let mut all = snapshot.list(uses.of);
        object = all.find(|it| it.metadata.name.as_deref() == Some(&*name));
    }
    let actual = object.and_then(|it| it.metadata.namespace.clone());
    Located {
        target: reference(uses, snapshot, name, actual.or(namespace)),
        object: object.map_or_else(|| json!({}), |it| whole(it)),
    }
}

/// Which fields the installed kind supports.
fn support(read: &Read, of: GroupKind, snapshot: &Snapshot) -> Value {
    let installed = Installed::of(snapshot, of);
    let supported = |path: &String| {
        let known = !matches!(installed.field(path), Field::Unknown);
        let value = json!({
            "accepted": known,
            "heeded": installed.heeds(path),
            "values": installed.values(path).unwrap_or_default(),
        });
        (path.clone(), value)
    };
    Value::Object(read.fields.iter().map(supported).collect())
}

/// The most MachineConfigPools that costs are estimated for.
const MAX_POOLS: u64 = 32;

/// A MachineConfigPool, as [`pools::described`] shows it.
fn pool_schema() -> Value {
    let arguments =
        json!({ "type": "array", "maxItems": 32, "items": { "type": "string", "maxLength": 256 } });
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "maxLength": 253 },
        "machines": { "type": "integer" },
        "arguments": arguments,
        "configs": { "type": "array", "maxItems": 128, "items": { "type": "object", "properties": {
            "name": { "type": "string", "maxLength": 253 },
            "worker": { "type": "boolean" },
            "arguments": arguments,
        }}},
    }})
}

/// The schema of an object, with what every object has.
fn with_metadata(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let text = json!({ "type": "string", "maxLength": 253 });
    let texts = json!({ "type": "object", "maxProperties": 256, "additionalProperties": { "type": "string", "maxLength": 4096 } });
    let metadata = json!({ "type": "object", "properties": {
        "name": text, "namespace": text, "uid": text, "generation": { "type": "integer" },
        "labels": texts, "annotations": texts,
    }});
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("metadata".to_owned(), metadata);
    }
    schema
}

/// Whether the kinds of a profile include MachineConfigs.
pub(super) fn have_machine_configs(kinds: &[(String, KindUse)]) -> bool {
    kinds.iter().any(|(_, uses)| uses.of == MACHINE_CONFIG)
}
