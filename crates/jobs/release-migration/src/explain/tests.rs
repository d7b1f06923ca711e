use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;

fn image(letter: char) -> String {
    format!("quay.io/r@sha256:{}", letter.to_string().repeat(64))
}

fn operator(versions: &[(&str, &str)], degraded: &str) -> ClusterOperator {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(name, version)| json!({ "name": name, "version": version }))
        .collect();
    serde_json::from_value(json!({
        "metadata": { "name": "dns" }, "spec": {},
        "status": { "versions": versions, "conditions": [
            { "type": "Available", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z" },
            { "type": "Degraded", "status": degraded, "reason": "R", "message": "m" },
        ] },
    }))
    .unwrap()
}

fn explained(
    actual: Option<&ClusterOperator>,
    expected: Option<&ClusterOperator>,
    evidence: Option<&Evidence>,
) -> Explanation {
    explain(&OperatorInputs {
        name: "dns",
        actual,
        expected,
        running: &[],
        evidence,
        now: Timestamp::UNIX_EPOCH + SignedDuration::from_mins(5),
    })
}

fn evidence(arrival: Arrival, stale: Vec<PodImage>) -> Evidence {
    Evidence {
        operator: "dns".to_owned(),
        arrival,
        containers: 3,
        foreign: 0,
        stale,
        unready: Vec::new(),
    }
}

#[test]
fn state_is_derived_from_inputs() {
    let new = [("operator", "4.18.0"), ("operator-image", &image('b'))];
    let (expected, silent) = (operator(&new, "False"), operator(&new[..1], "False"));
    let state = |actual, expected, evidence| explained(actual, expected, evidence).state;
    let some = Some(&expected);
    assert_eq!(state(None, some, None), "dns is not there");
    assert_eq!(state(some, some, None), "dns has arrived");
    let degraded = operator(&new, "True");
    let text = state(Some(&degraded), some, None);
    assert_eq!(text, "dns holds the release up: it is not well");
    let quiet = Some(&silent);
    assert_eq!(state(quiet, some, None), "dns is on its way");
    assert_eq!(
        state(quiet, quiet, None),
        "dns has arrived by its version alone"
    );
    let arrived = evidence(Arrival::Arrived, Vec::new());
    assert_eq!(
        state(quiet, quiet, Some(&arrived)),
        "dns has arrived, and so have its pods"
    );
    let rolling = evidence(Arrival::Rolling, Vec::new());
    assert_eq!(
        state(quiet, quiet, Some(&rolling)),
        "dns claims to have arrived, but its pods have not"
    );
    let starting = evidence(Arrival::Starting, Vec::new());
    assert_eq!(
        state(quiet, quiet, Some(&starting)),
        "dns has arrived, but not all of its pods are ready"
    );
    assert!(state(some, None, None).contains("only known with the release"));
}

#[test]
fn reasons_and_next_steps_are_listed() {
    let old = image('a');
    let new = [("operator", "4.18.0"), ("operator-image", &image('b'))];
    let actual = operator(&[new[0], ("operator-image", &old)], "False");
    let found = explained(Some(&actual), Some(&operator(&new, "False")), None);
    assert_eq!(
        found.because,
        [
            "Available=True since 5m".to_owned(),
            "Degraded=False: R: m".to_owned(),
            "Progressing is not reported".to_owned(),
            "operator is 4.18.0, as the release expects".to_owned(),
            format!(
                "operator-image from {old} to {}: the operator has not finished with the new image",
                image('b')
            ),
        ]
    );
    assert_eq!(found.next, ["wait; an operator may take 20 minutes"]);
    let stale = PodImage {
        namespace: "ns".to_owned(),
        pod: "p".to_owned(),
        container: "c".to_owned(),
        image: old,
        is_ready: false,
    };
    let mut rolling = evidence(Arrival::Rolling, vec![stale]);
    rolling.unready = vec!["ns/p".to_owned()];
    let silent = operator(&new[..1], "False");
    let found = explained(Some(&silent), Some(&silent), Some(&rolling));
    let because = found.because.join("\n");
    assert!(
        because.contains("does not report operator-image"),
        "{because}"
    );
    assert!(
        because.contains("container c of pod ns/p runs quay.io/r@sha256:a"),
        "{because}"
    );
    assert!(because.contains("pod ns/p is not ready"), "{because}");
}
