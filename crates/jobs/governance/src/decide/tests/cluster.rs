//! A minimal API server: objects with field ownership, server-side apply, and plain edits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::advisor::{FIELD_MANAGER, TargetRef};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use machinery::apply::{FieldSet, PathElement};
use serde_json::{Map, Value, json};

use crate::exchange::{Request, Response};
use crate::ownership::Conflict;
use crate::profile::kinds::{DEPLOYMENT, KUBE_DESCHEDULER};
use crate::served::ServedSchema;
use crate::snapshot::{GroupKind, Kind, Snapshot};

/// The segments of a path: keys may hold dots.
type Path = Vec<String>;

/// An object and the owners of its fields.
#[derive(Debug, Clone)]
struct Stored {
    value: Value,
    owners: BTreeMap<Path, BTreeSet<String>>,
    written: BTreeMap<String, Timestamp>,
}

/// A kind that is installed.
#[derive(Debug, Clone)]
struct Installed {
    version: &'static str,
    definition: Option<Arc<CustomResourceDefinition>>,
}

/// The cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    kinds: BTreeMap<GroupKind, Installed>,
    /// Kinds that cannot be read, with the error.
    pub(crate) unreadable: BTreeMap<GroupKind, String>,
    /// Namespaces that do not exist.
    pub(crate) missing_namespaces: BTreeSet<String>,
    objects: BTreeMap<(GroupKind, String, String), Stored>,
    /// What mutating admission sets in every write to objects of a name; a null removes the field.
    pub(super) admission: BTreeMap<String, Vec<(Path, Value)>>,
}

