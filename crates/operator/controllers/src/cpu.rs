//! CPU models: reviews the virtual machines that leave the choice to Medley, and repairs those admitted without a
//! model.
//!
//! ```text
//! gather: instances, nodes, KubeVirt's settings, the policy
//!   decide: cpu_models::review --> stale, stranded, number of migration targets
//!     apply: delete launchers that no node can run; rewrite instances without a model
//!       report: events of instances, status of the policy, metrics
//! ```
//!
//! The model is chosen in admission (the crate `webhook`), in the same write that hands an instance over to its node.
//! This controller never chooses: a virtual machine keeps its model until it is restarted.

mod repair;
mod report;
mod reviews;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::kubevirt::{VirtualMachineInstance, labels};
use cluster_view::cpu::{CpuView, ViewChange};
use cpu_models::instance::{is_ours, reason, recorded};
use cpu_models::launcher::{instance_name, trim as trim_launcher};
use cpu_models::prospects::is_excluded_everywhere;
use cpu_models::report::{Choice, Notice, excluded, notices};
use cpu_models::running::{is_alive, machine, placed};
use cpu_models::{Policy, Review, Survey, review};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt as _};
use runtime::{Cache, Error, Events, Index, Key, Manager, Next, OptionalKinds, Queue, Reconcile};
use tracing::info;

pub(crate) use report::Report;
use reviews::{Before, VmReviews};

/// Name of the controller in logs, events and managed fields.
pub const COMPONENT: &str = "medley-cpu-models";

/// There are many instances, but reviewing one takes little CPU and no requests.
const WORKERS: usize = 2;
/// Batch window of node changes before all virtual machines are reviewed again.
// An autoscaler adds dozens of nodes within a second, and each would cause a review of all VMs. Longer would delay
// the alert about a stranded VM for no further saving.
const NODE_BATCH_WINDOW: Duration = Duration::from_millis(200);
/// Batch window of changes before the status is written.
const STATUS_BATCH_WINDOW: Duration = Duration::from_millis(500);

/// Key of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    /// An instance.
    Instance(Key),
    /// All virtual machines, because nodes or the policy changed.
    AllMachines,
    Status,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(key) => write!(f, "{key}"),
            Self::AllMachines => f.write_str("all virtual machines"),
            Self::Status => f.write_str("the status of the policy"),
        }
    }
}

/// Starts the controller; returns once its caches have synced. It is idle until KubeVirt is installed.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let client = manager.client();
    let watch = CpuView::start(manager);
    watch.synced().await;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let registration = manager.watch(Cache::follow_named(registrations, api::cpu::WEBHOOK));
    registration.synced().await;
    let pods = Api::all(client.clone());
    let launchers = manager.watch(Cache::follow_labelled(
        pods,
        // By label, so that the API server sends launchers only: a cluster has many more pods than VMs.
        labels::CREATED_BY,
        trim_launcher,
    ));
    launchers.synced().await;
    let controller = CpuModelController {
        client,
        foreign: manager.optional_kinds().clone(),
        watch,
        instances: manager.cache_with(trim),
        launchers_of: launchers.index(created_by),
        launchers,
        crds: manager.cache(),
        registration,
        reviews: VmReviews::default(),
        events: crate::reasons::events(manager, COMPONENT),
        report: Report::new(manager),
        queue: Queue::new(),
    };
    if controller.kubevirt_installed() {
        controller.instances.synced().await;
    } else {
        info!("KubeVirt is not installed; waiting for its CustomResourceDefinitions");
    }
    watch_dependencies(&controller);
    let queue = controller.queue.clone();
    manager.start(controller, &queue, WORKERS);
    Ok(())
}

