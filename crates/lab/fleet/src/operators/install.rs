//! Installation of third-party operators: CRDs, namespaces and the objects the operators create.

use api::openshift::annotations::RELEASE_VERSION;
use api::openshift::payloads;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ObjectMeta};
use kube::core::ApiResource;
use kube::{Api, Client};
use runtime::{Error, Key, Writer, wait_until_served};
use serde_json::{Value, json};

use super::importer::labels;
use super::kinds::{
    cluster_version, hyperconverged, importer, kubevirt, machine_configuration, resource,
};
use super::names::{
    AVAILABILITY_NAMESPACE, BOOT_IMAGE_NAMESPACE, CLUSTER, DESCHEDULER_NAMESPACE, HYPERCONVERGED,
    IMPORTER, IMPORTER_CONFIG, KUBEVIRT, KUBEVIRT_NAMESPACE, MACHINE_CONFIG_NAMESPACE,
    MONITORING_NAMESPACE, ROLE_LABEL, TEMPLATE_NAMESPACE, VIRTUALIZATION_NAMESPACE,
};
use super::{Installed, definitions, monitoring, release};
use crate::names::{ROLE, SIMULATED, annotation_is_true};

/// Field manager of the CRDs.
const MANAGER: &str = "fleet-operators";
/// Ignition version of the base configurations.
const IGNITION: &str = "3.5.0";

/// Installs the operators and waits until their kinds are served. Existing objects are kept, and
/// CRDs applied by an earlier run are updated: installing another
/// [vintage](super::DeschedulerRelease) is an upgrade. CRDs of another field manager are left
/// alone, and no objects are created for them.
pub async fn install(client: &Client, installed: &Installed) -> Result<(), Error> {
    let offer = installed
        .release
        .then(|| release::Offer::new(release::USUAL_REGISTRY))
        .transpose()?;
    install_with(client, installed, offer.as_ref()).await
}

/// The same with these releases, whose images may be in another registry than the default one.
pub(crate) async fn install_with(
    client: &Client,
    installed: &Installed,
    offer: Option<&release::Offer>,
) -> Result<(), Error> {
    let namespaces = namespaces(*installed).into_iter();
    try_join_all(namespaces.map(|name| namespace(client, name))).await?;
    let definitions = definitions(installed)?;
    let ours = definitions.iter().map(|it| define(client, it));
    let ours = try_join_all(ours).await?;
    let is_ours = |kind: &ApiResource| {
        let name = format!("{}.{}", kind.plural, kind.group);
        ours.contains(&Some(name))
    };
    let mut objects = objects(*installed, offer);
    objects.retain(|(kind, ..)| is_ours(kind));
    if let Some(offer) = offer.filter(|_| is_ours(&cluster_version())) {
        objects.extend(offer.objects());
    }
    for (kind, namespace, object) in objects {
        create(client, &kind, namespace, object).await?;
    }
    if installed.monitoring && is_ours(&monitoring::route()) {
        monitoring::publish(client).await?;
    }
    Ok(())
}

fn namespaces(installed: Installed) -> Vec<&'static str> {
    let wanted = [
        (installed.descheduler.is_some(), DESCHEDULER_NAMESPACE),
        (installed.machine_config, MACHINE_CONFIG_NAMESPACE),
        (installed.monitoring, MONITORING_NAMESPACE),
        (installed.hyperconverged.is_some(), VIRTUALIZATION_NAMESPACE),
        (installed.node_health, AVAILABILITY_NAMESPACE),
        (installed.ssp, BOOT_IMAGE_NAMESPACE),
        (installed.templates, TEMPLATE_NAMESPACE),
        (installed.virtual_machines, KUBEVIRT_NAMESPACE),
        (installed.release, payloads::NAMESPACE),
    ];
    wanted
        .into_iter()
        .filter_map(|(wanted, name)| wanted.then_some(name))
        .collect()
}

/// Creates a namespace unless it exists.
pub(crate) async fn namespace(client: &Client, name: &str) -> Result<(), Error> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let writer = Writer::cluster(client.clone());
    writer.create_if_absent(&namespace).await.map(drop)
}

/// Applies a CRD unless another field manager owns it. Returns its name if it is ours.
async fn define(
    client: &Client,
    definition: &CustomResourceDefinition,
) -> Result<Option<String>, Error> {
    let writer: Writer<CustomResourceDefinition> = Writer::new(Api::all(client.clone()), MANAGER);
    let key = Key::of(&definition.metadata);
    let there = writer.get(&key).await?;
    if there.is_some_and(|there| !annotation_is_true(&there.metadata, SIMULATED)) {
        return Ok(None);
    }
    writer.apply(&key, definition).await?;
    wait_until_served(client, &key.name).await?;
    Ok(Some(key.name))
}

