//! What has to change in a cluster so that nothing of Medley is left, in which order, and what stays.
//!
//! ```text
//! InstalledState, UninstallOptions --plan--> refusals, or steps in phases; what is kept; commands for the rest
//! ```
//!
//! The plan depends on the state alone and not on what was done before. The caller carries out the steps of the first
//! phase, reads the state again and plans again, until no step is left. So an interrupted run continues where it ended,
//! and what a program of Medley that still runs creates in the meantime is found, too.

mod candidates;
mod machines;
mod namespace;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use api::advisor::{GROUP, PLURAL};
use api::kubevirt::{VirtualMachine, VirtualMachineInstance};
use api::operators::{Restorer, restorer};
use golden_images::ssp::finalizers::{FINALIZER, UPSTREAM_FINALIZER};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

pub use candidates::candidates;

/// CDI's finalizer of a DataImportCron, which Medley sets and honours instead of CDI.
const CRON_FINALIZER: &str = "cdi.kubevirt.io/dataImportCronFinalizer";
/// Field manager of the controller that does.
const IMPORTS: &str = "medley-images-cdi";
/// Names shown of a long list.
const SHOWN: usize = 10;

/// An object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; `None` for a cluster-scoped object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid, if it was read: a step applies to this object and not to a later one of the same name.
    #[serde(skip)]
    pub uid: Option<String>,
}

impl ObjectRef {
    /// The reference to an object as the API server returns it.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &object["metadata"];
        Self {
            api_version: text(&object["apiVersion"]).unwrap_or_default(),
            kind: text(&object["kind"]).unwrap_or_default(),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]).unwrap_or_default(),
            uid: text(&metadata["uid"]),
        }
    }

    fn of_meta(api_version: &str, kind: &str, metadata: &ObjectMeta) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
        }
    }

    /// The name within its kind: `NAMESPACE/NAME`, or `NAME`.
    pub fn path(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.path())
    }
}

/// What uninstalling decides on, as read.
#[derive(Debug, Clone)]
pub struct InstalledState {
    /// The namespace of the installation.
    pub namespace: String,
    /// The [`candidates`] that exist.
    pub objects: Vec<Value>,
    /// Pods of the operator and of the webhooks.
    pub running: Vec<ObjectRef>,
    /// Pods that are held at the scheduling gate of placement.
    pub gated: Vec<ObjectRef>,
    /// All virtual machines.
    pub machines: Vec<VirtualMachine>,
    /// All instances.
    pub instances: Vec<VirtualMachineInstance>,
    /// KubeVirts whose default is that Medley chooses CPU models.
    pub defaults: Vec<ObjectRef>,
    /// The RuntimeClasses that Medley manages.
    pub classes: Vec<ObjectRef>,
    /// The number of pods that use a RuntimeClass, by name.
    pub class_users: BTreeMap<String, usize>,
    /// SSPs and DataImportCrons.
    pub holders: Vec<Value>,
    /// Whether the SSP operator runs.
    pub ssp_operator: bool,
    /// Whether CDI runs.
    pub cdi: bool,
    /// Whether the prototype's own operator runs, which shares the kind VirtPlatformConfig.
    pub advisor_operator: bool,
    /// Objects of Medley's own kinds.
    pub customs: Vec<ObjectRef>,
    /// The history of plans.
    pub history: Vec<ObjectRef>,
    /// The objects in the namespace of the installation; or why they are not known.
    pub inhabitants: Result<Vec<Value>, String>,
}

/// What to do where there is a choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UninstallOptions {
    /// Give virtual machines fixed CPU models.
    pub fix_cpu_models: bool,
    /// Leave virtual machines that do not start without Medley.
    pub keep_cpu_models: bool,
    /// Delete the CRDs, and with them policies, plans and their history.
    pub delete_crds: bool,
}

/// The order of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Phase {
    /// Webhooks: from here on nothing is gated, changed or refused.
    Webhooks,
    /// The operator and the webhook server: they would register the webhooks again, and restore what follows.
    Workloads,
    /// Pods at the scheduling gate.
    Gates,
    /// Virtual machines that do not start without Medley.
    VirtualMachines,
    /// What blocks or breaks objects of others.
    Leftovers,
    /// The other objects of the installation.
    Objects,
    /// Medley's kinds, with their objects.
    Definitions,
    /// The namespace.
    Namespace,
}

