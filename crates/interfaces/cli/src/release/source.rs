//! Reads a release from a directory or an image.

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use controllers::release::source::{Found, folder, image};
use platform::Source;

use crate::images::registry::{RegistryArguments, use_network_of};

/// A release.
#[derive(Debug, Args)]
pub(super) struct PayloadArgument {
    /// Release to read: a directory with its manifests, or its image (quay.io/x/y:tag,
    /// docker://..., oci-archive:FILE[:NAME] or oci:FOLDER[:NAME]).
    #[arg(value_name = "RELEASE")]
    payload: String,

    #[command(flatten)]
    registry: RegistryArguments,
}

impl PayloadArgument {
    /// The registry flags.
    pub(super) fn registry(&self) -> &RegistryArguments {
        &self.registry
    }

    /// Reads the release.
    pub(super) async fn read(&self) -> anyhow::Result<Found> {
        read(&self.payload, &self.registry, None).await
    }
}

/// Reads a release from a directory or an image; the latter through the mirrors of a cluster, if the release is for one.
pub(super) async fn read(
    from: &str,
    registry: &RegistryArguments,
    cluster: Option<&kube::Client>,
) -> anyhow::Result<Found> {
    let path = Path::new(from);
    if path.is_dir() {
        return Ok(folder(path)?);
    }
    let source: Source = from
        .parse()
        .with_context(|| format!("{from} is neither a directory nor a release image"))?;
    let client = registry.client(&source)?;
    if let Some(cluster) = cluster {
        use_network_of(cluster, &client).await?;
    }
    Ok(image(&source, &client, &registry.keyring_for(&source)?).await?)
}
