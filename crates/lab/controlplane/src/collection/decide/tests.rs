use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PropagationPolicy::{Background, Foreground, Orphan};
use rstest::rstest;

use super::Below::{Dependents, Nothing, WaitingDependents};
use super::Standing::{Dangling, Solid, Waiting};
use super::{Below, Standing, Verdict, decide};
use crate::collection::node::{FOREGROUND, ORPHAN};

fn strip(uids: &[&str]) -> Verdict {
    Verdict::Strip(uids.iter().map(|uid| (*uid).to_owned()).collect())
}

const GO: Verdict = Verdict::Delete {
    policy: Background,
    unblock: false,
};

#[rstest]
#[case::no_owner(&[], Nothing, &[], Verdict::Keep)]
#[case::one_owner(&[Solid], Nothing, &[], Verdict::Keep)]
#[case::owner_gone(&[Dangling], Nothing, &[], GO)]
#[case::owner_gone_with_dependents(&[Dangling], Dependents, &[], GO)]
#[case::all_gone(&[Dangling, Dangling], WaitingDependents, &[], GO)]
#[case::one_of_two_gone(&[Dangling, Solid], Nothing, &[], strip(&["0"]))]
#[case::one_of_two_waits(&[Solid, Waiting], Dependents, &[], strip(&["1"]))]
#[case::all_sorts(&[Waiting, Solid, Dangling, Solid], Nothing, &[], strip(&["0", "2"]))]
#[case::owner_waits(&[Waiting], Nothing, &[], GO)]
#[case::owner_waits_for_more(&[Waiting, Dangling], Dependents, &[], Verdict::Delete { policy: Foreground, unblock: false })]
#[case::owner_waits_in_a_circle(&[Waiting], WaitingDependents, &[], Verdict::Delete { policy: Foreground, unblock: true })]
#[case::asked_to_orphan(&[Dangling], Dependents, &[ORPHAN], Verdict::Delete { policy: Orphan, unblock: false })]
#[case::asked_to_wait(&[Dangling], Nothing, &[FOREGROUND], Verdict::Delete { policy: Foreground, unblock: false })]
#[case::asked_for_both(&[Dangling], Nothing, &[FOREGROUND, ORPHAN], Verdict::Delete { policy: Orphan, unblock: false })]
fn owners_decide(
    #[case] owners: &[Standing],
    #[case] below: Below,
    #[case] finalizers: &[&str],
    #[case] expected: Verdict,
) {
    let item = ObjectMeta {
        finalizers: Some(finalizers.iter().map(|name| (*name).to_owned()).collect()),
        ..ObjectMeta::default()
    };
    let owners: Vec<(String, Standing)> = owners
        .iter()
        .enumerate()
        .map(|(index, standing)| (index.to_string(), *standing))
        .collect();
    assert_eq!(decide(&item, &owners, below), expected);
}
