//! What a cluster offers to pods, and what its images are for.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use clap::Args;
use importer::knowledge;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::node::v1;
use kube::api::ListParams;
use kube::{Api, Client};
use placement::{Cluster, Knowledge, RuntimeClass, Settings};
use serde_json::Value;

use crate::cluster::ClusterArguments;
use crate::governance::configs::said;
use crate::governance::output::Data;
use crate::images::registry::RegistryArguments;

/// What all of `medley place` take.
#[derive(Debug, Args)]
pub(super) struct PlaceArguments {
    /// Form of the output; text if absent.
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

    /// What images are for, by the registries that have them.
    pub(super) async fn look(
        &self,
        images: BTreeSet<String>,
    ) -> anyhow::Result<BTreeMap<String, Knowledge>> {
        let registries = self.registry.open()?;
        let keyring = self.registry.keyring()?;
        Ok(knowledge(images, &registries, &keyring).await)
    }
}

/// Nodes and classes.
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
            .map_err(said)
            .context("listing nodes and runtime classes")?;
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
            let class: Value = serde_json::to_value(class).context("reading a runtime class")?;
            let class = RuntimeClass::read(&class);
            offers.classes.insert(class.name.clone(), class);
        }
        Ok(offers)
    }
}
