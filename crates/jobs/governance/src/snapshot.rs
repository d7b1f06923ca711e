//! The live objects of the kinds that a profile reads or writes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::advisor::TargetRef;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::DynamicObject;
use serde_json::Value;

/// A kind in any version: what an administrator installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
}

/// The objects of one kind, in the version that is read.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The version of the objects.
    pub version: String,
    /// The plural resource name.
    pub plural: String,
    /// The CRD, unless the kind is built in.
    pub definition: Option<Arc<CustomResourceDefinition>>,
    /// By namespace (empty if cluster-scoped) and name.
    pub objects: BTreeMap<(String, String), Arc<DynamicObject>>,
}

impl Kind {
    /// Whether this has the same objects, apart from one.
    fn is_same_as(&self, other: &Self, apart: Option<&(String, String)>) -> bool {
        let definition = match (&self.definition, &other.definition) {
            (None, None) => true,
            (Some(one), Some(another)) => Arc::ptr_eq(one, another),
            _ => false,
        };
        let mut ours = self.objects.iter().filter(|(key, _)| Some(*key) != apart);
        let mut theirs = other.objects.iter().filter(|(key, _)| Some(*key) != apart);
        let mut same = definition && self.version == other.version;
        while same {
            same = match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (Some((_, one)), Some((_, another))) => Arc::ptr_eq(one, another),
                _ => false,
            };
        }
        false
    }
}

/// The live objects; a kind that is not installed is absent.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    kinds: BTreeMap<GroupKind, Kind>,
    /// Kinds that are installed and cannot be read, with the error.
    unreadable: BTreeMap<GroupKind, String>,
}

impl Snapshot {
    /// Adds an installed kind.
    pub fn insert(&mut self, of: GroupKind, kind: Kind) {
        self.kinds.insert(of, kind);
    }

    /// Records a kind that is installed and cannot be read. Its objects are not known, which is not the same as absent.
    pub fn insert_unreadable(&mut self, of: GroupKind, why: String) {
        self.unreadable.insert(of, why);
    }

    /// Why a kind cannot be read, if it cannot.
    pub fn unreadable(&self, of: GroupKind) -> Option<&str> {
        self.unreadable.get(&of).map(String::as_str)
    }

    /// Why the kind of a target cannot be read, if it cannot.
    pub fn unreadable_target(&self, target: &TargetRef) -> Option<&str> {
        let mut kinds = self.unreadable.iter();
        let found = kinds.find(|(of, _)| is_of(target, **of));
        found.map(|(_, why)| why.as_str())
    }

    /// A kind, if it is installed.
    pub fn kind(&self, of: GroupKind) -> Option<&Kind> {
        self.kinds.get(&of)
    }

    /// An object of a kind.
    pub fn get(&self, of: GroupKind, namespace: &str, name: &str) -> Option<&Arc<DynamicObject>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.kinds.get(&of)?.objects.get(&key)
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, of: GroupKind) -> impl Iterator<Item = &Arc<DynamicObject>> {
        self.kinds
            .get(&of)
            .into_iter()
            .flat_map(|kind| kind.objects.values())
    }

    /// The kind of a target, if it is installed.
    pub fn kind_of(&self, target: &TargetRef) -> Option<&Kind> {
        let mut kinds = self.kinds.iter();
        kinds
            .find(|(of, _)| is_of(target, **of))
            .map(|(_, kind)| kind)
    }

    /// Whether nothing but this target differs from an earlier snapshot. Compares identities of objects: a cache keeps
    /// an object until the API server sends another version.
    pub fn differs_only_at(&self, before: &Self, target: &TargetRef) -> bool {
        let namespace = target.namespace.clone().unwrap_or_default();
        let at = (namespace, target.name.clone());
        let of = (self.kind_of(target)).map(|kind| kind.plural.as_str());
        let alike = |(now, before): ((&GroupKind, &Kind), (&GroupKind, &Kind))| {
            let apart = (now.0.kind == target.kind && of == Some(&*now.1.plural)).then_some(&at);
            now.0 == before.0 && now.1.is_same_as(before.1, apart)
        };
        self.kinds.len() == before.kinds.len() && self.kinds.iter().zip(&before.kinds).all(alike)
    }

    /// The live target object.
    pub fn target(&self, target: &TargetRef) -> Option<&Arc<DynamicObject>> {
        let namespace = target.namespace.clone().unwrap_or_default();
        self.kind_of(target)?
            .objects
            .get(&(namespace, target.name.clone()))
    }
}

/// Whether a target is of a kind, in any version.
fn is_of(target: &TargetRef, of: GroupKind) -> bool {
    let group = target.api_version.split_once('/');
    of.group == group.map_or("", |(group, _)| group) && of.kind == target.kind
}

/// The part of an object that contains all these fields: all but the metadata, which is expensive to convert, unless a
/// field needs it.
pub fn part_with<'a, 'p>(
    object: &'a DynamicObject,
    paths: impl IntoIterator<Item = &'p String>,
) -> Cow<'a, Value> {
    let elsewhere = paths.into_iter().any(|path| {
        let first = crate::values::segments(path).next();
        first.is_none_or(|first| ["apiVersion", "kind", "metadata"].contains(&first))
    });
    if elsewhere {
        Cow::Owned(whole(object))
    } else {
        Cow::Borrowed(&object.data)
    }
}

/// An object as one JSON value, including metadata.
pub fn whole(object: &DynamicObject) -> Value {
    // Serialization fails for maps with non-string keys; objects have none.
    serde_json::to_value(object).unwrap_or_default()
}
