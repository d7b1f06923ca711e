//! The view from one reading of the cluster, for commands that run once.

use api::cpu::CpuModelPolicy;
use api::kubevirt::{KubeVirt, VirtualMachineInstance, labels};
use cpu_models::running::{carry, has_host_model, placed, running};
use cpu_models::{Index, NodeInputs, Review, RunningVm, Settings, Survey};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use runtime::Error;

use crate::cpu::settings;
use crate::list::{list, list_in};
use crate::policies;

/// The cluster state that CPU model decisions read, as it was when it was read.
pub struct CpuSnapshot {
    /// The nodes, indexed by the CPU models they support.
    pub index: Index,
    /// The settings of KubeVirt and of the policy.
    pub settings: Settings,
    /// The CpuModelPolicy, if there is one.
    pub policy: Option<CpuModelPolicy>,
}

impl CpuSnapshot {
    /// Reads nodes, policy and KubeVirt's settings.
    pub async fn read(client: &Client) -> Result<Self, Error> {
        let all = ListParams::default();
        let nodes = list::<Node>(&Api::all(client.clone()), &all).await?;
        let kubevirts = list_in::<KubeVirt>(client, None, &all).await?;
        let policy = policies::read(client).await?;
        let nodes = nodes.iter().flatten();
        Ok(Self {
            index: Index::new(nodes.map(NodeInputs::from_node)),
            settings: settings(&policy, kubevirts.iter().flatten()),
            policy,
        })
    }

    /// A VMI on its node, with the resources its pod requests.
    pub async fn running(
        &self,
        client: &Client,
        instance: &VirtualMachineInstance,
    ) -> Result<RunningVm, Error> {
        let mut running = placed(instance, &self.settings);
        if has_host_model(&running) {
            let uid = instance.uid().unwrap_or_default();
            let params = ListParams::default().labels(&format!("{}={uid}", labels::CREATED_BY));
            let pods = list_in(client, instance.namespace().as_deref(), &params).await?;
            let pods: Vec<Pod> = pods.unwrap_or_default();
            carry(&mut running, &pods.iter().collect::<Vec<_>>());
        }
        Ok(running)
    }

    /// Reviews running VMs.
    pub fn reviewed(&self, machines: Vec<RunningVm>) -> Vec<(RunningVm, Review)> {
        let mut survey = Survey::new(&self.index, &self.settings.policy);
        let reviewed = machines.into_iter().map(|running| {
            let review = survey.review(&running);
            (running, review)
        });
        reviewed.collect()
    }

    /// All VMIs that run or may still start, of a namespace or of the cluster; `None` if KubeVirt is not installed.
    pub async fn all_running(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> Result<Option<Vec<RunningVm>>, Error> {
        let instances = list_in(client, namespace, &ListParams::default()).await?;
        let Some(instances): Option<Vec<VirtualMachineInstance>> = instances else {
            return Ok(None);
        };
        let needs_pods = |it: &VirtualMachineInstance| has_host_model(&placed(it, &self.settings));
        let mut pods: Vec<Pod> = Vec::new();
        // The selector of a launcher pod matters only for VMs with `host-model`; without one, no pod is listed.
        if instances.iter().any(needs_pods) {
            let launchers = format!("{}=virt-launcher", labels::APP);
            let params = ListParams::default().labels(&launchers);
            pods = list_in(client, namespace, &params)
                .await?
                .unwrap_or_default();
        }
        let pods: Vec<&Pod> = pods.iter().collect();
        Ok(Some(running(&instances, &pods, &self.settings)))
    }
}
