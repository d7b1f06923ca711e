//! Launcher pods: those that start a virtual machine, and the targets of its migrations.

use std::collections::BTreeMap;

use api::kubevirt::{VirtualMachineInstance, annotations, labels};
use cpu_models::instance::recorded;
use cpu_models::launcher::{self, Placement, Source};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use runtime::Absent as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::CpuModels;
use crate::review::{Refusal, allowed, denied, read_object};

/// Makes a launcher pod select nodes that can run its virtual machine.
pub(super) async fn review(
    models: &CpuModels,
    namespace: &str,
    object: &Value,
) -> Result<Value, Refusal> {
    let pod: Pod = read_object(object)?;
    let spec = pod.spec.as_ref();
    let requested = Placement {
        node_selector: spec
            .and_then(|spec| spec.node_selector.clone())
            .unwrap_or_default(),
        affinity: spec.and_then(|spec| spec.affinity.clone()),
    };
    let settled = if pod.labels().contains_key(labels::MIGRATION) {
        target(models, namespace, &pod, requested.clone()).await?
    } else {
        Ok(launcher::initial(requested.clone()))
    };
    Ok(match settled {
        Ok(settled) => allowed(changes(&requested, &settled), Vec::new()),
        Err(error) => denied(&error.to_string()),
    })
}

/// Node selection of a migration target. A pod whose instance is unknown or has no model yet is left unchanged, except
/// for the label that no node has.
async fn target(
    models: &CpuModels,
    namespace: &str,
    pod: &Pod,
    mut requested: Placement,
) -> Result<Result<Placement, launcher::TargetError>, Refusal> {
    let instance = instance(models, namespace, pod).await?;
    let model = instance.as_ref().and_then(recorded);
    let (Some(instance), Some(model)) = (&instance, model) else {
        if launcher::is_undecided(&requested.node_selector) {
            requested
                .node_selector
                .remove(&launcher::best_match_label());
        }
        return Ok(Ok(requested));
    };
    let node = instance.node_name().unwrap_or_default();
    let selector = source_pod(models, namespace, instance, node).await?;
    let watch = models.watch().await?;
    let index = watch.index();
    let labels = index.labels_of(node).unwrap_or_default().into_iter();
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let source = Source {
        node,
        labels: &labels.collect(),
        node_selector: &selector,
    };
    Ok(launcher::target(requested, model, source))
}

/// The instance of a pod; another one of the same name does not count.
async fn instance(
    models: &CpuModels,
    namespace: &str,
    pod: &Pod,
) -> Result<Option<VirtualMachineInstance>, Refusal> {
    let owner = pod.owner_references().iter();
    let owner = owner.filter(|owner| owner.kind == "VirtualMachineInstance");
    let owner = owner.map(|owner| owner.name.as_str()).next();
    let named = pod.annotations().get(annotations::DOMAIN);
    let Some(name) = owner.or_else(|| named.map(String::as_str)) else {
        return Ok(None);
    };
    let api: Api<VirtualMachineInstance> = Api::namespaced(models.client.clone(), namespace);
    let found = api.get(name).await.not_found_as_none().map_err(|error| {
        let operation = format!("get VirtualMachineInstance {namespace}/{name}");
        Refusal::later(runtime::Error::api(operation)(error).to_string())
    })?;
    let uid = pod.labels().get(labels::CREATED_BY);
    Ok(found.filter(|found| uid.is_none_or(|uid| found.metadata.uid.as_ref() == Some(uid))))
}

/// Node selector of the pod that runs the instance now.
async fn source_pod(
    models: &CpuModels,
    namespace: &str,
    instance: &VirtualMachineInstance,
    node: &str,
) -> Result<BTreeMap<String, String>, Refusal> {
    let uid = instance.metadata.uid.as_deref().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(models.client.clone(), namespace);
    let params = ListParams::default().labels(&format!("{}={uid}", labels::CREATED_BY));
    let found = api.list(&params).await.map_err(|error| {
        let operation = format!(
            "list pods of VirtualMachineInstance {}",
            instance.name_any()
        );
        Refusal::later(runtime::Error::api(operation)(error).to_string())
    })?;
    let specs = found.items.into_iter().filter_map(|pod| pod.spec);
    let mut here = specs.filter(|spec| spec.node_name.as_deref() == Some(node));
    let selector = here.next().and_then(|spec| spec.node_selector);
    Ok(selector.unwrap_or_default())
}

/// The patches of a pod's node selection.
fn changes(old: &Placement, new: &Placement) -> Vec<Value> {
    fn change(path: &str, differs: bool, value: &impl Serialize) -> Option<Value> {
        differs.then(|| json!({ "op": "add", "path": path, "value": value }))
    }
    let selector = old.node_selector != new.node_selector;
    let affinity = old.affinity != new.affinity;
    let changes = [
        change("/spec/nodeSelector", selector, &new.node_selector),
        change("/spec/affinity", affinity, &new.affinity),
    ];
    changes.into_iter().flatten().collect()
}