/// Enqueues work when nodes, settings, instances, launchers or the webhook registration change.
fn watch_dependencies(controller: &CpuModelController) {
    let (to, instances) = (controller.queue.clone(), controller.instances.clone());
    controller.watch.on_change(move |change| match change {
        ViewChange::Node(_) => to.add_after(Work::AllMachines, NODE_BATCH_WINDOW),
        // The settings also change what every virtual machine requires of a node.
        ViewChange::Settings => {
            for instance in instances.list() {
                to.add(Work::Instance(Key::of(&instance.metadata)));
            }
        }
    });
    let to = controller.queue.clone();
    controller.instances.on_change(move |change| {
        // Most updates are heartbeats of guests, which change only fields that `trim` drops.
        let relevant = |side: &Option<Arc<VirtualMachineInstance>>| {
            side.as_ref().map(|instance| {
                let mut relevant = VirtualMachineInstance::clone(instance);
                // Every update changes these two; with them, no two versions of an instance would compare equal.
                relevant.metadata.resource_version = None;
                relevant.metadata.generation = None;
                relevant
            })
        };
        if relevant(&change.old) != relevant(&change.new)
            && let Some(instance) = change.object()
        {
            to.add(Work::Instance(Key::of(&instance.metadata)));
        }
    });
    let to = controller.queue.clone();
    controller.launchers.on_change(move |change| {
        let relevant = |side: &Option<Arc<Pod>>| {
            let pod = side.as_ref()?;
            let leaves = pod.metadata.deletion_timestamp.is_some();
            Some((pod.spec.clone(), leaves))
        };
        if relevant(&change.old) != relevant(&change.new)
            && let Some(instance) = change.object().and_then(|pod| instance_of(pod))
        {
            to.add(Work::Instance(instance));
        }
    });
    let to = controller.queue.clone();
    controller
        .registration
        .on_change(move |_| to.add(Work::AllMachines));
    let to = controller.queue.clone();
    controller.crds.on_change(move |change| {
        let ours = |it: &Arc<CustomResourceDefinition>| it.spec.group == api::kubevirt::GROUP;
        if change.object().is_some_and(ours) {
            to.add_after(Work::Status, STATUS_BATCH_WINDOW);
        }
    });
    controller.queue.add(Work::AllMachines);
}

/// Drops fields that this controller does not read: instances are large and many.
fn trim(instance: &mut VirtualMachineInstance) {
    instance.metadata.managed_fields = None;
    instance.spec.rest.clear();
    instance.spec.domain.rest.clear();
    if let Some(cpu) = &mut instance.spec.domain.cpu {
        cpu.rest.clear();
    }
    if let Some(status) = &mut instance.status {
        status.rest.clear();
        status.conditions.clear();
        status.migration_state = None;
    }
}

/// Index key: the uid of the instance that owns a launcher.
fn created_by(pod: &Pod) -> Vec<String> {
    let uid = pod.labels().get(labels::CREATED_BY);
    uid.into_iter().cloned().collect()
}

/// The instance that owns a launcher.
fn instance_of(pod: &Pod) -> Option<Key> {
    let name = instance_name(pod)?;
    Some(Key::new(pod.namespace().unwrap_or_default(), name))
}

struct CpuModelController {
    client: Client,
    foreign: OptionalKinds,
    watch: CpuView,
    instances: Cache<VirtualMachineInstance>,
    launchers: Cache<Pod>,
    /// Launchers by the uid of their instance.
    launchers_of: Index<Pod>,
    crds: Cache<CustomResourceDefinition>,
    registration: Cache<MutatingWebhookConfiguration>,
    reviews: VmReviews,
    events: Events,
    report: Report,
    queue: Queue<Work>,
}

impl Reconcile<Work> for CpuModelController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, what: &Work) -> Result<Next, Error> {
        match what {
            Work::Instance(key) => self.instance(key).await,
            Work::AllMachines => self.review_all().await,
            Work::Status => self.status().await,
        }
    }
}

