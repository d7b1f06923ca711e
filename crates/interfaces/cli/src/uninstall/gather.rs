//! Reads what is installed, and what depends on it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use api::kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance};
use api::operators::wants_replicas;
use cpu_models::names::BEST_MATCH_MODEL;
use edits::gated_pods;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use governance::record::CONFIG_LABEL;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client, Resource, ResourceExt as _};
use manifests::uninstall::{InstalledState, ObjectRef, candidates};
use manifests::{ACCOUNT, NAMED_SECRETS, WEBHOOK};
use placement::names::{MANAGED_BY, MEDLEY};
use runtime::Absent as _;
use serde::Serialize;
use serde_json::Value;

use crate::read::{Readable, api_error, list, try_list};

/// Requests in flight. An installation has some hundred objects, and most of them may not exist.
const CONCURRENT_READS: usize = 8;
/// The Deployments of CDI's controller, the SSP operator, and the prototype's own operator.
const CDI: &str = "cdi-deployment";
const SSP_OPERATOR: &str = "ssp-operator";
const ADVISOR_OPERATOR: &str = "virt-advisor-operator-controller-manager";
/// The application label of Medley's pods.
const NAME: &str = "app.kubernetes.io/name";

/// Reads the state. What may not be read is an error: half of a picture could break what depends on Medley.
pub(super) async fn gather(client: &Client, namespace: &str) -> anyhow::Result<InstalledState> {
    let machines = list::<VirtualMachine>(&Api::all(client.clone())).await?;
    let instances = list::<VirtualMachineInstance>(&Api::all(client.clone())).await?;
    let kubevirts = list::<KubeVirt>(&Api::all(client.clone())).await?;
    let defaults = kubevirts
        .iter()
        .filter(|it| it.cpu_model() == Some(BEST_MATCH_MODEL));
    let classes = list::<RuntimeClass>(&Api::all(client.clone())).await?;
    let classes: Vec<ObjectRef> = classes
        .iter()
        .filter(|it| it.labels().get(MANAGED_BY).map(String::as_str) == Some(MEDLEY))
        .map(reference)
        .collect::<Result<_, _>>()?;
    let history = ListParams::default().labels(CONFIG_LABEL);
    let history = in_namespace::<ControllerRevision>(client, namespace, history).await?;
    let objects = objects(client, namespace).await?;
    // What else is in the namespace matters only while it is there, and takes a request for every kind.
    let inhabitants = if objects.iter().any(|it| it["kind"] == "Namespace") {
        let found = inhabitants(client, namespace).await;
        found.map_err(|error| format!("{error:#}"))
    } else {
        Ok(Vec::new())
    };
    Ok(InstalledState {
        namespace: namespace.to_owned(),
        objects,
        running: running(client, namespace).await?,
        gated: references(&gated_pods(client, None).await?)?,
        machines,
        instances,
        defaults: defaults.map(reference).collect::<Result<_, _>>()?,
        class_users: class_users(client, &classes).await?,
        classes,
        holders: holders(client).await?,
        ssp_operator: runs(client, SSP_OPERATOR).await?,
        cdi: runs(client, CDI).await?,
        advisor_operator: runs(client, ADVISOR_OPERATOR).await?,
        customs: customs(client).await?.iter().map(ObjectRef::of).collect(),
        history: references(&history)?,
        inhabitants,
    })
}

/// An object as the API server writes it: lists omit its kind.
fn value<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(object).context("reading an object")?;
    let types = TypeMeta::resource::<K>();
    value["apiVersion"] = types.api_version.into();
    value["kind"] = types.kind.into();
    Ok(value)
}

fn reference<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> anyhow::Result<ObjectRef> {
    value(object).map(|value| ObjectRef::of(&value))
}

fn references<K: Resource<DynamicType = ()> + Serialize>(
    objects: &[K],
) -> anyhow::Result<Vec<ObjectRef>> {
    objects.iter().map(reference).collect()
}

/// The resource of a kind that installations have.
pub(super) fn resource(object: &ObjectRef) -> ApiResource {
    let (group, version) = match object.api_version.split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", object.api_version.as_str()),
    };
    let kind = GroupVersionKind::gvk(group, version, &object.kind);
    ApiResource::from_gvk_with_plural(&kind, &manifests::plural(&object.kind))
}

