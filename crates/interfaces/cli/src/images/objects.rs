//! The objects behind the boot images of a cluster.

use std::collections::BTreeSet;
use std::fmt::Debug;

use anyhow::{anyhow, bail};
use api::cdi::{DataImportCron, DataSource, DataVolume, GROUP, VolumeSnapshot};
use api::ssp::GOLDEN_NAMESPACE;
use clap::Args;
use golden_images::cdi::cron::Claim;
use golden_images::overview::{Image, OverviewInputs, Variant, images};
use golden_images::policy::Policy;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use platform::known_architecture;
use serde::de::DeserializeOwned;

use super::policy::policy;
use crate::cluster::ClusterArguments;
use crate::governance::configs::{api_error, list_valid_names};

/// One image of a cluster.
#[derive(Debug, Args)]
pub(super) struct ImageArgument {
    /// The image: a DataSource, with or without its architecture suffix.
    name: String,

    /// Only this architecture.
    /// [default: all that the image has]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    /// The namespace of the image.
    #[arg(short, long, value_name = "NAME", default_value = GOLDEN_NAMESPACE)]
    namespace: String,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// The image named on the command line.
pub(super) struct SelectedImage {
    pub(super) client: Client,
    pub(super) image: Image,
    /// The architecture, if one was selected.
    pub(super) architecture: Option<String>,
}

impl ImageArgument {
    /// Reads the image.
    pub(super) async fn find(&self) -> anyhow::Result<SelectedImage> {
        let client = self.cluster.client().await?;
        let all = Objects::read(&client, Some(&self.namespace))
            .await?
            .images();
        let (image, mut architecture) = named(all, &self.name, &self.namespace)?;
        if let Some(wanted) = &self.arch {
            architecture = Some(one_of(&image, wanted)?);
        }
        Ok(SelectedImage {
            client,
            image,
            architecture,
        })
    }
}

impl SelectedImage {
    /// The selected variants.
    pub(super) fn variants(&self) -> impl Iterator<Item = &Variant> {
        let wanted = self.architecture.as_deref();
        let all = self.image.architectures.iter();
        all.filter(move |it| wanted.is_none_or(|wanted| it.architecture == wanted))
    }
}

/// The image of a name, which may be that of one architecture.
fn named(all: Vec<Image>, name: &str, namespace: &str) -> anyhow::Result<(Image, Option<String>)> {
    let mut names = Vec::new();
    for image in all {
        if image.name == name {
            return Ok((image, None));
        }
        let of = image.architectures.iter().find(|it| it.data_source == name);
        if let Some(of) = of {
            let architecture = of.architecture.clone();
            return Ok((image, Some(architecture)));
        }
        names.push(image.name);
    }
    bail!(
        "there is no image {name} in namespace {namespace}; {}. Use --namespace NAME for another namespace",
        list_valid_names(&names)
    )
}

/// An architecture of the image, by any of its names.
fn one_of(image: &Image, wanted: &str) -> anyhow::Result<String> {
    let name = known_architecture(wanted).unwrap_or(wanted);
    let there: Vec<&str> = image
        .architectures
        .iter()
        .map(|it| it.architecture.as_str())
        .collect();
    if there.contains(&name) {
        return Ok(name.to_owned());
    }
    let there: Vec<&str> = there.into_iter().filter(|it| !it.is_empty()).collect();
    if there.is_empty() {
        bail!(
            "--arch {wanted}: {} has no architectures; leave --arch out",
            image.name
        );
    }
    bail!(
        "--arch {wanted}: {} is not available for it; {}",
        image.name,
        list_valid_names(&there)
    )
}

/// The image objects of a cluster, or of one namespace.
pub(crate) struct Objects {
    crons: Vec<DataImportCron>,
    sources: Vec<DataSource>,
    imports: Vec<DataVolume>,
    claims: Vec<Claim>,
    snapshots: Vec<VolumeSnapshot>,
    policy: Policy,
    pub(super) now: Timestamp,
}

impl Objects {
    /// Reads the objects; an error if CDI is not installed.
    pub(super) async fn read(client: &Client, namespace: Option<&str>) -> anyhow::Result<Self> {
        let found = Self::try_read(client, namespace).await?;
        found.ok_or_else(not_installed)
    }

    /// The same; `None` if CDI is not installed.
    pub(crate) async fn try_read(
        client: &Client,
        namespace: Option<&str>,
    ) -> anyhow::Result<Option<Self>> {
        let (Some(crons), Some(sources)) =
            (all(client, namespace).await?, all(client, namespace).await?)
        else {
            return Ok(None);
        };
        let mut objects = Self {
            crons,
            sources,
            imports: Vec::new(),
            claims: Vec::new(),
            snapshots: Vec::new(),
            policy: policy(client).await?,
            now: Timestamp::now(),
        };
        let crons = objects.crons.iter().filter_map(ResourceExt::namespace);
        let sources = objects.sources.iter().filter_map(ResourceExt::namespace);
        // PVCs of other namespaces do not belong to images, and may be many.
        let namespaces: BTreeSet<String> = crons.chain(sources).collect();
        for namespace in namespaces {
            let at = Some(namespace.as_str());
            objects
                .imports
                .extend(all(client, at).await?.unwrap_or_default());
            let claims: Vec<PersistentVolumeClaim> = all(client, at).await?.unwrap_or_default();
            objects.claims.extend(claims.iter().map(Claim::from));
            objects
                .snapshots
                .extend(all(client, at).await?.unwrap_or_default());
        }
        Ok(Some(objects))
    }

    /// The objects as images.
    pub(crate) fn images(&self) -> Vec<Image> {
        images(&OverviewInputs {
            crons: &self.crons,
            sources: &self.sources,
            imports: &self.imports,
            claims: &self.claims,
            snapshots: &self.snapshots,
            policy: &self.policy,
            now: self.now,
        })
    }
}

/// All objects of a kind; `None` if the CRD is not installed.
async fn all<K>(client: &Client, namespace: Option<&str>) -> anyhow::Result<Option<Vec<K>>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(Some(list.items)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(api_error(error).context(format!("listing {}", K::plural(&())))),
    }
}

fn not_installed() -> anyhow::Error {
    anyhow!(
        "the cluster has no images: CustomResourceDefinitions dataimportcrons.{GROUP} and datasources.{GROUP} are not installed; they come with CDI"
    )
}