impl Cluster {
    pub(crate) fn install(&mut self, of: GroupKind, version: &'static str, schema: Option<Value>) {
        let definition = schema.map(|schema| {
            let definition = json!({
                "metadata": { "name": of.kind },
                "spec": {
                    "group": of.group, "scope": "Namespaced",
                    "names": { "kind": of.kind, "plural": of.kind.to_lowercase() },
                    "versions": [{
                        "name": version, "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": schema },
                    }],
                },
            });
            Arc::new(serde_json::from_value(definition).unwrap())
        });
        self.kinds.insert(
            of,
            Installed {
                version,
                definition,
            },
        );
    }

    pub(crate) fn uninstall(&mut self, of: GroupKind) {
        self.kinds.remove(&of);
        self.objects.retain(|(kind, _, _), _| *kind != of);
    }

    fn key(&self, target: &TargetRef) -> (GroupKind, String, String) {
        let group = target.api_version.split_once('/').map_or("", |(g, _)| g);
        let mut kinds = self.kinds.keys();
        let of = kinds
            .find(|of| of.group == group && of.kind == target.kind)
            .unwrap_or_else(|| panic!("{target}: the kind is not installed"));
        let namespace = target.namespace.clone().unwrap_or_default();
        (*of, namespace, target.name.clone())
    }

    /// An object as a client reads it.
    pub(crate) fn get(&self, target: &TargetRef) -> Option<Value> {
        self.objects.get(&self.key(target)).map(Stored::read)
    }

    /// All objects without metadata of the server, for comparisons.
    pub(crate) fn content(&self) -> Vec<Value> {
        let objects = self.objects.values();
        objects.map(|stored| stored.value.clone()).collect()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (of, installed) in &self.kinds {
            if let Some(why) = self.unreadable.get(of) {
                snapshot.insert_unreadable(*of, why.clone());
                continue;
            }
            let objects = self.objects.iter().filter(|((kind, _, _), _)| kind == of);
            let objects = objects.map(|((_, namespace, name), stored)| {
                let mut object = stored.read();
                if *of == KUBE_DESCHEDULER && object["status"].is_null() {
                    // Its operator accepts it.
                    let accepted =
                        json!({ "type": "TargetConfigControllerDegraded", "status": "False" });
                    object["status"] = json!({ "conditions": [accepted] });
                }
                let object = serde_json::from_value(object).unwrap();
                ((namespace.clone(), name.clone()), Arc::new(object))
            });
            let kind = Kind {
                version: installed.version.to_owned(),
                plural: format!("{}s", of.kind.to_lowercase()),
                definition: installed.definition.clone(),
                objects: objects.collect(),
            };
            snapshot.insert(*of, kind);
        }
        snapshot.insert(DEPLOYMENT, descheduler());
        snapshot
    }

    /// `kubectl patch --type merge` by a manager; creates missing objects. The owners of fields can be patched as well.
    pub(crate) fn edit(&mut self, target: &TargetRef, who: &str, patch: &Value, now: Timestamp) {
        let key = self.key(target);
        let stored = self.objects.entry(key).or_insert_with(|| Stored {
            value: identity(target),
            owners: BTreeMap::new(),
            written: BTreeMap::new(),
        });
        let mut patch = patch.clone();
        let metadata = patch.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(entries) = metadata.and_then(|metadata| metadata.remove("managedFields")) {
            stored.owners = owners(&entries);
        }
        let before = leaves(&stored.value);
        merge(&mut stored.value, &patch);
        let after = leaves(&stored.value);
        stored.owners.retain(|path, _| after.contains_key(path));
        for (path, value) in after {
            if before.get(&path) != Some(&value) {
                // Fields written without a manager have no owner.
                let owners = Some(who.to_owned()).filter(|who| !who.is_empty());
                stored.owners.insert(path, owners.into_iter().collect());
            }
        }
        stored.written.insert(who.to_owned(), now);
    }

    /// Removes a field with its owners, as a new schema does when the object is read.
    pub(super) fn strip(&mut self, target: &TargetRef, path: &str) {
        let key = self.key(target);
        let path: Path = path.split('.').map(str::to_owned).collect();
        if let Some(stored) = self.objects.get_mut(&key) {
            take(&mut stored.value, &path);
            stored.owners.remove(&path);
        }
    }

    pub(crate) fn delete(&mut self, target: &TargetRef) {
        let key = self.key(target);
        self.objects.remove(&key);
    }

    /// Server-side apply in a dry run: the resulting object, or the conflicts.
    pub(crate) fn applied(
        &self,
        target: &TargetRef,
        desired: &Value,
        force: bool,
        now: Timestamp,
    ) -> Result<Value, Vec<Conflict>> {
        Ok(self.try_apply(target, desired, force, now)?.read())
    }

    /// Server-side apply: the resulting object, or the conflicts.
    pub(crate) fn apply(
        &mut self,
        target: &TargetRef,
        desired: &Value,
        force: bool,
        now: Timestamp,
    ) -> Result<Value, Vec<Conflict>> {
        let stored = self.try_apply(target, desired, force, now)?;
        let object = stored.read();
        self.objects.insert(self.key(target), stored);
        Ok(object)
    }

    /// Answers a request about a target. There are no concurrent clients, so no request is outdated.
    pub(crate) fn answer(
        &mut self,
        target: &TargetRef,
        request: Request,
        now: Timestamp,
    ) -> Response {
        let namespace = target.namespace.as_ref();
        let missing = namespace.filter(|name| self.missing_namespaces.contains(*name));
        if let (Request::Apply { .. }, Some(name)) = (&request, missing) {
            return Response::NoNamespace(name.clone());
        }
        match request {
            Request::Read => {}
            Request::Apply {
                object,
                force,
                dry_run,
            } => {
                let applied = if dry_run {
                    self.applied(target, &object, force, now)
                } else {
                    self.apply(target, &object, force, now)
                };
                return match applied {
                    Ok(object) => Response::Object(Some(object)),
                    Err(conflicts) => Response::Conflicts(conflicts),
                };
            }
            Request::Merge {
                manager,
                patch,
                dry_run,
            } => {
                let mut cluster = self.clone();
                cluster.edit(target, &manager, &patch, now);
                let patched = cluster.get(target);
                if !dry_run {
                    *self = cluster;
                }
                return Response::Object(patched);
            }
            Request::Delete { .. } => self.delete(target),
        }
        Response::Object(self.get(target))
    }

    fn try_apply(
        &self,
        target: &TargetRef,
        desired: &Value,
        force: bool,
        now: Timestamp,
    ) -> Result<Stored, Vec<Conflict>> {
        let known = self.objects.get(&self.key(target)).cloned();
        let mut stored = known.unwrap_or_else(|| Stored {
            value: identity(target),
            owners: BTreeMap::new(),
            written: BTreeMap::new(),
        });
        let wanted = leaves(desired);
        let live = leaves(&stored.value);
        let mut conflicts = Vec::new();
        for (path, value) in &wanted {
            let same = live.get(path) == Some(value);
            let owners = stored.owners.entry(path.clone()).or_default();
            if !same {
                let others = owners.iter().filter(|owner| *owner != FIELD_MANAGER);
                conflicts.extend(others.map(|manager| Conflict {
                    manager: manager.clone(),
                    path: path.join("."),
                    since: None,
                }));
                owners.clear();
            }
            owners.insert(FIELD_MANAGER.to_owned());
            put(&mut stored.value, path, value.clone());
        }
        if !conflicts.is_empty() && !force {
            return Err(conflicts);
        }
        let ours: Vec<Path> = stored.owners.keys().cloned().collect();
        for path in ours.into_iter().filter(|path| !wanted.contains_key(path)) {
            let owners = stored.owners.entry(path.clone()).or_default();
            if owners.remove(FIELD_MANAGER) && owners.is_empty() {
                stored.owners.remove(&path);
                // A field that was empty and has children now stays.
                if !wanted.keys().any(|below| below.starts_with(&path)) {
                    take(&mut stored.value, &path);
                }
            }
        }
        self.admit(target, &mut stored.value);
        stored.written.insert(FIELD_MANAGER.to_owned(), now);
        Ok(stored)
    }

    /// What the server makes of an object that is written: undeclared fields are pruned, and admission changes others.
    fn admit(&self, target: &TargetRef, object: &mut Value) {
        let (of, ..) = self.key(target);
        let installed = self.kinds.get(&of);
        let kind = installed.map(|installed| Kind {
            version: installed.version.to_owned(),
            plural: String::new(),
            definition: installed.definition.clone(),
            objects: BTreeMap::new(),
        });
        ServedSchema::of(kind.as_ref()).decode(object);
        for (path, value) in self.admission.get(&target.name).into_iter().flatten() {
            if value.is_null() {
                take(object, path);
            } else {
                put(object, path, value.clone());
            }
        }
    }
}