/// What a step does with its object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Change {
    /// Deletes it.
    Delete,
    /// Scales it to 0.
    ScaleToZero,
    /// Waits until it is gone.
    AwaitEnd,
    /// Removes the scheduling gate.
    Release,
    /// Sets the CPU model of the template.
    SetCpuModel(String),
    /// Replaces its finalizers.
    SetFinalizers(Vec<String>),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete => f.write_str("delete"),
            Self::ScaleToZero => f.write_str("scale to 0"),
            Self::AwaitEnd => f.write_str("wait until it ends"),
            Self::Release => f.write_str("release"),
            Self::SetCpuModel(model) => write!(f, "set CPU model {model}"),
            Self::SetFinalizers(_) => f.write_str("change finalizers"),
        }
    }
}

/// One change of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// When it is made.
    pub phase: Phase,
    /// What is made.
    pub change: Change,
    /// The changed object.
    pub object: ObjectRef,
    /// Why.
    pub reason: String,
}

/// Objects that stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Which.
    pub objects: String,
    /// Why.
    pub reason: String,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UninstallRefusal {
    /// Another controller would create the Deployments again.
    #[error(
        "{deployment} is restored by {by}, so it cannot be removed here; {next}, and run this again for the rest"
    )]
    Restored {
        /// The Deployment.
        deployment: String,
        /// The controller.
        by: String,
        /// The next step.
        next: String,
    },
    /// Virtual machines that only start with Medley.
    #[error(
        "{count} VirtualMachines ask for best-match-model, and do not start without Medley: {names}; give them fixed models with --fix-cpu-models, or leave them with --keep-cpu-models"
    )]
    BestMatchModels {
        /// How many.
        count: usize,
        /// Some of them.
        names: String,
    },
    /// Virtual machines without a CPU model only start with Medley.
    #[error(
        "{0} has best-match-model as the default CPU model, with which virtual machines do not start without Medley; set another default first (spec.configuration.cpuModel, or spec.defaultCPUModel of a HyperConverged), or leave it with --keep-cpu-models"
    )]
    DefaultModel(String),
    /// Virtual machines that have the model from elsewhere.
    #[error(
        "the CPU model best-match-model of these VirtualMachines comes from an instance type, and they do not start without Medley: {0}; change the instance type first, or leave them with --keep-cpu-models"
    )]
    InheritedModels(String),
}

/// What to do, and what not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UninstallPlan {
    /// If there are any, nothing may be done.
    pub refusals: Vec<UninstallRefusal>,
    /// Changes, in their order.
    pub steps: Vec<Step>,
    /// What stays.
    pub kept: Vec<Kept>,
    /// Commands that remove what another tool installed.
    pub commands: Vec<String>,
}

impl UninstallPlan {
    /// The steps of the first phase that has any.
    pub fn first_phase(&self) -> &[Step] {
        let phase = self.steps.first().map(|step| step.phase);
        let length = self.steps.iter().take_while(|it| Some(it.phase) == phase);
        self.steps.get(..length.count()).unwrap_or_default()
    }
}

/// Plans the removal of Medley.
pub fn plan(state: &InstalledState, options: UninstallOptions) -> UninstallPlan {
    let mut plan = UninstallPlan::default();
    plan.refusals.extend(restored(state));
    let mut steps = workloads(state);
    for pod in &state.gated {
        let reason = "it is held at the gate of placement, which only Medley removes";
        steps.push(step(Phase::Gates, Change::Release, pod.clone(), reason));
    }
    machines::plan(state, options, &mut plan, &mut steps);
    classes(state, &mut plan, &mut steps);
    steps.extend(finalizers(state));
    objects(state, options, &mut plan, &mut steps);
    let namespace = namespace::plan(state, options, &steps, &mut plan.kept);
    steps.extend(namespace);
    plan.kept.extend(untouched());
    plan.commands.extend(helm(state));
    steps.sort_by_key(|step| step.phase);
    plan.steps = steps;
    plan
}

fn step(phase: Phase, change: Change, object: ObjectRef, reason: impl Into<String>) -> Step {
    let reason = reason.into();
    Step {
        phase,
        change,
        object,
        reason,
    }
}

