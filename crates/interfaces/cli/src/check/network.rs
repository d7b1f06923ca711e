//! Whether pods of Medley reach registries: proxies, CA certificates and pull secrets of the cluster.

#[cfg(test)]
mod tests;

use api::openshift::CONFIG_NAMESPACE;
use egress::ProxySettings;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use manifests::{ENVIRONMENT, Job, OPENSHIFT_CONFIG};
use runtime::Absent as _;
use serde_json::Value;

use super::decide::{Check, Finding};
use super::inputs::{CheckInputs, Observed};
use crate::read::api_error;

const GROUP: &str = "Network";
/// The pull secret of all nodes of an OpenShift cluster.
const PULL_SECRET: &str = "pull-secret";

/// What decides how pods of Medley reach registries.
#[derive(Debug, Clone)]
pub(super) struct NetworkInputs {
    /// Whether this command itself is configured with a proxy.
    pub(super) uses_proxy: bool,
    /// `proxy.config.openshift.io/cluster`.
    pub(super) proxy: Observed<Option<Value>>,
    /// `image.config.openshift.io/cluster`.
    pub(super) image: Observed<Option<Value>>,
    /// Whether the Secret with environment variables of the installation exists.
    pub(super) environment: Observed<bool>,
    /// Whether the Role for CA certificates exists.
    pub(super) may_read_certificates: Observed<bool>,
    /// Whether the cluster has a global pull secret.
    pub(super) pull_secret: Observed<bool>,
    /// Whether a PlacementPolicy names it.
    pub(super) pull_secret_is_named: Observed<bool>,
}

#[cfg(test)]
impl NetworkInputs {
    /// A cluster without any of it.
    pub(super) fn none() -> Self {
        Self {
            uses_proxy: false,
            proxy: Ok(None),
            image: Ok(None),
            environment: Ok(false),
            may_read_certificates: Ok(false),
            pull_secret: Ok(false),
            pull_secret_is_named: Ok(false),
        }
    }
}

pub(super) async fn gather(client: &Client, namespace: &str) -> NetworkInputs {
    let own: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), CONFIG_NAMESPACE);
    let roles: Api<Role> = Api::namespaced(client.clone(), CONFIG_NAMESPACE);
    NetworkInputs {
        uses_proxy: ProxySettings::from_env().is_ok_and(|proxies| !proxies.is_empty()),
        proxy: singleton(client, "Proxy").await,
        image: singleton(client, "Image").await,
        // Without the data: a check reads no passwords.
        environment: exists(own.get_metadata_opt(ENVIRONMENT).await),
        may_read_certificates: exists(roles.get_metadata_opt(OPENSHIFT_CONFIG).await),
        pull_secret: exists(secrets.get_metadata_opt(PULL_SECRET).await),
        pull_secret_is_named: names_pull_secret(client).await,
    }
}

fn exists<T>(answer: Result<Option<T>, kube::Error>) -> Observed<bool> {
    let found = answer.map_err(|error| format!("{:#}", api_error(error)))?;
    Ok(found.is_some())
}

/// The object `cluster` of a kind of OpenShift's configuration; `None` also where the kind is not installed.
async fn singleton(client: &Client, kind: &str) -> Observed<Option<Value>> {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let found = api.get("cluster").await.not_found_as_none();
    let found = found.map_err(|error| format!("{:#}", api_error(error)))?;
    Ok(found.map(|object| object.data))
}

async fn names_pull_secret(client: &Client) -> Observed<bool> {
    let kind = GroupVersionKind::gvk("medley.dev", "v1alpha1", "PlacementPolicy");
    let resource = ApiResource::from_gvk_with_plural(&kind, "placementpolicies");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let policies = api.list(&ListParams::default()).await.not_found_as_none();
    let policies = policies.map_err(|error| format!("{:#}", api_error(error)))?;
    let policies = policies.map(|list| list.items).unwrap_or_default();
    let named = policies.iter().filter_map(|policy| {
        let named = policy.data.pointer("/spec/pullSecrets/named")?;
        named.as_array()
    });
    Ok(named
        .flatten()
        .any(|secret| secret["namespace"] == CONFIG_NAMESPACE && secret["name"] == PULL_SECRET))
}

