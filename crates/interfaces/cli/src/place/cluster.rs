//! Nodes and RuntimeClasses of a cluster, and the platforms of images.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use clap::Args;
use importer::knowledge;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::node::v1;
use kube::api::ListParams;
use kube::{Api, Client};
use placement::{Cluster, Inspection, RuntimeClass, Settings};
use serde_json::Value;

use crate::cluster::ClusterArguments;
use crate::governance::configs::api_error;
use crate::governance::output::Data;
use crate::images::registry::RegistryArguments;

/// Flags of all `medley place` commands.
#[derive(Debug, Args)]
pub(super) struct PlaceArguments {
    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    pub(super) output: Option<Data>,

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

    /// The platforms of images, read from their registries.
    pub(super) async fn inspect_images(
        &self,
        images: BTreeSet<String>,
    ) -> anyhow::Result<BTreeMap<String, Inspection>> {
        let registries = self.registry.open()?;
        let keyring = self.registry.keyring()?;
        Ok(knowledge(images, &registries, &keyring).await)
    }
}

/// Nodes and RuntimeClasses.
pub(super) struct Offers {
    pub(super) nodes: Cluster,
    pub(super) classes: BTreeMap<String, RuntimeClass>,
    pub(super) settings: Settings,
}

impl Offers {
    /// Reads them.
    pub(super) async fn read(client: &Client) -> anyhow::Result<Self> {
        let nodes: Api<Node> = Api::all(client.clone());
        let classes: Api<v1::RuntimeClass> = Api::all(client.clone());
        let all = ListParams::default();
        let (nodes, classes) = tokio::try_join!(nodes.list(&all), classes.list(&all))
            .map_err(api_error)
            .context("listing nodes and RuntimeClasses")?;
        let mut offers = Self {
            nodes: Cluster::default(),
            classes: BTreeMap::new(),
            settings: Settings::default(),
        };
        for node in nodes {
            let node: Value = serde_json::to_value(node).context("reading a node")?;
            offers.nodes.upsert(placement::Node::read(&node));
        }
        for class in classes {
            let class: Value = serde_json::to_value(class).context("reading a RuntimeClass")?;
            let class = RuntimeClass::read(&class);
            offers.classes.insert(class.name.clone(), class);
        }
        Ok(offers)
    }
}
