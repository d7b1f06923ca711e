//! Watch handlers: which objects to enqueue when another one changes.
//!
//! ```text
//! claim, DataVolume, snapshot --> its DataImportCron, its DataVolume, DataSources that stand for it
//! DataSource ------------------> itself, its pointers, its DataImportCron, its copies
//! settings, storage, nodes ----> everything that imports
//! mode ------------------------> everything
//! ```
//!
//! A handler blocks the reflector that calls it, so it only enqueues: a worker of its own looks up the dependents.

use std::fmt;

use api::cdi::labels;
use api::golden::GoldenImagePolicy;
use golden_images::action::{Kind, label};
use golden_images::cdi::clone::made_for;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::{Error, Key, Manager, Next, OptionalKindChange, Queue, Reconcile, kind_of};

use super::view::{ImportView, SourceKind, configs, open_architecture};
use super::{Context, Queues};
use crate::images::actions::gvk;

/// A change that other objects depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Change {
    Storage(SourceKind, Key),
    Source(Key),
    Settings,
    Mode,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(_, key) | Self::Source(key) => key.fmt(f),
            Self::Settings => f.write_str("settings"),
            Self::Mode => f.write_str("mode"),
        }
    }
}

/// Enqueues the dependents of changed objects.
struct DependentsController {
    view: ImportView,
    queues: Queues,
}

impl Reconcile<Change> for DependentsController {
    fn name(&self) -> &'static str {
        "medley-images-cdi-follow"
    }

    async fn reconcile(&self, what: &Change) -> Result<Next, Error> {
        match what {
            Change::Storage(kind, key) => {
                for source in self.view.standing_for(*kind, key) {
                    self.source(&Key::of(&source.metadata));
                }
            }
            Change::Source(key) => self.source(key),
            Change::Settings | Change::Mode => {
                for cron in self.view.crons.list() {
                    self.queues.crons.add(Key::of(&cron.metadata));
                }
                for volume in self.view.volumes.list() {
                    self.queues.volumes.add(Key::of(&volume.metadata));
                }
                if *what == Change::Mode {
                    for source in self.view.sources.list() {
                        self.queues.sources.add(Key::of(&source.metadata));
                    }
                }
            }
        }
        Ok(Next::Wait)
    }
}

impl DependentsController {
    fn source(&self, key: &Key) {
        let pointers = self.view.pointing_to(key);
        let pointers = pointers.iter().map(|it| Key::of(&it.metadata));
        for source in pointers.chain([key.clone()]) {
            for copy in self.view.copies_of(&source) {
                self.queues.volumes.add(Key::of(&copy.metadata));
            }
            self.queues.sources.add(source);
        }
        for cron in self.view.crons.in_namespace(&key.namespace) {
            if cron.spec.managed_data_source == key.name {
                self.queues.crons.add(Key::of(&cron.metadata));
            }
        }
    }
}

/// Registers the watch handlers.
pub(super) fn start(manager: &Manager, context: &Context) {
    let Context { view, queues, .. } = context;
    let changes: Queue<Change> = Queue::new();
    let dependents = DependentsController {
        view: view.clone(),
        queues: queues.clone(),
    };
    // One worker is enough: it reads indexes in memory, and the queue merges repeated changes of one object.
    manager.start(dependents, &changes, 1);
    let enqueue = queues.crons.clone();
    view.crons.on_change(move |change| {
        if let Some(cron) = change.object() {
            enqueue.add(Key::of(&cron.metadata));
        }
    });
    let enqueue_dependents = {
        let (queues, changes) = (queues.clone(), changes.clone());
        move |kind: SourceKind, meta: &ObjectMeta| {
            let key = Key::of(meta);
            if let Some(cron) = label(meta, labels::DATA_IMPORT_CRON) {
                queues.crons.add(Key::new(&key.namespace, cron));
            }
            if kind == SourceKind::Volume {
                queues.volumes.add(key.clone());
                if let Some((of, _)) = made_for(meta) {
                    queues.volumes.add(Key::new(&of.namespace, &of.name));
                }
            }
            changes.add(Change::Storage(kind, key));
        }
    };
    let enqueue = enqueue_dependents.clone();
    view.volumes.on_change(move |change| {
        // Both sides: a volume that lost its label has to wake the DataImportCron it belonged to as well.
        for volume in change.sides() {
            enqueue(SourceKind::Volume, &volume.metadata);
        }
    });
    let enqueue = enqueue_dependents.clone();
    view.claims.on_change(move |change| {
        for claim in change.sides() {
            enqueue(SourceKind::Volume, &claim.metadata);
        }
    });
    let enqueue = changes.clone();
    view.sources.on_change(move |change| {
        if let Some(source) = change.object() {
            enqueue.add(Change::Source(Key::of(&source.metadata)));
        }
    });
    let enqueue = changes.clone();
    manager
        .optional_kinds()
        .on_change(move |change: &OptionalKindChange<'_>| {
            let kind = change.kind();
            if *kind == gvk(Kind::Snapshot) {
                if let OptionalKindChange::Object { change, .. } = change {
                    for object in change.sides() {
                        enqueue_dependents(SourceKind::Snapshot, &object.metadata);
                    }
                }
            } else if *kind == kind_of::<GoldenImagePolicy>() || *kind == configs() {
                enqueue.add(Change::Settings);
            }
        });
    let enqueue = changes.clone();
    context.layer.on_change(move || enqueue.add(Change::Mode));
    let enqueue = changes.clone();
    view.classes
        .on_change(move |_| enqueue.add(Change::Settings));
    let enqueue = changes.clone();
    view.profiles
        .on_change(move |_| enqueue.add(Change::Settings));
    view.nodes.on_change(move |change| {
        let before = change.old.as_deref().and_then(open_architecture);
        let after = change.new.as_deref().and_then(open_architecture);
        // Nodes report their status often; imports depend on the architectures that accept pods and on nothing else.
        if before != after {
            changes.add(Change::Settings);
        }
    });
}
