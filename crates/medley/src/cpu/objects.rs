//! What a cluster has of nodes and virtual machines, and what it is told about their CPU models.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::anyhow;
use api::cpu::{CpuModelPolicy, NAME};
use api::kubevirt::{GROUP, KubeVirt, VirtualMachineInstance, labels, phases};
use cpumodel::instance::recorded;
use cpumodel::names::HOST_MODEL;
use cpumodel::{Index, Machine, NodeFacts, Requested, Running, Settings, launcher};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::governance::configs::said;
use crate::governance::output::remark;

/// How many objects are asked for at once.
const PAGE: u32 = 500;

/// What decisions follow from.
pub(crate) struct World {
    pub(crate) index: Index,
    pub(crate) settings: Settings,
}

impl World {
    /// Reads nodes, policy and settings. What makes no sense in the policy is said.
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
            index: Index::new(nodes.iter().map(NodeFacts::from_node)),
            settings,
        })
    }

    /// An instance on its node, with what its pod asks for.
    pub(super) async fn running(
        &self,
        client: &Client,
        instance: &VirtualMachineInstance,
    ) -> anyhow::Result<Running> {
        let mut running = self.placed(instance);
        if has_host_model(&running) {
            let namespace = instance.namespace().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let uid = instance.uid().unwrap_or_default();
            let params = ListParams::default().labels(&format!("{}={uid}", labels::CREATED_BY));
            let pods = all(&api, &params).await?.unwrap_or_default();
            carry(&mut running, &pods);
        }
        Ok(running)
    }

    /// All instances that run, or may yet: of a namespace, or of the cluster.
    pub(super) async fn all_running(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> anyhow::Result<Vec<Running>> {
        let found = self.try_all_running(client, namespace).await?;
        found.ok_or_else(not_installed)
    }

    /// The same; nothing if there are no virtual machines in this cluster.
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
        let instances = instances.iter().filter(|instance| is_alive(instance));
        let mut machines: Vec<(String, Running)> = instances
            .map(|instance| (instance.uid().unwrap_or_default(), self.placed(instance)))
            .collect();
        if machines.iter().any(|(_, running)| has_host_model(running)) {
            let launchers = format!("{}=virt-launcher", labels::APP);
            let params = ListParams::default().labels(&launchers);
            let pods: Vec<Pod> = all(&scoped(client, namespace), &params)
                .await?
                .unwrap_or_default();
            let mut by_instance: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
            for pod in pods {
                if let Some(uid) = pod.labels().get(labels::CREATED_BY) {
                    by_instance.entry(uid.clone()).or_default().push(pod);
                }
            }
            for (uid, running) in &mut machines {
                if has_host_model(running)
                    && let Some(pods) = by_instance.get(uid)
                {
                    carry(running, pods);
                }
            }
        }
        let mut machines: Vec<Running> = machines.into_iter().map(|(_, it)| it).collect();
        machines.sort_by(|a, b| {
            let (a, b) = (&a.machine, &b.machine);
            (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
        });
        Ok(Some(machines))
    }

    /// The machine of an instance as KubeVirt will admit it, or has.
    pub(super) fn machine(&self, instance: &VirtualMachineInstance) -> Machine {
        let mut machine = Machine::of_instance(instance, &self.settings.node_selector);
        if machine.requested == Requested::HostModel {
            let spec = &instance.spec;
            let asked = self
                .settings
                .requested(spec.model(), spec.architecture.as_deref());
            machine.requested = asked;
        }
        machine
    }

    fn placed(&self, instance: &VirtualMachineInstance) -> Running {
        Running {
            machine: self.machine(instance),
            node: instance.node_name().unwrap_or_default().to_owned(),
            recorded: recorded(instance).map(str::to_owned),
            carried: BTreeMap::new(),
        }
    }
}

/// The policy of a cluster.
async fn policy(client: &Client) -> anyhow::Result<Option<CpuModelPolicy>> {
    let api: Api<CpuModelPolicy> = Api::all(client.clone());
    match api.get(NAME).await {
        Ok(found) => Ok(Some(found)),
        // Also a kind that nobody serves is answered with 404.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(said(error).context(format!("reading CpuModelPolicy {NAME}"))),
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

/// All objects of a kind, page by page; none if the kind is not installed.
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
            Err(error) => return Err(said(error).context(format!("listing {}", K::plural(&())))),
        };
        found.extend(page.items);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(Some(found)),
        }
    }
}

/// Whether what the pod of a machine asks for says where it can go.
fn has_host_model(running: &Running) -> bool {
    match &running.recorded {
        Some(model) => model == HOST_MODEL,
        None => running.machine.requested == Requested::HostModel,
    }
}

fn carry(running: &mut Running, pods: &[Pod]) {
    let specs = pods.iter().filter_map(|pod| pod.spec.as_ref());
    let mut here = specs.filter(|spec| spec.node_name.as_deref() == Some(&running.node));
    if let Some(selector) = here.next().and_then(|spec| spec.node_selector.as_ref()) {
        running.carried = launcher::carried(selector);
    }
}

fn is_alive(instance: &VirtualMachineInstance) -> bool {
    ![phases::SUCCEEDED, phases::FAILED].contains(&instance.phase())
}

fn not_installed() -> anyhow::Error {
    anyhow!(
        "there are no virtual machines: the cluster has no CustomResourceDefinition virtualmachineinstances.{GROUP}; it comes with KubeVirt"
    )
}