/// Findings for the jobs that read registries.
pub(super) fn decide(inputs: &CheckInputs) -> Vec<Finding> {
    let reads_registries = Job::REGISTRIES.iter().any(|job| inputs.jobs.contains(job));
    if !reads_registries {
        return Vec::new();
    }
    let network = &inputs.network;
    let mut findings = vec![proxy(network)];
    findings.extend(certificates(network, inputs.pre));
    if inputs.jobs.contains(&Job::Placement) {
        findings.extend(pull_secret(network));
    }
    findings
}

fn proxy(network: &NetworkInputs) -> Finding {
    let title = "pods of Medley use the same proxy as this command";
    let check = Check::new("network-proxy", GROUP, title);
    let of_cluster = match &network.proxy {
        Ok(proxy) => proxy.as_ref().is_some_and(has_proxy),
        Err(why) => return check.unreadable(why),
    };
    match &network.environment {
        _ if of_cluster => check.ok(),
        _ if !network.uses_proxy => check.ok(),
        Ok(true) => check.ok(),
        Ok(false) => check
            .warning("this command uses a proxy; pods of Medley will reach registries directly")
            .hint(
                "if nodes need the proxy, too: medley manifests --environment HTTPS_PROXY=URL \
                 --environment NO_PROXY=LIST",
            ),
        Err(why) => check.unreadable(why),
    }
}

/// As the cluster network operator has verified it.
fn has_proxy(proxy: &Value) -> bool {
    ["httpProxy", "httpsProxy"].iter().any(|field| {
        let url = proxy["status"][field].as_str();
        url.is_some_and(|url| !url.is_empty())
    })
}

fn certificates(network: &NetworkInputs, pre: bool) -> Option<Finding> {
    let title = "CA certificates of the cluster's proxy and registries can be read";
    let check = Check::new("network-certificates", GROUP, title);
    let name = |object: &Observed<Option<Value>>, field: &str| match object {
        Ok(object) => {
            let name = object.as_ref()?.pointer(field)?.as_str()?;
            Some(name.to_owned()).filter(|name| !name.is_empty())
        }
        // Reported with the proxy.
        Err(_) => None,
    };
    let names = [
        name(&network.proxy, "/spec/trustedCA/name"),
        name(&network.image, "/spec/additionalTrustedCA/name"),
    ];
    let names: Vec<String> = names.into_iter().flatten().collect();
    if names.is_empty() {
        return None;
    }
    let maps = format!(
        "ConfigMap {CONFIG_NAMESPACE}/{}",
        names.join(&format!(" and {CONFIG_NAMESPACE}/"))
    );
    Some(match &network.may_read_certificates {
        Ok(true) => check.ok(),
        Ok(false) if pre => check
            .off(format!("they are in {maps}, which needs a Role"))
            .hint("install with `medley manifests --openshift-config`"),
        Ok(false) => check
            .warning(format!(
                "Role {CONFIG_NAMESPACE}/{OPENSHIFT_CONFIG} for {maps} is missing"
            ))
            .hint("medley manifests --only rbac --openshift-config | kubectl apply --server-side -f -"),
        Err(why) => check.unreadable(why),
    })
}

fn pull_secret(network: &NetworkInputs) -> Option<Finding> {
    let title = "images are inspected with the global pull secret";
    let check = Check::new("network-pull-secret", GROUP, title);
    let secret = format!("{CONFIG_NAMESPACE}/{PULL_SECRET}");
    match (&network.pull_secret, &network.pull_secret_is_named) {
        // Most users may not read Secrets there; a cluster without OpenShift has none.
        (Ok(false) | Err(_), _) => None,
        (Ok(true), Ok(true)) => Some(check.ok()),
        (Ok(true), Ok(false)) => Some(
            check
                .off(format!("no PlacementPolicy names Secret {secret}"))
                .hint(format!(
                    "name it in spec.pullSecrets, with the Role of `medley manifests --pull-secrets {secret}`"
                )),
        ),
        (Ok(true), Err(why)) => Some(check.unreadable(why)),
    }
}
