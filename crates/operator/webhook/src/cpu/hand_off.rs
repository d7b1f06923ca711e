//! The update that hands an instance to virt-handler: it carries the chosen model.
//!
//! The request is virt-controller's own, so KubeVirt's webhook, which allows only KubeVirt to change the spec of an
//! instance, admits it.

use api::kubevirt::VirtualMachineInstance;
use cpu_models::admission::{ModelChoice, kept_status};
use cpu_models::names::BEST_MATCH_MODEL;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use runtime::Absent as _;
use serde_json::Value;
use tracing::info;

use super::CpuModels;
use super::pod::launcher_on;
use crate::review::{Refusal, allowed, read_object};

/// Sets the model of an instance that is being handed over, and keeps it in the status later.
pub(super) async fn review(
    models: &CpuModels,
    old: Option<&Value>,
    new: &Value,
) -> Result<Value, Refusal> {
    let instance: VirtualMachineInstance = read_object(new)?;
    if instance.spec.model() != Some(BEST_MATCH_MODEL) {
        let kept = old.map(|old| kept_status(old, new));
        return Ok(allowed(kept.unwrap_or_default(), Vec::new()));
    }
    let choice = match old.and_then(ModelChoice::earlier) {
        // The choice recorded in the old object stays: a guest that runs with one model must not get another by a
        // later update of the same instance.
        Some(earlier) => earlier,
        None => choose(models, &instance).await?,
    };
    info!(
        instance = %format_args!("{}/{}", instance.namespace().unwrap_or_default(), instance.name_any()),
        model = choice.model,
        node = choice.node,
        reason = choice.reason,
        "chose a CPU model"
    );
    Ok(allowed(choice.patch(new), Vec::new()))
}

async fn choose(
    models: &CpuModels,
    instance: &VirtualMachineInstance,
) -> Result<ModelChoice, Refusal> {
    let node = instance.node_name().unwrap_or_default();
    let watch = models.watch().await?;
    let known = watch.index().contains(node);
    // A node that joined a second ago may be missing in the cache. Choosing for "no node" would fall back to a model
    // that fits everywhere and costs the VM features for its whole life.
    if !known && exists(models, node).await? {
        return Err(Refusal::later(format!(
            "Node {node} was just created and is not in the cache yet; retry the request"
        )));
    }
    // Its constraints decide which other nodes could take the VM: they are those of its migration targets.
    let launcher = launcher_on(models, instance, node).await?;
    let settings = watch.settings();
    Ok(ModelChoice::new(
        &watch.index(),
        &settings,
        instance,
        launcher.as_ref(),
        node,
    ))
}

/// Whether a node exists, read from the API server.
async fn exists(models: &CpuModels, name: &str) -> Result<bool, Refusal> {
    if name.is_empty() {
        return Ok(false);
    }
    let api: Api<Node> = Api::all(models.client());
    let found = api.get_metadata(name).await.not_found_as_none();
    let found = found.map_err(Refusal::api(format!("get node {name}")))?;
    Ok(found.is_some())
}
