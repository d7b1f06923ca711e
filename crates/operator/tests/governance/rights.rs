//! Our operator has the rights that are shipped with it, and no others: every suite here proves that
//! they are enough.

use std::collections::BTreeSet;

use governance::{Registry, roles};
use kube::Client;
use operator::{ACCOUNT, Job};
pub(crate) use testkit::Forbidden;
use testkit::TestCluster;

use crate::stage::NAMESPACE;

/// A client for our operator, when it has these jobs and these profiles.
pub(crate) async fn client(
    cluster: &TestCluster,
    jobs: &BTreeSet<Job>,
    registry: &Registry,
    forbidden: &Forbidden,
) -> anyhow::Result<Client> {
    operator::grant(&cluster.client(), NAMESPACE, registry, jobs).await?;
    let rules = jobs.iter().flat_map(|job| job.rules(registry));
    let everywhere: Vec<_> = rules.collect();
    let at_home = roles::operator_namespace_rules();
    let account = (NAMESPACE, ACCOUNT);
    forbidden
        .client(cluster, account, &everywhere, &at_home)
        .await
}
