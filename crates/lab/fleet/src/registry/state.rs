//! The registry's state in the cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DynamicObject, ObjectMeta, PostParams};
use kube::{Api, Client};
use runtime::{Absent as _, Error};
use serde_json::{Value, json};

use super::catalog::{IMAGES, image};
use super::holdings::{HoldingsError, Publication, Revision, Revisions, unknown};
use crate::names::REGISTRY;
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
    let annotations = map.metadata.annotations.as_ref()?;
    let address: SocketAddr = annotations.get(REGISTRY)?.parse().ok()?;
    address.ip().is_loopback().then_some(address)
}

fn api(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Reads the ConfigMap, if it exists.
pub(super) async fn read(client: &Client) -> Result<Option<ConfigMap>, Error> {
    api(client)
        .get_opt(CONFIG_MAP)
        .await
        .map_err(Error::api(format!(
            "get config map {NAMESPACE}/{CONFIG_MAP}"
        )))
}

/// Stores the address of the registry, and the first revision of every image without one.
pub(super) async fn begin(
    client: &Client,
    before: Option<ConfigMap>,
    address: SocketAddr,
) -> Result<ConfigMap, Error> {
    let mut map = before.clone().unwrap_or_else(|| ConfigMap {
        metadata: ObjectMeta {
            name: Some(CONFIG_MAP.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    });
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
    let written = match before {
        Some(_) => {
            api(client)
                .replace(CONFIG_MAP, &PostParams::default(), &map)
                .await
        }
        None => api(client).create(&PostParams::default(), &map).await,
    };
    written.map_err(Error::api(format!(
        "write down the revisions of images in config map {NAMESPACE}/{CONFIG_MAP}"
    )))
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
        let written = api(client)
            .replace(CONFIG_MAP, &PostParams::default(), &map)
            .await
            .map_err(Error::api(format!("publish a revision of {name}")));
        tries += 1;
        match written {
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
    let what = || format!("let CDI {IMPORTER} trust the registry");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &importer("CDI"));
    let mut tries = 0;
    loop {
        // Without the CDI kind there are no importers.
        let found = api.get(IMPORTER).await.not_found_as_none();
        let Some(mut object) = found.map_err(Error::api(what()))? else {
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
        let written = api
            .replace(IMPORTER, &PostParams::default(), &object)
            .await
            .map_err(Error::api(what()));
        tries += 1;
        match written {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() && tries < MAX_RETRIES => {}
            Err(error) => return Err(error),
        }
    }
}
