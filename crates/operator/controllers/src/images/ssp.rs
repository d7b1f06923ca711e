//! The second layer: from an SSP to DataImportCrons, DataSources and virtual machine templates.
//!
//! ```text
//! gather: SSP, crons, sources, volumes, templates, nodes, the policy
//!   decide: golden_images::ssp --> actions, pending objects, problems
//!     apply: actions, until none is left
//!       report: status of the SSP and of the policy, events
//! ```
//!
//! Objects created for an SSP carry its name in an annotation, like upstream's: each of the two operators can adopt the
//! objects of the other.

mod gather;
mod report;
mod view;

use std::sync::Arc;
use std::time::Duration;

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot};
use api::mode::Mode;
use api::ssp::{GOLDEN_NAMESPACE, SSP};
use golden_images::action::Kind;
use golden_images::layers::Layer;
use golden_images::ssp::finalizers::{self, FINALIZER, SteppingBack};
use golden_images::ssp::{Decision, decide};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt as _};
use runtime::{
    Cache, Change, Error, Key, Manager, Next, OptionalKindChange, OptionalKinds, Reconcile, Writer,
    decode, kind_of,
};

use super::actions::{Actions, gvk};
use super::cluster::{Cluster, concerns, ssp_kind};
use super::layer::{LayerMode, LayerWatch};
use super::layer_queue::LayerQueue;
use gather::GatheredSsp;
pub(crate) use report::Report;

/// Name of the controller in logs, events and managed fields.
pub const COMPONENT: &str = "medley-images-ssp";

/// Upper bound of decide/apply rounds in one reconcile, so that one SSP cannot starve the others. A change takes a few.
const MAX_ROUNDS_PER_RECONCILE: usize = 32;
/// Retry interval while a kind is not installed.
const KIND_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Starts the controller; returns once its caches have synced.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let cluster = Cluster::follow(manager).await;
    let foreign = manager.optional_kinds().clone();
    for kind in [ssp_kind(), kind_of::<VolumeSnapshot>(), gvk(Kind::Template)] {
        foreign.follow(&kind);
    }
    let layer = LayerWatch::start(manager, Layer::Ssp, COMPONENT).await;
    let controller = SspController {
        client: manager.client(),
        foreign: foreign.clone(),
        namespaces: manager.cache::<Namespace>(),
        crons: manager.cache::<DataImportCron>(),
        sources: manager.cache::<DataSource>(),
        imports: manager.cache::<DataVolume>(),
        claims: manager.cache::<PersistentVolumeClaim>(),
        actions: Actions::new(manager, COMPONENT),
        report: Report::new(manager),
        layer,
        cluster,
    };
    controller.namespaces.synced().await;
    controller.claims.synced().await;
    foreign.synced().await;
    let objects = LayerQueue::default();
    watch_dependencies(&controller, &objects);
    manager.start(controller, objects.queue(), 1);
    Ok(())
}

/// Enqueues an SSP when an object that it depends on changes.
fn watch_dependencies(controller: &SspController, objects: &LayerQueue) {
    let (to, sources) = (objects.clone(), controller.sources.clone());
    controller.foreign.on_change(move |change| match change {
        OptionalKindChange::Object { kind, key, change } if **kind == ssp_kind() => {
            to.changed(key, change);
        }
        OptionalKindChange::Object { kind, change, .. }
            if **kind == kind_of::<VolumeSnapshot>() && affects_images(change, &sources) =>
        {
            to.add_all();
        }
        change if concerns(change) || *change.kind() == gvk(Kind::Template) => to.add_all(),
        _ => {}
    });
    let to = objects.clone();
    controller.cluster.on_change(move || to.add_all());
    let to = objects.clone();
    controller.layer.on_change(move || to.add_all());
    let to = objects.clone();
    controller.crons.on_change(move |_| to.add_all());
    let to = objects.clone();
    controller.sources.on_change(move |_| to.add_all());
    let (to, sources) = (objects.clone(), controller.sources.clone());
    controller.imports.on_change(move |change| {
        if affects_images(change, &sources) {
            to.add_all();
        }
    });
    let (to, sources) = (objects.clone(), controller.sources.clone());
    controller.claims.on_change(move |change| {
        if affects_images(change, &sources) {
            to.add_all();
        }
    });
}

/// Whether a volume was created, deleted or relabelled in a namespace with golden images.
fn affects_images<K: Resource>(change: &Change<K>, sources: &Cache<DataSource>) -> bool {
    let home = change
        .object()
        .and_then(|it| it.meta().namespace.as_deref());
    let labels = |side: &Option<Arc<K>>| {
        let side = side.as_ref()?;
        Some(side.meta().labels.clone().unwrap_or_default())
    };
    home.is_some_and(|home| home == GOLDEN_NAMESPACE || !sources.in_namespace(home).is_empty())
        && labels(&change.old) != labels(&change.new)
}

