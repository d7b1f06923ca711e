//! The boot images that a user sees.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot};
use api::golden::GoldenImagePolicy;
use api::ssp::GOLDEN_NAMESPACE;
use cluster_view::images::ImageObjects;
use cluster_view::policies;
use futures::future::join_all;
use golden_images::cdi::cron::Claim;
use golden_images::policy::EffectivePolicy;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Resource;

use crate::viewer::{Shown, Unavailable, Viewer};

impl Shown for DataImportCron {}
impl Shown for DataSource {}
impl Shown for DataVolume {}
impl Shown for VolumeSnapshot {}
impl Shown for PersistentVolumeClaim {}
impl Shown for GoldenImagePolicy {}

/// All objects of images that the user may read.
pub(super) struct ImagesView {
    pub(super) objects: ImageObjects,
    /// Invalid parts of the policy, and kinds that could not be read.
    pub(super) complaints: Vec<String>,
}

pub(super) async fn read(viewer: &Viewer) -> Result<ImagesView, Unavailable> {
    let (crons, sources, policies) = tokio::join!(
        viewer.all_or_in::<DataImportCron>(GOLDEN_NAMESPACE),
        viewer.all_or_in::<DataSource>(GOLDEN_NAMESPACE),
        viewer.all::<GoldenImagePolicy>(),
    );
    let mut complaints = Vec::new();
    let found = readable(policies, &mut complaints);
    let found = policies::find(found.iter().map(|it| &**it));
    let mut objects = ImageObjects {
        crons: owned(crons?),
        sources: owned(sources?),
        imports: Vec::new(),
        claims: Vec::new(),
        snapshots: Vec::new(),
        policy: EffectivePolicy::new(found.cloned()),
        now: Timestamp::now(),
    };
    complaints.extend(objects.policy.warnings());
    let namespaces = objects.namespaces();
    objects.imports = owned(in_all(viewer, &namespaces, &mut complaints).await);
    let claims = in_all::<PersistentVolumeClaim>(viewer, &namespaces, &mut complaints).await;
    objects.claims = claims.iter().map(|claim| Claim::from(&**claim)).collect();
    objects.snapshots = owned(in_all(viewer, &namespaces, &mut complaints).await);
    Ok(ImagesView {
        objects,
        complaints,
    })
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
