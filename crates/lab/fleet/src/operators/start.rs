//! Starts operators when their CRDs are established, also when that is later.

use std::collections::HashSet;
use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::core::ApiResource;
use parking_lot::Mutex;
use runtime::{Cache, Error, Manager, Next, Queue, Reconcile, is_established};

use super::kinds::resource;
use super::{
    descheduler, hyperconverged, importer, kubevirt, machine_config, node_health, release,
};
use crate::names::name_of;

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operator {
    MachineConfig,
    Descheduler,
    HyperConverged,
    NodeHealth,
    Importer,
    KubeVirt,
    Release,
}

const ALL: [Operator; 7] = [
    Operator::MachineConfig,
    Operator::Descheduler,
    Operator::HyperConverged,
    Operator::NodeHealth,
    Operator::Importer,
    Operator::KubeVirt,
    Operator::Release,
];
const HYPERCONVERGED: &str = "hyperconvergeds.hco.kubevirt.io";

impl Operator {
    /// The CRDs it needs.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::MachineConfig => &[
                "machineconfigs.machineconfiguration.openshift.io",
                "machineconfigpools.machineconfiguration.openshift.io",
                "machineconfigurations.operator.openshift.io",
            ],
            Self::Descheduler => &["kubedeschedulers.operator.openshift.io"],
            Self::HyperConverged => &[HYPERCONVERGED],
            Self::NodeHealth => &["nodehealthchecks.remediation.medik8s.io"],
            Self::Importer => &[
                "cdis.cdi.kubevirt.io",
                "cdiconfigs.cdi.kubevirt.io",
                "storageprofiles.cdi.kubevirt.io",
            ],
            Self::KubeVirt => &[
                "virtualmachines.kubevirt.io",
                "virtualmachineinstances.kubevirt.io",
                "virtualmachineinstancemigrations.kubevirt.io",
                "kubevirts.kubevirt.io",
            ],
            Self::Release => &[
                "clusterversions.config.openshift.io",
                "clusteroperators.config.openshift.io",
                "machineconfigs.machineconfiguration.openshift.io",
                "machineconfigpools.machineconfiguration.openshift.io",
            ],
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

struct Starter {
    manager: Manager,
    client: Client,
    speed: f64,
    definitions: Cache<CustomResourceDefinition>,
    started: Mutex<HashSet<Operator>>,
}

/// Runs the operators whose CRDs are in the cluster until the manager stops; the others start when
/// theirs are established. `speed` is the speed of simulated time, as a multiple of real time.
///
/// No other part of a fleet is needed: every Node object is treated as a node.
pub async fn start(manager: &Manager, client: Client, speed: f64) {
    let definitions = manager.cache::<CustomResourceDefinition>();
    let queue: Queue<Operator> = Queue::new();
    queue.enqueue_mapped(&definitions, |change| {
        let name = change.new.as_ref().map(|it| name_of(&it.metadata));
        let mut needing = ALL.to_vec();
        needing.retain(|it| name.is_some_and(|name| it.needs().contains(&name)));
        needing
    });
    definitions.synced().await;
    let starter = Starter {
        manager: manager.clone(),
        client,
        speed,
        definitions,
        started: Mutex::default(),
    };
    manager.start(starter, &queue, 1);
}

impl Reconcile<Operator> for Starter {
    fn name(&self) -> &'static str {
        "operators"
    }

    async fn reconcile(&self, operator: &Operator) -> Result<Next, Error> {
        let served = |name: &&str| {
            let definition = self.definitions.get("", name);
            definition.is_some_and(|definition| is_established(&definition))
        };
        // A CRD changes its status several times until it is established; each operator starts
        // once.
        if !operator.needs().iter().all(served) || !self.started.lock().insert(*operator) {
            return Ok(Next::Wait);
        }
        let (manager, client) = (&self.manager, self.client.clone());
        match operator {
            Operator::MachineConfig => machine_config::start(manager, client, self.speed).await,
            Operator::Descheduler => descheduler::start(manager, client).await,
            Operator::NodeHealth => node_health::start(manager, client).await,
            Operator::Importer => importer::start(manager, client).await,
            Operator::KubeVirt => kubevirt::start(manager, client, self.speed).await,
            Operator::Release => release::start(manager, client, self.speed).await,
            Operator::HyperConverged => {
                if let Some(kind) = self.hyperconverged() {
                    hyperconverged::start(manager, client, kind).await;
                }
            }
        }
        Ok(Next::Wait)
    }
}

impl Starter {
    /// The stored version of HyperConverged.
    fn hyperconverged(&self) -> Option<ApiResource> {
        let definition = self.definitions.get("", HYPERCONVERGED)?;
        let version = definition.spec.versions.iter().find(|it| it.storage)?;
        Some(resource("hco.kubevirt.io", &version.name, "HyperConverged"))
    }
}
