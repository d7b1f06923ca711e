//! Our operator in a test: one at a time, with the RBAC that is shipped and no more. So every suite proves that it is
//! sufficient.

use std::collections::BTreeSet;

use controllers::{ACCOUNT, Job};
use governance::{Registry, roles};
use parking_lot::Mutex;
use runtime::Manager;
use testkit::{Forbidden, TestCluster};

/// Namespace of the operator.
pub(crate) const NAMESPACE: &str = "medley-system";

/// Our operator, running or not.
#[derive(Default)]
pub(crate) struct Ours {
    running: Mutex<Option<Manager>>,
    forbidden: Forbidden,
}

impl Ours {
    /// Stops the previous operator, and returns a manager with the RBAC of these jobs and profiles.
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

    /// A manager with the permissions of this client.
    fn begin(&self, client: kube::Client) -> Manager {
        let manager = Manager::new(client);
        *self.running.lock() = Some(manager.clone());
        manager
    }

    /// Stops the previous operator, and returns a manager with the permissions of this client.
    #[allow(dead_code, reason = "not all suites use it")]
    pub(crate) async fn next_as(&self, client: kube::Client) -> Manager {
        self.stop().await;
        self.begin(client)
    }

    /// Stops the operator.
    pub(crate) async fn stop(&self) {
        let running = self.running.lock().take();
        if let Some(running) = running {
            running.stop().await;
        }
    }

    /// Whether it runs.
    #[allow(dead_code, reason = "not all suites use it")]
    pub(crate) fn is_running(&self) -> bool {
        self.running.lock().is_some()
    }

    /// Ends the operator like a crash: its tasks are dropped where they are.
    #[allow(dead_code, reason = "not all suites use it")]
    pub(crate) fn crash(&self) {
        drop(self.running.lock().take());
    }

    /// Its metrics in OpenMetrics text.
    pub(crate) fn metrics(&self) -> String {
        let running = self.running.lock();
        let running = running.as_ref();
        running.map(|it| it.metrics().render()).unwrap_or_default()
    }
}
