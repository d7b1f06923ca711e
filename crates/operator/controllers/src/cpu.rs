//! CPU models: how the machines fare that leave the choice to Medley, and what slipped through.
//!
//! ```text
//! gather: instances, nodes, KubeVirt's settings, the policy
//!   decide: cpu_models::review --> stale, stranded, how many nodes could take it
//!     apply: launchers that no node can run go; instances without a model are written once more
//!       report: events of instances, status of the policy, metrics
//! ```
//!
//! The choice itself is made in admission (the crate `webhook`), in the same write that hands an instance
//! over. Nothing here chooses: a machine keeps its model until it is restarted.

mod ledger;
mod repair;
mod report;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::kubevirt::{VirtualMachineInstance, labels, phases};
use cluster_view::cpu::{News, Watch};
use cpu_models::instance::{is_ours, recorded};
use cpu_models::launcher;
use cpu_models::names::HOST_MODEL;
use cpu_models::report::notices;
use cpu_models::{Machine, Policy, Review, Running, Survey, review};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use runtime::{Cache, Error, Events, Foreign, Index, Key, Manager, Next, Queue, Reconcile};
use tracing::info;

use ledger::{Before, Ledger};
use report::Report;

/// What the job is called: in logs, events and managed fields.
pub const COMPONENT: &str = "medley-cpu-models";

/// Instances are many, and looking at one takes little.
const WORKERS: usize = 2;
/// How long is waited for more changes of nodes before all machines are looked at again.
const NODES_SETTLE: Duration = Duration::from_millis(200);
/// How long is waited for more news before the status is written.
const STATUS_SETTLES: Duration = Duration::from_millis(500);

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    /// An instance.
    Instance(Key),
    /// All machines, because nodes or the policy are different.
    Everything,
    /// The status of the policy.
    Status,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(key) => write!(f, "{key}"),
            Self::Everything => f.write_str("all machines"),
            Self::Status => f.write_str("the status of the policy"),
        }
    }
}

/// Starts the job; returns when the nodes have been seen. Where KubeVirt is not installed, there is
/// nothing to do until it is.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let client = manager.client();
    let watch = Watch::start(manager);
    watch.synced().await;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let (registration, following) = Cache::follow_named(registrations, api::cpu::WEBHOOK);
    manager.spawn(following);
    registration.synced().await;
    let pods = Api::all(client.clone());
    let (launchers, following) = Cache::follow_labelled(pods, labels::CREATED_BY, trim_launcher);
    manager.spawn(following);
    launchers.synced().await;
    let job = CpuModels {
        client,
        foreign: manager.foreign().clone(),
        watch,
        instances: manager.cache_with(trim),
        launchers_of: launchers.index(created_by),
        launchers,
        definitions: manager.cache(),
        registration,
        ledger: Ledger::default(),
        events: crate::words::events(manager, COMPONENT),
        report: Report::new(manager),
        queue: Queue::new(),
    };
    if job.kubevirt_installed() {
        job.instances.synced().await;
    } else {
        info!(
            "the kinds of kubevirt.io are not installed: CPU models are not looked at until they are"
        );
    }
    subscribe(&job);
    let queue = job.queue.clone();
    manager.start(job, &queue, WORKERS);
    Ok(())
}

/// Gives its metrics their names, and does nothing else.
pub(crate) fn declare(manager: &Manager) {
    drop(Report::new(manager));
}

/// Has everything told that matters.
fn subscribe(job: &CpuModels) {
    let (to, instances) = (job.queue.clone(), job.instances.clone());
    job.watch.on_change(move |news| match news {
        News::Node(_) => to.add_after(Work::Everything, NODES_SETTLE),
        // They also say what all machines demand of a node.
        News::Settings => {
            for instance in instances.list() {
                to.add(Work::Instance(Key::of(&instance.metadata)));
            }
        }
    });
    let to = job.queue.clone();
    job.instances.on_change(move |change| {
        // Guests tell all the time that they are alive.
        let said = |side: &Option<Arc<VirtualMachineInstance>>| {
            side.as_ref().map(|instance| {
                let mut said = VirtualMachineInstance::clone(instance);
                said.metadata.resource_version = None;
                said.metadata.generation = None;
                said
            })
        };
        if said(&change.old) != said(&change.new)
            && let Some(instance) = change.object()
        {
            to.add(Work::Instance(Key::of(&instance.metadata)));
        }
    });
    let to = job.queue.clone();
    job.launchers.on_change(move |change| {
        let said = |side: &Option<Arc<Pod>>| {
            let pod = side.as_ref()?;
            let leaves = pod.metadata.deletion_timestamp.is_some();
            Some((pod.spec.clone(), leaves))
        };
        if said(&change.old) != said(&change.new)
            && let Some(instance) = change.object().and_then(|pod| instance_of(pod))
        {
            to.add(Work::Instance(instance));
        }
    });
    let to = job.queue.clone();
    job.registration
        .on_change(move |_| to.add(Work::Everything));
    let to = job.queue.clone();
    job.definitions.on_change(move |change| {
        let ours = |it: &Arc<CustomResourceDefinition>| it.spec.group == api::kubevirt::GROUP;
        if change.object().is_some_and(ours) {
            to.add_after(Work::Status, STATUS_SETTLES);
        }
    });
    job.queue.add(Work::Everything);
}

/// Forgets what nobody here looks at: instances are large and many.
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

