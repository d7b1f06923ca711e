//! Waiting until a CustomResourceDefinition is served.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};

use crate::{Absent as _, Error};

/// How often the API server is polled.
// A CRD is usually established within 30 ms. A watch would save the polling but needs a list, a watch and its error
// handling for something that happens once in the life of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until objects of a CRD can be created. The API server reports a CRD as established a moment
/// before it serves its kinds, so this also lists them.
pub async fn wait_until_served(client: &Client, name: &str) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    loop {
        let definition = api
            .get(name)
            .await
            .map_err(Error::api(format!("getting CRD {name}")))?;
        if is_established(&definition) && is_served(client, &definition).await? {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn is_served(client: &Client, definition: &CustomResourceDefinition) -> Result<bool, Error> {
    let spec = &definition.spec;
    let Some(version) = spec.versions.iter().find(|version| version.served) else {
        return Ok(false);
    };
    let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    // Each API server serves custom resources from its own informer, which lags behind the CRD status; its handler
    // answers 404 until then (`pkg/apiserver/customresource_handler.go` in apiextensions-apiserver).
    api.list_metadata(&ListParams::default().limit(1))
        .await
        .not_found_as_none()
        .map(|found| found.is_some())
        .map_err(Error::api(format!("list {}", spec.names.plural)))
}

/// Whether the CRD has condition `Established=True`.
pub fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}
