//! Reads the release that a cluster runs or updates to.

use std::collections::BTreeMap;
use std::fmt::Debug;

use ::release_migration::eta::Past;
use ::release_migration::evaluate::Plan;
use ::release_migration::evidence::{Evidence, ReleaseImages, Running, evidence, running};
use ::release_migration::history::KnownPayloads;
use ::release_migration::payload::{Architecture, Payload, Selection, files_of, image_of};
use ::release_migration::report::{
    Cluster, MACHINE_CONFIG_OPERATOR, Report, machine_config_image, rendered_for,
};
use anyhow::{Context as _, bail};
use api::openshift::{
    CLUSTER_VERSION, ClusterOperator, ClusterVersion, MachineConfigPool, payloads,
};
use api::release::ReleasePolicy;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::source;
use crate::cluster::ClusterArguments;
use crate::governance::configs::api_error;
use crate::governance::output::remark;
use crate::images::registry::RegistryArguments;

/// A cluster, and its expected release.
#[derive(Debug, Args)]
pub(super) struct ReleaseArguments {
    /// The release that the cluster updates to: a directory with its manifests, or its image. It
    /// names the versions that operators must report and the images that their pods must run;
    /// without it only versions and machine-config are checked. Not needed where the cluster keeps
    /// it in a ConfigMap.
    #[arg(long, value_name = "RELEASE")]
    release: Option<String>,

    #[command(flatten)]
    registry: RegistryArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Everything read from the cluster.
pub(crate) struct Read {
    pub(crate) version: ClusterVersion,
    pub(super) operators: Vec<ClusterOperator>,
    pub(super) plan: Option<Plan>,
    pub(super) now: Timestamp,
    images: Option<ReleaseImages>,
    pods: Vec<Pod>,
    pools: Vec<MachineConfigPool>,
    nodes: Vec<Node>,
    configurations: BTreeMap<String, String>,
    machine_config_image: Option<String>,
    known: KnownPayloads,
    past: Past,
}

impl ReleaseArguments {
    /// A client for the cluster.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        self.cluster.client().await
    }

    /// Reads the release, if one is given, and the cluster.
    pub(super) async fn read(&self) -> anyhow::Result<Read> {
        let given = match &self.release {
            Some(from) => Some(source::read(from, &self.registry).await?.payload()?),
            None => None,
        };
        let client = self.client().await?;
        let version = version(&client).await?;
        Read::of(&client, version, given).await
    }
}

impl Read {
    /// Reads a cluster during an update. The result is more precise if the release is given, or if
    /// the cluster keeps it.
    pub(crate) async fn of(
        client: &Client,
        version: ClusterVersion,
        given: Option<Payload>,
    ) -> anyhow::Result<Self> {
        let policy = policy(client).await?;
        let payload = match given {
            Some(given) => Some(given),
            None => kept(client, &version, policy.as_ref()).await?,
        };
        let payload = payload.map(|it| selected(&it, &version));
        let past = policy
            .and_then(|it| it.status)
            .map(|it| Past::of(&it.history));
        let mut known = KnownPayloads::of(&version);
        if let (Some(payload), Some(status)) = (&payload, &version.status) {
            known.add(&status.desired.image, payload.metadata.architecture());
        }
        // Expected images of pods are only known from the release.
        let pods = match &payload {
            Some(_) => list(client, "Pods").await?,
            None => Vec::new(),
        };
        Ok(Self {
            operators: list(client, "ClusterOperators").await?,
            plan: payload.as_ref().map(Plan::new),
            images: payload.as_ref().map(|it| ReleaseImages::of(&it.images)),
            pods,
            pools: list(client, "MachineConfigPools").await?,
            nodes: list(client, "Nodes").await?,
            configurations: configurations(client).await?,
            machine_config_image: running_image(client).await?,
            known,
            past: past.unwrap_or_default(),
            now: Timestamp::now(),
            version,
        })
    }

    /// Whether the release is known to be for one architecture.
    pub(super) fn is_for_one(&self) -> bool {
        let image = self.version.status.as_ref().map(|it| &it.desired.image);
        let known = image.and_then(|it| self.known.architecture(it));
        matches!(known, Some(Architecture::Single(_)))
    }

    /// The images that the pods of an operator run.
    pub(super) fn running(&self, operator: &ClusterOperator) -> Vec<Running> {
        running(operator, &self.pods)
    }

    /// The comparison with the release, if it is known.
    pub(super) fn evidence(&self, operator: &ClusterOperator) -> Option<Evidence> {
        let images = self.images.as_ref()?;
        let running = self.running(operator);
        Some(evidence(&operator.name_any(), &running, images))
    }

    /// The report on the whole cluster.
    pub(crate) fn report(&self) -> Report {
        let wanted = |operator: &&ClusterOperator| {
            let name = operator.name_any();
            let plan = self.plan.as_ref();
            plan.is_some_and(|plan| plan.operators().iter().any(|it| it.name == name))
        };
        let evidence = self.operators.iter().filter(wanted);
        let evidence: Vec<Evidence> = evidence.filter_map(|it| self.evidence(it)).collect();
        Report::of(&Cluster {
            version: &self.version,
            operators: &self.operators,
            pools: &self.pools,
            nodes: &self.nodes.iter().collect::<Vec<_>>(),
            configurations: &self.configurations,
            plan: self.plan.as_ref(),
            machine_config_image: self.machine_config_image.as_deref(),
            evidence: &evidence,
            known: &self.known,
            past: &self.past,
            now: self.now,
        })
    }
}