impl Stored {
    fn read(&self) -> Value {
        let managers: BTreeSet<&String> = self.owners.values().flatten().collect();
        let entries: Vec<Value> = managers
            .into_iter()
            .map(|manager| {
                let mut fields = json!({});
                let owned = self.owners.iter().filter(|(_, who)| who.contains(manager));
                for (path, _) in owned {
                    let path: Path = path.iter().map(|name| format!("f:{name}")).collect();
                    put(&mut fields, &path, json!({}));
                }
                let ours = manager == FIELD_MANAGER;
                json!({
                    "manager": manager, "operation": if ours { "Apply" } else { "Update" },
                    "fieldsType": "FieldsV1", "fieldsV1": fields,
                    "time": self.written.get(manager).map(|time| machinery::time::format_time(*time)),
                })
            })
            .collect();
        let mut object = self.value.clone();
        object["metadata"]["managedFields"] = json!(entries);
        object
    }
}

/// The running descheduler, which its operator made from the only generation that objects have here.
fn descheduler() -> Kind {
    let (namespace, name) = ("openshift-kube-descheduler-operator", "descheduler");
    let annotations = json!({ "kubedeschedulers.operator.openshift.io/cluster": "0" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "template": { "metadata": { "annotations": annotations } } },
        "status": { "conditions": [{ "type": "Available", "status": "True" }] },
    });
    let key = (namespace.to_owned(), name.to_owned());
    let object = Arc::new(serde_json::from_value(deployment).unwrap());
    Kind {
        version: "v1".to_owned(),
        plural: "deployments".to_owned(),
        definition: None,
        objects: BTreeMap::from([(key, object)]),
    }
}

/// The owners of each field.
fn owners(entries: &Value) -> BTreeMap<Path, BTreeSet<String>> {
    let mut owners: BTreeMap<Path, BTreeSet<String>> = BTreeMap::new();
    for entry in entries.as_array().unwrap() {
        let manager = entry["manager"].as_str().unwrap();
        let fields = FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap();
        for path in fields.iter() {
            let name = |element: &PathElement| match element {
                PathElement::Field(name) => name.to_string(),
                other => panic!("{other} is part of a list, which has one owner here"),
            };
            let path = path.iter().map(name).collect();
            owners.entry(path).or_default().insert(manager.to_owned());
        }
    }
    owners
}

fn identity(target: &TargetRef) -> Value {
    let mut object = json!({
        "apiVersion": target.api_version, "kind": target.kind, "metadata": { "name": target.name },
    });
    if let Some(namespace) = &target.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// The fields that can be owned: all but identity; lists as a whole.
fn leaves(object: &Value) -> BTreeMap<Path, Value> {
    fn collect(path: &[String], value: &Value, found: &mut BTreeMap<Path, Value>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    let mut path = path.to_vec();
                    path.push(key.clone());
                    collect(&path, value, found);
                }
            }
            value => {
                found.insert(path.to_vec(), value.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(&[], object, &mut found);
    found.retain(|path, _| {
        // An empty object has no fields to own.
        if path.is_empty() {
            return false;
        }
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        !matches!(
            path.as_slice(),
            ["apiVersion" | "kind"] | ["metadata", "name" | "namespace" | "resourceVersion"]
        )
    });
    found
}

fn put(object: &mut Value, path: &[String], value: Value) {
    let mut here = object;
    for name in path {
        if !here.is_object() {
            *here = json!({});
        }
        here = &mut here[name.as_str()];
    }
    *here = value;
}

fn take(object: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let Some(map) = object.as_object_mut() else {
        return;
    };
    if rest.is_empty() {
        map.remove(first);
    } else if let Some(below) = map.get_mut(first) {
        take(below, rest);
        if below.as_object().is_some_and(Map::is_empty) {
            map.remove(first);
        }
    }
}

/// A JSON merge patch.
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            if let Some(map) = object.as_object_mut() {
                map.remove(name);
            }
        } else {
            merge(&mut object[name.as_str()], value);
        }
    }
}
