//! Virtual machines: sets the architecture of the image they start from.
//!
//! ```text
//! gather: the VirtualMachine, its DataSources through one pointer, its volumes, the nodes
//!   decide: golden_images::vm --> the architecture, warnings
//!     apply: spec.template.spec.architecture, if it is unset
//!       report: events
//! ```
//!
//! KubeVirt does the same in admission, for DataSources. This controller covers virtual machines that were created
//! earlier, before their DataSource existed, or from volumes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::cdi::{DataSource, DataVolume, Named, labels};
use api::mode::Mode;
use golden_images::action::{label, name_of};
use golden_images::architectures::Architectures;
use golden_images::layers::Layer;
use golden_images::vm::{
    Decision, References, VmInputs, Warning, Why, decide, pointer_target, references,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use parking_lot::Mutex;
use runtime::{
    Cache, Change, Error, Events, Key, Manager, Next, OptionalKindChange, OptionalKinds, Reconcile,
};
use serde_json::{Value, json};

use super::cluster::{Cluster, concerns, is_listed};
use super::layer::LayerWatch;
use super::layer_queue::LayerQueue;

/// Name of the controller in logs, events and managed fields.
pub const COMPONENT: &str = "medley-images-vm";

/// There are many virtual machines, but a reconcile takes little.
const WORKERS: usize = 2;

fn vm_kind() -> GroupVersionKind {
    GroupVersionKind::gvk("kubevirt.io", "v1", "VirtualMachine")
}

/// Starts the controller; returns once its caches have synced.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let foreign = manager.optional_kinds().clone();
    foreign.follow(&vm_kind());
    let controller = VmController {
        cluster: Cluster::follow(manager).await,
        layer: LayerWatch::start(manager, Layer::Vm, COMPONENT).await,
        nodes: Arc::default(),
        foreign: foreign.clone(),
        sources: manager.cache::<DataSource>(),
        imports: manager.cache::<DataVolume>(),
        claims: manager.cache::<PersistentVolumeClaim>(),
        events: crate::reasons::events(manager, COMPONENT),
        warned: Mutex::default(),
    };
    controller.claims.synced().await;
    foreign.synced().await;
    let objects = LayerQueue::default();
    watch_dependencies(&controller, &objects);
    let to = objects.clone();
    controller.layer.on_change(move || to.add_all());
    manager.start(controller, objects.queue(), WORKERS);
    Ok(())
}

/// Enqueues a virtual machine when its spec, sources or volumes change.
fn watch_dependencies(controller: &VmController, objects: &LayerQueue) {
    let users: Arc<Mutex<VolumeUsers>> = Arc::default();
    let index = Arc::clone(&users);
    let (to, nodes) = (objects.clone(), Arc::clone(&controller.nodes));
    controller.foreign.on_change(move |change| match change {
        OptionalKindChange::Object { kind, key, change } if **kind == vm_kind() => {
            // KubeVirt updates the status often.
            let spec = |side: &Option<Arc<DynamicObject>>| {
                side.as_ref().map(|it| it.data.get("spec").cloned())
            };
            if spec(&change.old) != spec(&change.new) {
                index.lock().changed(key, change);
                to.changed(key, change);
            }
        }
        change if concerns(change) => {
            nodes.lock().forget();
            to.add_all();
        }
        _ => {}
    });
    let (to, nodes) = (objects.clone(), Arc::clone(&controller.nodes));
    controller.cluster.on_change(move || {
        nodes.lock().forget();
        to.add_all();
    });
    let to = objects.clone();
    controller.sources.on_change(move |change| {
        let relevant = |source: &Arc<DataSource>| (architecture_label(&**source), target(source));
        if change.old.as_ref().map(relevant) != change.new.as_ref().map(relevant) {
            to.add_all();
        }
    });
    let (to, index) = (objects.clone(), Arc::clone(&users));
    controller
        .imports
        .on_change(move |change| index.lock().enqueue_users(change, &to));
    let to = objects.clone();
    controller
        .claims
        .on_change(move |change| users.lock().enqueue_users(change, &to));
}

/// Virtual machines by the volumes they use.
#[derive(Default)]
struct VolumeUsers(HashMap<Named, BTreeSet<Key>>);

