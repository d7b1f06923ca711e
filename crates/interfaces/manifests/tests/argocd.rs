//! Argo CD's health check, run by Lua over the statuses that an operator writes.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test helpers may panic like tests"
)]

use std::fmt::Write as _;
use std::process::Command;

use api::advisor::Phase;
use serde_json::{Value, json};

fn settings() -> Value {
    let files = manifests::files().unwrap();
    let settings: Value = serde_saphyr::from_str(&files["argocd/argocd-cm.yaml"]).unwrap();
    settings["data"].clone()
}

/// A value as a Lua expression.
fn lua(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(lua).collect();
            format!("{{ {} }}", items.join(", "))
        }
        Value::Object(fields) => {
            let mut text = "{ ".to_owned();
            for (name, value) in fields {
                let _ = write!(text, "[\"{name}\"] = {}, ", lua(value));
            }
            text + "}"
        }
        // Strings of JSON without control characters are strings of Lua as well.
        other => other.to_string(),
    }
}

/// Status and message that the health check returns.
fn health(object: &Value) -> (String, String) {
    let check = settings()["resource.customizations.health.advisor.kubevirt.io_VirtPlatformConfig"]
        .as_str()
        .unwrap()
        .to_owned();
    let script = format!(
        "local obj = {}\nlocal hs = (function() {check} end)()\nprint(hs.status)\nprint(hs.message)",
        lua(object)
    );
    let run = Command::new("lua5.4").args(["-e", &script]).output();
    let run = run.expect("lua5.4, of the Debian package of that name");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}\n{script}");
    let printed = String::from_utf8(run.stdout).unwrap();
    let (status, message) = printed.trim_end().split_once('\n').unwrap();
    (status.to_owned(), message.to_owned())
}

fn config(phase: Phase) -> Value {
    json!({
        "metadata": { "generation": 3 },
        "status": {
            "phase": phase,
            "observedGeneration": 3,
            "conditions": [
                { "type": "ProfileActive", "status": "True", "message": "another condition" },
                { "type": phase, "status": "True", "message": "why \"it\" is so" },
            ],
        },
    })
}

#[test]
fn every_phase_has_a_health() {
    for phase in Phase::ALL {
        let expected = match phase {
            Phase::Pending | Phase::Drafting | Phase::InProgress => "Progressing",
            Phase::ReviewRequired => "Suspended",
            Phase::Completed | Phase::CompletedWithUpgrade | Phase::Ignored => "Healthy",
            Phase::CompletedWithErrors
            | Phase::Drifted
            | Phase::Failed
            | Phase::PrerequisiteFailed => "Degraded",
        };
        let message = format!("{phase}: why \"it\" is so");
        assert_eq!(health(&config(phase)), (expected.to_owned(), message));
    }
}

#[test]
fn configuration_that_is_not_reconciled_yet_is_progressing() {
    let mut edited = config(Phase::Completed);
    edited["metadata"]["generation"] = json!(4);
    assert_eq!(health(&edited).0, "Progressing");
    assert_eq!(health(&json!({ "metadata": {} })).0, "Progressing");
    let bare = json!({ "metadata": {}, "status": { "phase": "Completed" } });
    assert_eq!(
        health(&bare),
        ("Healthy".to_owned(), "Completed".to_owned())
    );
    let unknown = json!({ "metadata": {}, "status": { "phase": "Later" } });
    assert_eq!(health(&unknown).0, "Unknown");
}

/// What `medley approve` writes is not Git's, and everything else in the specification is.
#[test]
fn approvals_are_ignored_and_nothing_else() {
    let settings = settings();
    let of = "resource.customizations.ignoreDifferences.advisor.kubevirt.io_VirtPlatformConfig";
    let rules: Value = serde_saphyr::from_str(settings[of].as_str().unwrap()).unwrap();
    assert_eq!(
        rules,
        json!({ "jsonPointers": ["/spec/action", "/spec/approval"] })
    );
    let all = settings["resource.customizations.ignoreDifferences.all"]
        .as_str()
        .unwrap();
    let rules: Value = serde_saphyr::from_str(all).unwrap();
    let manager = api::advisor::FIELD_MANAGER;
    assert_eq!(rules, json!({ "managedFieldsManagers": [manager] }));
}
