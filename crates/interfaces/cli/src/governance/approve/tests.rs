//! Which plans can be approved, and what an approval writes.

use api::advisor::{Action, VirtPlatformConfig, names};
use clap::Parser;
use serde_json::{Value, json};

use super::{Arguments, PlanApproval, show};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

/// Modifies the sample configuration.
type Change = fn(&mut Value);

fn digest() -> String {
    format!("sha256:{}", "0123456789abcdef".repeat(4))
}

/// A configuration with a plan of two items, of which the second takes over two fields.
fn config(change: impl FnOnce(&mut Value)) -> VirtPlatformConfig {
    let target = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "t" });
    let takeover = |path: &str, reclaimed: bool| json!({ "path": path, "manager": "kubectl-edit", "reclaimed": reclaimed });
    let mut value = json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1", "kind": "VirtPlatformConfig",
        "metadata": { "name": "c", "generation": 3, "resourceVersion": "7" },
        "spec": { "profile": "c" },
        "status": {
            "phase": "ReviewRequired", "observedGeneration": 3, "planDigest": digest(),
            "items": [
                { "name": "first", "targetRef": target, "impactSeverity": "Low" },
                {
                    "name": "second", "targetRef": target, "impactSeverity": "High", "dependsOn": ["first"],
                    "takeovers": [takeover("spec.a", false), takeover("spec.b", false), takeover("spec.c", true)],
                },
            ],
        },
    });
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

fn decide(config: &VirtPlatformConfig, flags: &[&str]) -> Result<PlanApproval, String> {
    let line = ["approve", "c"].iter().chain(flags);
    let line = Line::try_parse_from(line).map_err(|error| error.to_string())?;
    line.arguments
        .decide(config)
        .map_err(|error| error.to_string())
}

#[test]
fn stale_plan_cannot_be_approved() {
    let cases: [(Change, &str); 5] = [
        (|it| it["status"] = json!(null), "has no plan yet"),
        (
            |it| it["status"]["planDigest"] = json!(null),
            "has no plan yet: it is ReviewRequired",
        ),
        (
            |it| it["metadata"]["generation"] = json!(4),
            "not up to date yet",
        ),
        (
            |it| it["status"]["phase"] = json!("Completed"),
            "no plan under review: it is Completed",
        ),
        (
            |it| {
                it["status"]["conditions"] = json!([{
                    "type": "PlanStale", "status": "True", "reason": "TargetChanged",
                    "message": "ConfigMap t changed", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]);
            },
            "stale: ConfigMap t changed",
        ),
    ];
    for (change, part) in cases {
        let refusal = decide(&config(change), &["--take-over"]).unwrap_err();
        assert!(refusal.contains(part), "{part} in {refusal}");
    }
}

#[test]
fn takeovers_need_consent() {
    let config = config(|_| ());
    let refusal = decide(&config, &[]).unwrap_err();
    for part in [
        "second:spec.a from kubectl-edit",
        "second:spec.b from kubectl-edit",
        "--take-over consents to all",
    ] {
        assert!(refusal.contains(part), "{part} in {refusal}");
    }
    assert!(!refusal.contains("spec.c"), "it was ours: {refusal}");
    let refusal = decide(&config, &["--take-over=second:spec.a"]).unwrap_err();
    assert!(
        refusal.contains("spec.b") && !refusal.contains("spec.a"),
        "{refusal}"
    );
    let refusal = decide(&config, &["--take-over=second:spec.x"]).unwrap_err();
    assert!(
        refusal.contains("there are: second:spec.a, second:spec.b"),
        "{refusal}"
    );
    for flag in [
        "--take-over",
        "--take-over=second",
        "--take-over=second:spec.a,second:spec.b",
        "--take-over=second:spec",
    ] {
        assert!(decide(&config, &[flag]).is_ok(), "{flag}");
    }
    // Items that are not approved take nothing over.
    assert!(decide(&config, &["--items", "first"]).is_ok());
}

#[test]
fn the_lock_that_is_bypassed_needs_no_consent() {
    let config = config(|it| it["spec"]["bypassOptimisticLock"] = json!(true));
    assert!(decide(&config, &[]).is_ok());
}

#[test]
fn a_digest_has_to_be_that_of_the_plan() {
    let config = config(|_| ());
    let whole = digest();
    for requested in [whole.as_str(), "0123456789ab", "sha256:0123456789abcd"] {
        let flags = ["--take-over", "--digest", requested];
        assert!(decide(&config, &flags).is_ok(), "{requested}");
    }
    for requested in ["0123456789a", "ffffffffffff", "sha256:"] {
        let refusal = decide(&config, &["--take-over", "--digest", requested]).unwrap_err();
        assert!(refusal.contains(&whole), "{requested}: {refusal}");
    }
}

#[test]
fn approval_is_a_single_patch() {
    let approving = decide(&config(|_| ()), &["--items", "second", "--take-over"]).unwrap();
    assert_eq!(
        approving.granted.len(),
        2,
        "what it depends on comes with it"
    );
    assert_eq!(
        approving.patch(),
        json!({ "spec": { "action": "Apply", "approval": {
            "planDigest": digest(),
            "items": ["second"],
            "takeovers": [
                { "item": "second", "path": "spec.a", "manager": "kubectl-edit" },
                { "item": "second", "path": "spec.b", "manager": "kubectl-edit" },
            ],
            "rejected": null,
        } } })
    );
    let approving = decide(&config(|_| ()), &["--items", "first"]).unwrap();
    assert_eq!(
        approving.patch()["spec"]["approval"]["takeovers"],
        json!(null)
    );
    let refusal = decide(&config(|_| ()), &["--items", "third"]).unwrap_err();
    assert!(
        refusal.contains("'third'") && refusal.contains("first, second"),
        "{refusal}"
    );
}

#[test]
fn later_approvals_keep_the_selection() {
    let config = config(|it| {
        it["status"]["requiredApprovals"] =
            json!([{ "source": "ApprovalPolicy two", "approvals": 2 }]);
        it["spec"]["action"] = json!(Action::Apply);
        it["spec"]["approval"] = json!({ "planDigest": digest(), "items": ["first"] });
    });
    let approving = decide(&config, &[]).unwrap();
    assert_eq!(approving.items, ["first"]);
    assert_eq!(approving.requirements[0].approvals, 2);
    let patch = approving.patch();
    assert_eq!(patch["metadata"]["annotations"][names::APPROVE], digest());
}

/// What the approver is shown: since when another manager owns a field, and what the server will make of the plan.
#[test]
fn approver_sees_owners_and_deviations() {
    let config = config(|it| {
        let second = &mut it["status"]["items"][1];
        second["takeovers"][0]["since"] = json!("2026-01-02T03:04:05Z");
        second["deviations"] = json!([
            { "path": "spec.old", "class": "PrunedBySchema", "wanted": 1 },
            { "path": "spec.level", "class": "Defaulted", "kept": "Normal" },
        ]);
    });
    let approving = decide(&config, &["--take-over"]).unwrap();
    let shown = show(&approving, &config, false);
    for part in [
        "second:spec.a from kubectl-edit, its owner since 2026-01-02T03:04:05Z: ",
        "second:spec.old is 1: pruned by the schema",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(
        !shown.contains("spec.level"),
        "defaults are in the diff: {shown}"
    );
}
