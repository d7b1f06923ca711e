//! The disks that imports in this process leave in a folder: they go when nothing stands for them any
//! more, neither a volume nor a snapshot.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use golden_images::action::Kind;
use runtime::{Error, ForeignChange, Key, Manager, Next, Queue, Reconcile};
use tracing::warn;

use super::world::World;
use crate::images::actions::gvk;

/// Where the disk of a volume is, and what belongs to it. Names of objects are no paths: none of them
/// leads elsewhere.
pub(super) fn folder(root: &Path, of: &Key) -> PathBuf {
    root.join(&of.namespace).join(&of.name)
}

struct Sweeper {
    world: World,
    root: PathBuf,
}

/// Starts to look after a folder; what is in it already is looked at first.
pub(super) fn start(manager: &Manager, world: &World, root: PathBuf) {
    let queue: Queue<Key> = Queue::new();
    for key in there(&root) {
        queue.add(key);
    }
    let told = queue.clone();
    world.volumes.on_change(move |change| {
        if let (Some(old), None) = (&change.old, &change.new) {
            told.add(Key::of(&old.metadata));
        }
    });
    let told = queue.clone();
    world.claims.on_change(move |change| {
        if let (Some(old), None) = (&change.old, &change.new) {
            told.add(Key::of(&old.metadata));
        }
    });
    let told = queue.clone();
    manager
        .foreign()
        .on_change(move |change: &ForeignChange<'_>| {
            if let ForeignChange::Object { kind, key, change } = change
                && **kind == gvk(Kind::Snapshot)
                && change.new.is_none()
            {
                told.add((*key).clone());
            }
        });
    let sweeper = Sweeper {
        world: world.clone(),
        root,
    };
    manager.start(sweeper, &queue, 1);
}

/// The volumes that have something in a folder.
fn there(root: &Path) -> Vec<Key> {
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

impl Reconcile for Sweeper {
    fn name(&self) -> &'static str {
        "medley-images-cdi-disks"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let world = &self.world;
        if world.volumes.find(key).is_some()
            || world.claims.find(key).is_some()
            || world.snapshot(key).await?.is_some()
        {
            return Ok(Next::Wait);
        }
        let folder = folder(&self.root, key);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                warn!(%error, folder = %folder.display(), "a disk that nobody wants stays");
            }
            _ => {}
        }
        Ok(Next::Wait)
    }
}
