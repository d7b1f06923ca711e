//! The GoldenImagePolicy of a cluster.

use api::golden::NAME;
use edits::Policies;
use golden_images::policy::Policy;
use kube::Client;

use crate::governance::configs::MANAGER;
use crate::governance::output::remark;

/// The policy of a cluster, to be changed.
pub(super) fn policies(client: &Client) -> Policies {
    Policies::new(client, MANAGER)
}

/// What it means; the usual, where there is none. What makes no sense in it is said.
pub(super) async fn policy(client: &Client) -> anyhow::Result<Policy> {
    let found = policies(client).read().await?;
    let (policy, wrong) = Policy::read(&found.map(|it| it.spec).unwrap_or_default());
    for wrong in wrong {
        remark(&format!("GoldenImagePolicy {NAME}: {wrong}"));
    }
    Ok(policy)
}
