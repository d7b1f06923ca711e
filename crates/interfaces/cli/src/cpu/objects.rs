//! The CPU view of a cluster.

use anyhow::anyhow;
use api::cpu::NAME;
use api::kubevirt::GROUP;
use cluster_view::cpu::CpuSnapshot;
use cpu_models::RunningVm;
use kube::Client;

use crate::output::remark;

/// Reads nodes, policy and KubeVirt settings. Invalid parts of the policy are printed as warnings.
pub(crate) async fn view(client: &Client) -> anyhow::Result<CpuSnapshot> {
    let view = CpuSnapshot::read(client).await?;
    for wrong in &view.settings.complaints {
        remark(&format!("CpuModelPolicy {NAME}: {wrong}"));
    }
    Ok(view)
}

/// All VMIs that run or may still start: of a namespace, or of the cluster.
pub(super) async fn all_running(
    view: &CpuSnapshot,
    client: &Client,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<RunningVm>> {
    let found = view.all_running(client, namespace).await?;
    found.ok_or_else(|| anyhow!(
        "the cluster has no virtual machines: CustomResourceDefinition virtualmachineinstances.{GROUP} is not installed; it comes with KubeVirt"
    ))
}
