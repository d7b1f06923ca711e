//! Which controller acts, and what a refusal says.

use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-11-19T04:00:00Z".parse().unwrap()
}

fn operator(controllers: &[&str]) -> PublishedOperator {
    PublishedOperator {
        namespace: "medley-system".to_owned(),
        version: "v1.0.0".to_owned(),
        controllers: controllers.iter().map(|&it| it.to_owned()).collect(),
        renewed: now().checked_sub(jiff::SignedDuration::from_mins(7)).ok(),
    }
}

fn running(controllers: &[&str]) -> Operators {
    Operators {
        running: vec![operator(controllers)],
        ..Operators::default()
    }
}

#[test]
fn enabled_controller_is_named() {
    let acting = acting(
        &running(&["governance", "images-cdi"]),
        Job::ImagesCdi,
        now(),
    )
    .unwrap();
    assert_eq!(
        acting.to_string(),
        "controller images-cdi of the operator in namespace medley-system"
    );
}

#[test]
fn refusal_names_the_controller_to_enable() {
    let gone = Operators {
        gone: vec![operator(&["governance"])],
        ..Operators::default()
    };
    for (operators, job, expected) in [
        (
            running(&["governance", "release"]),
            Job::ImagesCdi,
            &[
                "runs governance, release, but not images-cdi",
                "--controllers=governance,images-cdi,release |",
            ][..],
        ),
        (
            Operators::default(),
            Job::ImagesCdi,
            &[
                "no operator of Medley is running",
                "--controllers=cpu-models,governance,images-cdi,release |",
            ],
        ),
        (
            gone.clone(),
            Job::Governance,
            &[
                "is gone",
                "has not renewed its Lease medley-controllers for 7m",
            ],
        ),
        (gone, Job::ImagesCdi, &["no operator of Medley is running"]),
    ] {
        let message = acting(&operators, job, now()).unwrap_err().to_string();
        for part in expected {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn unreadable_lease_does_not_refuse() {
    let operators = Operators {
        unreadable: Some("forbidden".to_owned()),
        ..Operators::default()
    };
    let unknown = acting(&operators, Job::Governance, now()).unwrap();
    assert_eq!(unknown, Acting::Unknown("forbidden".to_owned()));
}

#[test]
fn controller_that_does_not_manage_is_reported() {
    let policy = |status: &str, reason: &str| -> GoldenImagePolicy {
        serde_json::from_value(json!({
            "metadata": { "name": "default" }, "spec": {},
            "status": { "conditions": [{
                "type": "ManagingImports", "status": status, "reason": reason,
                "message": "GoldenImagePolicy default sets mode Assist",
                "lastTransitionTime": "2026-11-19T04:00:00Z",
            }] },
        }))
        .unwrap()
    };
    assert_eq!(
        not_managing(Some(&policy("False", "SetByPolicy"))).as_deref(),
        Some("GoldenImagePolicy default sets mode Assist")
    );
    // A controller that is not enabled is found by its Lease, and the error says how to enable it.
    assert_eq!(not_managing(Some(&policy("False", "NotEnabled"))), None);
    assert_eq!(not_managing(Some(&policy("True", "Managing"))), None);
    assert_eq!(not_managing(None), None);
}
