//! What may have changed a target during admission: the registered webhooks and policies.

use api::advisor::{Deviation, TargetRef};
use governance::Snapshot;
use governance::deviation::{attribute, is_by_admission};
use governance::mutators::{self, Mutator};
use governance::snapshot::whole;
use kube::api::{DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use tracing::debug;

/// The versions of the registrations, best first: policies are beta in older clusters.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Names the candidates in the deviations that admission caused. Best effort: a user of the command line may not be
/// allowed to list registrations, and a cluster may not serve policies.
pub(super) async fn name_mutators(
    client: &Client,
    snapshot: &Snapshot,
    target: &TargetRef,
    deviations: &mut [Deviation],
) {
    if !deviations.iter().any(is_by_admission) {
        return;
    }
    let plural = snapshot.kind_of(target).map(|kind| kind.plural.as_str());
    let mut found: Vec<Mutator> = Vec::new();
    for (kind, resource) in mutators::REGISTRATIONS {
        let registrations = registrations(client, kind, resource).await;
        let registrations: Vec<_> = registrations.iter().map(whole).collect();
        let plural = plural.unwrap_or_default();
        found.extend(mutators::of_target(kind, &registrations, target, plural));
    }
    attribute(deviations, &found);
}

async fn registrations(client: &Client, kind: &str, resource: &str) -> Vec<DynamicObject> {
    for version in VERSIONS {
        let gvk = GroupVersionKind::gvk(mutators::GROUP, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, resource);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match api.list(&ListParams::default()).await {
            Ok(listed) => return listed.items,
            Err(error) => debug!(kind, version, %error, "cannot list what admission calls"),
        }
    }
    Vec::new()
}
