//! An index of the nodes, kept current one node at a time.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use runtime::{Cache, Change};

/// What a job reads of the nodes.
pub trait NodeIndex: Clone + Default + Send + Sync + 'static {
    /// The parts of a node that the index depends on.
    type Inputs: PartialEq;

    /// Reads a node.
    fn read(node: &Node) -> Self::Inputs;

    /// Adds a node, or applies its changes.
    fn upsert(&mut self, node: Self::Inputs);

    /// Removes a node.
    fn remove(&mut self, name: &str);
}

/// An index that follows a cache of nodes; clones share it.
///
/// The index changes in place under one lock. Only while a caller keeps a [snapshot](Self::snapshot) does a change
/// copy it.
pub struct NodeView<I> {
    index: Arc<RwLock<Arc<I>>>,
}

impl<I> Clone for NodeView<I> {
    fn clone(&self) -> Self {
        Self {
            index: Arc::clone(&self.index),
        }
    }
}

impl<I: NodeIndex> NodeView<I> {
    /// Follows a cache. `notify` is called with the name of each changed node once the index shows the change;
    /// heartbeats of nodes change nothing.
    pub fn follow(nodes: &Cache<Node>, notify: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let index: Arc<RwLock<Arc<I>>> = Arc::default();
        // The listener holds a weak reference, so that it does not keep the view alive.
        let weak = Arc::downgrade(&index);
        nodes.on_change(move |change| {
            if let Some(index) = weak.upgrade()
                && let Some(name) = apply(&index, change)
            {
                notify(name);
            }
        });
        Self { index }
    }

    /// The current index. The lock blocks updates: release it before awaiting.
    pub fn read(&self) -> MappedRwLockReadGuard<'_, I> {
        RwLockReadGuard::map(self.index.read(), |index| &**index)
    }

    /// The index as it is now, for callers that keep it.
    pub fn snapshot(&self) -> Arc<I> {
        Arc::clone(&self.index.read())
    }
}

/// Applies a change; returns the name of the node if the index depends on the changed parts.
fn apply<'c, I: NodeIndex>(index: &RwLock<Arc<I>>, change: &'c Change<Node>) -> Option<&'c str> {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let inputs = new.map(I::read);
    // Both sides are read again instead of storing the inputs of every node. Kubelets update a
    // node status every five minutes and on each change (`nodeStatusReportFrequency`), so most
    // changes end here without taking the write lock.
    if old.map(I::read) == inputs {
        return None;
    }
    let name = change.object()?.metadata.name.as_deref()?;
    let mut index = index.write();
    // In place while no snapshot exists; otherwise it clones, so that a report sees one state
    // of all nodes from its first line to its last.
    let index = Arc::make_mut(&mut index);
    match inputs {
        Some(inputs) => index.upsert(inputs),
        None => index.remove(name),
    }
    Some(name)
}
