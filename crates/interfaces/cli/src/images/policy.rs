//! The GoldenImagePolicy of a cluster.

use api::golden::NAME;
use edits::Policies;
use golden_images::policy::Policy;
use kube::Client;

use crate::governance::configs::MANAGER;
use crate::governance::output::remark;

/// API of the GoldenImagePolicy.
pub(super) fn policies(client: &Client) -> Policies {
    Policies::new(client, MANAGER)
}

/// The effective policy, with defaults if there is none. Invalid parts are printed as warnings.
pub(super) async fn policy(client: &Client) -> anyhow::Result<Policy> {
    let found = policies(client).read().await?;
    let (policy, wrong) = Policy::read(&found.map(|it| it.spec).unwrap_or_default());
    for wrong in wrong {
        remark(&format!("GoldenImagePolicy {NAME}: {wrong}"));
    }
    Ok(policy)
}