impl VolumeUsers {
    /// Updates the entries of a virtual machine that was added, modified or deleted.
    fn changed(&mut self, key: &Key, change: &Change<DynamicObject>) {
        let volumes = |side: &Option<Arc<DynamicObject>>| {
            let machine = side.as_ref().map(|it| references(&it.data, &key.namespace));
            machine.unwrap_or_default().volumes
        };
        for name in volumes(&change.old) {
            if let Some(users) = self.0.get_mut(&name) {
                users.remove(key);
                if users.is_empty() {
                    self.0.remove(&name);
                }
            }
        }
        for name in volumes(&change.new) {
            self.0.entry(name).or_default().insert(key.clone());
        }
    }

    /// Enqueues the users of a volume that was created, deleted, or relabelled with another architecture.
    fn enqueue_users<K: Resource>(&self, change: &Change<K>, objects: &LayerQueue) {
        if !affects_users(change) {
            return;
        }
        let name = change.object().map(|it| name_of(it.meta()));
        let users = name.and_then(|name| self.0.get(&name));
        for key in users.into_iter().flatten() {
            objects.queue().add(key.clone());
        }
    }
}

/// Whether a volume was created, deleted, or relabelled with another architecture.
fn affects_users<K: Resource>(change: &Change<K>) -> bool {
    let label = |side: &Option<Arc<K>>| side.as_ref().map(|it| architecture_label(&**it));
    label(&change.old) != label(&change.new)
}

/// The architecture label of an object.
fn architecture_label<K: Resource>(object: &K) -> Option<String> {
    label(object.meta(), labels::ARCHITECTURE).map(str::to_owned)
}

/// The DataSource that another one points to.
fn target(source: &DataSource) -> Option<Named> {
    pointer_target(
        source,
        source.metadata.namespace.as_deref().unwrap_or_default(),
    )
}

struct VmController {
    cluster: Cluster,
    layer: LayerWatch,
    nodes: Arc<Mutex<Nodes>>,
    foreign: OptionalKinds,
    sources: Cache<DataSource>,
    imports: Cache<DataVolume>,
    claims: Cache<PersistentVolumeClaim>,
    events: Events,
    /// Warnings emitted last, by virtual machine.
    warned: Mutex<HashMap<Key, Vec<Warning>>>,
}

/// Cached architectures of the nodes.
#[derive(Default)]
struct Nodes {
    known: Option<Arc<Architectures>>,
    /// Incremented when nodes change: a result computed before is not cached.
    changes: u64,
}

impl Nodes {
    fn forget(&mut self) {
        self.known = None;
        self.changes += 1;
    }
}

impl Reconcile for VmController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let machines = self.foreign.open(&vm_kind()).await?;
        let machine = machines.as_ref().and_then(|machines| machines.find(key));
        let Some(machine) = machine else {
            self.warned.lock().remove(key);
            return Ok(Next::Wait);
        };
        if machine.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Wait);
        }
        let mode = self.layer.mode().await?;
        if mode.ownership.mode == Mode::Off {
            return Ok(mode.next());
        }
        let decision = self.decide(key, &machine.data).await?;
        // A source that does not exist yet may name another architecture than the cluster default.
        let waits_for_source =
            decision.why == Why::Default && self.awaits_source(key, &machine.data);
        // In mode Assist, only warnings are emitted.
        let sets = mode.manages() && !waits_for_source;
        if let Some(architecture) = decision.set.as_deref().filter(|_| sets) {
            self.set(&machine, architecture, &decision.why).await?;
        }
        self.warn(key, &machine, decision.warnings);
        Ok(Next::Wait)
    }
}

impl VmController {
    async fn decide(&self, key: &Key, machine: &Value) -> Result<Decision, Error> {
        let nodes = self.architectures().await?;
        let from = references(machine, &key.namespace);
        let sources = self.sources_of(&from).await?;
        let volumes = self.volumes_of(&from);
        Ok(decide(&VmInputs {
            machine,
            namespace: &key.namespace,
            sources: &|name| sources.get(name).map(|it| &**it),
            volumes: &|name| volumes.get(name).map(String::as_str),
            default: nodes.default.architecture.as_deref(),
            nodes: &nodes.workload_names(),
        }))
    }