fn is_kind(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

fn metadata(object: &Value) -> ObjectMeta {
    serde_json::from_value(object["metadata"].clone()).unwrap_or_default()
}

fn mark<'a>(object: &'a Value, of: &str, key: &str) -> Option<&'a str> {
    object["metadata"][of][key].as_str()
}

/// Whether Helm installed an object, and so removes it.
fn is_helms(object: &Value) -> bool {
    mark(object, "labels", "app.kubernetes.io/managed-by") == Some("Helm")
}

/// Whether an object is being deleted.
fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The controllers that would create the Deployments again.
fn restored(state: &InstalledState) -> Vec<UninstallRefusal> {
    let deployments = state.objects.iter().filter(|it| is_kind(it, "Deployment"));
    let mut refusals = Vec::new();
    for object in deployments {
        let namespace = &state.namespace;
        let argo = mark(object, "annotations", "argocd.argoproj.io/tracking-id");
        let flux = mark(object, "labels", "kustomize.toolkit.fluxcd.io/name")
            .or_else(|| mark(object, "labels", "helm.toolkit.fluxcd.io/name"));
        let (by, next) = match (restorer(&metadata(object)), argo, flux) {
            (Some(by @ Restorer::Olm { .. }), ..) => {
                let Restorer::Olm { version } = &by else {
                    continue;
                };
                let next = format!(
                    "kubectl --namespace {namespace} delete subscriptions.operators.coreos.com medley; kubectl --namespace {namespace} delete clusterserviceversion {version}"
                );
                (by.to_string(), next)
            }
            (Some(by), ..) => (by.to_string(), "remove Medley there".to_owned()),
            (None, Some(id), _) => {
                let application = id.split(':').next().unwrap_or(id);
                let next = format!("remove Medley from Application {application}");
                ("Argo CD".to_owned(), next)
            }
            (None, None, Some(name)) => {
                let next = format!("remove Medley from the source of {name}");
                ("Flux".to_owned(), next)
            }
            (None, None, None) => continue,
        };
        refusals.push(UninstallRefusal::Restored {
            deployment: ObjectRef::of(object).to_string(),
            by,
            next,
        });
    }
    refusals
}

/// Webhooks first, then their server and the operator.
fn workloads(state: &InstalledState) -> Vec<Step> {
    let mut steps = Vec::new();
    for object in &state.objects {
        if is_kind(object, "MutatingWebhookConfiguration") {
            let reason = "nothing is gated, changed or refused from here on";
            let object = ObjectRef::of(object);
            steps.push(step(Phase::Webhooks, Change::Delete, object, reason));
        }
        if is_kind(object, "Deployment") && !is_terminating(object) {
            let reason = "it would register the webhooks again, and restore what is removed";
            let change = if is_helms(object) {
                // Helm deletes it. The API server sets 1 if the field is absent.
                if object["spec"]["replicas"] == 0 {
                    continue;
                }
                Change::ScaleToZero
            } else {
                Change::Delete
            };
            let object = ObjectRef::of(object);
            steps.push(step(Phase::Workloads, change, object, reason));
        }
    }
    for pod in &state.running {
        let reason = "its program still writes";
        let pod = pod.clone();
        steps.push(step(Phase::Workloads, Change::AwaitEnd, pod, reason));
    }
    steps
}

/// RuntimeClasses: those that pods use stay, because the API server refuses new pods of a workload whose class is gone.
fn classes(state: &InstalledState, plan: &mut UninstallPlan, steps: &mut Vec<Step>) {
    for class in &state.classes {
        match state
            .class_users
            .get(&class.name)
            .copied()
            .unwrap_or_default()
        {
            0 => {
                let reason = "Medley made it, and no pod uses it";
                let class = class.clone();
                steps.push(step(Phase::Leftovers, Change::Delete, class, reason));
            }
            users => plan.kept.push(Kept {
                objects: class.to_string(),
                reason: format!("{users} pods use it: without it they could not be created again"),
            }),
        }
    }
}

