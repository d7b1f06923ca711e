//! The update that hands an instance to virt-handler: it carries the model that was chosen.
//!
//! virt-controller writes the node and the phase `Scheduled` in one update, made when the launcher pod is
//! ready on its node. Nobody can start the machine before that update, and nobody ever sees it without
//! the model. virt-controller itself makes the request, so that KubeVirt's own check, which lets nobody
//! else change the spec of an instance, lets it pass.

use api::kubevirt::{VirtualMachineInstance, phases};
use cpu_models::names::{
    ASKED_ANNOTATION, BEST_MATCH_MODEL, MODEL_ANNOTATION, NODE_ANNOTATION, REASON_ANNOTATION,
};
use cpu_models::{Machine, decide};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use runtime::Absent as _;
use serde_json::{Value, json};
use tracing::info;

use super::CpuModels;
use crate::review::{Refusal, allowed, read_object};

/// The phases in which an instance belongs to virt-handler.
pub(super) const PHASES: [&str; 3] = [phases::SCHEDULED, phases::RUNNING, "Unknown"];

/// Whether an instance has been handed over.
pub(super) fn is_over(object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    phase.is_some_and(|phase| PHASES.contains(&phase))
}

/// What is recorded of a choice.
struct Choice {
    model: String,
    node: String,
    reason: String,
}

/// Gives an instance its model as it is handed over.
pub(super) async fn review(
    models: &CpuModels,
    old: Option<&Value>,
    new: &Value,
) -> Result<Value, Refusal> {
    let instance: VirtualMachineInstance = read_object(new)?;
    if instance.spec.model() != Some(BEST_MATCH_MODEL) {
        return Ok(allowed(Vec::new(), Vec::new()));
    }
    let choice = match old.filter(|old| is_over(old)).and_then(chosen_before) {
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

/// What was chosen for an instance earlier: once is enough, whoever wrote the spec over.
fn chosen_before(old: &Value) -> Option<Choice> {
    let said = |name: &str| {
        let said = old["metadata"]["annotations"][name].as_str();
        said.map(str::to_owned)
    };
    Some(Choice {
        model: said(MODEL_ANNOTATION)?,
        node: said(NODE_ANNOTATION)?,
        reason: said(REASON_ANNOTATION)?,
    })
}

async fn choose(models: &CpuModels, instance: &VirtualMachineInstance) -> Result<Choice, Refusal> {
    let node = instance.node_name().unwrap_or_default();
    let watch = models.watch().await?;
    let known = watch.index().contains(node);
    if !known && exists(models, node).await? {
        return Err(Refusal::later(format!(
            "Node {node} was made a moment ago and is not known here yet; ask again"
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

/// Whether there is a node of this name, by the API server itself.
async fn exists(models: &CpuModels, name: &str) -> Result<bool, Refusal> {
    if name.is_empty() {
        return Ok(false);
    }
    let api: Api<Node> = Api::all(models.client.clone());
    let found = api.get_metadata(name).await.or_absent();
    let found = found.map_err(|error| {
        Refusal::later(runtime::Error::api(format!("get node {name}"))(error).to_string())
    })?;
    Ok(found.is_some())
}

/// The changes that give an instance its model.
fn patch(object: &Value, choice: &Choice) -> Vec<Value> {
    let mut annotations = object["metadata"]["annotations"].clone();
    for (name, value) in [
        (ASKED_ANNOTATION, BEST_MATCH_MODEL),
        (MODEL_ANNOTATION, &choice.model),
        (NODE_ANNOTATION, &choice.node),
        (REASON_ANNOTATION, &choice.reason),
    ] {
        annotations[name] = value.into();
    }
    let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    vec![
        add("/spec/domain/cpu/model", json!(choice.model)),
        // A stock KubeVirt prunes it; one that knows the field keeps it.
        add("/status/prefferedModel", json!(choice.model)),
        add("/metadata/annotations", annotations),
    ]
}
