//! The update that hands an instance to virt-handler: it carries the chosen model.
//!
//! virt-controller writes the node and the phase `Scheduled` in one update, when the launcher pod is ready on its node.
//! virt-handler cannot start the virtual machine before that update, and never sees it without the model. The request
//! is virt-controller's own, so KubeVirt's webhook, which allows only KubeVirt to change the spec of an instance,
//! admits it.

use api::kubevirt::{VirtualMachineInstance, phases};
use cpu_models::names::{
    BEST_MATCH_MODEL, MODEL_ANNOTATION, NODE_ANNOTATION, REASON_ANNOTATION,
    REQUESTED_MODEL_ANNOTATION,
};
use cpu_models::{Machine, decide};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use runtime::Absent as _;
use serde_json::{Value, json};
use tracing::info;

use super::CpuModels;
use crate::review::{Refusal, allowed, read_object};

/// Phases in which virt-handler owns an instance.
pub(super) const PHASES: [&str; 3] = [phases::SCHEDULED, phases::RUNNING, "Unknown"];

/// Whether an instance has been handed over.
pub(super) fn is_handed_over(object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    phase.is_some_and(|phase| PHASES.contains(&phase))
}

/// A choice as recorded in annotations.
struct Choice {
    model: String,
    node: String,
    reason: String,
}

/// Sets the model of an instance that is being handed over.
pub(super) async fn review(
    models: &CpuModels,
    old: Option<&Value>,
    new: &Value,
) -> Result<Value, Refusal> {
    let instance: VirtualMachineInstance = read_object(new)?;
    if instance.spec.model() != Some(BEST_MATCH_MODEL) {
        return Ok(allowed(Vec::new(), Vec::new()));
    }
    let choice = match old
        .filter(|old| is_handed_over(old))
        .and_then(chosen_before)
    {
        Some(before) => before,
        None => choose(models, &instance).await?,
    };
    info!(
        instance = %format_args!("{}/{}", instance.namespace().unwrap_or_default(), instance.name_any()),
        model = choice.model,
        node = choice.node,
        reason = choice.reason,
        "chose a CPU model"
    );
    Ok(allowed(patch(new, &choice), Vec::new()))
}

/// An earlier choice, which stays even if the spec was overwritten.
fn chosen_before(old: &Value) -> Option<Choice> {
    let annotation = |name: &str| {
        let annotation = old["metadata"]["annotations"][name].as_str();
        annotation.map(str::to_owned)
    };
    Some(Choice {
        model: annotation(MODEL_ANNOTATION)?,
        node: annotation(NODE_ANNOTATION)?,
        reason: annotation(REASON_ANNOTATION)?,
    })
}

async fn choose(models: &CpuModels, instance: &VirtualMachineInstance) -> Result<Choice, Refusal> {
    let node = instance.node_name().unwrap_or_default();
    let watch = models.watch().await?;
    let known = watch.index().contains(node);
    if !known && exists(models, node).await? {
        return Err(Refusal::later(format!(
            "Node {node} was just created and is not in the cache yet; retry the request"
        )));
    }
    let settings = watch.settings();
    let machine = Machine::of_instance(instance, &settings.node_selector);
    let decision = decide(&watch.index(), &settings.policy, &machine, node);
    Ok(Choice {
        model: decision.verdict.model().to_owned(),
        node: node.to_owned(),
        reason: decision.verdict.reason().to_owned(),
    })
}

/// Whether a node exists, read from the API server.
async fn exists(models: &CpuModels, name: &str) -> Result<bool, Refusal> {
    if name.is_empty() {
        return Ok(false);
    }
    let api: Api<Node> = Api::all(models.client.clone());
    let found = api.get_metadata(name).await.not_found_as_none();
    let found = found.map_err(|error| {
        Refusal::later(runtime::Error::api(format!("get node {name}"))(error).to_string())
    })?;
    Ok(found.is_some())
}

/// The patches that set the model of an instance.
fn patch(object: &Value, choice: &Choice) -> Vec<Value> {
    let mut annotations = object["metadata"]["annotations"].clone();
    for (name, value) in [
        (REQUESTED_MODEL_ANNOTATION, BEST_MATCH_MODEL),
        (MODEL_ANNOTATION, &choice.model),
        (NODE_ANNOTATION, &choice.node),
        (REASON_ANNOTATION, &choice.reason),
    ] {
        annotations[name] = value.into();
    }
    let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    vec![
        add("/spec/domain/cpu/model", json!(choice.model)),
        // KubeVirt releases without this status field prune it.
        add("/status/prefferedModel", json!(choice.model)),
        add("/metadata/annotations", annotations),
    ]
}
