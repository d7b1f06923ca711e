//! The view from one reading of the cluster, for commands that run once.

use api::cpu::CpuModelPolicy;
use api::kubevirt::{KubeVirt, VirtualMachineInstance, labels};
use cpu_models::running::{placed, running};
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

    /// A VMI on its node, with the constraints of its launcher pod.
    pub async fn running(
        &self,
        client: &Client,
        instance: &VirtualMachineInstance,
    ) -> Result<RunningVm, Error> {
        let mut pods: Vec<Pod> = Vec::new();
        // Manifests of VMs that are not in the cluster have neither.
        if let (Some(uid), Some(_)) = (instance.uid(), instance.node_name()) {
            let params = ListParams::default().labels(&format!("{}={uid}", labels::CREATED_BY));
            let found = list_in(client, instance.namespace().as_deref(), &params).await?;
            pods = found.unwrap_or_default();
        }
        Ok(placed(instance, &pods, &self.settings))
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
        let mut pods: Vec<Pod> = Vec::new();
        if !instances.is_empty() {
            let launchers = format!("{}=virt-launcher", labels::APP);
            let params = ListParams::default().labels(&launchers);
            let found = list_in(client, namespace, &params).await?;
            pods = found.unwrap_or_default();
        }
        Ok(Some(running(&instances, &pods, &self.settings)))
    }
}