    /// Architectures of the nodes, computed once for many virtual machines.
    async fn architectures(&self) -> Result<Arc<Architectures>, Error> {
        let changes = {
            let nodes = self.nodes.lock();
            if let Some(known) = &nodes.known {
                return Ok(Arc::clone(known));
            }
            nodes.changes
        };
        let policy = self.cluster.policy().await?.policy;
        let converged = self.cluster.hyperconverged_for("").await?;
        let placement = converged.and_then(|it| it.images.placement);
        let found = Arc::new(self.cluster.architectures(placement.as_ref(), &policy));
        let mut nodes = self.nodes.lock();
        // The lock is not held across the awaits above; nodes may have changed meanwhile, and caching the older
        // result would keep it until the next change.
        if nodes.changes == changes {
            nodes.known = Some(Arc::clone(&found));
        }
        Ok(found)
    }

    /// The DataSources that a virtual machine starts from, and those they point to.
    async fn sources_of(
        &self,
        from: &References,
    ) -> Result<BTreeMap<Named, Arc<DataSource>>, Error> {
        let mut found = BTreeMap::new();
        if from.sources.is_empty() || !is_listed(&self.foreign, &self.sources).await? {
            return Ok(found);
        }
        let get = |name: &Named| self.sources.get(&name.namespace, &name.name);
        for name in &from.sources {
            let Some(source) = get(name) else { continue };
            if let Some(to) = target(&source)
                && let Some(target) = get(&to)
            {
                found.insert(to, target);
            }
            found.insert(name.clone(), source);
        }
        Ok(found)
    }

    /// Whether a source of the virtual machine does not exist yet.
    fn awaits_source(&self, key: &Key, machine: &Value) -> bool {
        let from = references(machine, &key.namespace);
        let exists = |of: &Named| {
            let (home, name) = (of.namespace.as_str(), of.name.as_str());
            self.claims.get(home, name).is_some() || self.imports.get(home, name).is_some()
        };
        let found = |of: &Named| {
            let source = self.sources.get(&of.namespace, &of.name);
            let target = source.as_ref().and_then(|it| target(it));
            source.is_some()
                && target.is_none_or(|to| self.sources.get(&to.namespace, &to.name).is_some())
        };
        !from.volumes.iter().all(exists) || !from.sources.iter().all(found)
    }

    /// The architectures of a virtual machine's volumes, of those that are labelled.
    fn volumes_of(&self, from: &References) -> BTreeMap<Named, String> {
        let names = from.volumes.iter();
        names
            .filter_map(|of| {
                let claim = self.claims.get(&of.namespace, &of.name);
                let import = self.imports.get(&of.namespace, &of.name);
                let label = claim.and_then(|it| architecture_label(&*it));
                let label = label.or_else(|| import.and_then(|it| architecture_label(&*it)))?;
                Some((of.clone(), label))
            })
            .collect()
    }

    async fn set(
        &self,
        machine: &DynamicObject,
        architecture: &str,
        why: &Why,
    ) -> Result<(), Error> {
        let namespace = machine.metadata.namespace.as_deref();
        let Some(writer) = self.foreign.writer(&vm_kind(), namespace, COMPONENT) else {
            return Ok(());
        };
        let patch = json!({ "spec": { "template": { "spec": { "architecture": architecture } } } });
        // With the resource version: a user who sets the architecture at this moment wins, whatever the image says.
        writer.merge_into(&machine.metadata, patch).await?;
        if let Some((resource, _)) = self.foreign.resource(&vm_kind()) {
            let message = format!("set the architecture to {architecture}, from {why}");
            self.events
                .normal_of_kind(machine, &resource, "ArchitectureSet", message);
        }
        Ok(())
    }

    /// Emits warnings that differ from the last ones.
    fn warn(&self, key: &Key, machine: &DynamicObject, warnings: Vec<Warning>) {
        let Some((resource, _)) = self.foreign.resource(&vm_kind()) else {
            return;
        };
        let mut warned = self.warned.lock();
        let before = warned.get(key).map(Vec::as_slice).unwrap_or_default();
        for warning in warnings.iter().filter(|it| !before.contains(it)) {
            let (reason, message) = (warning.reason(), warning.to_string());
            self.events
                .warning_of_kind(machine, &resource, reason, message);
        }
        if warnings.is_empty() {
            warned.remove(key);
        } else {
            warned.insert(key.clone(), warnings);
        }
    }
}
