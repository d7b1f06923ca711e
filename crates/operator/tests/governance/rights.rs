//! Our operator has the rights that are shipped with it, and no others: every suite here proves that
//! they are enough.

use governance::{Registry, roles};
use kube::Client;
use operator::ACCOUNT;
pub(crate) use testkit::Forbidden;
use testkit::TestCluster;

use crate::stage::NAMESPACE;

/// A client for our operator, when it has these profiles.
pub(crate) async fn client(
    cluster: &TestCluster,
    registry: &Registry,
    forbidden: &Forbidden,
) -> anyhow::Result<Client> {
    operator::grant(&cluster.client(), NAMESPACE, registry).await?;
    let everywhere = roles::operator_rules(registry);
    let at_home = roles::operator_namespace_rules();
    let account = (NAMESPACE, ACCOUNT);
    forbidden
        .client(cluster, account, &everywhere, &at_home)
        .await
}
