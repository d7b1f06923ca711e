//! Waiting until a definition is served.

use std::time::Duration;

use chassis::Error;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;

/// How often is looked whether a definition is served.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until objects of a definition can be made.
pub(crate) async fn until_established(
    api: &Api<CustomResourceDefinition>,
    name: &str,
) -> Result<(), Error> {
    loop {
        let definition = api
            .get(name)
            .await
            .map_err(Error::api(format!("get definition {name}")))?;
        if is_established(&definition) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether objects of a definition can be made.
pub(crate) fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}
