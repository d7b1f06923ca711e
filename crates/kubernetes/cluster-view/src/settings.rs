//! Settings derived from objects of several watches.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Resource;
use parking_lot::{Mutex, RwLock};
use runtime::{Change, Key};

/// The objects that settings are derived from.
pub(crate) trait Sources: Default {
    /// The settings.
    type Settings: Default + PartialEq;

    /// Derives the settings from all objects.
    fn settings(&self) -> Self::Settings;
}

/// The current settings, read without waiting.
pub(crate) struct Derived<S: Sources> {
    sources: Mutex<S>,
    current: ArcSwap<S::Settings>,
}

impl<S: Sources> Default for Derived<S> {
    fn default() -> Self {
        Self {
            sources: Mutex::default(),
            current: ArcSwap::default(),
        }
    }
}

impl<S: Sources> Derived<S> {
    /// Changes the sources; returns whether the settings changed.
    ///
    /// Sources and settings change under one lock: each watch has its own task, and settings that one of them derived from
    /// an older state would undo the other's.
    pub(crate) fn update(&self, change: impl FnOnce(&mut S)) -> bool {
        let mut sources = self.sources.lock();
        change(&mut sources);
        let settings = sources.settings();
        let changed = **self.current.load() != settings;
        // Unchanged settings are not stored and not notified: each status update of a KubeVirt object would otherwise
        // requeue every VM.
        if changed {
            self.current.store(Arc::new(settings));
        }
        changed
    }

    /// The current settings.
    pub(crate) fn current(&self) -> Arc<S::Settings> {
        self.current.load_full()
    }
}

/// Inserts, replaces or removes the object of a change, by namespace and name.
pub(crate) fn apply<K: Resource, T>(
    known: &mut BTreeMap<String, T>,
    change: &Change<K>,
    read: impl FnOnce(&K) -> Option<T>,
) {
    let Some(key) = change.object().map(|object| Key::of(object.meta())) else {
        return;
    };
    match change.new.as_deref().and_then(read) {
        Some(value) => known.insert(key.to_string(), value),
        // An object that no longer decodes is dropped as well: keeping its last settings would mean that the view
        // follows a policy that `kubectl get` does not show.
        None => known.remove(&key.to_string()),
    };
}

/// Which part of a view changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewChange<'a> {
    /// A node was added or removed, or changed in a way that matters to the view.
    Node(&'a str),
    /// The settings.
    Settings,
}

type Listener = Box<dyn Fn(&ViewChange<'_>) + Send + Sync>;

/// Who is notified of changes.
#[derive(Default)]
pub(crate) struct Listeners(RwLock<Vec<Listener>>);

impl Listeners {
    pub(crate) fn add(&self, notify: impl Fn(&ViewChange<'_>) + Send + Sync + 'static) {
        self.0.write().push(Box::new(notify));
    }

    pub(crate) fn notify(&self, change: &ViewChange<'_>) {
        for listener in &*self.0.read() {
            listener(change);
        }
    }
}
