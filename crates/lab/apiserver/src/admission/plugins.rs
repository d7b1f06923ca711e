//! The plugins of the control plane itself.

use std::ops::Bound;

use jiff::Timestamp;
use machinery::gvk::GroupResource;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;

use super::attributes::{Attributes, Operation};
use crate::builtin::admission::{self, Lookup};
use crate::custom;
use crate::resource::Resource;
use crate::server::State;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Mutating plugins, which may also reject a request early, in upstream's order.
pub(super) fn admit(
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    namespace_lifecycle(attributes, object)?;
    let Some(resource) = builtin_object(attributes) else {
        return Ok(());
    };
    let objects = Objects(&attributes.context.state);
    let refuse = |object: &Value, why: &str| attributes.forbidden(object, why);
    let outcome = match (attributes.operation, old) {
        (Operation::Create, _) => admission::admit_create(&resource, object, &objects),
        (Operation::Update, Some(old)) => {
            admission::admit_update(&resource, object, old);
            Ok(())
        }
        _ => Ok(()),
    };
    outcome.map_err(|why| refuse(object, &why))
}

/// Validating plugins.
pub(super) fn validate(
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let Some(resource) = builtin_object(attributes) else {
        return Ok(());
    };
    let objects = Objects(&attributes.context.state);
    let outcome = match (attributes.operation, old) {
        (Operation::Create, _) => admission::validate_create(&resource, object, &objects),
        (Operation::Update, Some(old)) => {
            admission::validate_update(&resource, object, old, &objects)
        }
        _ => Ok(()),
    };
    outcome.map_err(|why| attributes.forbidden(object, &why))
}

/// The resource, if the plugins apply: they handle main resources of built-in kinds.
fn builtin_object(attributes: &Attributes<'_>) -> Option<GroupResource> {
    let resource = attributes.target.resource?;
    (attributes.target.is_plain() && resource.custom.is_none()).then(|| resource.group_resource())
}

/// `NamespaceLifecycle`: the namespace of a new object has to exist and must not be terminating.
fn namespace_lifecycle(attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    let Some(resource) = attributes.target.resource else {
        return Ok(());
    };
    match attributes.operation {
        Operation::Create if resource.info.namespaced && attributes.target.is_plain() => {
            namespace_stays(attributes, object)
        }
        Operation::Delete if attributes.is_namespace() && IMMORTAL.contains(&attributes.name) => {
            Err(attributes.forbidden(object, "this namespace may not be deleted"))
        }
        _ => Ok(()),
    }
}

fn namespace_stays(attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    let namespace = attributes.namespace;
    let namespaces = GroupResource::new("", "namespaces");
    let entry = attributes
        .context
        .state
        .store
        .get(&format!("/registry/namespaces/{namespace}"))
        .ok_or_else(|| Status::not_found(&namespaces, namespace))?;
    // Read from the store for each request. Upstream reads a cache, and therefore retries and
    // remembers recent deletions (`admission/plugin/namespace/lifecycle`); here there is no lag to
    // hide.
    let terminating = entry.object().is_ok_and(|namespace| {
        meta::is_deleting(&namespace) || namespace["status"]["phase"] == "Terminating"
    });
    if !terminating {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    Err(attributes.forbidden(object, &why).with_cause(
        "NamespaceTerminating",
        &format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    ))
}

/// Adds the finalizer of a CRD at its first deletion: it stays until its instances are gone.
pub(crate) fn before_delete(resource: &Resource, object: &mut Value, now: Timestamp) {
    if resource.info.gvk.kind == "CustomResourceDefinition"
        && resource.info.gvk.group == "apiextensions.k8s.io"
        && !meta::is_deleting(object)
    {
        custom::mark_terminating(object, now);
    }
}

/// Adjusts an object that has been marked for deletion and waits.
pub(crate) fn on_deleting(resource: &Resource, object: &mut Value) {
    if resource.info.gvk.group.is_empty() && resource.info.gvk.kind == "Namespace" {
        object["status"]["phase"] = "Terminating".into();
        // These kinds do not terminate after a grace period.
        meta::remove(object, "deletionGracePeriodSeconds");
    }
}

/// Lookups of plugins.
struct Objects<'a>(&'a State);

impl Objects<'_> {
    fn prefix(&self, resource: &GroupResource) -> Option<String> {
        let snapshot = self.0.registry.snapshot();
        let versions = &snapshot.group(&resource.group)?.versions;
        let mut resources = versions.iter().flat_map(|version| &version.resources);
        resources
            .find(|known| known.info.plural == resource.resource)
            .map(|known| known.prefix.clone())
    }
}

impl Lookup for Objects<'_> {
    fn get(&self, resource: &GroupResource, name: &str) -> Option<Value> {
        let entry = self
            .0
            .store
            .get(&format!("{}{name}", self.prefix(resource)?))?;
        entry.object().ok().map(|object| (*object).clone())
    }

    fn list(&self, resource: &GroupResource) -> Vec<Value> {
        let Some(prefix) = self.prefix(resource) else {
            return Vec::new();
        };
        let Ok(page) = self.0.store.list(&prefix, Bound::Unbounded, 0, None) else {
            return Vec::new();
        };
        page.entries
            .iter()
            .filter_map(|entry| entry.object().ok())
            .map(|object| (*object).clone())
            .collect()
    }
}
