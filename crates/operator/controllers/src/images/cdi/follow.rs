//! What has to be looked at when something changes.
//!
//! ```text
//! claim, DataVolume, snapshot --> its DataImportCron, its DataVolume, DataSources that stand for it
//! DataSource ------------------> itself, its pointers, its DataImportCron, its copies
//! settings, storage, nodes ----> everything that imports
//! ```
//!
//! Whoever is told of a change may not look at the cache that tells: what follows is found out
//! afterwards, by a worker of its own.

use std::fmt;

use api::cdi::labels;
use golden_images::action::{Kind, label};
use golden_images::cdi::copy::made_for;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::{Error, ForeignChange, Key, Manager, Next, Queue, Reconcile};

use super::world::{Thing, World, architecture, configs, policies};
use super::{Context, Queues};
use crate::images::actions::gvk;

/// Something that changed, and that others depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Change {
    Thing(Thing, Key),
    Source(Key),
    Settings,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thing(_, key) | Self::Source(key) => key.fmt(f),
            Self::Settings => f.write_str("settings"),
        }
    }
}

/// Finds out what follows.
struct Follower {
    world: World,
    queues: Queues,
}

impl Reconcile<Change> for Follower {
    fn name(&self) -> &'static str {
        "medley-images-cdi-follow"
    }

    async fn reconcile(&self, what: &Change) -> Result<Next, Error> {
        match what {
            Change::Thing(thing, key) => {
                for source in self.world.standing_for(*thing, key) {
                    self.source(&Key::of(&source.metadata));
                }
            }
            Change::Source(key) => self.source(key),
            Change::Settings => {
                for cron in self.world.crons.list() {
                    self.queues.crons.add(Key::of(&cron.metadata));
                }
                for volume in self.world.volumes.list() {
                    self.queues.volumes.add(Key::of(&volume.metadata));
                }
            }
        }
        Ok(Next::Wait)
    }
}

impl Follower {
    fn source(&self, key: &Key) {
        let pointers = self.world.pointing_to(key);
        let pointers = pointers.iter().map(|it| Key::of(&it.metadata));
        for source in pointers.chain([key.clone()]) {
            for copy in self.world.copies_of(&source) {
                self.queues.volumes.add(Key::of(&copy.metadata));
            }
            self.queues.sources.add(source);
        }
        for cron in self.world.crons.in_namespace(&key.namespace) {
            if cron.spec.managed_data_source == key.name {
                self.queues.crons.add(Key::of(&cron.metadata));
            }
        }
    }
}

/// Has everything told that an object depends on.
pub(super) fn start(manager: &Manager, context: &Context) {
    let Context { world, queues, .. } = context;
    let changes: Queue<Change> = Queue::new();
    let follower = Follower {
        world: world.clone(),
        queues: queues.clone(),
    };
    manager.start(follower, &changes, 1);
    let told = queues.crons.clone();
    world.crons.on_change(move |change| {
        if let Some(cron) = change.object() {
            told.add(Key::of(&cron.metadata));
        }
    });
    let tell = {
        let (queues, changes) = (queues.clone(), changes.clone());
        move |thing: Thing, meta: &ObjectMeta| {
            let key = Key::of(meta);
            if let Some(cron) = label(meta, labels::DATA_IMPORT_CRON) {
                queues.crons.add(Key::new(&key.namespace, cron));
            }
            if thing == Thing::Volume {
                queues.volumes.add(key.clone());
                if let Some((of, _)) = made_for(meta) {
                    queues.volumes.add(Key::new(&of.namespace, &of.name));
                }
            }
            changes.add(Change::Thing(thing, key));
        }
    };
    let told = tell.clone();
    world.volumes.on_change(move |change| {
        for volume in change.sides() {
            told(Thing::Volume, &volume.metadata);
        }
    });
    let told = tell.clone();
    world.claims.on_change(move |change| {
        for claim in change.sides() {
            told(Thing::Volume, &claim.metadata);
        }
    });
    let told = changes.clone();
    world.sources.on_change(move |change| {
        if let Some(source) = change.object() {
            told.add(Change::Source(Key::of(&source.metadata)));
        }
    });
    let told = changes.clone();
    manager
        .foreign()
        .on_change(move |change: &ForeignChange<'_>| {
            let kind = change.kind();
            if *kind == gvk(Kind::Snapshot) {
                if let ForeignChange::Object { change, .. } = change {
                    for object in change.sides() {
                        tell(Thing::Snapshot, &object.metadata);
                    }
                }
            } else if *kind == policies() || *kind == configs() {
                told.add(Change::Settings);
            }
        });
    let told = changes.clone();
    world.classes.on_change(move |_| told.add(Change::Settings));
    let told = changes.clone();
    world
        .profiles
        .on_change(move |_| told.add(Change::Settings));
    world.nodes.on_change(move |change| {
        let before = change.old.as_deref().and_then(architecture);
        let after = change.new.as_deref().and_then(architecture);
        if before != after {
            changes.add(Change::Settings);
        }
    });
}
