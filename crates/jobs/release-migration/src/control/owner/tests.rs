//! Who maintains a ClusterVersion.

use api::cdi::Named;
use api::mode;
use rstest::rstest;
use serde_json::json;

use super::*;

fn running() -> RunningOperator {
    RunningOperator {
        operator: OPERATOR,
        deployment: Some(Named {
            namespace: "openshift-cluster-version".to_owned(),
            name: OPERATOR.deployment.to_owned(),
        }),
        restorer: None,
        lease: None,
    }
}

fn policy(mode: &str) -> ReleasePolicy {
    let object = json!({ "metadata": { "name": "default" }, "spec": { "mode": mode } });
    serde_json::from_value(object).unwrap()
}

#[rstest]
#[case::own_alone("Own", false, &[], mode::Mode::Manage, Some("release"), true)]
#[case::own_beside_the_operator("Own", true, &[], mode::Mode::Assist, Some("the cluster version operator"), false)]
#[case::own_beside_its_writes("Own", false, &["cvo"], mode::Mode::Assist, Some("cvo"), false)]
#[case::observe_alone("Observe", false, &[], mode::Mode::Assist, None, false)]
#[case::observe_beside("Observe", true, &["cvo"], mode::Mode::Assist, Some("the cluster version operator"), false)]
#[case::observe_beside_its_writes("Observe", false, &["cvo"], mode::Mode::Assist, Some("cvo"), false)]
fn cluster_version_has_one_writer(
    #[case] setting: &str,
    #[case] runs: bool,
    #[case] writers: &[&str],
    #[case] mode: mode::Mode,
    #[case] owner: Option<&str>,
    #[case] keeps: bool,
) {
    let owners = Owners {
        of_status: writers.iter().map(|&it| it.to_owned()).collect(),
        operator: runs.then(running),
        ..Owners::default()
    };
    let policy = policy(setting);
    let found = ownership(Some(&policy), true, &owners);
    assert_eq!((found.mode, found.owner.as_deref()), (mode, owner));
    assert_eq!(crate::control::keeps(&policy, &owners), keeps);
    assert_eq!(found.manages(), keeps);
    let named = found
        .message
        .contains("the cluster version operator runs (Deployment openshift-cluster-version/");
    assert_eq!(named, runs, "{}", found.message);
}

#[test]
fn without_a_cluster_version_there_is_nothing_to_own() {
    let found = ownership(None, false, &Owners::default());
    assert_eq!(found.mode, mode::Mode::Off);
}

/// Others elect their leaders with a Lease of this name.
#[test]
fn lease_of_another_namespace_is_not_that_of_the_operator() {
    let lease = json!({
        "metadata": { "name": "version", "namespace": "shop" },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.000000Z" },
    });
    let lease = std::sync::Arc::new(serde_json::from_value(lease).unwrap());
    let now = "2026-01-01T00:00:01Z".parse().unwrap();
    assert_eq!(api::operators::running(&OPERATOR, &[], &[lease], now), None);
}
