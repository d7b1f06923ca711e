//! The objects behind the boot images of a cluster.

use anyhow::{anyhow, bail};
use api::cdi::GROUP;
use api::ssp::GOLDEN_NAMESPACE;
use clap::Args;
use cluster_view::images::ImageObjects;
use golden_images::overview::{Image, State, Variant};
use governance::user_patches::list_valid_names;
use kube::Client;
use platform::known_architecture;

use crate::cluster::ClusterArguments;
use crate::controller::WaitArguments;
use crate::output::remark;

/// One image of a cluster.
#[derive(Debug, Args)]
pub(super) struct ImageArgument {
    /// Name of the image: of its DataSource, with or without the architecture suffix.
    name: String,

    /// Architecture of the image.
    /// [default: all]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    /// Namespace of the image.
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
        let all = read(&client, Some(&self.namespace)).await?.images();
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

impl ImageArgument {
    /// Waits until all selected variants satisfy a condition; an error if the import of one fails. Returns them.
    pub(super) async fn wait_for(
        &self,
        selected: &SelectedImage,
        wait: &WaitArguments,
        what: &str,
        is_met: impl Fn(&Variant) -> bool,
    ) -> anyhow::Result<Vec<Variant>> {
        let namespace = Some(self.namespace.as_str());
        let what = format!("{what} of {}", selected.image.name);
        wait.wait_for(&what, async || {
            let found = ImageObjects::read(&selected.client, namespace).await?;
            let images = found.map(|it| it.images()).unwrap_or_default();
            let name = &selected.image.name;
            let image = images.into_iter().find(|it| it.name == *name);
            let Some(image) = image else {
                bail!(
                    "{name} was deleted from namespace {} meanwhile",
                    self.namespace
                );
            };
            let now = SelectedImage {
                client: selected.client.clone(),
                architecture: selected.architecture.clone(),
                image,
            };
            let pending = now.variants().find(|it| !is_met(it));
            if let Some(failed) = pending.filter(|it| it.import_failed || it.state == State::Failed)
            {
                let (why, name) = (failed.message.as_deref(), &failed.data_source);
                bail!("{name}: {}", why.unwrap_or("its import fails"));
            }
            let variants = || now.variants().cloned().collect();
            Ok(pending.is_none().then(variants))
        })
        .await
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

/// The image objects of a cluster, or of one namespace; an error if CDI is not installed.
pub(super) async fn read(client: &Client, namespace: Option<&str>) -> anyhow::Result<ImageObjects> {
    let found = try_read(client, namespace).await?;
    found.ok_or_else(|| anyhow!(
        "the cluster has no images: CustomResourceDefinitions dataimportcrons.{GROUP} and datasources.{GROUP} are not installed; they come with CDI"
    ))
}

/// The same; `None` if CDI is not installed. Invalid parts of the policy are printed as warnings.
pub(crate) async fn try_read(
    client: &Client,
    namespace: Option<&str>,
) -> anyhow::Result<Option<ImageObjects>> {
    let found = ImageObjects::read(client, namespace).await?;
    for warning in found.iter().flat_map(|it| it.policy.warnings()) {
        remark(&warning);
    }
    Ok(found)
}
