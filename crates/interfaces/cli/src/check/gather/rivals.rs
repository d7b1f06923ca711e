//! Reads other operators beside governance, placement and release.

use std::collections::BTreeSet;

use api::mode::Ownership;
use api::openshift::{CLUSTER_VERSION, ClusterVersion};
use api::operators::RunningOperator;
use api::release::{Mode, ReleasePolicy};
use cluster_view::operators::OperatorObjects;
use cluster_view::policies;
use cluster_view::rivals::{self, PlacementRival};
use governance::Registry;
use governance::collisions::{AUTOPILOT_OPERATOR, Collision, of_profiles};
use jiff::Timestamp;
use kube::{Api, Client};
use runtime::Error;

use super::super::inputs::{Observed, Rivals};
use crate::read;

/// The rivals of a cluster with these CRDs. `profiles` are the enabled optional ones.
pub(super) async fn rivals(
    client: &Client,
    profiles: &BTreeSet<String>,
    kinds: &Observed<BTreeSet<String>>,
) -> Rivals {
    let policy: Option<ReleasePolicy> = policies::read(client).await.ok().flatten();
    Rivals {
        // Before an installation, too: the prototype's operator brings the CRD itself.
        governance: observed(rivals::governance(client, true).await),
        placement: observed(PlacementRival::read(client).await).map(|it| it.ownership()),
        release: release(client).await,
        owns_release: policy.is_some_and(|it| it.spec.mode == Mode::Own),
        collisions: collisions(client, profiles, kinds).await,
        autopilot: autopilot(client).await,
    }
}

fn observed<T>(answer: Result<T, Error>) -> Observed<T> {
    answer.map_err(|error| error.to_string())
}

async fn release(client: &Client) -> Observed<Ownership> {
    let api: Api<ClusterVersion> = Api::all(client.clone());
    let version = read::get(&api, CLUSTER_VERSION).await;
    let version = version.map_err(|error| format!("{error:#}"))?;
    let manager = controllers::release::COMPONENT;
    observed(rivals::release(client, version.as_ref(), manager).await)
}

async fn autopilot(client: &Client) -> Observed<Option<RunningOperator>> {
    let objects = observed(OperatorObjects::read(client, [AUTOPILOT_OPERATOR]).await)?;
    Ok(objects.running(&AUTOPILOT_OPERATOR, Timestamp::now()))
}

/// Only of kinds that are installed: a list of every MachineConfig costs megabytes, so not without need.
async fn collisions(
    client: &Client,
    profiles: &BTreeSet<String>,
    kinds: &Observed<BTreeSet<String>>,
) -> Observed<Vec<Collision>> {
    let names: Vec<&String> = profiles.iter().collect();
    // A profile of a newer version, which this one does not know, has no targets here.
    let registry = Registry::standard(&names).or_else(|_| Registry::standard::<&str>(&[]));
    let registry = registry.map_err(|error| error.to_string())?;
    let kinds = kinds.as_ref().map_err(Clone::clone)?;
    let uses = registry.iter().flat_map(|profile| profile.uses());
    let mut wanted = Vec::new();
    for uses in uses {
        let installed = kinds.contains(&format!("{}.{}", uses.plural, uses.of.group));
        if (installed || uses.named.is_some()) && !wanted.contains(uses) {
            wanted.push(*uses);
        }
    }
    let snapshot = controllers::governance::cluster::look(client, &wanted).await;
    Ok(of_profiles(&registry, &observed(snapshot)?))
}
