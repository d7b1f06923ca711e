//! The parts of a release report that are read on demand: they are large or rarely needed, so no cache holds them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use release_migration::report::{MACHINE_CONFIG_OPERATOR, machine_config_image, rendered_for};
use runtime::Error;

use crate::list::unless_forbidden;

/// The releases of rendered MachineConfigs, by name. Without permission to read them, less is known about nodes.
pub async fn rendered_configurations(client: &Client) -> Result<BTreeMap<String, String>, Error> {
    let kind = GroupVersionKind::gvk("machineconfiguration.openshift.io", "v1", "MachineConfig");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    // MachineConfigs are large, and only their annotations are needed.
    let found = api.list_metadata(&ListParams::default()).await;
    let found = unless_forbidden("listing MachineConfigs", found)?;
    let found = found.iter().flat_map(|list| &list.items);
    Ok(rendered_for(found.map(|it| &it.metadata)))
}

/// The image that the machine-config-operator's Deployment runs, if the user may read it.
pub async fn running_machine_config_image(client: &Client) -> Result<Option<String>, Error> {
    let (namespace, name) = MACHINE_CONFIG_OPERATOR;
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let operation = format!("reading Deployment {namespace}/{name}");
    let found = unless_forbidden(operation, api.get(name).await)?;
    Ok(found.as_ref().and_then(machine_config_image))
}
