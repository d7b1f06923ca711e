//! Volume snapshots: the kinds of the Kubernetes storage group, a snapshot controller and a
//! driver's sidecar.

mod contents;
mod controller;
mod decide;
pub(super) mod definitions;
mod kinds;

use runtime::{Error, Key, Manager, Queue};

use super::Context;
pub use kinds::{
    ContentRef, ContentSource, SnapshotError, SnapshotSource, VolumeSnapshot, VolumeSnapshotClass,
    VolumeSnapshotContent, VolumeSnapshotContentSpec, VolumeSnapshotContentStatus,
    VolumeSnapshotSpec, VolumeSnapshotStatus,
};

const WORKERS: usize = 2;

pub(super) fn start(manager: &Manager, context: &Context) {
    let (snapshots, contents): (Queue<Key>, Queue<Key>) = (Queue::new(), Queue::new());

    let to = snapshots.clone();
    let to_contents = contents.clone();
    context.caches.snapshots.on_change(move |change| {
        let Some(snapshot) = change.object() else {
            return;
        };
        // The content of a deleted snapshot is reconciled, too.
        if let Some(name) = decide::content_name(snapshot) {
            to_contents.add(Key::new("", name));
        }
        to.add(Key::of(&snapshot.metadata));
    });

    let (to, to_snapshots) = (contents.clone(), snapshots.clone());
    context.caches.contents.on_change(move |change| {
        if let Some(content) = change.object() {
            let of = &content.spec.volume_snapshot_ref;
            to_snapshots.add(Key::new(
                of.namespace.clone().unwrap_or_default(),
                of.name.clone().unwrap_or_default(),
            ));
            to.add(Key::of(&content.metadata));
        }
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
    manager.start(
        controller::Snapshots::new(context.clone(), events),
        &snapshots,
        WORKERS,
    );
    manager.start(contents::Contents::new(context.clone()), &contents, WORKERS);
}

/// The error of a failed write.
fn failed(verb: &str, kind: &str, key: &Key) -> impl FnOnce(kube::Error) -> Error {
    Error::api(format!("{verb} {kind} {key}"))
}
