//! What a user sees of boot images.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot};
use api::golden::GoldenImagePolicy;
use api::ssp::GOLDEN_NAMESPACE;
use futures::future::join_all;
use golden_images::cdi::cron::Claim;
use golden_images::overview::{Facts, Image, images};
use golden_images::policy::Policy;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Resource, ResourceExt};

use crate::viewer::{Shown, Unseen, Viewer};

impl Shown for DataImportCron {}
impl Shown for DataSource {}
impl Shown for DataVolume {}
impl Shown for VolumeSnapshot {}
impl Shown for PersistentVolumeClaim {}
impl Shown for GoldenImagePolicy {}

/// Everything about images that the user may see.
pub(super) struct World {
    crons: Vec<DataImportCron>,
    sources: Vec<DataSource>,
    imports: Vec<DataVolume>,
    claims: Vec<Claim>,
    snapshots: Vec<VolumeSnapshot>,
    policy: Policy,
    /// What makes no sense in the policy, and what is not seen although it matters.
    pub(super) complaints: Vec<String>,
    pub(super) now: Timestamp,
}

impl World {
    pub(super) async fn read(viewer: &Viewer) -> Result<Self, Unseen> {
        let (crons, sources, policies) = tokio::join!(
            viewer.all_or_in::<DataImportCron>(GOLDEN_NAMESPACE),
            viewer.all_or_in::<DataSource>(GOLDEN_NAMESPACE),
            viewer.all::<GoldenImagePolicy>(),
        );
        let (crons, sources) = (owned(crons?), owned(sources?));
        let mut complaints = Vec::new();
        let policies = seen(policies, &mut complaints);
        let found = policies
            .iter()
            .find(|it| it.name_any() == api::golden::NAME);
        let (policy, wrong) = Policy::read(&found.map(|it| it.spec.clone()).unwrap_or_default());
        complaints.extend(
            wrong
                .into_iter()
                .map(|wrong| format!("GoldenImagePolicy {}: {wrong}", api::golden::NAME)),
        );
        let namespaces = crons.iter().filter_map(ResourceExt::namespace);
        let namespaces = namespaces.chain(sources.iter().filter_map(ResourceExt::namespace));
        // Volumes of other namespaces are none of images, and may be many.
        let namespaces: BTreeSet<String> = namespaces.collect();
        let imports = in_all(viewer, &namespaces, &mut complaints).await;
        let claims = in_all(viewer, &namespaces, &mut complaints).await;
        let snapshots = in_all(viewer, &namespaces, &mut complaints).await;
        Ok(Self {
            crons,
            sources,
            imports: owned(imports),
            claims: claims
                .iter()
                .map(|claim: &Arc<PersistentVolumeClaim>| Claim::from(&**claim))
                .collect(),
            snapshots: owned(snapshots),
            policy,
            complaints,
            now: Timestamp::now(),
        })
    }

    /// As images.
    pub(super) fn images(&self) -> Vec<Image> {
        images(&Facts {
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

async fn in_all<K>(
    viewer: &Viewer,
    namespaces: &BTreeSet<String>,
    complaints: &mut Vec<String>,
) -> Vec<Arc<K>>
where
    K: Shown + Resource<Scope = NamespaceResourceScope>,
{
    let looking = namespaces
        .iter()
        .map(|namespace| viewer.all_in::<K>(namespace));
    let found = join_all(looking).await;
    found
        .into_iter()
        .flat_map(|found| seen(found, complaints))
        .collect()
}

/// What is seen; what is not is said once, unless the kind is not there at all.
fn seen<K>(found: Result<Vec<K>, Unseen>, complaints: &mut Vec<String>) -> Vec<K> {
    match found {
        Ok(found) => found,
        Err(Unseen::Absent { .. }) => Vec::new(),
        Err(unseen) => {
            let said = unseen.to_string();
            if !complaints.contains(&said) {
                complaints.push(said);
            }
            Vec::new()
        }
    }
}

fn owned<K: Clone>(shared: Vec<Arc<K>>) -> Vec<K> {
    shared.into_iter().map(Arc::unwrap_or_clone).collect()
}
