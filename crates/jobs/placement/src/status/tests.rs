//! The status of a PlacementPolicy.

use api::mode::ModeSetting;
use api::placement::PlacementPolicy;
use jiff::Timestamp;
use serde_json::json;

use super::{PolicyStatusInputs, status};

fn conditions(object: &PlacementPolicy, complaints: &[String], held: &[String]) -> Vec<String> {
    let status = status(&PolicyStatusInputs {
        object,
        complaints,
        forbidden: &[],
        admission_registered: true,
        operator_mode: ModeSetting::Auto,
        ownership: None,
        gated: 3,
        held,
        now: Timestamp::UNIX_EPOCH,
    });
    let pods = status.pods.unwrap();
    assert_eq!(
        (pods.gated, usize::try_from(pods.held).unwrap()),
        (3, held.len())
    );
    let conditions = status.conditions.iter();
    conditions
        .map(|it| format!("{}={} {}: {}", it.type_, it.status, it.reason, it.message))
        .collect()
}

#[test]
fn status_reports_errors_and_held_pods() {
    let object: PlacementPolicy = serde_json::from_value(json!({
        "metadata": { "name": "default", "generation": 2 }, "spec": { "mode": "Warn" },
    }))
    .unwrap();
    assert_eq!(
        conditions(&object, &[], &[]),
        [
            "Ready=True Warning: no pod is changed; clients get a warning for pods that no node can run",
            "AdmissionReady=True Registered: the API server calls the placement webhook for new pods",
            "NothingHeld=True NothingHeld: no pod waits for a node that runs its images",
            "PullSecretsReadable=True Readable: images are inspected with the pull secrets of pods and their service accounts",
        ]
    );
    let held: Vec<String> = (0..10).map(|n| format!("shop/web-{n}")).collect();
    let all = conditions(&object, &["spec.podSelector is wrong".to_owned()], &held);
    assert_eq!(
        all[0],
        "Ready=False InvalidPolicy: spec.podSelector is wrong"
    );
    assert!(
        all[2].starts_with(
            "NothingHeld=False PodsHeld: no node runs the images of 10 pods: shop/web-0"
        ) && all[2].ends_with("shop/web-7 and 2 more"),
        "{}",
        all[2]
    );
}

#[test]
fn forbidden_pull_secrets_are_a_condition_with_a_remedy() {
    let pull_secrets = |mode: &str, forbidden: &[&str]| -> String {
        let object: PlacementPolicy = serde_json::from_value(json!({
            "metadata": { "name": "default" }, "spec": { "pullSecrets": { "mode": mode } },
        }))
        .unwrap();
        let forbidden: Vec<String> = forbidden.iter().map(|&it| it.to_owned()).collect();
        let status = status(&PolicyStatusInputs {
            object: &object,
            complaints: &[],
            forbidden: &forbidden,
            admission_registered: true,
            operator_mode: ModeSetting::Auto,
            ownership: None,
            gated: 0,
            held: &[],
            now: Timestamp::UNIX_EPOCH,
        });
        let found = status.conditions.iter();
        let mut found = found.filter(|it| it.type_ == "PullSecretsReadable");
        let it = found.next().unwrap();
        format!("{} {}: {}", it.status, it.reason, it.message)
    };
    assert_eq!(
        pull_secrets("None", &[]),
        "True NotRead: images are inspected without pull secrets"
    );
    assert!(pull_secrets("Named", &[]).starts_with("True Readable: "));
    let pods = pull_secrets("Pods", &["secrets \"a\" is forbidden", "x"]);
    assert!(
        pods.starts_with("False Forbidden: private images are inspected without their pull secrets: secrets \"a\" is forbidden (and 1 more); ")
            && pods.contains("--pull-secrets pods")
            && pods.contains("Named or None"),
        "{pods}"
    );
    let named = pull_secrets("Named", &["secrets \"a\" is forbidden"]);
    assert!(named.contains("--pull-secrets NAMESPACE/NAME"), "{named}");
}
