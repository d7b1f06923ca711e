//! What the control plane itself has to say about a write before it is validated.

use std::ops::Bound;

use jiff::Timestamp;
use machinery::gvk::GroupResource;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;

use crate::builtin::{self, admission::Lookup};
use crate::custom;
use crate::resource::Resource;
use crate::rest::Context;
use crate::server::State;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// A new object: its namespace has to be there and stay (NamespaceLifecycle), then the plugins of its
/// kind have their say.
pub(crate) fn on_create(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    if resource.info.namespaced {
        namespace_stays(context, resource, namespace, object)?;
    }
    if resource.custom.is_some() {
        return Ok(());
    }
    builtin::admission::admit_create(&resource.group_resource(), object, &Objects(&context.state))
}

/// A changed object.
pub(crate) fn on_update(
    context: &Context,
    resource: &Resource,
    live: &Value,
    new: &mut Value,
) -> Result<(), Status> {
    if resource.custom.is_some() {
        return Ok(());
    }
    let objects = Objects(&context.state);
    builtin::admission::admit_update(&resource.group_resource(), new, live, &objects)
}

fn namespace_stays(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    object: &Value,
) -> Result<(), Status> {
    let namespaces = GroupResource::new("", "namespaces");
    let entry = context
        .state
        .store
        .get(&format!("/registry/namespaces/{namespace}"))
        .ok_or_else(|| Status::not_found(&namespaces, namespace))?;
    let terminating = entry.object().is_ok_and(|namespace| {
        meta::is_deleting(&namespace) || namespace["status"]["phase"] == "Terminating"
    });
    if !terminating {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let status = Status::forbidden(
        Some(&resource.group_resource()),
        &Resource::display_name(object),
        &why,
    );
    Err(status.with_cause(
        "NamespaceTerminating",
        &format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    ))
}

/// An object about to be deleted.
pub(crate) fn on_delete(resource: &Resource, name: &str) -> Result<(), Status> {
    let is_namespace = resource.info.gvk.group.is_empty() && resource.info.gvk.kind == "Namespace";
    if is_namespace && IMMORTAL.contains(&name) {
        return Err(Status::forbidden(
            Some(&resource.group_resource()),
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// A definition that is deleted for the first time stays until its instances are gone.
pub(crate) fn before_delete(resource: &Resource, object: &mut Value, now: Timestamp) {
    if resource.info.gvk.kind == "CustomResourceDefinition"
        && resource.info.gvk.group == "apiextensions.k8s.io"
        && !meta::is_deleting(object)
    {
        custom::mark_terminating(object, now);
    }
}

/// An object that has been marked for deletion and waits.
pub(crate) fn on_deleting(resource: &Resource, object: &mut Value) {
    if resource.info.gvk.group.is_empty() && resource.info.gvk.kind == "Namespace" {
        object["status"]["phase"] = "Terminating".into();
        // Their end is not a matter of seconds.
        meta::remove(object, "deletionGracePeriodSeconds");
    }
}

/// What admission may look up.
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
