//! The second layer: from an SSP to DataImportCrons, DataSources and templates of virtual machines.
//!
//! ```text
//! gather: SSP, crons, sources, volumes, templates, nodes, the policy
//!   decide: golden_images::ssp --> actions, what is waited for, what is wrong
//!     apply: actions, until nothing is left to do
//!       report: status of the SSP and of the policy, events
//! ```
//!
//! What was made for an SSP bears its name in an annotation, as upstream's does: either of the two can
//! go on with what the other one made.

mod gather;
mod report;
mod view;

use std::sync::Arc;
use std::time::Duration;

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot};
use api::ssp::{GOLDEN_NAMESPACE, SSP};
use golden_images::action::Kind;
use golden_images::ssp::{Decision, decide};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use runtime::{
    Cache, Change, Error, Foreign, ForeignChange, Key, Manager, Next, Reconcile, kind_of,
};
use serde_json::json;

use super::actions::{Actions, gvk};
use super::agenda::Agenda;
use super::cluster::{Cluster, concerns, ssp_kind};
use crate::status::typed;
use gather::World;
use report::Report;

/// What the layer is called: in logs, events and managed fields.
pub const COMPONENT: &str = "medley-images-ssp";
/// Keeps an SSP until what was made for it is gone.
pub const FINALIZER: &str = "medley.dev/images-ssp";

/// Decisions about one SSP before others get their turn. Each step of the way takes one or two.
const STEPS: usize = 32;
/// When to look again for kinds that are not installed.
const LATER: Duration = Duration::from_secs(5);

/// Starts the layer; returns when everything there is has been seen.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let cluster = Cluster::follow(manager).await;
    let foreign = manager.foreign().clone();
    for kind in [ssp_kind(), kind_of::<VolumeSnapshot>(), gvk(Kind::Template)] {
        foreign.follow(&kind);
    }
    let layer = Layer {
        client: manager.client(),
        foreign: foreign.clone(),
        namespaces: manager.cache::<Namespace>(),
        crons: manager.cache::<DataImportCron>(),
        sources: manager.cache::<DataSource>(),
        imports: manager.cache::<DataVolume>(),
        claims: manager.cache::<PersistentVolumeClaim>(),
        actions: Actions::new(manager, COMPONENT),
        report: Report::new(manager),
        cluster,
    };
    layer.namespaces.synced().await;
    layer.claims.synced().await;
    foreign.synced().await;
    let agenda = Agenda::default();
    subscribe(&layer, &agenda);
    manager.start(layer, agenda.queue(), 1);
    Ok(())
}

/// Gives its metrics their names, and does nothing else.
pub(crate) fn declare(manager: &Manager) {
    drop(Report::new(manager));
}

/// Has everything told that an SSP depends on.
fn subscribe(layer: &Layer, agenda: &Agenda) {
    let (to, sources) = (agenda.clone(), layer.sources.clone());
    layer.foreign.on_change(move |change| match change {
        ForeignChange::Object { kind, key, change } if **kind == ssp_kind() => {
            to.changed(key, change);
        }
        ForeignChange::Object { kind, change, .. }
            if **kind == kind_of::<VolumeSnapshot>() && is_news(change, &sources) =>
        {
            to.all();
        }
        change if concerns(change) || *change.kind() == gvk(Kind::Template) => to.all(),
        _ => {}
    });
    let to = agenda.clone();
    layer.cluster.on_change(move || to.all());
    let to = agenda.clone();
    layer.crons.on_change(move |_| to.all());
    let to = agenda.clone();
    layer.sources.on_change(move |_| to.all());
    let (to, sources) = (agenda.clone(), layer.sources.clone());
    layer.imports.on_change(move |change| {
        if is_news(change, &sources) {
            to.all();
        }
    });
    let (to, sources) = (agenda.clone(), layer.sources.clone());
    layer.claims.on_change(move |change| {
        if is_news(change, &sources) {
            to.all();
        }
    });
}

