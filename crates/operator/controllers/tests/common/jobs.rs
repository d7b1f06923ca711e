//! Our operator with jobs that need no profiles.

use std::collections::BTreeSet;

use controllers::Job;
use controllers::images::cdi::Imports;
use governance::Registry;
use platform::{AddressPolicy, AddressRange};
use testkit::TestCluster;

use crate::ours::{NAMESPACE, Ours};

impl Ours {
    /// Starts these jobs with the RBAC that is shipped for them, after stopping the previous ones. Without `imports`,
    /// pods import, of an image that does not exist.
    pub(crate) async fn work(
        &self,
        cluster: &TestCluster,
        jobs: &[Job],
        imports: Option<Imports>,
    ) -> anyhow::Result<()> {
        // Registries and web servers of tests are on loopback, which an administrator has to allow.
        let addresses = AddressPolicy::allowing(AddressRange::LOOPBACK);
        self.work_at(cluster, jobs, imports, addresses).await
    }

    /// Like [`Self::work`], with these addresses allowed.
    pub(crate) async fn work_at(
        &self,
        cluster: &TestCluster,
        jobs: &[Job],
        imports: Option<Imports>,
        addresses: AddressPolicy,
    ) -> anyhow::Result<()> {
        let jobs: BTreeSet<Job> = jobs.iter().copied().collect();
        let profiles = Registry::new(Vec::new());
        let manager = self.next(cluster, &jobs, &profiles).await?;
        let options = controllers::Options {
            jobs,
            namespace: NAMESPACE.to_owned(),
            profiles: Vec::new(),
            version: "v9".to_owned(),
            imports: imports.unwrap_or_else(|| Imports::Pods {
                image: "nobody imports".to_owned(),
            }),
            registries: controllers::Registries::default(),
            addresses,
            audit_entries: controllers::governance::AUDIT_ENTRIES,
            payload_folders: Vec::new(),
        };
        controllers::start(&manager, &options).await?;
        Ok(())
    }
}