/// The objects that the operators create at installation.
fn objects(
    installed: Installed,
    offer: Option<&release::Offer>,
) -> Vec<(ApiResource, Option<&'static str>, Value)> {
    let mut all = Vec::new();
    if installed.machine_config {
        let group = "machineconfiguration.openshift.io";
        for role in ["master", "worker"] {
            let base = base(role, offer);
            all.push((resource(group, "v1", "MachineConfig"), None, base));
        }
        for role in ["master", "worker"] {
            all.push((resource(group, "v1", "MachineConfigPool"), None, pool(role)));
        }
        let configuration = json!({
            "metadata": { "name": CLUSTER },
            "spec": { "managementState": "Managed" },
        });
        all.push((machine_configuration(), None, configuration));
    }
    if let Some(version) = installed.hyperconverged {
        // The spec is empty: the CRD sets the defaults.
        let object = json!({ "metadata": { "name": HYPERCONVERGED }, "spec": {} });
        all.push((
            hyperconverged(version),
            Some(VIRTUALIZATION_NAMESPACE),
            object,
        ));
    }
    if installed.node_health {
        for (group, kind, name) in [
            (
                "fence-agents-remediation.medik8s.io",
                "FenceAgentsRemediationTemplate",
                "fenceagentsremediationtemplate-default",
            ),
            (
                "self-node-remediation.medik8s.io",
                "SelfNodeRemediationTemplate",
                "self-node-remediation-automatic-strategy-template",
            ),
        ] {
            let object = json!({
                "metadata": { "name": name },
                "spec": { "template": { "spec": {} } },
            });
            let kind = resource(group, "v1alpha1", kind);
            all.push((kind, Some(AVAILABILITY_NAMESPACE), object));
        }
    }
    if installed.cdi {
        for (kind, name) in [("CDI", IMPORTER), ("CDIConfig", IMPORTER_CONFIG)] {
            let mut object = json!({ "metadata": { "name": name }, "spec": {} });
            if kind == "CDIConfig" {
                object["metadata"]["labels"] = json!(labels());
            }
            all.push((importer(kind), None, object));
        }
    }
    if installed.virtual_machines {
        let object = json!({
            "metadata": { "name": KUBEVIRT },
            "spec": { "configuration": {} },
        });
        all.push((kubevirt("KubeVirt"), Some(KUBEVIRT_NAMESPACE), object));
    }
    all
}

/// Base configuration of the nodes of a role. With a release it has the operating system of that
/// release, so that nodes need no update right after the installation.
fn base(role: &str, offer: Option<&release::Offer>) -> Value {
    let mut base = json!({
        "metadata": { "name": format!("00-{role}"), "labels": { ROLE_LABEL: role } },
        "spec": {
            "config": {
                "ignition": { "version": IGNITION },
                "storage": { "files": [{
                    "path": "/etc/mco/role",
                    "mode": 420,
                    "overwrite": true,
                    "contents": { "source": format!("data:,{role}") },
                }] },
            },
        },
    });
    if let Some(offer) = offer {
        base["metadata"]["annotations"] = json!({ RELEASE_VERSION: release::VERSION });
        base["spec"]["osImageURL"] = json!(offer.machine_image());
    }
    base
}

fn pool(role: &str) -> Value {
    let mut pool = json!({
        "metadata": {
            "name": role,
            "labels": {
                "machineconfiguration.openshift.io/mco-built-in": "",
                format!("pools.operator.machineconfiguration.openshift.io/{role}"): "",
            },
        },
        "spec": {
            "machineConfigSelector": { "matchLabels": { ROLE_LABEL: role } },
            "nodeSelector": { "matchLabels": { format!("{ROLE}{role}"): "" } },
            "paused": false,
        },
    });
    // Updates wait for the control plane, not for workers.
    if role == "master" {
        pool["metadata"]["labels"][api::openshift::MachineConfigPool::REQUIRED] = json!("");
    }
    pool
}

/// Creates an object unless one of its name is there.
async fn create(
    client: &Client,
    kind: &ApiResource,
    namespace: Option<&str>,
    mut object: Value,
) -> Result<(), Error> {
    object["apiVersion"] = json!(kind.api_version);
    object["kind"] = json!(kind.kind);
    object["metadata"]["namespace"] = json!(namespace);
    let object: DynamicObject = serde_json::from_value(object)
        .map_err(|error| Error::Invalid(format!("the {} to create: {error}", kind.kind)))?;
    let writer = Writer::dynamic(client.clone(), kind);
    writer.create_if_absent(&object).await.map(drop)
}
