//! Our operator has the rights that are shipped with it, and no others: every suite here proves that
//! they are enough.

use anyhow::Context as _;
use governance::{Registry, roles};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::stage::NAMESPACE;

const ROLE: &str = "medley-operator";

/// A client for our operator, when it has these profiles.
pub(crate) async fn client(cluster: &TestCluster, registry: &Registry) -> anyhow::Result<Client> {
    let admin = cluster.client();
    apply::<ClusterRole>(
        &Api::all(admin.clone()),
        json!({ "rules": roles::operator_rules(registry) }),
    )
    .await?;
    apply::<ClusterRoleBinding>(&Api::all(admin.clone()), bound("ClusterRole")).await?;
    apply(
        &namespaced::<Role>(&admin),
        json!({ "rules": roles::operator_namespace_rules() }),
    )
    .await?;
    apply(&namespaced::<RoleBinding>(&admin), bound("Role")).await?;
    let user = format!("system:serviceaccount:{NAMESPACE}:{ROLE}");
    cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])
}

fn namespaced<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
    client: &Client,
) -> Api<K> {
    Api::namespaced(client.clone(), NAMESPACE)
}

fn bound(kind: &str) -> Value {
    json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ROLE },
        "subjects": [{ "kind": "ServiceAccount", "name": ROLE, "namespace": NAMESPACE }],
    })
}

async fn apply<K>(api: &Api<K>, mut object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let kind = K::kind(&());
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = kind.clone().into();
    object["metadata"] = json!({ "name": ROLE });
    let params = PatchParams::apply("test");
    api.patch(ROLE, &params, &Patch::Apply(object))
        .await
        .with_context(|| format!("applying {kind} {ROLE}"))?;
    Ok(())
}