/// Finalizers that only Medley removes: without it, the objects could not be deleted any more.
fn finalizers(state: &InstalledState) -> Vec<Step> {
    let mut steps = Vec::new();
    for object in &state.holders {
        let meta = metadata(object);
        let all = meta.finalizers.clone().unwrap_or_default();
        let has = |name: &str| all.iter().any(|it| it == name);
        let without =
            |name: &str| -> Vec<String> { all.iter().filter(|it| *it != name).cloned().collect() };
        let (finalizers, reason) = if has(FINALIZER) {
            let mut left = without(FINALIZER);
            // The API server accepts no new finalizer on an object that is being deleted.
            if state.ssp_operator && !has(UPSTREAM_FINALIZER) && !is_terminating(object) {
                left.push(UPSTREAM_FINALIZER.to_owned());
            }
            let reason = if state.ssp_operator {
                "the SSP operator takes over"
            } else {
                "nothing would remove the finalizer when it is deleted"
            };
            (left, reason)
        } else if has(CRON_FINALIZER) && !state.cdi && is_imported(&meta) {
            let reason = "CDI, whose finalizer it is, does not run";
            (without(CRON_FINALIZER), reason)
        } else {
            continue;
        };
        let change = Change::SetFinalizers(finalizers);
        steps.push(step(
            Phase::Leftovers,
            change,
            ObjectRef::of(object),
            reason,
        ));
    }
    steps
}

fn is_imported(meta: &ObjectMeta) -> bool {
    let mut managers = meta.managed_fields.iter().flatten();
    managers.any(|it| it.manager.as_deref() == Some(IMPORTS))
}

/// Everything else that is installed, and Medley's own kinds.
fn objects(
    state: &InstalledState,
    options: UninstallOptions,
    plan: &mut UninstallPlan,
    steps: &mut Vec<Step>,
) {
    let mut definitions = 0;
    let shared = format!("{PLURAL}.{GROUP}");
    for object in state.objects.iter().filter(|it| !is_terminating(it)) {
        let found = ObjectRef::of(object);
        match found.kind.as_str() {
            "MutatingWebhookConfiguration" | "Deployment" | "Namespace" => {}
            "CustomResourceDefinition" if state.advisor_operator && found.name == shared => {
                plan.kept.push(Kept {
                    objects: found.to_string(),
                    reason: "the virt-advisor-operator runs, and has the same kind".to_owned(),
                });
            }
            "CustomResourceDefinition" if options.delete_crds => {
                let reason = "asked for: its objects go with it";
                steps.push(step(Phase::Definitions, Change::Delete, found, reason));
            }
            "CustomResourceDefinition" => definitions += 1,
            _ if is_helms(object) => {}
            _ => {
                let reason = "part of the installation";
                steps.push(step(Phase::Objects, Change::Delete, found, reason));
            }
        }
    }
    if options.delete_crds {
        for entry in &state.history {
            let reason = "asked for: the history of plans goes with their kind";
            let entry = entry.clone();
            steps.push(step(Phase::Definitions, Change::Delete, entry, reason));
        }
        return;
    }
    if definitions > 0 {
        let count = state.customs.len();
        plan.kept.push(Kept {
            objects: format!("{definitions} CustomResourceDefinitions, with {count} objects"),
            reason: "policies and plans; --delete-crds deletes them".to_owned(),
        });
    }
    if !state.history.is_empty() {
        plan.kept.push(Kept {
            objects: format!("{} ControllerRevisions", state.history.len()),
            reason: "the history of plans; --delete-crds deletes it".to_owned(),
        });
    }
}

/// What uninstalling never touches.
fn untouched() -> [Kept; 3] {
    let kept = |objects: &str, reason: &str| Kept {
        objects: objects.to_owned(),
        reason: reason.to_owned(),
    };
    [
        kept(
            "applied plans",
            "the changed objects belong to other operators; to revert them, roll back first with `medley rollback NAME`",
        ),
        kept(
            "disks, DataVolumes, DataSources, DataImportCrons and templates",
            "virtual machines use them; nothing is imported again, because CDI finds its own annotations on them",
        ),
        kept(
            "annotations and labels medley.dev/*",
            "they record how objects came about, and have no effect without Medley",
        ),
    ]
}

/// The command that removes what Helm installed.
fn helm(state: &InstalledState) -> Option<String> {
    let object = state.objects.iter().find(|it| {
        is_helms(it) && !is_kind(it, "CustomResourceDefinition") && !is_terminating(it)
    })?;
    let annotation = |key| mark(object, "annotations", key);
    let release = annotation("meta.helm.sh/release-name").unwrap_or("medley");
    let namespace = annotation("meta.helm.sh/release-namespace").unwrap_or(&state.namespace);
    Some(format!("helm uninstall {release} --namespace {namespace}"))
}

/// The first names of a list.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}
