//! Our operator with jobs that need no profiles.

use std::collections::BTreeSet;

use governance::Registry;
use operator::Job;
use operator::images::cdi::Imports;
use testkit::TestCluster;

use crate::ours::{NAMESPACE, Ours};

impl Ours {
    /// Has these jobs work, with the rights that are shipped with them; those before are stopped.
    /// Without imports they are for pods of an image that nobody has.
    pub(crate) async fn work(
        &self,
        cluster: &TestCluster,
        jobs: &[Job],
        imports: Option<Imports>,
    ) -> anyhow::Result<()> {
        let jobs: BTreeSet<Job> = jobs.iter().copied().collect();
        let profiles = Registry::new(Vec::new());
        let manager = self.next(cluster, &jobs, &profiles).await?;
        let options = operator::Options {
            jobs,
            namespace: NAMESPACE.to_owned(),
            profiles: Vec::new(),
            version: "v9".to_owned(),
            imports: imports.unwrap_or_else(|| Imports::Pods {
                image: "nobody imports".to_owned(),
            }),
            registries: operator::Registries::default(),
        };
        operator::start(&manager, &options).await?;
        Ok(())
    }
}
