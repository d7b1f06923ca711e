//! Reads the release that a cluster runs or updates to.

use std::collections::BTreeMap;

use ::release_migration::eta::UpdateDurations;
use ::release_migration::evaluate::Plan;
use ::release_migration::evidence::{Evidence, PodImage, ReleaseImages, evidence, running};
use ::release_migration::history::KnownPayloads;
use ::release_migration::payload::{
    Architecture, METADATA, Metadata, Payload, Selection, files_of, image_of,
};
use ::release_migration::report::{Cluster, Report};
use anyhow::bail;
use api::openshift::{
    CLUSTER_VERSION, ClusterOperator, ClusterVersion, MachineConfigPool, payloads,
};
use api::release::{ConfigMapReference, ReleasePolicy};
use clap::Args;
use cluster_view::list::unless_forbidden;
use cluster_view::policies;
use cluster_view::release::{rendered_configurations, running_machine_config_image};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::source;
use crate::cluster::ClusterArguments;
use crate::images::registry::RegistryArguments;
use crate::output::remark;
use crate::read::{self, Readable};

/// A cluster, and its expected release.
#[derive(Debug, Args)]
pub(super) struct ReleaseArguments {
    /// Release that the cluster updates to: a directory with its manifests, or its image. It names
    /// the versions that operators must report and the images that their pods must run; without it,
    /// only versions and machine-config are checked. Not needed where the cluster keeps its release
    /// in a ConfigMap.
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
    past: UpdateDurations,
}

impl ReleaseArguments {
    /// A client for the cluster.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        self.cluster.client().await
    }

    /// Reads the release, if one is given, and the cluster.
    pub(super) async fn read(&self) -> anyhow::Result<Read> {
        let client = self.client().await?;
        let given = match &self.release {
            Some(from) => {
                let found = source::read(from, &self.registry, Some(&client)).await?;
                Some(found.payload()?)
            }
            None => None,
        };
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
        let stored = stored(client, policy.as_ref()).await?;
        let payload = given.or_else(|| desired(&stored, &version, policy.as_ref()));
        let payload = payload.map(|it| selected(&it, &version));
        let past = UpdateDurations::of_policy(policy.as_ref());
        let mut known = KnownPayloads::of(&version);
        // The release before counts as well: only with both is the kind of change known.
        for (image, metadata) in stored.iter().filter_map(metadata_of) {
            known.add(image, metadata.architecture());
        }
        if let (Some(payload), Some(status)) = (&payload, &version.status) {
            known.add(&status.desired.image, payload.metadata.architecture());
        }
        // Expected images of pods are only known from the release.
        let pods = match &payload {
            Some(_) => list(client).await?,
            None => Vec::new(),
        };
        Ok(Self {
            operators: list(client).await?,
            plan: payload.as_ref().map(Plan::new),
            images: payload.as_ref().map(|it| ReleaseImages::of(&it.images)),
            pods,
            pools: list(client).await?,
            nodes: list(client).await?,
            configurations: rendered_configurations(client).await?,
            machine_config_image: running_machine_config_image(client).await?,
            known,
            past,
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
    pub(super) fn running(&self, operator: &ClusterOperator) -> Vec<PodImage> {
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
    let desired = version.status.as_ref().map(|it| &it.desired.version);
    let given = &payload.metadata.version;
    if let Some(desired) = desired.filter(|it| *it != given) {
        remark(&format!(
            "warning: the release is {given}, but the cluster updates to {desired}"
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
    match policies::read(client).await {
        Err(error) if error.code() == Some(403) => Ok(None),
        found => Ok(found?),
    }
}

/// The operation of an error.
const READ_RELEASES: &str = "reading the releases that the cluster keeps";

/// The releases that the cluster keeps in ConfigMaps: the one that the policy names, or those that
/// are labelled.
async fn stored(client: &Client, policy: Option<&ReleasePolicy>) -> anyhow::Result<Vec<ConfigMap>> {
    if let Some(it) = named(policy) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &it.namespace);
        let found = unless_forbidden(READ_RELEASES, api.get(&it.name).await)?;
        return Ok(found.into_iter().collect());
    }
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), payloads::NAMESPACE);
    let labels = format!("{}={}", payloads::LABEL, payloads::LABELLED);
    let found = api.list(&ListParams::default().labels(&labels)).await;
    Ok(unless_forbidden(READ_RELEASES, found)?.map_or_else(Vec::new, |it| it.items))
}

fn named(policy: Option<&ReleasePolicy>) -> Option<&ConfigMapReference> {
    policy?.spec.payload.as_ref()?.config_map.as_ref()
}

/// The release that the cluster updates to, if it is stored.
fn desired(
    stored: &[ConfigMap],
    version: &ClusterVersion,
    policy: Option<&ReleasePolicy>,
) -> Option<Payload> {
    let status = version.status.as_ref();
    let image = status.map_or("", |it| it.desired.image.as_str());
    let map = stored.iter().find(|map| {
        let of = image_of(map);
        of == Some(image) || (named(policy).is_some() && of.is_none())
    })?;
    let namespace = map.namespace().unwrap_or_default();
    let name = format!("ConfigMap {namespace}/{}", map.name_any());
    match Payload::read(&name, &files_of(map)) {
        Ok(payload) => Some(payload),
        Err(error) => {
            remark(&format!("warning: {error}"));
            None
        }
    }
}

/// The image and the metadata of a stored release; `None` if it names no image or is invalid.
fn metadata_of(map: &ConfigMap) -> Option<(&str, Metadata)> {
    let text = map.data.as_ref()?.get(METADATA)?;
    let (metadata, _) = Metadata::read(text).ok()?;
    Some((image_of(map)?, metadata))
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
    read::get(&Api::all(client.clone()), CLUSTER_VERSION).await
}

/// All objects of a kind; none if it is not installed. A forbidden list is printed as a warning.
pub(super) async fn list<K: Readable>(client: &Client) -> anyhow::Result<Vec<K>> {
    match cluster_view::list::list(&Api::all(client.clone()), &ListParams::default()).await {
        Err(error) if error.code() == Some(403) => {
            let (what, message) = (K::plural(&()), error.rejection().unwrap_or_default());
            remark(&format!("warning: {what} are not shown: {message}"));
            Ok(Vec::new())
        }
        found => Ok(found?.unwrap_or_default()),
    }
}
