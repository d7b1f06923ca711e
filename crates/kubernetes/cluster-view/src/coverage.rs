//! What is missing among the boot images of a cluster, read once with the permissions of a user.

use std::sync::Arc;

use api::hco::{Images, v1, v1beta1};
use api::ssp::SSP;
use golden_images::architectures::{self, ArchitectureInputs, Architectures};
use golden_images::coverage::{self, Coverage, CoverageInputs};
use golden_images::hco::Switch;
use golden_images::policy::Override;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use runtime::Error;

use crate::images::ImageObjects;
use crate::list::{list, list_in};

/// What coverage depends on besides the images.
#[derive(Debug, Clone, Default)]
pub struct CoverageObjects {
    /// The architectures of the nodes.
    pub architectures: Architectures,
    /// The settings of the HyperConverged, if there is one.
    pub hyperconverged: Option<Images>,
    /// The SSP, if there is one.
    pub ssp: Option<SSP>,
}

impl CoverageObjects {
    /// Reads them.
    pub async fn read(client: &Client, objects: &ImageObjects) -> Result<Self, Error> {
        let all = ListParams::default();
        let nodes: Option<Vec<Node>> = list(&Api::all(client.clone()), &all).await?;
        let nodes: Vec<Arc<Node>> = nodes.into_iter().flatten().map(Arc::new).collect();
        let found: Option<Vec<v1::HyperConverged>> = list_in(client, None, &all).await?;
        let hyperconverged = if let Some(found) = found {
            found.into_iter().next().map(Images::from)
        } else {
            // An operator from before `v1`.
            let found: Option<Vec<v1beta1::HyperConverged>> = list_in(client, None, &all).await?;
            found.into_iter().flatten().next().map(Images::from)
        };
        let ssps: Option<Vec<SSP>> = list_in(client, None, &all).await?;
        let placement = hyperconverged.as_ref().and_then(|it| it.placement.as_ref());
        let architectures = architectures::decide(&ArchitectureInputs {
            nodes: &nodes,
            placement,
            wanted: Override {
                image: None,
                cluster: objects.policy.policy.default_architecture.as_deref(),
            },
        });
        Ok(Self {
            architectures,
            hyperconverged,
            // There is one in a cluster at most.
            ssp: ssps.into_iter().flatten().next(),
        })
    }

    /// What is missing.
    pub fn decide(&self, objects: &ImageObjects) -> Coverage {
        let switch = self.hyperconverged.as_ref().map(|it| Switch::read(it).0);
        coverage::decide(&CoverageInputs {
            images: &objects.images(),
            nodes: &self.architectures.workload,
            // Medley ignores the switch in a cluster with a single node.
            switch: switch.filter(|_| !self.architectures.is_single_node()),
            ssp: self.ssp.as_ref(),
            crons: &objects.crons,
        })
    }
}
