//! Parts of objects that several controllers read: names, labels, owners, and events to emit.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use machinery::names::name_is_dns_subdomain;
use runtime::Events;

/// The name of an object; empty if it is generated.
pub(crate) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// The namespace of an object; empty for cluster-scoped ones.
pub(crate) fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

/// The UID of an object; empty before it is created.
pub(crate) fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

/// A label of an object.
pub(crate) fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Whether an object is being deleted.
pub(crate) fn is_leaving(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// The controller of an object.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// Whether `owner` controls an object.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, owner: &ObjectMeta) -> bool {
    controller_of(meta).is_some_and(|controller| Some(&controller.uid) == owner.uid.as_ref())
}

/// The controller reference to this owner, with `blockOwnerDeletion` set.
pub(crate) fn controller_reference<O: Resource<DynamicType = ()>>(owner: &O) -> OwnerReference {
    let meta = owner.meta();
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: name(meta).to_owned(),
        uid: uid(meta).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// `generateName` of an owner's objects: its name and a dash, unless that is too long.
pub(crate) fn generated_name(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if name_is_dns_subdomain(&prefix, true).is_empty() {
        prefix
    } else {
        owner.to_owned()
    }
}

/// An event to emit, as part of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewEvent {
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl NewEvent {
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            ..Self::warning(reason, message)
        }
    }

    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason,
            message: message.into(),
        }
    }

    pub(crate) fn emit(&self, events: &Events, about: &impl Resource<DynamicType = ()>) {
        if self.warning {
            events.warning(about, self.reason, self.message.clone());
        } else {
            events.normal(about, self.reason, self.message.clone());
        }
    }
}
