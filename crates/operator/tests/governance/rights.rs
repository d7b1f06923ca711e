//! Our operator has the rights that are shipped with it, and no others: every suite here proves that
//! they are enough.

use governance::Registry;
use kube::Client;
use operator::ACCOUNT;
use testkit::TestCluster;

use crate::stage::NAMESPACE;

/// A client for our operator, when it has these profiles.
pub(crate) async fn client(cluster: &TestCluster, registry: &Registry) -> anyhow::Result<Client> {
    operator::grant(&cluster.client(), NAMESPACE, registry).await?;
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])
}
