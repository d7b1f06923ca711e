//! The side of virtual machines: each has the architecture of what it starts from.
//!
//! ```text
//! gather: the VirtualMachine, its DataSources through one pointer, its volumes, the nodes
//!   decide: golden_images::vm --> the architecture, warnings
//!     apply: spec.template.spec.architecture, if nobody set it
//!       report: events
//! ```
//!
//! KubeVirt does the same when a machine is made, as far as DataSources go. Here machines are looked at
//! that were made before, or before their DataSource was there, or from volumes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::cdi::{DataSource, DataSourceRef, DataVolume, Named, labels};
use golden_images::action::{label, name_of, named};
use golden_images::architectures::Architectures;
use golden_images::vm::{Decision, Facts, References, Warning, Why, decide, references};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Resource;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use parking_lot::Mutex;
use runtime::{
    Cache, Change, Error, Events, Foreign, ForeignChange, Key, Manager, Next, Reconcile,
};
use serde_json::{Value, json};

use super::agenda::Agenda;
use super::cluster::{Cluster, concerns, is_listed};

/// What the layer is called: in logs, events and managed fields.
pub const COMPONENT: &str = "medley-images-vm";

/// Machines are many, and looking at one takes little.
const WORKERS: usize = 2;

/// The kind of virtual machines.
fn machine_kind() -> GroupVersionKind {
    GroupVersionKind::gvk("kubevirt.io", "v1", "VirtualMachine")
}

/// Starts the layer; returns when everything there is has been seen.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let foreign = manager.foreign().clone();
    foreign.follow(&machine_kind());
    let layer = Layer {
        cluster: Cluster::follow(manager).await,
        nodes: Arc::default(),
        foreign: foreign.clone(),
        sources: manager.cache::<DataSource>(),
        imports: manager.cache::<DataVolume>(),
        claims: manager.cache::<PersistentVolumeClaim>(),
        events: crate::words::events(manager, COMPONENT),
        told: Mutex::default(),
    };
    layer.claims.synced().await;
    foreign.synced().await;
    let agenda = Agenda::default();
    subscribe(&layer, &agenda);
    manager.start(layer, agenda.queue(), WORKERS);
    Ok(())
}

/// Has everything told that the architecture of a machine depends on.
fn subscribe(layer: &Layer, agenda: &Agenda) {
    let users: Arc<Mutex<Users>> = Arc::default();
    let told = Arc::clone(&users);
    let (to, nodes) = (agenda.clone(), Arc::clone(&layer.nodes));
    layer.foreign.on_change(move |change| match change {
        ForeignChange::Object { kind, key, change } if **kind == machine_kind() => {
            // Its status is written all the time.
            let spec = |side: &Option<Arc<DynamicObject>>| {
                side.as_ref().map(|it| it.data.get("spec").cloned())
            };
            if spec(&change.old) != spec(&change.new) {
                told.lock().changed(key, change);
                to.changed(key, change);
            }
        }
        change if concerns(change) => {
            nodes.lock().forget();
            to.all();
        }
        _ => {}
    });
    let (to, nodes) = (agenda.clone(), Arc::clone(&layer.nodes));
    layer.cluster.on_change(move || {
        nodes.lock().forget();
        to.all();
    });
    let to = agenda.clone();
    layer.sources.on_change(move |change| {
        let said = |source: &Arc<DataSource>| (bears(&**source), target(source));
        if change.old.as_ref().map(said) != change.new.as_ref().map(said) {
            to.all();
        }
    });
    let (to, told) = (agenda.clone(), Arc::clone(&users));
    layer
        .imports
        .on_change(move |change| told.lock().tell(change, &to));
    let to = agenda.clone();
    layer
        .claims
        .on_change(move |change| users.lock().tell(change, &to));
}

/// Which machines use a volume.
#[derive(Default)]
struct Users(HashMap<Named, BTreeSet<Key>>);

impl Users {
    /// A machine is new, different or gone.
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

    /// Has the machines looked at that use a volume which came, went, or is for something else.
    fn tell<K: Resource>(&self, change: &Change<K>, agenda: &Agenda) {
        if !is_news(change) {
            return;
        }
        let name = change.object().map(|it| name_of(it.meta()));
        let users = name.and_then(|name| self.0.get(&name));
        for key in users.into_iter().flatten() {
            agenda.queue().add(key.clone());
        }
    }
}

/// Whether a volume came, went, or is for another architecture than before.
fn is_news<K: Resource>(change: &Change<K>) -> bool {
    let said = |side: &Option<Arc<K>>| side.as_ref().map(|it| bears(&**it));
    said(&change.old) != said(&change.new)
}

/// The architecture that an object bears.
fn bears<K: Resource>(object: &K) -> Option<String> {
    label(object.meta(), labels::ARCHITECTURE).map(str::to_owned)
}

/// The DataSource that another one points to.
fn target(source: &DataSource) -> Option<Named> {
    let home = source.metadata.namespace.as_deref().unwrap_or_default();
    match source.spec.source.which() {
        Some(DataSourceRef::DataSource(to)) if to.namespace.is_empty() => {
            Some(named(home, &to.name))
        }
        Some(DataSourceRef::DataSource(to)) => Some(to.clone()),
        _ => None,
    }
}

