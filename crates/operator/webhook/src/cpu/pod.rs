//! Launcher pods: those that start a virtual machine, and the targets of its migrations.

use api::kubevirt::{VirtualMachineInstance, labels};
use cpu_models::instance::recorded;
use cpu_models::launcher::{self, Placement, Source, TargetError};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use runtime::Absent as _;
use serde_json::Value;

use super::CpuModels;
use crate::review::{Refusal, allowed, denied, read_object};

/// Makes a launcher pod select nodes that can run its virtual machine.
pub(super) async fn review(
    models: &CpuModels,
    namespace: &str,
    object: &Value,
) -> Result<Value, Refusal> {
    let pod: Pod = read_object(object)?;
    let requested = Placement::of_pod(&pod);
    let wanted = if launcher::is_migration_target(&pod) {
        target(models, namespace, &pod, requested.clone()).await?
    } else {
        Ok(launcher::initial(requested.clone()))
    };
    Ok(match wanted {
        Ok(wanted) => allowed(requested.patch_to(&wanted), Vec::new()),
        Err(error) => denied(&error.to_string()),
    })
}

/// Gathers the source of a migration, and decides where its target may run.
async fn target(
    models: &CpuModels,
    namespace: &str,
    pod: &Pod,
    requested: Placement,
) -> Result<Result<Placement, TargetError>, Refusal> {
    let instance = instance(models, namespace, pod).await?;
    let model = instance.as_ref().and_then(recorded);
    let (Some(instance), Some(model)) = (&instance, model) else {
        return Ok(Ok(launcher::without_model(requested)));
    };
    let node = instance.node_name().unwrap_or_default();
    let launcher = launcher_on(models, instance, node).await?;
    let selector = launcher.and_then(|pod| pod.spec?.node_selector);
    let watch = models.watch().await?;
    let index = watch.index();
    let labels = index.labels_of(node).unwrap_or_default().into_iter();
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let source = Source {
        node,
        labels: &labels.collect(),
        node_selector: &selector.unwrap_or_default(),
    };
    Ok(launcher::target(requested, model, source))
}

/// The instance of a pod.
async fn instance(
    models: &CpuModels,
    namespace: &str,
    pod: &Pod,
) -> Result<Option<VirtualMachineInstance>, Refusal> {
    // Any tenant can create a pod with these labels. What is read for it is an object of the same namespace, and
    // `belongs_to` compares the UID, so a forged pod learns nothing.
    let Some(name) = launcher::instance_name(pod) else {
        return Ok(None);
    };
    let api: Api<VirtualMachineInstance> = Api::namespaced(models.client(), namespace);
    let what = format!("get VirtualMachineInstance {namespace}/{name}");
    let found = api.get(name).await.not_found_as_none();
    let found = found.map_err(Refusal::api(what))?;
    Ok(found.filter(|found| launcher::belongs_to(pod, found)))
}

/// The launcher pod of an instance on a node.
pub(super) async fn launcher_on(
    models: &CpuModels,
    instance: &VirtualMachineInstance,
    node: &str,
) -> Result<Option<Pod>, Refusal> {
    let uid = instance.metadata.uid.as_deref().unwrap_or_default();
    let namespace = instance.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(models.client(), namespace);
    let params = ListParams::default().labels(&format!("{}={uid}", labels::CREATED_BY));
    let what = format!(
        "list pods of VirtualMachineInstance {}",
        instance.name_any()
    );
    let found = api.list(&params).await.map_err(Refusal::api(what))?;
    Ok(launcher::on_node(node, &found.items).cloned())
}
