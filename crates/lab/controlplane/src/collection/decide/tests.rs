use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PropagationPolicy::{Background, Foreground, Orphan};
use rstest::rstest;

use super::DependentState::{Dependents, Nothing, WaitingDependents};
use super::OwnerState::{Dangling, Solid, Waiting};
use super::{CollectionVerdict, DependentState, OwnerState, decide};
use crate::collection::node::{FOREGROUND, ORPHAN};

fn strip(uids: &[&str]) -> CollectionVerdict {
    CollectionVerdict::Strip(uids.iter().map(|uid| (*uid).to_owned()).collect())
}

const GO: CollectionVerdict = CollectionVerdict::Delete {
    policy: Background,
    unblock: false,
};

#[rstest]
#[case::no_owner(&[], Nothing, &[], CollectionVerdict::Keep)]
#[case::one_owner(&[Solid], Nothing, &[], CollectionVerdict::Keep)]
#[case::owner_gone(&[Dangling], Nothing, &[], GO)]
#[case::owner_gone_with_dependents(&[Dangling], Dependents, &[], GO)]
#[case::all_gone(&[Dangling, Dangling], WaitingDependents, &[], GO)]
#[case::one_of_two_gone(&[Dangling, Solid], Nothing, &[], strip(&["0"]))]
#[case::one_of_two_waits(&[Solid, Waiting], Dependents, &[], strip(&["1"]))]
#[case::all_sorts(&[Waiting, Solid, Dangling, Solid], Nothing, &[], strip(&["0", "2"]))]
#[case::owner_waits(&[Waiting], Nothing, &[], GO)]
#[case::owner_waits_for_more(&[Waiting, Dangling], Dependents, &[], CollectionVerdict::Delete { policy: Foreground, unblock: false })]
#[case::owner_waits_in_a_circle(&[Waiting], WaitingDependents, &[], CollectionVerdict::Delete { policy: Foreground, unblock: true })]
#[case::asked_to_orphan(&[Dangling], Dependents, &[ORPHAN], CollectionVerdict::Delete { policy: Orphan, unblock: false })]
#[case::asked_to_wait(&[Dangling], Nothing, &[FOREGROUND], CollectionVerdict::Delete { policy: Foreground, unblock: false })]
#[case::asked_for_both(&[Dangling], Nothing, &[FOREGROUND, ORPHAN], CollectionVerdict::Delete { policy: Orphan, unblock: false })]
fn verdict_depends_on_owners(
    #[case] owners: &[OwnerState],
    #[case] below: DependentState,
    #[case] finalizers: &[&str],
    #[case] expected: CollectionVerdict,
) {
    let item = ObjectMeta {
        finalizers: Some(finalizers.iter().map(|name| (*name).to_owned()).collect()),
        ..ObjectMeta::default()
    };
    let owners: Vec<(String, OwnerState)> = owners
        .iter()
        .enumerate()
        .map(|(index, standing)| (index.to_string(), *standing))
        .collect();
    assert_eq!(decide(&item, &owners, below), expected);
}
