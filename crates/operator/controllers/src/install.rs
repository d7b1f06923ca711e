//! Cluster prerequisites of the controllers: CRDs, the namespace, and RBAC.
//!
//! On a real cluster the manifests install them, so that the operator does not need these permissions.

use std::collections::BTreeSet;
use std::time::Duration;

use api::release::{Mode, ReleasePolicy, ReleasePolicySpec};
use governance::{Registry, roles};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use manifests::{ACCOUNT, Job, RELEASE_OWNER, definitions, user_roles};
use runtime::{Error, Key, Writer, wait_until_served};
use serde_json::{Value, json};

/// Field manager of the installed objects.
const MANAGER: &str = "medley";
/// Time for the API server to serve a new CRD.
const CRD_SERVED_TIMEOUT: Duration = Duration::from_secs(30);

/// Installs or updates our CRDs, and creates the namespace if it does not exist.
pub async fn install(client: &Client, namespace: &str) -> Result<(), Error> {
    let wanted = Namespace {
        metadata: ObjectMeta {
            name: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces = Writer::new(Api::all(client.clone()), MANAGER);
    namespaces.create_if_absent(&wanted).await?;
    let crds: Writer<CustomResourceDefinition> = Writer::new(Api::all(client.clone()), MANAGER);
    for crd in definitions() {
        let name = crd.name_any();
        // Applied one by one and awaited: a policy may be created right after this returns, and the API server
        // answers 404 until the kind is served.
        crds.apply(&Key::of(&crd.metadata), &crd).await?;
        match tokio::time::timeout(CRD_SERVED_TIMEOUT, wait_until_served(client, &name)).await {
            Ok(served) => served?,
            Err(_) => {
                return Err(Error::Late(format!(
                    "CustomResourceDefinition {name} is not served after {} s",
                    CRD_SERVED_TIMEOUT.as_secs()
                )));
            }
        }
    }
    Ok(())
}

/// Grants [`ACCOUNT`] exactly the permissions of these jobs, with these governance profiles, and creates the
/// user-facing roles.
pub async fn grant(
    client: &Client,
    namespace: &str,
    registry: &Registry,
    jobs: &BTreeSet<Job>,
) -> Result<(), Error> {
    let bound = |kind: &str| {
        json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ACCOUNT },
            "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace }],
        })
    };
    let rules: Vec<_> = jobs
        .iter()
        .flat_map(|job| [job.rules(registry), job.pull_secret_rules()].concat())
        .collect();
    let cluster_wide = json!({ "rules": rules });
    apply::<ClusterRole>(&Api::all(client.clone()), ACCOUNT, cluster_wide).await?;
    apply::<ClusterRoleBinding>(&Api::all(client.clone()), ACCOUNT, bound("ClusterRole")).await?;
    let in_namespace = json!({ "rules": roles::operator_namespace_rules() });
    apply(
        &namespaced::<Role>(client, namespace),
        ACCOUNT,
        in_namespace,
    )
    .await?;
    apply(
        &namespaced::<RoleBinding>(client, namespace),
        ACCOUNT,
        bound("Role"),
    )
    .await?;
    for (other_namespace, rules) in jobs.iter().flat_map(|job| job.namespaced_rules()) {
        // Objects may be created later, but the informers of the operator need the permission from the start.
        apply::<Namespace>(&Api::all(client.clone()), other_namespace, json!({})).await?;
        let rules = json!({ "rules": rules });
        apply(&namespaced::<Role>(client, other_namespace), ACCOUNT, rules).await?;
        let api = namespaced::<RoleBinding>(client, other_namespace);
        apply(&api, ACCOUNT, bound("Role")).await?;
    }
    for role in user_roles() {
        let object = json!({ "metadata": { "labels": role.metadata.labels }, "rules": role.rules });
        apply::<ClusterRole>(&Api::all(client.clone()), &role.name_any(), object).await?;
    }
    let history = roles::history_role(namespace);
    let object = json!({ "rules": history.rules });
    apply(
        &namespaced::<Role>(client, namespace),
        &history.name_any(),
        object,
    )
    .await
}

/// Makes Medley own the ClusterVersion unless a ReleasePolicy exists: grants [`ACCOUNT`] the permission and creates a
/// policy with mode `Own`. Only for clusters without a cluster version operator.
pub async fn install_release_owner(client: &Client, namespace: &str) -> Result<(), Error> {
    let rules = json!({ "rules": release_migration::roles::owner_rules() });
    apply::<ClusterRole>(&Api::all(client.clone()), RELEASE_OWNER, rules).await?;
    let bound = json!({
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RELEASE_OWNER,
        },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace }],
    });
    apply::<ClusterRoleBinding>(&Api::all(client.clone()), RELEASE_OWNER, bound).await?;
    let spec = ReleasePolicySpec {
        mode: Mode::Own,
        ..ReleasePolicySpec::default()
    };
    let policy = ReleasePolicy::new(api::release::NAME, spec);
    let policies = Writer::new(Api::all(client.clone()), MANAGER);
    policies.create_if_absent(&policy).await?;
    Ok(())
}

fn namespaced<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
    client: &Client,
    namespace: &str,
) -> Api<K> {
    Api::namespaced(client.clone(), namespace)
}

async fn apply<K>(api: &Api<K>, name: &str, mut object: Value) -> Result<(), Error>
where
    K: runtime::Kind<DynamicType = ()>,
{
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    object["metadata"]["name"] = json!(name);
    let writer = Writer::new(api.clone(), MANAGER);
    writer.apply(&Key::new("", name), &object).await?;
    Ok(())
}
