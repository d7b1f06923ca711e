//! The registry's state in the cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::DynamicObject;
use runtime::{Error, Key, Writer};
use serde_json::{Value, json};

use super::catalog::{IMAGES, image};
use super::holdings::{HoldingsError, Publication, Revision, Revisions, unknown};
use crate::names::{REGISTRY, annotation};
use crate::operators::importer;
use crate::operators::names::IMPORTER;

/// Namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap with the revisions: one key per image.
pub const CONFIG_MAP: &str = "medley-registry";
/// Number of retries after conflicts.
const MAX_RETRIES: usize = 5;

/// Whether this is the registry's ConfigMap.
pub(super) fn is_state(map: &ConfigMap) -> bool {
    map.metadata.name.as_deref() == Some(CONFIG_MAP)
        && map.metadata.namespace.as_deref() == Some(NAMESPACE)
}

/// The address of the last run. Only loopback addresses are accepted, whatever the ConfigMap
/// contains.
pub(super) fn address(map: &ConfigMap) -> Option<SocketAddr> {
    let address: SocketAddr = annotation(&map.metadata, REGISTRY)?.parse().ok()?;
    // The server listens there again. On any other address other hosts could reach the demo
    // registry, which has neither TLS nor authentication.
    address.ip().is_loopback().then_some(address)
}

fn writer(client: &Client) -> Writer<ConfigMap> {
    Writer::namespaced(client.clone())
}

/// Reads the ConfigMap, if it exists.
pub(super) async fn read(client: &Client) -> Result<Option<ConfigMap>, Error> {
    writer(client).get(&Key::new(NAMESPACE, CONFIG_MAP)).await
}

/// Stores the address of the registry, and the first revision of every image without one.
pub(super) async fn begin(
    client: &Client,
    before: Option<ConfigMap>,
    address: SocketAddr,
) -> Result<ConfigMap, Error> {
    let mut map = before.clone().unwrap_or_default();
    map.metadata.name = Some(CONFIG_MAP.to_owned());
    map.metadata.namespace = Some(NAMESPACE.to_owned());
    let annotations = map.metadata.annotations.get_or_insert_default();
    annotations.insert(REGISTRY.to_owned(), address.to_string());
    let data = map.data.get_or_insert_default();
    for image in &IMAGES {
        data.entry(image.name.to_owned())
            .or_insert_with(|| Revisions::first(image).text());
    }
    if before.as_ref() == Some(&map) {
        return Ok(map);
    }
    match before {
        Some(_) => writer(client).replace(&map).await,
        None => writer(client).create(&map).await,
    }
}

/// Publishes a new revision of an image; the running registry serves it once its watch delivers it.
/// Returns the revision.
pub async fn publish(client: &Client, name: &str, what: Publication) -> Result<Revision, Error> {
    let invalid = |error: HoldingsError| Error::Invalid(error.to_string());
    let image = image(name).ok_or_else(|| invalid(unknown(name)))?;
    let mut tries = 0;
    loop {
        let Some(mut map) = read(client).await? else {
            return Err(Error::Invalid(format!(
                "the cluster has no registry (config map {NAMESPACE}/{CONFIG_MAP} not found): start `medley up` with the demo fleet"
            )));
        };
        let data: &mut BTreeMap<String, String> = map.data.get_or_insert_default();
        let text = data.entry(name.to_owned()).or_default();
        let mut revisions = Revisions::read(image, text).map_err(invalid)?;
        revisions.publish(image, what).map_err(invalid)?;
        *text = revisions.text();
        tries += 1;
        match writer(client).replace(&map).await {
            Ok(_) => return Ok(revisions.newest().clone()),
            Err(error) if error.is_conflict() && tries < MAX_RETRIES => {}
            Err(error) => return Err(error),
        }
    }
}

/// Adds the registry to CDI's insecure registries, and removes its previous address.
pub(super) async fn trust(
    client: &Client,
    old: Option<SocketAddr>,
    address: SocketAddr,
) -> Result<(), Error> {
    let writer = Writer::<DynamicObject>::dynamic(client.clone(), &importer("CDI"));
    let mut tries = 0;
    loop {
        // Without the CDI kind there are no importers.
        let Some(mut object) = writer.get(&Key::new("", IMPORTER)).await? else {
            return Ok(());
        };
        let config = &mut object.data["spec"]["config"];
        if !config.is_object() {
            *config = json!({});
        }
        let registries = config["insecureRegistries"].as_array();
        let mut all: Vec<Value> = registries.cloned().unwrap_or_default();
        let before = all.clone();
        let old = old.filter(|old| *old != address).map(|old| json!(old));
        all.retain(|it| Some(it) != old.as_ref());
        if !all.contains(&json!(address)) {
            all.push(json!(address));
        }
        if all == before {
            return Ok(());
        }
        config["insecureRegistries"] = json!(all);
        tries += 1;
        match writer.replace(&object).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() && tries < MAX_RETRIES => {}
            Err(error) => return Err(error),
        }
    }
}