/// Whether a volume came or went, or is somebody else's now, in a namespace where images are.
fn is_news<K: Resource>(change: &Change<K>, sources: &Cache<DataSource>) -> bool {
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

struct Layer {
    client: Client,
    foreign: Foreign,
    cluster: Cluster,
    namespaces: Cache<Namespace>,
    crons: Cache<DataImportCron>,
    sources: Cache<DataSource>,
    imports: Cache<DataVolume>,
    claims: Cache<PersistentVolumeClaim>,
    actions: Actions,
    report: Report,
}

impl Reconcile for Layer {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        for _ in 0..STEPS {
            let Some(ssp) = self.ssp(key).await? else {
                return Ok(Next::Wait);
            };
            let leaves = ssp.metadata.deletion_timestamp.is_some();
            let bound = ssp.finalizers().iter().any(|it| it == FINALIZER);
            if leaves && !bound {
                return Ok(Next::Wait);
            }
            if !leaves && !bound {
                self.bind(&ssp, true).await?;
                continue;
            }
            let world = match self.gather(&ssp).await? {
                Ok(world) => world,
                Err(problem) => {
                    let decision = Decision {
                        problems: vec![problem],
                        ..Decision::default()
                    };
                    self.tell(&ssp, &decision).await?;
                    return Ok(Next::After(LATER));
                }
            };
            let decision = decide(&world.facts(Timestamp::now()));
            if decision.actions.is_empty() {
                return self.rest(&world, &decision).await;
            }
            if !leaves {
                self.make_home().await?;
            }
            self.actions.carry_out(&decision.actions).await?;
            self.report.carried_out(&world.ssp, &decision.actions);
        }
        // Others have waited long enough.
        Ok(Next::After(Duration::from_millis(1)))
    }
}

impl Layer {
    async fn ssp(&self, key: &Key) -> Result<Option<SSP>, Error> {
        let cache = self.foreign.open(&ssp_kind()).await?;
        let object = cache.and_then(|cache| cache.find(key));
        object.map(|object| typed(&object)).transpose()
    }

    /// Nothing is left to do for now: says so, and when to look again.
    async fn rest(&self, world: &World, decision: &Decision) -> Result<Next, Error> {
        if world.ssp.metadata.deletion_timestamp.is_some() && decision.waiting.is_empty() {
            self.tell_policy(world, decision).await?;
            self.close_home(&world.ssp).await?;
            self.bind(&world.ssp, false).await?;
            return Ok(Next::Wait);
        }
        if !decision.paused {
            self.open_home(&world.ssp).await?;
        }
        self.tell(&world.ssp, decision).await?;
        self.tell_policy(world, decision).await?;
        Ok(decision.look_again.map_or(Next::Wait, Next::at))
    }

    /// Keeps an SSP until what was made for it is gone, or lets it go.
    async fn bind(&self, ssp: &SSP, keep: bool) -> Result<(), Error> {
        let mut all: Vec<&str> = ssp.finalizers().iter().map(String::as_str).collect();
        all.retain(|it| *it != FINALIZER);
        if keep {
            all.push(FINALIZER);
        }
        let patch = json!({ "metadata": {
            "resourceVersion": ssp.metadata.resource_version,
            "finalizers": all,
        } });
        let key = Key::of(&ssp.metadata);
        let api: Api<SSP> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams {
            field_manager: Some(COMPONENT.to_owned()),
            ..PatchParams::default()
        };
        let written = api
            .patch(&key.name, &params, &Patch::Merge(patch))
            .await
            .map_err(Error::api(format!("changing the finalizers of SSP {key}")))?;
        if let Some(cache) = self.foreign.cache(&ssp_kind()) {
            if keep {
                cache.saw(&written).await;
            } else {
                // Without finalizers it is gone.
                let goes = |object: Option<&kube::api::DynamicObject>| {
                    object.is_none_or(|object| {
                        let left = object.metadata.finalizers.as_deref().unwrap_or_default();
                        !left.iter().any(|it| it == FINALIZER)
                    })
                };
                cache.shows(&key, goes).await;
            }
        }
        Ok(())
    }

    /// Makes the namespace where images are, unless a template says otherwise.
    async fn make_home(&self) -> Result<(), Error> {
        if self.namespaces.get("", GOLDEN_NAMESPACE).is_some() {
            return Ok(());
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        let wanted = Namespace {
            metadata: ObjectMeta {
                name: Some(GOLDEN_NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let params = PostParams {
            field_manager: Some(COMPONENT.to_owned()),
            ..PostParams::default()
        };
        let made = api
            .create(&params, &wanted)
            .await
            .map_err(Error::api(format!("creating namespace {GOLDEN_NAMESPACE}")))?;
        self.namespaces.saw(&made).await;
        Ok(())
    }
}
