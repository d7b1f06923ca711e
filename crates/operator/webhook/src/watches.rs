//! The watches of this process: one manager for all views, so that a kind such as Node is watched once.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use runtime::Manager;

use crate::review::Refusal;

/// Timeout of the first node list, below the ten seconds that the API server waits for a response.
const NODE_LIST_TIMEOUT: Duration = Duration::from_secs(8);

/// The manager, shared by clones; it starts with the first view.
#[derive(Clone)]
pub(crate) struct Watches {
    pub(crate) client: Client,
    manager: Arc<OnceLock<Manager>>,
}

impl Watches {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            manager: Arc::default(),
        }
    }

    pub(crate) fn manager(&self) -> &Manager {
        self.manager
            .get_or_init(|| Manager::new(self.client.clone()))
    }

    /// Kinds whose cache has not synced yet.
    pub(crate) fn unsynced(&self) -> BTreeSet<String> {
        self.manager
            .get()
            .map(Manager::unsynced)
            .unwrap_or_default()
    }

    /// Waits for the first lists of a view.
    pub(crate) async fn wait(&self, synced: impl Future<Output = ()>) -> Result<(), Refusal> {
        let waited = tokio::time::timeout(NODE_LIST_TIMEOUT, synced).await;
        waited.map_err(|_| {
            Refusal::later(format!(
                "The nodes of the cluster could not be listed within {NODE_LIST_TIMEOUT:?}; retry the request"
            ))
        })
    }
}