struct Layer {
    cluster: Cluster,
    nodes: Arc<Mutex<Nodes>>,
    foreign: Foreign,
    sources: Cache<DataSource>,
    imports: Cache<DataVolume>,
    claims: Cache<PersistentVolumeClaim>,
    events: Events,
    /// What the user of a machine was told last.
    told: Mutex<HashMap<Key, Vec<Warning>>>,
}

/// What was last found out about the nodes.
#[derive(Default)]
struct Nodes {
    known: Option<Arc<Architectures>>,
    /// Grows when nodes change: what was found out before does not count.
    changes: u64,
}

impl Nodes {
    fn forget(&mut self) {
        self.known = None;
        self.changes += 1;
    }
}

impl Reconcile for Layer {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let machines = self.foreign.open(&machine_kind()).await?;
        let machine = machines.as_ref().and_then(|machines| machines.find(key));
        let (Some(machines), Some(machine)) = (machines, machine) else {
            self.told.lock().remove(key);
            return Ok(Next::Wait);
        };
        if machine.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Wait);
        }
        let decision = self.decide(key, &machine.data).await?;
        // What is not there yet may say something else than the cluster does.
        let waits = decision.why == Why::Default && self.waits(key, &machine.data);
        if let Some(architecture) = decision.set.as_deref().filter(|_| !waits) {
            self.set(&machine, &machines, architecture, &decision.why)
                .await?;
        }
        self.warn(key, &machine, decision.warnings);
        Ok(Next::Wait)
    }
}

impl Layer {
    async fn decide(&self, key: &Key, machine: &Value) -> Result<Decision, Error> {
        let nodes = self.architectures().await?;
        let from = references(machine, &key.namespace);
        let sources = self.sources_of(&from).await?;
        let volumes = self.volumes_of(&from);
        Ok(decide(&Facts {
            machine,
            namespace: &key.namespace,
            sources: &|name| sources.get(name).map(|it| &**it),
            volumes: &|name| volumes.get(name).map(String::as_str),
            default: nodes.default.architecture.as_deref(),
            nodes: &nodes.workload_names(),
        }))
    }

    /// What there is to know about the nodes, asked once for many machines.
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
        if nodes.changes == changes {
            nodes.known = Some(Arc::clone(&found));
        }
        Ok(found)
    }

    /// The DataSources that a machine starts from, and those they point to.
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

    /// Whether something that a machine starts from is not there yet.
    fn waits(&self, key: &Key, machine: &Value) -> bool {
        let from = references(machine, &key.namespace);
        let there = |of: &Named| {
            let (home, name) = (of.namespace.as_str(), of.name.as_str());
            self.claims.get(home, name).is_some() || self.imports.get(home, name).is_some()
        };
        let found = |of: &Named| {
            let source = self.sources.get(&of.namespace, &of.name);
            let target = source.as_ref().and_then(|it| target(it));
            source.is_some()
                && target.is_none_or(|to| self.sources.get(&to.namespace, &to.name).is_some())
        };
        !from.volumes.iter().all(there) || !from.sources.iter().all(found)
    }

    /// The architectures of volumes that a machine uses, of those that say one.
    fn volumes_of(&self, from: &References) -> BTreeMap<Named, String> {
        let names = from.volumes.iter();
        names
            .filter_map(|of| {
                let claim = self.claims.get(&of.namespace, &of.name);
                let import = self.imports.get(&of.namespace, &of.name);
                let said = claim.and_then(|it| bears(&*it));
                let said = said.or_else(|| import.and_then(|it| bears(&*it)))?;
                Some((of.clone(), said))
            })
            .collect()
    }

    async fn set(
        &self,
        machine: &DynamicObject,
        machines: &Cache<DynamicObject>,
        architecture: &str,
        why: &Why,
    ) -> Result<(), Error> {
        let key = Key::of(&machine.metadata);
        let Some(api) = self.foreign.api(&machine_kind(), Some(&key.namespace)) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": { "resourceVersion": machine.metadata.resource_version },
            "spec": { "template": { "spec": { "architecture": architecture } } },
        });
        let params = PatchParams {
            field_manager: Some(COMPONENT.to_owned()),
            ..PatchParams::default()
        };
        let written = api
            .patch(&key.name, &params, &Patch::Merge(patch))
            .await
            .map_err(Error::api(format!(
                "setting the architecture of VirtualMachine {key} to {architecture}"
            )))?;
        machines.saw(&written).await;
        if let Some((resource, _)) = self.foreign.resource(&machine_kind()) {
            let message = format!("its architecture is {architecture}, from {why}");
            self.events
                .normal_of_kind(machine, &resource, "ArchitectureSet", message);
        }
        Ok(())
    }

    /// Tells what will not work, when it is something else than was told before.
    fn warn(&self, key: &Key, machine: &DynamicObject, warnings: Vec<Warning>) {
        let Some((resource, _)) = self.foreign.resource(&machine_kind()) else {
            return;
        };
        let mut told = self.told.lock();
        let before = told.get(key).map(Vec::as_slice).unwrap_or_default();
        for warning in warnings.iter().filter(|it| !before.contains(it)) {
            let (reason, message) = (warning.reason(), warning.to_string());
            self.events
                .warning_of_kind(machine, &resource, reason, message);
        }
        if warnings.is_empty() {
            told.remove(key);
        } else {
            told.insert(key.clone(), warnings);
        }
    }
}
