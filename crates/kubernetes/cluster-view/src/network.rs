//! How the cluster reaches registries: OpenShift's proxy, mirrors, image settings and CA certificates.
//!
//! ```text
//! ImageDigestMirrorSet, ImageTagMirrorSet, ImageContentSourcePolicy --+
//! image.config.openshift.io/cluster ----------------------------------+--> Network --> clients of registries
//! proxy.config.openshift.io/cluster ----------------------------------+       |
//! ConfigMaps with CA certificates in openshift-config ----------------'       '--> importer pods
//! ```
//!
//! What the process itself is configured with (flags and environment) takes precedence. On a cluster without these kinds
//! nothing else applies.

mod objects;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::openshift::CONFIG_NAMESPACE as NAMESPACE;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use runtime::{Error, Manager, OptionalKinds};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{info, warn};

pub use objects::ClusterNetwork;

use crate::placement::Registries;

/// The name of the singletons Proxy and Image.
const SINGLETON: &str = "cluster";
/// The key of the CA certificates for the proxy.
const TRUSTED_CA: &str = "ca-bundle.crt";
/// ConfigMaps are not watched but read again after this time.
const REREAD: Duration = Duration::from_mins(5);
/// Changes within this time are applied together.
const BATCH: Duration = Duration::from_millis(100);

fn kind(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind::gvk(group, version, kind)
}

fn proxies() -> GroupVersionKind {
    kind("config.openshift.io", "v1", "Proxy")
}

fn images() -> GroupVersionKind {
    kind("config.openshift.io", "v1", "Image")
}

fn mirrors() -> [GroupVersionKind; 3] {
    [
        kind("config.openshift.io", "v1", "ImageDigestMirrorSet"),
        kind("config.openshift.io", "v1", "ImageTagMirrorSet"),
        kind(
            "operator.openshift.io",
            "v1alpha1",
            "ImageContentSourcePolicy",
        ),
    ]
}

/// Applies the network of the cluster to these registries, now and after each change, as long as the manager runs.
pub async fn follow(manager: &Manager, registries: &Registries) {
    let kinds = manager.optional_kinds();
    let followed: Vec<_> = mirrors().into_iter().chain([proxies(), images()]).collect();
    let changed = Arc::new(Notify::new());
    for kind in &followed {
        kinds.follow(kind);
    }
    let notify = Arc::clone(&changed);
    kinds.on_change(move |change| {
        let same = |kind: &GroupVersionKind| {
            kind.group == change.kind().group && kind.kind == change.kind().kind
        };
        if followed.iter().any(same) {
            notify.notify_one();
        }
    });
    kinds.synced().await;
    let mut problems = apply(manager, registries, Vec::new()).await;
    let (own, registries) = (manager.clone(), registries.clone());
    manager.spawn(async move {
        loop {
            if timeout(REREAD, changed.notified()).await.is_ok() {
                tokio::time::sleep(BATCH).await;
            }
            problems = apply(&own, &registries, problems).await;
        }
    });
}

/// Reads the objects and replaces the network; returns the problems, which are logged when they are new.
async fn apply(manager: &Manager, registries: &Registries, before: Vec<String>) -> Vec<String> {
    let read = match gather(manager).await {
        Ok(read) => read,
        Err(error) => {
            // The network stays as it was: mirrors do not disappear because the API server is slow.
            let message = oci::error_chain(&error);
            warn!(message, "cannot read the network of the cluster");
            return before;
        }
    };
    let (network, problems) = read.over(registries.own_network());
    for problem in problems.iter().filter(|problem| !before.contains(problem)) {
        warn!(problem, "part of the network of the cluster is ignored");
    }
    if network.portable() != registries.client().network().portable()
        || network.proxies != registries.client().network().proxies
    {
        info!(
            mirrors = network.routes.registries().entries().len(),
            proxy = !network.proxies.is_empty(),
            "the network of the cluster has changed"
        );
        registries.client().set_network(network);
    }
    problems
}

async fn gather(manager: &Manager) -> Result<ClusterNetwork, Error> {
    let client = manager.client();
    collect(&Reader::Caches(manager.optional_kinds()), &client).await
}

