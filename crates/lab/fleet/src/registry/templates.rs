//! Templates of boot images from the registry, like those built into the virtualization operator.

use std::net::SocketAddr;

use api::hco::{MACHINES_KEY, TEMPLATES, TEMPLATES_KEY};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Client;
use runtime::{Error, Key, Writer};
use serde_json::{Value, json};

use super::catalog::{IMAGES, Image};
use super::machines::machine_templates;
use crate::operators::names::VIRTUALIZATION_NAMESPACE;

/// Field manager of the templates.
const MANAGER: &str = "fleet-registry";
/// Default schedule of polls for new revisions.
const SCHEDULE: &str = "0 */12 * * *";
/// Size of volumes; the disks in them are far smaller.
const SIZE: &str = "1Gi";

/// The templates of all images, by name.
pub fn templates(address: SocketAddr) -> Vec<Value> {
    let mut all: Vec<Value> = IMAGES
        .iter()
        .map(|image| template(image, address))
        .collect();
    all.sort_by_cached_key(|it| it["metadata"]["name"].to_string());
    all
}

fn template(image: &Image, address: SocketAddr) -> Value {
    let mut annotations = json!({ "cdi.kubevirt.io/storage.bind.immediate.requested": "true" });
    if image.annotated {
        let names: Vec<&str> = image.architectures.iter().map(|it| it.name()).collect();
        annotations["ssp.kubevirt.io/dict.architectures"] = json!(names.join(","));
    }
    let preference = image.name.replace('-', ".");
    let url = format!("docker://{address}/{}:{}", image.repository, image.tag);
    json!({
        "metadata": {
            "name": format!("{}-image-cron", image.name),
            "annotations": annotations,
            "labels": {
                "instancetype.kubevirt.io/default-instancetype": "u1.medium",
                "instancetype.kubevirt.io/default-preference": preference,
            },
        },
        "spec": {
            "garbageCollect": "Outdated",
            "managedDataSource": image.name,
            "schedule": SCHEDULE,
            "template": {
                "spec": {
                    "source": { "registry": { "url": url } },
                    "storage": { "resources": { "requests": { "storage": SIZE } } },
                },
            },
        },
    })
}

/// Sets the templates in the HyperConverged, if the virtualization operator is installed.
pub(super) async fn offer(client: &Client, address: SocketAddr) -> Result<(), Error> {
    let namespaces = Writer::<Namespace>::cluster(client.clone());
    let namespace = Key::new("", VIRTUALIZATION_NAMESPACE);
    if namespaces.get(&namespace).await?.is_none() {
        return Ok(());
    }
    let key = Key::new(VIRTUALIZATION_NAMESPACE, TEMPLATES);
    let text = |all: &[Value]| {
        serde_saphyr::to_string(&all)
            .map_err(|error| Error::Invalid(format!("writing config map {key}: {error}")))
    };
    let (crons, machines) = (text(&templates(address))?, text(&machine_templates())?);
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": TEMPLATES },
        "data": { TEMPLATES_KEY: crons, MACHINES_KEY: machines },
    });
    let writer = Writer::<ConfigMap>::namespaced(client.clone()).managed_by(MANAGER);
    writer.apply(&key, &map).await.map(drop)
}

#[cfg(test)]
mod tests;
