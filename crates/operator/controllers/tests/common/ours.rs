//! Our operator in a test: one at a time, with the rights that are shipped with it and no others. So
//! every suite here proves that they are enough.

use std::collections::BTreeSet;

use controllers::{ACCOUNT, Job};
use governance::{Registry, roles};
use parking_lot::Mutex;
use runtime::Manager;
use testkit::{Forbidden, TestCluster};

/// Where it is.
pub(crate) const NAMESPACE: &str = "medley-system";

/// Our operator, running or not.
#[derive(Default)]
pub(crate) struct Ours {
    running: Mutex<Option<Manager>>,
    forbidden: Forbidden,
}

impl Ours {
    /// Stops the one before, and makes ready for another that has these jobs and these profiles: what
    /// is started on the manager has their rights.
    pub(crate) async fn next(
        &self,
        cluster: &TestCluster,
        jobs: &BTreeSet<Job>,
        registry: &Registry,
    ) -> anyhow::Result<Manager> {
        self.stop().await;
        controllers::grant(&cluster.client(), NAMESPACE, registry, jobs).await?;
        let everywhere: Vec<_> = jobs
            .iter()
            .flat_map(|job| [job.rules(registry), job.pull_secret_rules()].concat())
            .collect();
        let at_home = roles::operator_namespace_rules();
        let client = self
            .forbidden
            .client(cluster, (NAMESPACE, ACCOUNT), &everywhere, &at_home)
            .await?;
        Ok(self.begin(client))
    }

    /// The manager of one that has the rights of this client, whatever they are.
    fn begin(&self, client: kube::Client) -> Manager {
        let manager = Manager::new(client);
        *self.running.lock() = Some(manager.clone());
        manager
    }

    /// Stops the one before, and makes ready for another that has the rights of this client.
    #[allow(dead_code, reason = "not all suites use it")]
    pub(crate) async fn next_as(&self, client: kube::Client) -> Manager {
        self.stop().await;
        self.begin(client)
    }

    /// Stops it.
    pub(crate) async fn stop(&self) {
        let running = self.running.lock().take();
        if let Some(running) = running {
            running.stop().await;
        }
    }

    /// What it tells Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let running = self.running.lock();
        let running = running.as_ref();
        running.map(|it| it.metrics().render()).unwrap_or_default()
    }
}
