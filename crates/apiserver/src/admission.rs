//! What the control plane itself has to say about a write before it is validated.

use machinery::gvk::GroupResource;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;

use crate::resource::Resource;
use crate::rest::Context;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// A new object: its namespace has to be there and stay (NamespaceLifecycle).
pub(crate) fn on_create(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    if !resource.info.namespaced {
        return Ok(());
    }
    let namespaces = GroupResource::new("", "namespaces");
    let entry = context
        .state
        .store
        .get(&format!("/registry/namespaces/{namespace}"))
        .ok_or_else(|| Status::not_found(&namespaces, namespace))?;
    let terminating = entry
        .object()
        .is_ok_and(|namespace| meta::is_deleting(&namespace) || namespace["status"]["phase"] == "Terminating");
    if !terminating {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let status =
        Status::forbidden(Some(&resource.group_resource()), &Resource::display_name(object), &why);
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

/// An object that has been marked for deletion and waits.
pub(crate) fn on_deleting(resource: &Resource, object: &mut Value) {
    if resource.info.gvk.group.is_empty() && resource.info.gvk.kind == "Namespace" {
        object["status"]["phase"] = "Terminating".into();
    }
}