/// The manifests of a release that apply to this cluster. Warns if the release is not the one that
/// the cluster updates to, or is for other clusters.
fn selected(payload: &Payload, version: &ClusterVersion) -> Payload {
    let desired = version
        .status
        .as_ref()
        .map(|it| it.desired.version.as_str());
    if desired.is_some_and(|it| it != payload.metadata.version) {
        remark(&format!(
            "warning: the release is {}, but the cluster updates to {}",
            payload.metadata.version,
            desired.unwrap_or_default()
        ));
    }
    let (selected, odd) = payload.for_cluster(&Selection::of(version));
    if let Some(odd) = odd {
        remark(&format!("warning: {odd}"));
    }
    selected
}

/// The ReleasePolicy, if Medley observes this cluster; `None` without one, or without permission to
/// read it.
async fn policy(client: &Client) -> anyhow::Result<Option<ReleasePolicy>> {
    let api: Api<ReleasePolicy> = Api::all(client.clone());
    match api.get(api::release::NAME).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(None),
        Err(error) => Err(api_error(error).context("reading the ReleasePolicy")),
    }
}

/// The release that the cluster updates to, if the cluster keeps it in a ConfigMap: one that the
/// policy names, or one that is labelled with its image.
async fn kept(
    client: &Client,
    version: &ClusterVersion,
    policy: Option<&ReleasePolicy>,
) -> anyhow::Result<Option<Payload>> {
    let status = version.status.as_ref();
    let image = status.map_or("", |it| it.desired.image.as_str());
    let named = policy.and_then(|it| it.spec.payload.clone()?.config_map);
    let read = if let Some(it) = &named {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &it.namespace);
        let found = api.get_opt(&it.name).await;
        found.map(|it| it.into_iter().collect())
    } else {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), payloads::NAMESPACE);
        let labels = format!("{}={}", payloads::LABEL, payloads::LABELLED);
        let found = api.list(&ListParams::default().labels(&labels)).await;
        found.map(|it| it.items)
    };
    let maps = match read {
        Ok(maps) => maps,
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(None),
        Err(error) => {
            return Err(api_error(error).context("reading the releases that the cluster keeps"));
        }
    };
    let is_it = |map: &&ConfigMap| {
        let of = image_of(map);
        of == Some(image) || (named.is_some() && of.is_none())
    };
    let Some(map) = maps.iter().find(is_it) else {
        return Ok(None);
    };
    let name = format!(
        "ConfigMap {}/{}",
        map.namespace().unwrap_or_default(),
        map.name_any()
    );
    match Payload::read(&name, &files_of(map)) {
        Ok(payload) => Ok(Some(payload)),
        Err(error) => {
            remark(&format!("warning: {error}"));
            Ok(None)
        }
    }
}

/// The ClusterVersion.
pub(super) async fn version(client: &Client) -> anyhow::Result<ClusterVersion> {
    match try_version(client).await? {
        Some(found) => Ok(found),
        None => bail!(
            "there is no ClusterVersion {CLUSTER_VERSION} (clusterversions.config.openshift.io): the release of the cluster is unknown"
        ),
    }
}

/// The same; `None` if the cluster has no ClusterVersion.
pub(crate) async fn try_version(client: &Client) -> anyhow::Result<Option<ClusterVersion>> {
    let api: Api<ClusterVersion> = Api::all(client.clone());
    match api.get(CLUSTER_VERSION).await {
        Ok(found) => Ok(Some(found)),
        // The API server answers 404 for a kind that is not installed, too.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => {
            Err(api_error(error).context(format!("reading ClusterVersion {CLUSTER_VERSION}")))
        }
    }
}

/// All objects of a kind; none if it is not installed. A forbidden list is printed as a warning.
pub(super) async fn list<K>(client: &Client, what: &str) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            remark(&format!(
                "warning: {what} are not shown: {}",
                status.message
            ));
            Ok(Vec::new())
        }
        Err(error) => Err(api_error(error).context(format!("listing {what}"))),
    }
}

/// The releases of rendered MachineConfigs, by name.
async fn configurations(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let kind = GroupVersionKind::gvk("machineconfiguration.openshift.io", "v1", "MachineConfig");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    // MachineConfigs are large, and only their annotations are needed.
    let found = match api.list_metadata(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Vec::new(),
        Err(error) => return Err(api_error(error).context("listing MachineConfigs")),
    };
    Ok(rendered_for(found.iter().map(|it| &it.metadata)))
}

/// The image that the machine-config-operator's Deployment runs.
async fn running_image(client: &Client) -> anyhow::Result<Option<String>> {
    let (namespace, name) = MACHINE_CONFIG_OPERATOR;
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = match api.get(name).await {
        Ok(found) => found,
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(None),
        Err(error) => {
            return Err(api_error(error)).context(format!("reading Deployment {namespace}/{name}"));
        }
    };
    Ok(machine_config_image(&found))
}
