//! Flags of `medley place`, and the platforms of images.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use cluster_view::placement::inspect_images;
use kube::Client;
use placement::Inspection;

use crate::cluster::ClusterArguments;
use crate::images::registry::{RegistryArguments, use_network_of};
use crate::output::OutputArguments;

/// Flags of all `medley place` commands.
#[derive(Debug, Args)]
pub(super) struct PlaceArguments {
    #[command(flatten)]
    pub(super) output: OutputArguments,

    #[command(flatten)]
    registry: RegistryArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

impl PlaceArguments {
    /// A client for the cluster.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        self.cluster.client().await
    }

    /// The platforms of images, read from their registries as the operator of this cluster reads them.
    pub(super) async fn inspect_images(
        &self,
        client: &Client,
        images: BTreeSet<String>,
    ) -> anyhow::Result<BTreeMap<String, Inspection>> {
        let registries = self.registry.open()?;
        use_network_of(client, &registries).await?;
        let keyring = self.registry.keyring()?;
        Ok(inspect_images(images, &registries, &keyring).await)
    }
}
