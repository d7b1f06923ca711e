//! The objects behind the boot images of a cluster.

use std::collections::BTreeSet;

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot};
use golden_images::cdi::cron::Claim;
use golden_images::overview::{Image, OverviewInputs, images};
use golden_images::policy::EffectivePolicy;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use runtime::Error;

use crate::list::list_in;
use crate::policies;

/// The image objects of a cluster, or of one namespace.
pub struct ImageObjects {
    /// What imports the images.
    pub crons: Vec<DataImportCron>,
    /// What VMs refer to.
    pub sources: Vec<DataSource>,
    /// The imports.
    pub imports: Vec<DataVolume>,
    /// The volumes of images.
    pub claims: Vec<Claim>,
    /// The snapshots of images.
    pub snapshots: Vec<VolumeSnapshot>,
    /// The GoldenImagePolicy.
    pub policy: EffectivePolicy,
    /// When they were read.
    pub now: Timestamp,
}

impl ImageObjects {
    /// Reads them once; `None` if CDI is not installed.
    pub async fn read(client: &Client, namespace: Option<&str>) -> Result<Option<Self>, Error> {
        let all = ListParams::default();
        let (Some(crons), Some(sources)) = (
            list_in(client, namespace, &all).await?,
            list_in(client, namespace, &all).await?,
        ) else {
            return Ok(None);
        };
        let mut objects = Self {
            crons,
            sources,
            imports: Vec::new(),
            claims: Vec::new(),
            snapshots: Vec::new(),
            policy: EffectivePolicy::new(policies::read(client).await?),
            now: Timestamp::now(),
        };
        // Three lists for each namespace with images instead of three of the cluster: a cluster has thousands of
        // PersistentVolumeClaims, and a user may be permitted to list them in the namespaces of images only.
        for namespace in objects.namespaces() {
            let at = Some(namespace.as_str());
            let imports = list_in(client, at, &all).await?;
            objects.imports.extend(imports.unwrap_or_default());
            let claims: Option<Vec<PersistentVolumeClaim>> = list_in(client, at, &all).await?;
            let claims = claims.iter().flatten();
            objects.claims.extend(claims.map(Claim::from));
            let snapshots = list_in(client, at, &all).await?;
            objects.snapshots.extend(snapshots.unwrap_or_default());
        }
        Ok(Some(objects))
    }

    /// The namespaces with images. Volumes of others do not belong to images, and may be many.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let crons = self.crons.iter().filter_map(ResourceExt::namespace);
        let sources = self.sources.iter().filter_map(ResourceExt::namespace);
        crons.chain(sources).collect()
    }

    /// The objects as images.
    pub fn images(&self) -> Vec<Image> {
        images(&self.inputs())
    }

    /// The objects as inputs of decisions.
    pub fn inputs(&self) -> OverviewInputs<'_> {
        OverviewInputs {
            crons: &self.crons,
            sources: &self.sources,
            imports: &self.imports,
            claims: &self.claims,
            snapshots: &self.snapshots,
            policy: &self.policy.policy,
            now: self.now,
        }
    }
}
