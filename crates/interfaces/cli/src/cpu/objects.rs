//! Nodes, virtual machines and CPU model settings of a cluster.

use std::fmt::Debug;

use anyhow::anyhow;
use api::cpu::{CpuModelPolicy, NAME};
use api::kubevirt::{GROUP, KubeVirt, VirtualMachineInstance, labels};
use cpu_models::running::{carry, has_host_model, placed, running};
use cpu_models::{Index, NodeInputs, Running, Settings};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::governance::configs::api_error;
use crate::governance::output::remark;

/// Page size of list requests, as in client-go's pager.
const PAGE: u32 = 500;

/// Cluster state that model choices depend on.
pub(crate) struct CpuView {
    pub(crate) index: Index,
    pub(crate) settings: Settings,
}

impl CpuView {
    /// Reads nodes, policy and KubeVirt settings. Invalid parts of the policy are printed as
    /// warnings.
    pub(crate) async fn read(client: &Client) -> anyhow::Result<Self> {
        let nodes: Vec<Node> = all(&Api::all(client.clone()), &ListParams::default())
            .await?
            .unwrap_or_default();
        let kubevirts: Option<Vec<KubeVirt>> =
            all(&Api::all(client.clone()), &ListParams::default()).await?;
        let policy = policy(client).await?;
        let kubevirt = kubevirts.as_ref().and_then(|all| all.first());
        let settings = Settings::new(policy.as_ref().map(|it| &it.spec), kubevirt);
        for wrong in &settings.complaints {
            remark(&format!("CpuModelPolicy {NAME}: {wrong}"));
        }
        Ok(Self {
            index: Index::new(nodes.iter().map(NodeInputs::from_node)),
            settings,
        })
    }

    /// A VMI on its node, with the resources its pod requests.
    pub(super) async fn running(
        &self,
        client: &Client,
        instance: &VirtualMachineInstance,
    ) -> anyhow::Result<Running> {
        let mut running = placed(instance, &self.settings);
        if has_host_model(&running) {
            let namespace = instance.namespace().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let uid = instance.uid().unwrap_or_default();
            let params = ListParams::default().labels(&format!("{}={uid}", labels::CREATED_BY));
            let pods: Vec<Pod> = all(&api, &params).await?.unwrap_or_default();
            carry(&mut running, &pods.iter().collect::<Vec<_>>());
        }
        Ok(running)
    }

    /// All VMIs that run or may still start: of a namespace, or of the cluster.
    pub(super) async fn all_running(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> anyhow::Result<Vec<Running>> {
        let found = self.try_all_running(client, namespace).await?;
        found.ok_or_else(not_installed)
    }

    /// The same; `None` if KubeVirt is not installed.
    pub(crate) async fn try_all_running(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> anyhow::Result<Option<Vec<Running>>> {
        let instances: Option<Vec<VirtualMachineInstance>> =
            all(&scoped(client, namespace), &ListParams::default()).await?;
        let Some(instances) = instances else {
            return Ok(None);
        };
        let needs_pods = |it: &VirtualMachineInstance| has_host_model(&placed(it, &self.settings));
        let mut pods: Vec<Pod> = Vec::new();
        if instances.iter().any(needs_pods) {
            let launchers = format!("{}=virt-launcher", labels::APP);
            let params = ListParams::default().labels(&launchers);
            let found = all(&scoped(client, namespace), &params).await?;
            pods = found.unwrap_or_default();
        }
        let pods: Vec<&Pod> = pods.iter().collect();
        Ok(Some(running(&instances, &pods, &self.settings)))
    }
}

/// The CpuModelPolicy of the cluster.
async fn policy(client: &Client) -> anyhow::Result<Option<CpuModelPolicy>> {
    let api: Api<CpuModelPolicy> = Api::all(client.clone());
    match api.get(NAME).await {
        Ok(found) => Ok(Some(found)),
        // The API server answers 404 for a kind that is not installed, too.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(api_error(error).context(format!("reading CpuModelPolicy {NAME}"))),
    }
}

fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// All objects of a kind, page by page; `None` if the CRD is not installed.
async fn all<K>(api: &Api<K>, params: &ListParams) -> anyhow::Result<Option<Vec<K>>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut params = params.clone().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => {
                return Err(api_error(error).context(format!("listing {}", K::plural(&()))));
            }
        };
        found.extend(page.items);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(Some(found)),
        }
    }
}

fn not_installed() -> anyhow::Error {
    anyhow!(
        "the cluster has no virtual machines: CustomResourceDefinition virtualmachineinstances.{GROUP} is not installed; it comes with KubeVirt"
    )
}