/// The API of a resource in a namespace, or without one.
fn api(client: &Client, namespace: Option<&str>, resource: &ApiResource) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// The objects of the installation that exist.
async fn objects(client: &Client, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let reads = candidates(namespace)?.into_iter().map(|object| async move {
        let resource = resource(&object);
        let api = api(client, object.namespace.as_deref(), &resource);
        let found = api.get(&object.name).await.not_found_as_none();
        let found = found.map_err(|error| api_error(error).context(format!("reading {object}")))?;
        found.map(|it| typed(it, &resource)).transpose()
    });
    let found: Vec<Option<Value>> = stream::iter(reads)
        .buffered(CONCURRENT_READS)
        .try_collect()
        .await?;
    let mut found: Vec<Value> = found.into_iter().flatten().collect();
    // In the namespaces that --pull-secrets named.
    for kind in ["RoleBinding", "Role"] {
        let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        let resource = ApiResource::from_gvk(&kind);
        let named = ListParams::default().fields(&format!("metadata.name={NAMED_SECRETS}"));
        let all = api(client, None, &resource).list(&named).await;
        let all =
            all.map_err(|error| api_error(error).context(format!("listing {}s", kind.kind)))?;
        for object in all.items {
            found.push(typed(object, &resource)?);
        }
    }
    Ok(found)
}

fn typed(mut object: DynamicObject, resource: &ApiResource) -> anyhow::Result<Value> {
    object.types.get_or_insert_with(|| TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    serde_json::to_value(object).context("reading an object")
}

async fn in_namespace<K>(
    client: &Client,
    namespace: &str,
    params: ListParams,
) -> anyhow::Result<Vec<K>>
where
    K: Readable + Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    Ok(try_list(&api, params).await?.unwrap_or_default())
}

/// Pods of the operator and the webhooks that have not ended.
async fn running(client: &Client, namespace: &str) -> anyhow::Result<Vec<ObjectRef>> {
    let ours = ListParams::default().labels(&format!("{NAME} in ({ACCOUNT},{WEBHOOK})"));
    let mut pods = in_namespace::<Pod>(client, namespace, ours).await?;
    pods.retain(|pod| {
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        !matches!(phase, Some("Succeeded" | "Failed"))
    });
    references(&pods)
}

/// How many pods use a class.
async fn class_users(
    client: &Client,
    classes: &[ObjectRef],
) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut users = BTreeMap::new();
    // Clusters without such classes are spared a list of all pods.
    if classes.is_empty() {
        return Ok(users);
    }
    for pod in list::<Pod>(&Api::all(client.clone())).await? {
        if let Some(class) = pod.spec.and_then(|it| it.runtime_class_name) {
            *users.entry(class).or_default() += 1;
        }
    }
    Ok(users)
}

/// SSPs and DataImportCrons, which may have finalizers of Medley.
async fn holders(client: &Client) -> anyhow::Result<Vec<Value>> {
    let mut holders = Vec::new();
    for ssp in list::<api::ssp::SSP>(&Api::all(client.clone())).await? {
        holders.push(value(&ssp)?);
    }
    for cron in list::<api::cdi::DataImportCron>(&Api::all(client.clone())).await? {
        holders.push(value(&cron)?);
    }
    Ok(holders)
}

/// Whether a Deployment of this name wants replicas, in any namespace.
async fn runs(client: &Client, name: &str) -> anyhow::Result<bool> {
    let api: Api<Deployment> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = try_list(&api, named).await?.unwrap_or_default();
    Ok(found.iter().any(wants_replicas))
}

/// All objects of Medley's own kinds.
pub(super) async fn customs(client: &Client) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    for definition in manifests::definitions() {
        let (names, versions) = (&definition.spec.names, &definition.spec.versions);
        let version = versions.first().map(|it| it.name.as_str());
        let kind = GroupVersionKind::gvk(
            &definition.spec.group,
            version.unwrap_or_default(),
            &names.kind,
        );
        let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
        let all = api(client, None, &resource)
            .list(&ListParams::default())
            .await;
        let all = all.not_found_as_none().map_err(|error| {
            api_error(error).context(format!("listing {}.{}", names.plural, kind.group))
        })?;
        for object in all.into_iter().flat_map(|it| it.items) {
            found.push(typed(object, &resource)?);
        }
    }
    Ok(found)
}

/// The metadata of every object in the namespace.
async fn inhabitants(client: &Client, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let discovery = Discovery::new(client.clone())
        .run()
        .await
        .context("reading the API discovery of the cluster")?;
    let resources = discovery
        .groups()
        .flat_map(kube::discovery::ApiGroup::recommended_resources)
        .filter(|(_, it)| it.scope == Scope::Namespaced && it.supports_operation(verbs::LIST));
    let mut found = Vec::new();
    for (resource, _) in resources {
        let listed = api(client, Some(namespace), &resource)
            .list_metadata(&ListParams::default())
            .await;
        let listed = listed
            .map_err(|error| api_error(error).context(format!("listing {}", resource.plural)))?;
        for object in listed.items {
            let metadata = serde_json::to_value(object.metadata).context("reading an object")?;
            found.push(serde_json::json!({
                "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata,
            }));
        }
    }
    Ok(found)
}
