//! Objects whose owners are gone.
//!
//! ```text
//! metadata of every kind --> Graph (who owns whom) --> Queue of uids --> Collector
//!                                                                         |-- decide
//!                                                                         `-- delete, patch
//! ```
//!
//! Background deletion: dependents go when the last of their owners is gone. Foreground: an owner
//! with the finalizer `foregroundDeletion` goes after the dependents that block it. Orphan: an owner
//! with the finalizer `orphan` goes after its dependents have forgotten it. All as
//! kube-controller-manager's garbage collector does it.

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
use decide::{Below, Verdict, decide};
use graph::{Graph, Look};
use monitors::Monitors;
use node::{FOREGROUND, Meta, Node, ORPHAN, Uid};
use owners::{Gone, Owner};

/// Objects looked at at the same time (kube-controller-manager's 20).
const WORKERS: usize = 20;
/// When an object is looked at again whose owner's kind is not known.
const UNKNOWN_KIND: Duration = Duration::from_secs(30);

/// Starts it.
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

/// What those who watch and those who act have in common.
struct Shared {
    client: Client,
    graph: Mutex<Graph>,
    gone: Mutex<Gone>,
    kinds: RwLock<Arc<Kinds>>,
    /// Told when definitions of kinds change.
    definitions: Notify,
    events: Events,
    queue: Queue<Uid>,
}

impl Shared {
    /// Takes over what a watch told.
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
        for uid in effects.look_at {
            self.queue.add(uid);
        }
    }
}

/// Looks at one object after the other.
struct Collector {
    shared: Arc<Shared>,
}

impl Reconcile<Uid> for Collector {
    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    async fn reconcile(&self, uid: &Uid) -> Result<Next, Error> {
        let look = self.shared.graph.lock().look(uid);
        match look {
            Look::Rest => {}
            Look::Orphan(owner, dependents) => {
                let forget = [owner.uid().to_owned()];
                let asked = dependents.iter().map(|one| self.strip(one, &forget));
                stream::iter(asked.collect::<Vec<_>>())
                    .buffer_unordered(WORKERS)
                    .try_collect::<()>()
                    .await?;
                self.remove_finalizer(&owner, ORPHAN).await?;
            }
            Look::Release(owner) => self.remove_finalizer(&owner, FOREGROUND).await?,
            Look::Await(dependents) => {
                for dependent in dependents {
                    self.shared.queue.add(dependent);
                }
            }
            Look::Owners(node) => return self.judge(&node).await,
        }
        Ok(Next::Wait)
    }
}

impl Collector {
    /// Keeps or deletes an object by its owners.
    async fn judge(&self, node: &Node) -> Result<Next, Error> {
        let Some(live) = self.live(node).await? else {
            return Ok(Next::Wait);
        };
        if live.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Wait);
        }
        let mut standings = Vec::new();
        for reference in node::owners(&live.metadata) {
            match self.owner(reference, node.namespace()).await? {
                Owner::Stands(standing) => standings.push((reference.uid.clone(), standing)),
                Owner::UnknownKind => {
                    debug!(object = node.name(), owner = ?reference, "an owner of no known kind");
                    return Ok(Next::After(UNKNOWN_KIND));
                }
                Owner::OutOfReach => {
                    debug!(object = node.name(), owner = ?reference, "an owner with a namespace");
                    return Ok(Next::Wait);
                }
            }
        }
        let below = self.below(node.uid());
        match decide(&live.metadata, &standings, below) {
            Verdict::Keep => {}
            Verdict::Strip(uids) => self.strip(node, &uids).await?,
            Verdict::Delete { policy, unblock } => {
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
                    "deleting what has no owner any more"
                );
                self.delete(node, &live, policy).await?;
            }
        }
        Ok(Next::Wait)
    }

    fn below(&self, uid: &str) -> Below {
        let graph = self.shared.graph.lock();
        let mut below = Below::Nothing;
        for dependent in graph.dependents_of(uid) {
            if dependent.deletes_dependents() {
                return Below::WaitingDependents;
            }
            below = Below::Dependents;
        }
        below
    }
}