struct SspController {
    client: Client,
    foreign: OptionalKinds,
    cluster: Cluster,
    namespaces: Cache<Namespace>,
    crons: Cache<DataImportCron>,
    sources: Cache<DataSource>,
    imports: Cache<DataVolume>,
    claims: Cache<PersistentVolumeClaim>,
    actions: Actions,
    report: Report,
    layer: LayerWatch,
}

impl Reconcile for SspController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        for _ in 0..MAX_ROUNDS_PER_RECONCILE {
            let Some(ssp) = self.ssp(key).await? else {
                return Ok(Next::Wait);
            };
            let mode = self.layer.mode().await?;
            self.report.report_mode(&ssp, &mode);
            if !mode.manages() {
                match finalizers::step_back(&ssp, mode.running.is_some()) {
                    SteppingBack::Add(name) => {
                        self.set_finalizer(&ssp, name, true).await?;
                        continue;
                    }
                    SteppingBack::Remove(name) => {
                        self.set_finalizer(&ssp, name, false).await?;
                        continue;
                    }
                    SteppingBack::Done => return self.observe(&ssp, &mode).await,
                    SteppingBack::CleanUp => {}
                }
            }
            let leaves = ssp.metadata.deletion_timestamp.is_some();
            let bound = ssp.finalizers().iter().any(|it| it == FINALIZER);
            if leaves && !bound {
                return Ok(Next::Wait);
            }
            if !leaves && !bound {
                // Before the first object: an SSP that is deleted between the two would
                // leave its crons and sources behind.
                self.set_finalizer(&ssp, FINALIZER, true).await?;
                continue;
            }
            let inputs = match self.gather(&ssp).await? {
                Ok(inputs) => inputs,
                Err(problem) => {
                    let decision = Decision {
                        problems: vec![problem],
                        ..Decision::default()
                    };
                    self.report_status(&ssp, &decision).await?;
                    return Ok(Next::After(KIND_RETRY_INTERVAL));
                }
            };
            let decision = decide(&inputs.facts(Timestamp::now()));
            if decision.actions.is_empty() {
                return self.finish(&inputs, &decision).await;
            }
            if !leaves {
                self.create_image_namespace().await?;
            }
            self.actions.carry_out(&decision.actions).await?;
            self.report
                .emit_action_events(&inputs.ssp, &decision.actions);
        }
        // Requeue behind the other SSPs.
        Ok(Next::After(Duration::from_millis(1)))
    }
}

impl SspController {
    async fn ssp(&self, key: &Key) -> Result<Option<SSP>, Error> {
        let cache = self.foreign.open(&ssp_kind()).await?;
        let object = cache.and_then(|cache| cache.find(key));
        object.map(|object| decode(&object)).transpose()
    }

    /// Reports a decision without actions, and returns when to requeue.
    async fn finish(&self, inputs: &GatheredSsp, decision: &Decision) -> Result<Next, Error> {
        if inputs.ssp.metadata.deletion_timestamp.is_some() && decision.waiting.is_empty() {
            self.report_policy(inputs, decision).await?;
            // Finalizer last: if revoking fails, the SSP is still there to retry it.
            self.revoke_view(&inputs.ssp).await?;
            self.set_finalizer(&inputs.ssp, FINALIZER, false).await?;
            return Ok(Next::Wait);
        }
        if !decision.paused {
            self.grant_view(&inputs.ssp).await?;
        }
        self.report_status(&inputs.ssp, decision).await?;
        self.report_policy(inputs, decision).await?;
        Ok(decision.look_again.map_or(Next::Wait, Next::at))
    }

    /// Reports the state of the images of an SSP that another operator reconciles.
    async fn observe(&self, ssp: &SSP, mode: &LayerMode) -> Result<Next, Error> {
        if mode.ownership.mode == Mode::Assist
            && let Ok(inputs) = self.gather(ssp).await?
        {
            let decision = decide(&inputs.facts(Timestamp::now()));
            self.report_policy(&inputs, &decision).await?;
        }
        Ok(mode.next())
    }

    async fn set_finalizer(&self, ssp: &SSP, name: &str, present: bool) -> Result<(), Error> {
        let namespace = ssp.metadata.namespace.as_deref();
        if let Some(writer) = self.foreign.writer(&ssp_kind(), namespace, COMPONENT) {
            writer.set_finalizer(&ssp.metadata, name, present).await?;
        }
        Ok(())
    }

    /// Creates the namespace of golden images, the default of templates.
    async fn create_image_namespace(&self) -> Result<(), Error> {
        if self.namespaces.get("", GOLDEN_NAMESPACE).is_some() {
            return Ok(());
        }
        let wanted = Namespace {
            metadata: ObjectMeta {
                name: Some(GOLDEN_NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let writer = Writer::new(Api::all(self.client.clone()), COMPONENT);
        writer.shown_by(&self.namespaces).create(&wanted).await?;
        Ok(())
    }
}
