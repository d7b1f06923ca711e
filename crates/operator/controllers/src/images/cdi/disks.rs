//! Garbage collection of the disks that in-process imports write to a folder: deleted with the last volume or snapshot
//! that refers to them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use golden_images::action::Kind;
use runtime::{Error, Key, Manager, Next, OptionalKindChange, Queue, Reconcile};
use tracing::warn;

use super::view::ImportView;
use crate::images::actions::gvk;

/// The folder of a volume's disk. Object names contain no slashes, so they cannot lead out of `root`.
pub(super) fn folder(root: &Path, of: &Key) -> PathBuf {
    root.join(&of.namespace).join(&of.name)
}

struct DiskCollector {
    view: ImportView,
    root: PathBuf,
}

/// Starts the garbage collector, which first checks the disks in the folder.
pub(super) fn start(manager: &Manager, view: &ImportView, root: PathBuf) {
    let queue: Queue<Key> = Queue::new();
    for key in volumes_in(&root) {
        queue.add(key);
    }
    let enqueue = queue.clone();
    view.volumes.on_change(move |change| {
        if let (Some(old), None) = (&change.old, &change.new) {
            enqueue.add(Key::of(&old.metadata));
        }
    });
    let enqueue = queue.clone();
    view.claims.on_change(move |change| {
        if let (Some(old), None) = (&change.old, &change.new) {
            enqueue.add(Key::of(&old.metadata));
        }
    });
    let enqueue = queue.clone();
    manager
        .optional_kinds()
        .on_change(move |change: &OptionalKindChange<'_>| {
            if let OptionalKindChange::Object { kind, key, change } = change
                && **kind == gvk(Kind::Snapshot)
                && change.new.is_none()
            {
                enqueue.add((*key).clone());
            }
        });
    let collector = DiskCollector {
        view: view.clone(),
        root,
    };
    manager.start(collector, &queue, 1);
}

/// Volumes with files in a folder.
fn volumes_in(root: &Path) -> Vec<Key> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|it| it.file_name().into_string().ok())
            .collect()
    };
    let namespaces = names(root).into_iter();
    namespaces
        .flat_map(|namespace| {
            let volumes = names(&root.join(&namespace)).into_iter();
            volumes.map(move |name| Key::new(&namespace, name))
        })
        .collect()
}

impl Reconcile for DiskCollector {
    fn name(&self) -> &'static str {
        "medley-images-cdi-disks"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let view = &self.view;
        // All three: a DataVolume may be deleted after its import while the claim stays, and a snapshot outlives
        // both.
        if view.volumes.find(key).is_some()
            || view.claims.find(key).is_some()
            || view.snapshot(key).await?.is_some()
        {
            return Ok(Next::Wait);
        }
        let folder = folder(&self.root, key);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                warn!(%error, folder = %folder.display(), "cannot delete an unused disk");
            }
            _ => {}
        }
        Ok(Next::Wait)
    }
}