impl CpuModelController {
    async fn instance(&self, key: &Key) -> Result<Next, Error> {
        self.queue.add_after(Work::Status, STATUS_BATCH_WINDOW);
        let found = self.instances.find(key);
        let found = found.filter(|it| it.metadata.deletion_timestamp.is_none());
        let Some(instance) = found.filter(|it| is_ours(it) && is_alive(it)) else {
            self.reviews.forget(key);
            self.report.forget(key);
            return Ok(Next::Wait);
        };
        if recorded(&instance).is_none() {
            self.report.forget(key);
            self.warn_if_excluded(key, &instance);
            return self.repair(key, &instance).await;
        }
        let settings = self.watch.settings();
        let running = placed(&instance, &self.pods(&instance), &settings);
        let review = review(&self.watch.index(), &settings.policy, &running);
        let before = self
            .reviews
            .set_reviewed(key, running.into(), review.clone());
        match before {
            // Unchanged since before the restart: the event was emitted then, and the status shows the state.
            Before::Unknown => {}
            Before::Pending => self.emit_events(&instance, None, &review),
            Before::Reviewed(before) => self.emit_events(&instance, Some(&before), &review),
        }
        self.report.machine(key, &review);
        Ok(Next::Wait)
    }

    /// Reviews all virtual machines that have a model, on a blocking thread and a copy of the nodes: there may be many
    /// of both.
    async fn review_all(&self) -> Result<Next, Error> {
        let machines = self.reviews.running();
        // A copy: the read guard would block every node update for as long as the survey of thousands of VMs takes.
        let index = self.watch.index().clone();
        let policy: Policy = self.watch.settings().policy.clone();
        let task = tokio::task::spawn_blocking(move || {
            let mut survey = Survey::new(&index, &policy);
            let reviewed = machines.into_iter().map(|(key, running)| {
                let review = survey.review(&running);
                (key, running, review)
            });
            reviewed.collect::<Vec<_>>()
        });
        let reviewed = task
            .await
            .map_err(|error| Error::Invalid(format!("reviewing all virtual machines: {error}")))?;
        for (key, running, review) in reviewed {
            let Some(before) = self.reviews.replace_review(&key, &running, &review) else {
                continue;
            };
            if let Some(instance) = self.instances.find(&key) {
                self.emit_events(&instance, Some(&before), &review);
            }
            self.report.machine(&key, &review);
        }
        // Instances without a model may have waited for this change.
        for key in self.reviews.pending() {
            self.queue.add(Work::Instance(key));
        }
        self.queue.add_after(Work::Status, STATUS_BATCH_WINDOW);
        Ok(Next::Wait)
    }

    /// Emits the events of a transition.
    fn emit_events(
        &self,
        instance: &VirtualMachineInstance,
        before: Option<&Review>,
        now: &Review,
    ) {
        let choice = Choice {
            node: instance.node_name().unwrap_or_default(),
            reason: reason(instance),
        };
        for notice in notices(choice, before, now) {
            self.emit(instance, notice);
        }
    }

    fn emit(&self, instance: &VirtualMachineInstance, notice: Notice) {
        if notice.warning {
            self.events.warning(instance, notice.reason, notice.message);
        } else {
            self.events.normal(instance, notice.reason, notice.message);
        }
    }

    /// Records an instance without a model; emits a warning if no node can run it any more.
    fn warn_if_excluded(&self, key: &Key, instance: &VirtualMachineInstance) {
        // The spec of the instance is trimmed; without a launcher there is not enough to judge by.
        let launchers = self.pods(instance);
        let launcher = launchers
            .iter()
            .find(|pod| pod.metadata.deletion_timestamp.is_none());
        let settings = self.watch.settings();
        let nodes = self.watch.index();
        let is_excluded = launcher.is_some_and(|pod| {
            let machine = machine(instance, Some(pod), &settings);
            instance.node_name().is_none()
                && is_excluded_everywhere(&nodes, &settings.policy, &machine)
        });
        if self.reviews.set_pending(key, is_excluded) {
            self.emit(instance, excluded(nodes.len()));
        }
    }

    /// The launchers of an instance.
    fn pods(&self, instance: &VirtualMachineInstance) -> Vec<Arc<Pod>> {
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        let mut pods = self.launchers_of.find(uid);
        // Any tenant can write labels: ignore pods of other namespaces.
        pods.retain(|pod| pod.metadata.namespace == instance.metadata.namespace);
        pods
    }
}