/// Keeps of a launcher whose it is, where it runs and what it asks for: there are as many as instances.
fn trim_launcher(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    pod.metadata.annotations = None;
    pod.status = None;
    if let Some(spec) = &mut pod.spec {
        *spec = PodSpec {
            node_name: spec.node_name.take(),
            node_selector: spec.node_selector.take(),
            ..PodSpec::default()
        };
    }
}

/// The uid of the instance that a launcher is for.
fn created_by(pod: &Pod) -> Vec<String> {
    let uid = pod.labels().get(labels::CREATED_BY);
    uid.into_iter().cloned().collect()
}

/// The instance that a launcher is for.
fn instance_of(pod: &Pod) -> Option<Key> {
    let kind = VirtualMachineInstance::kind(&());
    let mut owners = pod.owner_references().iter();
    let owner = owners.find(|owner| owner.kind == kind)?;
    Some(Key::new(pod.namespace().unwrap_or_default(), &owner.name))
}

struct CpuModels {
    client: Client,
    foreign: Foreign,
    watch: Watch,
    instances: Cache<VirtualMachineInstance>,
    launchers: Cache<Pod>,
    /// By the uid of their instance.
    launchers_of: Index<Pod>,
    definitions: Cache<CustomResourceDefinition>,
    registration: Cache<MutatingWebhookConfiguration>,
    ledger: Ledger,
    events: Events,
    report: Report,
    queue: Queue<Work>,
}

impl Reconcile<Work> for CpuModels {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, what: &Work) -> Result<Next, Error> {
        match what {
            Work::Instance(key) => self.instance(key).await,
            Work::Everything => self.everything().await,
            Work::Status => self.status().await,
        }
    }
}

impl CpuModels {
    async fn instance(&self, key: &Key) -> Result<Next, Error> {
        self.queue.add_after(Work::Status, STATUS_SETTLES);
        let found = self.instances.find(key);
        let Some(instance) = found.filter(|found| is_ours(found) && is_alive(found)) else {
            self.ledger.forget(key);
            self.report.forget(key);
            return Ok(Next::Wait);
        };
        let Some(model) = recorded(&instance) else {
            self.ledger.waits(key);
            self.report.forget(key);
            return self.repair(key, &instance).await;
        };
        let carried = match model {
            HOST_MODEL => self.carried(&instance),
            _ => BTreeMap::new(),
        };
        let settings = self.watch.settings();
        let running = Arc::new(Running {
            machine: Machine::of_instance(&instance, &settings.node_selector),
            node: instance.node_name().unwrap_or_default().to_owned(),
            recorded: Some(model.to_owned()),
            carried,
        });
        let review = review(&self.watch.index(), &settings.policy, &running);
        match self.ledger.runs(key, running, review.clone()) {
            // What was so before Medley started has been told, or can be seen in the status.
            Before::Unknown => {}
            Before::Waited => self.tell(&instance, None, &review),
            Before::Fared(before) => self.tell(&instance, Some(&before), &review),
        }
        self.report.machine(key, &review);
        Ok(Next::Wait)
    }

    /// Looks at all machines that have a model. It is done beside other work, on a copy of the nodes: there
    /// may be many of both.
    async fn everything(&self) -> Result<Next, Error> {
        let machines = self.ledger.running();
        let index = self.watch.index().clone();
        let policy: Policy = self.watch.settings().policy.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let mut survey = Survey::new(&index, &policy);
            let reviewed = machines.into_iter().map(|(key, running)| {
                let review = survey.review(&running);
                (key, running, review)
            });
            reviewed.collect::<Vec<_>>()
        });
        let reviewed = looking
            .await
            .map_err(|error| Error::Invalid(format!("looking at all machines: {error}")))?;
        for (key, running, review) in reviewed {
            let Some(before) = self.ledger.reviewed(&key, &running, &review) else {
                continue;
            };
            if let Some(instance) = self.instances.find(&key) {
                self.tell(&instance, Some(&before), &review);
            }
            self.report.machine(&key, &review);
        }
        // Those that wait may have waited for this.
        for key in self.ledger.waiting() {
            self.queue.add(Work::Instance(key));
        }
        self.queue.add_after(Work::Status, STATUS_SETTLES);
        Ok(Next::Wait)
    }

    /// Tells what became of a machine.
    fn tell(&self, instance: &VirtualMachineInstance, before: Option<&Review>, now: &Review) {
        for notice in notices(before, now) {
            if notice.warning {
                self.events.warning(instance, notice.reason, notice.message);
            } else {
                self.events.normal(instance, notice.reason, notice.message);
            }
        }
    }

    /// What the pod of a machine asks for because it migrated before, with the model of its first host.
    fn carried(&self, instance: &VirtualMachineInstance) -> BTreeMap<String, String> {
        let node = instance.node_name();
        let pods = self.pods(instance);
        let specs = pods.iter().filter_map(|pod| pod.spec.as_ref());
        let mut here = specs.filter(|spec| spec.node_name.as_deref() == node);
        let selector = here.next().and_then(|spec| spec.node_selector.clone());
        launcher::carried(&selector.unwrap_or_default())
    }

    /// The pods of an instance.
    fn pods(&self, instance: &VirtualMachineInstance) -> Vec<Arc<Pod>> {
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        let mut pods = self.launchers_of.find(uid);
        // Labels are anybody's to write: those of another namespace are not its own.
        pods.retain(|pod| pod.metadata.namespace == instance.metadata.namespace);
        pods
    }
}

/// Whether an instance runs, or may yet.
fn is_alive(instance: &VirtualMachineInstance) -> bool {
    instance.metadata.deletion_timestamp.is_none()
        && ![phases::SUCCEEDED, phases::FAILED].contains(&instance.phase())
}
