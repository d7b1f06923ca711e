//! Garbage collection of objects whose owners are gone.
//!
//! ```text
//! metadata of every kind --> Graph (owner references) --> Queue of uids --> Collector
//!                                                                           |-- decide
//!                                                                           `-- delete, patch
//! ```
//!
//! Background deletion: dependents are deleted once the last of their owners is gone. Foreground:
//! an owner with the finalizer `foregroundDeletion` is removed after the dependents that block it.
//! Orphan: an owner with the finalizer `orphan` is removed after the references of its dependents.
//! All as in kube-controller-manager's garbage collector.

mod act;
mod decide;
mod graph;
mod monitors;
mod node;
mod owners;

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use parking_lot::{Mutex, RwLock};
use runtime::{Change, Error, Events, Manager, Next, Queue, Reconcile};
use tokio::sync::Notify;
use tracing::debug;

use crate::discovery::{Kinds, Served};
use decide::{CollectionVerdict, DependentState, decide};
use graph::{Graph, GraphAction};
use monitors::Monitors;
use node::{FOREGROUND, Meta, Node, ORPHAN, Uid};
use owners::{Gone, Owner};

/// Number of objects processed concurrently (kube-controller-manager's 20).
const WORKERS: usize = 20;
/// Delay before an object whose owner's kind is unknown is processed again.
// The interval of discovery: a kind that was installed since is known by then. An owner of an
// unknown kind may exist, so its dependents are kept.
const UNKNOWN_KIND_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Starts the garbage collector.
pub async fn start(manager: &Manager) {
    let queue = Queue::new();
    let shared = Arc::new(Shared {
        client: manager.client(),
        graph: Mutex::default(),
        gone: Mutex::default(),
        kinds: RwLock::default(),
        definitions: Notify::new(),
        events: manager.events("garbage-collector-controller"),
        queue: queue.clone(),
    });
    let monitors = Monitors::start(Arc::clone(&shared)).await;
    manager.spawn(monitors.run());
    manager.start(Collector { shared }, &queue, WORKERS);
}

/// State shared by monitors and workers.
struct Shared {
    client: Client,
    graph: Mutex<Graph>,
    gone: Mutex<Gone>,
    kinds: RwLock<Arc<Kinds>>,
    /// Notified when CRDs change.
    definitions: Notify,
    events: Events,
    queue: Queue<Uid>,
}

impl Shared {
    /// Applies a watch event to the graph.
    fn take(&self, kind: &Arc<Served>, change: &Change<Meta>) {
        let effects = self.graph.lock().change(kind, change);
        if let Some(node) = effects.gone {
            self.gone.lock().saw(&node);
        }
        for (node, reference) in effects.misplaced {
            let namespace = node.namespace();
            let message = format!(
                "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] \
                 does not exist in namespace {namespace:?}",
                reference.api_version, reference.kind, reference.name, reference.uid
            );
            let resource = &node.kind.resource;
            let reason = "OwnerRefInvalidNamespace";
            self.events
                .warning_of_kind(&*node.object, resource, reason, message);
        }
        for uid in effects.enqueue {
            self.queue.add(uid);
        }
    }
}

/// The reconciler of single objects.
struct Collector {
    shared: Arc<Shared>,
}

impl Reconcile<Uid> for Collector {
    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    async fn reconcile(&self, uid: &Uid) -> Result<Next, Error> {
        let next_action = self.shared.graph.lock().next_action(uid);
        match next_action {
            GraphAction::Rest => {}
            GraphAction::Orphan(owner, dependents) => {
                let forget = [owner.uid().to_owned()];
                let asked = dependents.iter().map(|one| self.strip(one, &forget));
                stream::iter(asked.collect::<Vec<_>>())
                    .buffer_unordered(WORKERS)
                    .try_collect::<()>()
                    .await?;
                // After every reference is gone. Removed earlier, the owner would disappear and its
                // dependents would be collected with it.
                self.remove_finalizer(&owner, ORPHAN).await?;
            }
            GraphAction::Release(owner) => self.remove_finalizer(&owner, FOREGROUND).await?,
            GraphAction::Await(dependents) => {
                for dependent in dependents {
                    self.shared.queue.add(dependent);
                }
            }
            GraphAction::Owners(node) => return self.judge(&node).await,
        }
        Ok(Next::Wait)
    }
}

impl Collector {
    /// Keeps or deletes an object, depending on its owners.
    async fn judge(&self, node: &Node) -> Result<Next, Error> {
        // From the API server, although the graph has the object: a decision to delete must not be
        // based on owner references that were changed since.
        let Some(live) = self.live(node).await? else {
            return Ok(Next::Wait);
        };
        if live.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Wait);
        }
        let mut owner_states = Vec::new();
        for reference in node::owners(&live.metadata) {
            match self.owner(reference, node.namespace()).await? {
                Owner::Stands(standing) => owner_states.push((reference.uid.clone(), standing)),
                Owner::UnknownKind => {
                    debug!(object = node.name(), owner = ?reference, "owner of an unknown kind");
                    return Ok(Next::After(UNKNOWN_KIND_RETRY_DELAY));
                }
                Owner::OutOfReach => {
                    debug!(object = node.name(), owner = ?reference, "namespaced owner of a cluster-scoped object");
                    return Ok(Next::Wait);
                }
            }
        }
        let below = self.below(node.uid());
        match decide(&live.metadata, &owner_states, below) {
            CollectionVerdict::Keep => {}
            CollectionVerdict::Strip(uids) => self.strip(node, &uids).await?,
            CollectionVerdict::Delete { policy, unblock } => {
                let live = if unblock {
                    self.unblock(node, live).await?
                } else {
                    live
                };
                debug!(
                    kind = node.kind.resource.kind,
                    namespace = node.namespace(),
                    name = node.name(),
                    ?policy,
                    "deleting an object without owners"
                );
                self.delete(node, &live, policy).await?;
            }
        }
        Ok(Next::Wait)
    }

    fn below(&self, uid: &str) -> DependentState {
        let graph = self.shared.graph.lock();
        let mut below = DependentState::Nothing;
        for dependent in graph.dependents_of(uid) {
            if dependent.deletes_dependents() {
                return DependentState::WaitingDependents;
            }
            below = DependentState::Dependents;
        }
        below
    }
}
