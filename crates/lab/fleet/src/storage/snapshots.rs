//! Volume snapshots: the kinds of the Kubernetes storage group, a snapshot controller and a
//! driver's sidecar.

mod contents;
mod controller;
mod decide;
pub(super) mod definitions;
mod kinds;

use runtime::{Key, Manager, Queue};

use super::Context;
pub use kinds::{
    ContentRef, ContentSource, SnapshotError, SnapshotSource, VolumeSnapshot, VolumeSnapshotClass,
    VolumeSnapshotContent, VolumeSnapshotContentSpec, VolumeSnapshotContentStatus,
    VolumeSnapshotSpec, VolumeSnapshotStatus,
};

const WORKERS: usize = 2;

pub(super) fn start(manager: &Manager, context: &Context) {
    let (snapshots, contents): (Queue<Key>, Queue<Key>) = (Queue::new(), Queue::new());

    snapshots.enqueue_objects(&context.caches.snapshots);
    // The content of a deleted snapshot is reconciled, too.
    contents.enqueue_mapped(&context.caches.snapshots, |change| {
        let name = decide::content_name(change.object()?)?;
        Some(Key::new("", name))
    });
    contents.enqueue_objects(&context.caches.contents);
    snapshots.enqueue_mapped(&context.caches.contents, |change| {
        let of = &change.object()?.spec.volume_snapshot_ref;
        Some(Key::new(of.namespace.clone()?, of.name.clone()?))
    });

    // A claim that becomes bound can be snapshotted; one restored from a snapshot releases it.
    let to = snapshots.clone();
    let all = context.caches.snapshots.clone();
    context.caches.claims.on_change(move |change| {
        for claim in change.sides() {
            let key = Key::of(&claim.metadata);
            if let super::provision::Source::Snapshot(name) = super::provision::source(claim) {
                to.add(Key::new(key.namespace.clone(), name));
            }
            for snapshot in all.in_namespace(&key.namespace) {
                if decide::claim_name(&snapshot) == Some(&key.name) && !decide::is_ready(&snapshot)
                {
                    to.add(Key::of(&snapshot.metadata));
                }
            }
        }
    });

    let events = manager.events("snapshot-controller");
    let controller = controller::Snapshots {
        context: context.clone(),
        events,
    };
    manager.start(controller, &snapshots, WORKERS);
    manager.start(contents::Contents(context.clone()), &contents, WORKERS);
}