/// Reads the network of a cluster once, for a command on a workstation. Objects that its user may not read are reported by
/// [`ClusterNetwork::over`], and the rest applies.
pub async fn read(client: &Client) -> Result<ClusterNetwork, Error> {
    collect(&Reader::Requests(client), client).await
}

/// Where the objects are read from.
enum Reader<'a> {
    /// Of a process that follows them.
    Caches(&'a OptionalKinds),
    Requests(&'a Client),
}

impl Reader<'_> {
    /// Names and contents of all objects of a kind; none where it is not installed, or why it cannot be read.
    async fn list(
        &self,
        kind: &GroupVersionKind,
    ) -> Result<Result<Vec<(String, Value)>, String>, Error> {
        let objects = match self {
            Self::Caches(kinds) => match kinds.open(kind).await? {
                Some(cache) => cache.list(),
                None => Vec::new(),
            },
            Self::Requests(client) => {
                let resource = ApiResource::from_gvk(kind);
                let api: Api<DynamicObject> = Api::all_with((*client).clone(), &resource);
                match api.list(&ListParams::default()).await {
                    Ok(found) => found.items.into_iter().map(Arc::new).collect(),
                    Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                    Err(kube::Error::Api(status)) if status.code == 403 => {
                        return Ok(Err(status.message.clone()));
                    }
                    Err(error) => {
                        return Err(Error::api(format!("listing {}", resource.plural))(error));
                    }
                }
            }
        };
        let parts = |object: &Arc<DynamicObject>| {
            let name = object.metadata.name.clone().unwrap_or_default();
            (name, object.data.clone())
        };
        Ok(Ok(objects.iter().map(parts).collect()))
    }
}

async fn collect(reader: &Reader<'_>, client: &Client) -> Result<ClusterNetwork, Error> {
    let mut found = ClusterNetwork::default();
    for kind in mirrors() {
        match reader.list(&kind).await? {
            Ok(objects) => {
                for (name, content) in objects {
                    found.add_mirrors(&format!("{} {name}", kind.kind), &content);
                }
            }
            Err(problem) => found.problem(problem),
        }
    }
    let images = reader.list(&images()).await?;
    if let Some(content) = singleton(images, &mut found) {
        found.set_image(&content);
    }
    let proxies = reader.list(&proxies()).await?;
    if let Some(content) = singleton(proxies, &mut found) {
        found.set_proxy(&content);
    }
    if let Some(name) = found.trusted_ca().map(str::to_owned) {
        match config_map(client, &name).await? {
            Ok(mut data) => found.set_authorities(data.remove(TRUSTED_CA)),
            Err(problem) => found.problem(problem),
        }
    }
    if let Some(name) = found.additional_ca().map(str::to_owned) {
        match config_map(client, &name).await? {
            Ok(data) => found.set_registry_authorities(data),
            Err(problem) => found.problem(problem),
        }
    }
    Ok(found)
}

/// The content of the object with the only name that OpenShift reads.
fn singleton(
    objects: Result<Vec<(String, Value)>, String>,
    found: &mut ClusterNetwork,
) -> Option<Value> {
    match objects {
        Ok(objects) => {
            let mut objects = objects.into_iter();
            objects.find_map(|(name, content)| (name == SINGLETON).then_some(content))
        }
        Err(problem) => {
            found.problem(problem);
            None
        }
    }
}

/// The data of a ConfigMap, or why there is none.
async fn config_map(
    client: &Client,
    name: &str,
) -> Result<Result<BTreeMap<String, String>, String>, Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    match maps.get_opt(name).await {
        Ok(Some(map)) => Ok(Ok(map.data.unwrap_or_default())),
        Ok(None) => Ok(Err(format!("ConfigMap {NAMESPACE}/{name} not found"))),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Err(format!(
            "ConfigMap {NAMESPACE}/{name} cannot be read: {}; `medley manifests --only rbac --openshift-config` has the Role",
            status.message
        ))),
        Err(error) => Err(Error::api(format!("reading ConfigMap {NAMESPACE}/{name}"))(
            error,
        )),
    }
}
