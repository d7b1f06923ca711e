//! Inputs of the decision on an SSP.

use std::collections::BTreeMap;

use api::cdi::{DataImportCron, DataSource, Named, VolumeSnapshot};
use api::hco::MACHINES_KEY;
use api::ssp::SSP;
use golden_images::action::{Kind, name_of};
use golden_images::architectures::Architectures;
use golden_images::coverage::{self, Coverage, CoverageInputs};
use golden_images::hco::Switch;
use golden_images::overview::{self, OverviewInputs};
use golden_images::policy::EffectivePolicy;
use golden_images::ssp::{Labels, Problem, SspInputs, Volumes};
use jiff::Timestamp;
use kube::Resource;
use runtime::{Cache, Error, kind_of};
use serde_json::{Value, json};

use super::SspController;
use crate::images::actions::gvk;
use crate::images::cluster::is_listed;

/// Everything that an SSP depends on.
pub(super) struct GatheredSsp {
    pub(super) ssp: SSP,
    pub(super) kept: EffectivePolicy,
    pub(super) architectures: Architectures,
    crons: Vec<DataImportCron>,
    sources: Vec<DataSource>,
    volumes: Volumes,
    bundle: Vec<Value>,
    templates: Vec<Value>,
    /// The switch of the HyperConverged, where it has an effect.
    switch: Option<bool>,
}

impl GatheredSsp {
    /// The inputs, borrowed.
    pub(super) fn facts(&self, now: Timestamp) -> SspInputs<'_> {
        SspInputs {
            ssp: &self.ssp,
            crons: &self.crons,
            sources: &self.sources,
            volumes: &self.volumes,
            bundle: &self.bundle,
            templates: &self.templates,
            policy: &self.kept.policy,
            nodes: &self.architectures.workload,
            own_architecture: std::env::consts::ARCH,
            now,
        }
    }

    /// What images and objects are missing.
    pub(super) fn coverage(&self) -> Coverage {
        let images = overview::images(&OverviewInputs {
            crons: &self.crons,
            sources: &self.sources,
            // The state of the disks does not matter here.
            imports: &[],
            claims: &[],
            snapshots: &[],
            policy: &self.kept.policy,
            now: Timestamp::now(),
        });
        coverage::decide(&CoverageInputs {
            images: &images,
            nodes: &self.architectures.workload,
            switch: self.switch,
            ssp: Some(&self.ssp),
            crons: &self.crons,
        })
    }
}

impl SspController {
    /// Reads the inputs; the inner error is a kind that is not installed.
    pub(super) async fn gather(&self, ssp: &SSP) -> Result<Result<GatheredSsp, Problem>, Error> {
        let missing = |kind: Kind| Ok(Err(Problem::NotInstalled(kind.type_of().1.to_owned())));
        if !is_listed(&self.foreign, &self.crons).await? {
            return missing(Kind::DataImportCron);
        }
        if !is_listed(&self.foreign, &self.sources).await? {
            return missing(Kind::DataSource);
        }
        if !is_listed(&self.foreign, &self.imports).await? {
            return missing(Kind::DataVolume);
        }
        let snapshots = self.foreign.open(&kind_of::<VolumeSnapshot>()).await?;
        let home = ssp.metadata.namespace.clone().unwrap_or_default();
        let (bundle, templates) = match self.foreign.open(&gvk(Kind::Template)).await? {
            // Without the CRD there are no templates that refer to DataSources.
            None => (Vec::new(), Vec::new()),
            Some(cache) => (
                self.cluster.built_in(&home, MACHINES_KEY)?,
                cache.list().iter().map(|it| json!(&**it)).collect(),
            ),
        };
        let kept = self.cluster.policy().await?;
        let converged = self.cluster.hyperconverged_for(&home).await?;
        let switch = converged.as_ref().map(|it| Switch::read(&it.images).0);
        let placement = converged.and_then(|it| it.images.placement);
        let architectures = self.cluster.architectures(placement.as_ref(), &kept.policy);
        // Medley ignores the switch in a cluster with a single node.
        let switch = switch.filter(|_| !architectures.is_single_node());
        Ok(Ok(GatheredSsp {
            ssp: ssp.clone(),
            architectures,
            kept,
            crons: owned(&self.crons),
            sources: owned(&self.sources),
            volumes: Volumes {
                claims: labels(&self.claims),
                snapshots: snapshots.as_ref().map(labels).unwrap_or_default(),
                imports: labels(&self.imports),
            },
            bundle,
            templates,
            switch,
        }))
    }
}

fn owned<K: runtime::Kind>(cache: &Cache<K>) -> Vec<K> {
    cache.list().iter().map(|it| K::clone(it)).collect()
}

fn labels<K: runtime::Kind + Resource>(cache: &Cache<K>) -> BTreeMap<Named, Labels> {
    let objects = cache.list().into_iter();
    objects
        .map(|object| {
            let meta = object.meta();
            (name_of(meta), meta.labels.clone().unwrap_or_default())
        })
        .collect()
}
