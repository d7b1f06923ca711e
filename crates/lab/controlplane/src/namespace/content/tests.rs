use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rstest::rstest;

use super::{grace, rest};

fn left(finalizers: &[&str]) -> ObjectMeta {
    ObjectMeta {
        finalizers: Some(finalizers.iter().map(|name| (*name).to_owned()).collect()),
        ..ObjectMeta::default()
    }
}

#[rstest]
#[case::nothing(&[], 30, 0, false)]
#[case::grace(&[left(&[])], 30, 30, false)]
#[case::grace_and_finalizer(&[left(&["a"])], 30, 30, false)]
#[case::finalizer(&[left(&["a"]), left(&[])], 0, 15, false)]
#[case::unexpected(&[left(&[])], 0, 0, true)]
fn estimate_covers_grace_period_and_finalizers(
    #[case] objects: &[ObjectMeta],
    #[case] seconds: u64,
    #[case] estimate: u64,
    #[case] problem: bool,
) {
    let rest = rest(objects, Duration::from_secs(seconds), || "odd".to_owned());
    assert_eq!(rest.count, objects.len());
    assert_eq!(rest.estimate.as_secs(), estimate);
    assert_eq!(rest.problem.is_some(), problem);
}

#[test]
fn finalizers_are_counted_over_all_objects() {
    let rest = rest(
        &[left(&["a", "b"]), left(&["a"])],
        Duration::ZERO,
        String::new,
    );
    assert_eq!(rest.finalizers, [("a".into(), 2), ("b".into(), 1)].into());
}

#[rstest]
#[case::longest(&[(30, "Running"), (60, "Pending")], 10, 60)]
#[case::ended_pods_do_not_count(&[(30, "Running"), (60, "Succeeded"), (90, "Failed")], 10, 30)]
#[case::long_ago(&[(30, "Running")], 30, 0)]
#[case::none(&[], 0, 0)]
fn pods_keep_their_grace_period(
    #[case] pods: &[(i64, &str)],
    #[case] since: u64,
    #[case] expected: u64,
) {
    let pod = |(seconds, phase): &(i64, &str)| Pod {
        spec: Some(PodSpec {
            termination_grace_period_seconds: Some(*seconds),
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            phase: Some((*phase).to_owned()),
            ..PodStatus::default()
        }),
        ..Pod::default()
    };
    let pods: Vec<Pod> = pods.iter().map(pod).collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let found = grace(&pods, Duration::from_secs(since));
    assert_eq!(found.as_secs(), expected);
}
