//! Nodes, models and VMs that a user sees, computed in steps: a changed node does not cause all VMs
//! to be parsed again, and most changes do not cause a new review.

use std::sync::Arc;

use api::cpu::CpuModelPolicy;
use api::kubevirt::labels::CREATED_BY;
use api::kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec};
use cluster_view::cpu::settings;
use cpu_models::matrix::{Matrix, matrices};
use cpu_models::running::running;
use cpu_models::{Index, Review, RunningVm, Settings, Survey};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::derived::Derived;
use crate::viewer::{Shown, Unavailable, Viewer};

impl Shown for KubeVirt {}
impl Shown for CpuModelPolicy {}

impl Shown for VirtualMachineInstance {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        forget(&mut self.spec);
        if let Some(status) = &mut self.status {
            status.rest.clear();
            status.conditions.clear();
            status.active_pods.clear();
            status.migration_state = None;
        }
    }
}

impl Shown for VirtualMachine {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        self.spec.rest.clear();
        self.spec.template.rest.clear();
        self.spec.template.metadata = None;
        forget(&mut self.spec.template.spec);
        if let Some(status) = &mut self.status {
            status.rest.clear();
            status.conditions.clear();
        }
    }
}

/// Drops disks, networks and devices, which do not affect the choice of nodes.
fn forget(spec: &mut VirtualMachineInstanceSpec) {
    spec.rest.clear();
    spec.domain.rest.clear();
    if let Some(cpu) = &mut spec.domain.cpu {
        cpu.rest.clear();
    }
}

/// Nodes and CPU model settings, and VMs if KubeVirt is installed.
pub(super) struct CpuView {
    pub(super) index: Arc<Index>,
    pub(super) settings: Arc<Settings>,
    pub(super) matrices: Arc<Vec<Matrix>>,
    pub(super) machines: Result<Machines, Unavailable>,
}

/// RunningVm VMs, and the review of each.
pub(super) struct Machines {
    pub(super) running: Arc<Vec<RunningVm>>,
    reviews: Arc<Vec<Review>>,
}

impl Machines {
    pub(super) fn reviewed(&self) -> impl Iterator<Item = (&RunningVm, &Review)> + Clone {
        self.running.iter().zip(&*self.reviews)
    }
}

impl CpuView {
    /// Reads everything with the user's permissions. Unreadable kinds count as empty, except nodes
    /// and VMs.
    pub(super) async fn of(viewer: &Viewer) -> Result<Self, Unavailable> {
        let (index, policies, kubevirts, instances, pods) = tokio::join!(
            viewer.nodes::<Index>(),
            viewer.all::<CpuModelPolicy>(),
            viewer.all::<KubeVirt>(),
            viewer.all::<VirtualMachineInstance>(),
            viewer.all::<Pod>(),
        );
        let index = index?;
        let from = (policies.unwrap_or_default(), kubevirts.unwrap_or_default());
        let CpuSettings(settings) = viewer.derived(from).await?;
        let from = (Arc::clone(&index), Arc::clone(&settings));
        let SupportMatrix(matrices) = viewer.derived(from).await?;
        let machines = match instances {
            Ok(instances) => {
                let mut pods = pods.unwrap_or_default();
                pods.retain(|it| it.labels().contains_key(CREATED_BY));
                let from = (instances, pods, Arc::clone(&settings));
                let RunningVms(running) = viewer.derived(from).await?;
                let from = (Arc::clone(&index), Arc::clone(&running), settings.clone());
                let ReviewedVms(reviews) = viewer.derived(from).await?;
                Ok(Machines { running, reviews })
            }
            Err(unavailable) => Err(unavailable),
        };
        Ok(Self {
            index,
            settings,
            matrices,
            machines,
        })
    }
}

/// Settings of KubeVirt and the policy.
#[derive(Clone)]
struct CpuSettings(Arc<Settings>);

impl Derived for CpuSettings {
    type From = (Vec<Arc<CpuModelPolicy>>, Vec<Arc<KubeVirt>>);

    fn compute((policies, kubevirts): &Self::From, before: Option<(Self::From, Self)>) -> Self {
        let policies = policies.iter().map(|it| &**it);
        let settings = settings(policies, kubevirts.iter().map(|it| &**it));
        match before {
            Some((_, before)) if *before.0 == settings => before,
            _ => Self(Arc::new(settings)),
        }
    }
}

/// Which nodes support which models.
#[derive(Clone)]
struct SupportMatrix(Arc<Vec<Matrix>>);

impl Derived for SupportMatrix {
    type From = (Arc<Index>, Arc<Settings>);

    fn compute((index, settings): &Self::From, _: Option<(Self::From, Self)>) -> Self {
        Self(Arc::new(matrices(index, &settings.policy)))
    }
}

/// VMs on their nodes.
#[derive(Clone)]
struct RunningVms(Arc<Vec<RunningVm>>);

impl Derived for RunningVms {
    type From = (
        Vec<Arc<VirtualMachineInstance>>,
        Vec<Arc<Pod>>,
        Arc<Settings>,
    );

    fn compute(
        (instances, pods, settings): &Self::From,
        before: Option<(Self::From, Self)>,
    ) -> Self {
        let instances = instances.iter().map(|it| &**it);
        let running = running(instances, pods, settings);
        match before {
            // Status conditions change far more often.
            Some((_, before)) if *before.0 == running => before,
            _ => Self(Arc::new(running)),
        }
    }
}

/// Reviews of VMs, in their order.
#[derive(Clone)]
struct ReviewedVms(Arc<Vec<Review>>);

impl Derived for ReviewedVms {
    type From = (Arc<Index>, Arc<Vec<RunningVm>>, Arc<Settings>);

    fn compute((index, running, settings): &Self::From, _: Option<(Self::From, Self)>) -> Self {
        let mut survey = Survey::new(index, &settings.policy);
        let reviews = running.iter().map(|running| survey.review(running));
        Self(Arc::new(reviews.collect()))
    }
}
