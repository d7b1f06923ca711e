//! The history of VirtPlatformConfigs, read from the API server.

use governance::record::{CONFIG_LABEL, Record, records_of};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::ListParams;
use kube::{Api, Client};
use runtime::Error;

/// The history of a configuration, oldest first.
pub async fn records(client: &Client, namespace: &str, config: &str) -> Result<Vec<Record>, Error> {
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let listed = api
        .list(&ListParams::default().labels(&format!("{CONFIG_LABEL}={config}")))
        .await
        .map_err(Error::api(format!(
            "listing the history of VirtPlatformConfig {config}"
        )))?;
    Ok(records_of(&listed.items))
}
