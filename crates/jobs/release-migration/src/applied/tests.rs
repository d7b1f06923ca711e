use rstest::rstest;
use serde_json::json;

use super::*;
use crate::payload::{Manifest, Payload};

fn plan(files: &[&str]) -> Plan {
    let manifests = files.iter().map(|file| {
        let kind = if file.ends_with("co.yaml") {
            ("config.openshift.io/v1", "ClusterOperator")
        } else {
            ("apps/v1", "Deployment")
        };
        Manifest {
            file: (*file).to_owned(),
            object: json!({ "apiVersion": kind.0, "kind": kind.1, "metadata": { "name": file } }),
        }
    });
    Plan::new(&Payload {
        manifests: manifests.collect(),
        ..Payload::default()
    })
}

fn version(message: &str, state: &str, earlier: bool) -> ClusterVersion {
    let mut history = vec![json!({ "state": state, "version": "4.18.0", "image": "multi" })];
    if earlier {
        history.push(json!({ "state": "Completed", "version": "4.18.0", "image": "single" }));
    }
    let progressing = if state == "Completed" {
        "False"
    } else {
        "True"
    };
    serde_json::from_value(json!({
        "metadata": { "name": "version" }, "spec": {},
        "status": {
            "desired": { "version": "4.18.0", "image": "multi" },
            "history": history,
            "conditions": [{ "type": "Progressing", "status": progressing, "message": message }],
        },
    }))
    .unwrap()
}

const LAST_IS_OPERATOR: &[&str] = &[
    "0000_50_dns_10_deployment.yaml",
    "0000_50_dns_20_co.yaml",
    "0000_80_machine-config_10_deployment.yaml",
    "0000_80_machine-config_20_co.yaml",
];
const LAST_IS_MONITOR: &[&str] = &[
    "0000_50_dns_20_co.yaml",
    "0000_80_machine-config_20_co.yaml",
    "0000_90_machine-config_10_monitor.yaml",
];
const PARALLEL: &[&str] = &[
    "0000_50_dns_20_co.yaml",
    "0000_50_dns_30_monitor.yaml",
    "0000_50_ingress_20_co.yaml",
];

#[rstest]
#[case::only_the_last_operator(
    LAST_IS_OPERATOR,
    "3 of 4 done (75% complete), waiting on machine-config",
    true
)]
#[case::deployment_of_the_last_operator(LAST_IS_OPERATOR, "2 of 4 done (50% complete)", false)]
#[case::manifest_after_the_last_operator(LAST_IS_MONITOR, "1 of 3 done (33% complete)", false)]
#[case::manifest_beside_the_last_operator(PARALLEL, "2 of 3 done (66% complete)", false)]
#[case::everything_is_counted(PARALLEL, "3 of 3 done (100% complete)", true)]
#[case::count_of_another_selection(LAST_IS_OPERATOR, "8 of 9 done (88% complete)", false)]
#[case::no_count(LAST_IS_OPERATOR, "waiting on machine-config", false)]
#[case::odd_count(LAST_IS_OPERATOR, "3 / 4 done", false)]
fn count_shows_which_manifests_are_left(
    #[case] files: &[&str],
    #[case] counted: &str,
    #[case] applied: bool,
) {
    let message = format!("Working towards 4.18.0: {counted}");
    let updating = version(&message, "Partial", true);
    assert_eq!(pending(&updating, "multi", &plan(files)).is_none(), applied);
    assert!(
        pending(&updating, "other", &plan(files)).is_some(),
        "the count is of another release"
    );
}

#[test]
fn installation_is_applied_when_it_is_claimed() {
    let plan = plan(LAST_IS_OPERATOR);
    let message = "Working towards 4.18.0: 3 of 4 done (75% complete)";
    assert!(pending(&version(message, "Partial", false), "multi", &plan).is_some());
    assert!(pending(&version("", "Completed", false), "multi", &plan).is_none());
}

#[rstest]
#[case::other_kind("True", "UpdatePayloadResourceInvalid", true)]
#[case::several("True", "MultipleErrors", true)]
#[case::without_a_reason("True", "", true)]
#[case::operator("True", "ClusterOperatorDegraded", false)]
#[case::operators("True", "ClusterOperatorsNotAvailable", false)]
#[case::slow("Unknown", "SlowClusterOperator", false)]
#[case::healthy("False", "", false)]
fn failures_of_other_kinds_count(#[case] status: &str, #[case] reason: &str, #[case] counts: bool) {
    let mut failing_version = version("", "Partial", true);
    let condition =
        json!({ "type": "Failing", "status": status, "reason": reason, "message": "m" });
    let conditions = &mut failing_version.status.as_mut().unwrap().conditions;
    conditions.push(serde_json::from_value(condition).unwrap());
    assert_eq!(failing(&failing_version).is_some(), counts);
}
