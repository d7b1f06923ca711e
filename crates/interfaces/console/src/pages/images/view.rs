//! The boot images that a user sees.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot};
use api::golden::GoldenImagePolicy;
use api::ssp::GOLDEN_NAMESPACE;
use futures::future::join_all;
use golden_images::cdi::cron::Claim;
use golden_images::overview::{Image, OverviewInputs, images};
use golden_images::policy::Policy;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Resource, ResourceExt};

use crate::viewer::{Shown, Unavailable, Viewer};

impl Shown for DataImportCron {}
impl Shown for DataSource {}
impl Shown for DataVolume {}
impl Shown for VolumeSnapshot {}
impl Shown for PersistentVolumeClaim {}
impl Shown for GoldenImagePolicy {}

/// All objects of images that the user may read.
pub(super) struct ImagesView {
    crons: Vec<DataImportCron>,
    sources: Vec<DataSource>,
    imports: Vec<DataVolume>,
    claims: Vec<Claim>,
    snapshots: Vec<VolumeSnapshot>,
    policy: Policy,
    /// Invalid parts of the policy, and kinds that could not be read.
    pub(super) complaints: Vec<String>,
    pub(super) now: Timestamp,
}

impl ImagesView {
    pub(super) async fn read(viewer: &Viewer) -> Result<Self, Unavailable> {
        let (crons, sources, policies) = tokio::join!(
            viewer.all_or_in::<DataImportCron>(GOLDEN_NAMESPACE),
            viewer.all_or_in::<DataSource>(GOLDEN_NAMESPACE),
            viewer.all::<GoldenImagePolicy>(),
        );
        let (crons, sources) = (owned(crons?), owned(sources?));
        let mut complaints = Vec::new();
        let policies = readable(policies, &mut complaints);
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
        // PVCs of other namespaces do not belong to images, and may be many.
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

    /// The objects as images.
    pub(super) fn images(&self) -> Vec<Image> {
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
        .flat_map(|found| readable(found, complaints))
        .collect()
}

/// The objects; an unreadable kind adds one complaint, unless it is not installed.
fn readable<K>(found: Result<Vec<K>, Unavailable>, complaints: &mut Vec<String>) -> Vec<K> {
    match found {
        Ok(found) => found,
        Err(Unavailable::Absent { .. }) => Vec::new(),
        Err(unavailable) => {
            let message = unavailable.to_string();
            if !complaints.contains(&message) {
                complaints.push(message);
            }
            Vec::new()
        }
    }
}

fn owned<K: Clone>(shared: Vec<Arc<K>>) -> Vec<K> {
    shared.into_iter().map(Arc::unwrap_or_clone).collect()
}
