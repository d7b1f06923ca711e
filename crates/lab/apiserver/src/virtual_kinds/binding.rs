//! Binding of pods to nodes (`pkg/registry/core/pod/storage.BindingREST`).

use http::Response;
use machinery::field::{Path, aggregate};
use machinery::gvk::GroupResource;
use machinery::meta;
use machinery::status::Status;
use serde_json::{Value, json};

use super::{created, set_pod_condition};
use crate::errors::Errors;
use crate::kind::Part;
use crate::request::{WriteKind, WriteOptions};
use crate::respond::Body;
use crate::rest::{Changed, Context, UpdateJob, update_object};

/// Binds a pod to the node of a binding.
pub(super) async fn bind(
    context: &Context,
    namespace: &str,
    name: &str,
    binding: &Value,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&context.query, WriteKind::Create)?;
    let target = &binding["target"];
    let kind = target["kind"].as_str().unwrap_or_default();
    let node = target["name"].as_str().unwrap_or_default();
    let path = Path::new("target");
    let mut errors = Errors::new();
    if !matches!(kind, "" | "Node") {
        errors.not_supported(&path.child("kind"), kind, ["Node", "<empty>"]);
    }
    if node.is_empty() {
        errors.required(&path.child("name"), "");
    }
    if !errors.is_empty() {
        // Upstream returns these as plain errors.
        return Err(Status::plain_500(aggregate(&errors)));
    }
    let snapshot = context.state.registry.snapshot();
    let pods = snapshot
        .find("", "v1", "pods")
        .ok_or_else(Status::unknown_resource)?;
    let refused = |why: &str| Status::conflict(&GroupResource::new("", "pods/binding"), name, why);
    let job = UpdateJob::new(
        pods,
        namespace,
        name,
        Part::Other("binding"),
        options.dry_run,
    );
    let change = |live: &Value| {
        if meta::is_deleting(live) {
            return Err(refused(&format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            )));
        }
        if let Some(assigned) = live.pointer("/spec/nodeName").and_then(Value::as_str) {
            return Err(refused(&format!(
                "pod {name} is already assigned to node \"{assigned}\""
            )));
        }
        // A gated pod must not be bound, whatever the scheduler believes: `BindingREST` in
        // `pkg/registry/core/pod/storage/storage.go` refuses it too.
        if live
            .pointer("/spec/schedulingGates")
            .and_then(Value::as_array)
            .is_some_and(|g| !g.is_empty())
        {
            return Err(refused(&format!(
                "pod {name} has non-empty .spec.schedulingGates"
            )));
        }
        let mut object = live.clone();
        object["spec"]["nodeName"] = node.into();
        for kept in ["labels", "annotations"] {
            for (key, value) in binding
                .pointer(&format!("/metadata/{kept}"))
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                object["metadata"][kept][key] = value.clone();
            }
        }
        let scheduled = json!({"type": "PodScheduled", "status": "True"});
        set_pod_condition(&mut object, scheduled, context.now);
        Ok(Changed { object })
    };
    update_object(context, &job, &change).await?;
    Ok(created(context))
}
