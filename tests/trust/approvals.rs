//! Approvals: an item is applied only if its exact content was approved as the strictest applicable policy requires.
//!
//! Editors, approvers and policy owners are users with exactly the shipped roles, and send their requests
//! with kubectl. The decision itself is tested with ten thousand interleavings in `governance::decide::tests::trust`.

#[path = "../governance_cli_support.rs"]
#[allow(dead_code, unused_imports, reason = "other suites use the rest of it")]
mod support;

use std::net::{Ipv4Addr, SocketAddr};

use api::advisor::{Phase, VirtPlatformConfig, names};
use governance::roles::{APPROVER, EDITOR, POLICY_ADMIN};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::wait_until;

use support::{GovernanceFixture, NAME, NAMESPACE, WAIT_TIMEOUT, digest};

/// A cluster with the operator, the webhook, and users.
struct ApprovalFixture {
    base: GovernanceFixture,
    webhook: webhook::WebhookServer,
}

impl ApprovalFixture {
    async fn start() -> anyhow::Result<Self> {
        let base = GovernanceFixture::start().await?;
        let client = base.cluster.client();
        for role in [EDITOR, APPROVER, POLICY_ADMIN] {
            let group = "rbac.authorization.k8s.io";
            let binding: ClusterRoleBinding = serde_json::from_value(json!({
                "metadata": { "name": role },
                "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
                "subjects": [{ "apiGroup": group, "kind": "Group", "name": role }],
            }))?;
            let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
            bindings.create(&PostParams::default(), &binding).await?;
        }
        for role in governance::roles::user_roles() {
            let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(client.clone());
            if roles.get_opt(&role.name_any()).await?.is_none() {
                roles.create(&PostParams::default(), &role).await?;
            }
        }
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let webhook = webhook::start(client, any, &webhook::Webhooks::default()).await?;
        let fixture = Self { base, webhook };
        // API servers observe new registrations and roles a moment later.
        wait_until(
            "the API server calls the webhook",
            WAIT_TIMEOUT,
            async || {
                let change = json!({ "spec": { "waitTimeout": "9h" } }).to_string();
                let patched = fixture
                    .kubectl(
                        "probe",
                        EDITOR,
                        &[
                            "patch",
                            "virtplatformconfig",
                            NAME,
                            "--type=merge",
                            "--dry-run=server",
                            "-o=json",
                            "-p",
                            &change,
                        ],
                    )
                    .await;
                Ok(patched.ok().filter(|text| text.contains(names::AUTHORS)))
            },
        )
        .await?;
        fixture.base.until(Phase::Ignored).await?;
        Ok(fixture)
    }

    async fn kubectl(&self, user: &str, role: &str, line: &[&str]) -> anyhow::Result<String> {
        let (user, role) = (format!("--as={user}"), format!("--as-group={role}"));
        let all = [line, &[&user, &role, "--as-group=system:authenticated"]].concat();
        self.base.served.kubectl("default", &all).await
    }

    async fn patch(&self, user: &str, role: &str, change: &Value) -> anyhow::Result<String> {
        let change = change.to_string();
        self.kubectl(
            user,
            role,
            &[
                "patch",
                "virtplatformconfig",
                NAME,
                "--type=merge",
                "-p",
                &change,
            ],
        )
        .await
    }

    /// A plan requested by a user.
    async fn review(&self, user: &str, role: &str) -> anyhow::Result<VirtPlatformConfig> {
        self.patch(user, role, &json!({ "spec": { "action": "DryRun" } }))
            .await?;
        self.base.until(Phase::ReviewRequired).await
    }

    async fn annotate(&self, user: &str, digest: &str) -> anyhow::Result<()> {
        let annotation = format!("{}={digest}", names::APPROVE);
        self.kubectl(
            user,
            APPROVER,
            &["annotate", "virtplatformconfig", NAME, &annotation],
        )
        .await?;
        Ok(())
    }

    /// Waits until a plan is blocked for a reason, and asserts that nothing was applied.
    async fn is_held(&self, reason: &str) -> anyhow::Result<VirtPlatformConfig> {
        let config = wait_until(
            &format!("the plan is held: {reason}"),
            WAIT_TIMEOUT,
            async || {
                let config = self.base.configs().get(NAME).await?;
                let status = config.status.clone().unwrap_or_default();
                let held = status.observed_generation == config.metadata.generation
                    && status.phase == Some(Phase::ReviewRequired)
                    && status.conditions.iter().any(|one| {
                        one.type_ == "Approved" && one.status == "False" && one.reason == reason
                    });
                Ok(held.then_some(config))
            },
        )
        .await?;
        self.nothing_is_applied().await?;
        Ok(config)
    }

    async fn nothing_is_applied(&self) -> anyhow::Result<()> {
        let found = self
            .base
            .machine_configs()
            .get_opt("99-worker-psi-karg")
            .await?;
        anyhow::ensure!(found.is_none(), "an item was applied without approval");
        Ok(())
    }

    async fn policy(&self, spec: &Value) -> anyhow::Result<()> {
        let policy = json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": "ApprovalPolicy",
            "metadata": { "name": "floor" }, "spec": spec,
        });
        let file = self.base.served.folder().join("policy.json");
        std::fs::write(&file, policy.to_string())?;
        let file = file.to_string_lossy().into_owned();
        self.kubectl("olga", POLICY_ADMIN, &["apply", "-f", &file])
            .await?;
        Ok(())
    }

    async fn records(&self) -> anyhow::Result<Vec<governance::record::Record>> {
        let client = self.base.cluster.client();
        Ok(controllers::governance::history::records(&client, NAMESPACE, NAME).await?)
    }

    async fn end(self) {
        self.webhook.stop().await;
    }
}

/// The full error message of kubectl.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature is that of map_err"
)]
fn text_of(error: anyhow::Error) -> String {
    format!("{error:#}")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_patch_approves_the_plan_in_status_where_no_policy_says_otherwise() -> anyhow::Result<()>
{
    let fixture = ApprovalFixture::start().await?;
    fixture.review("ed", EDITOR).await?;
    fixture
        .patch("ann", APPROVER, &json!({ "spec": { "action": "Apply" } }))
        .await?;
    fixture.base.until(Phase::Completed).await?;
    let records = fixture.records().await?;
    assert_eq!(records[0].approved_by, ["ann"]);
    assert_eq!(records[0].approvals[0].digest, records[0].plan_digest);
    fixture.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requirement_is_not_lowered_with_the_approval_that_benefits() -> anyhow::Result<()> {
    let fixture = ApprovalFixture::start().await?;
    let policy = json!({ "spec": { "approvalPolicy": { "requiredApprovals": { "high": 2 } } } });
    fixture.patch("ann", APPROVER, &policy).await?;
    fixture.review("ed", EDITOR).await?;
    let attack = json!({ "spec": { "action": "Apply", "approvalPolicy": null } });
    let result = fixture
        .patch("bob", APPROVER, &attack)
        .await
        .map_err(text_of)
        .unwrap_err();
    assert!(result.contains("lowers spec.approvalPolicy"), "{result}");
    // Nor once it waits for approvals.
    fixture
        .patch("bob", APPROVER, &json!({ "spec": { "action": "Apply" } }))
        .await?;
    fixture.is_held("TooFewApprovals").await?;
    let attack = json!({ "spec": { "approvalPolicy": { "requiredApprovals": { "high": 1 } } } });
    let result = fixture
        .patch("bob", APPROVER, &attack)
        .await
        .map_err(text_of)
        .unwrap_err();
    assert!(result.contains("lowers spec.approvalPolicy"), "{result}");
    fixture.nothing_is_applied().await?;
    fixture.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn minimum_survives_deletion_of_the_configuration() -> anyhow::Result<()> {
    let fixture = ApprovalFixture::start().await?;
    fixture.policy(&json!({ "requiredApprovals": 2 })).await?;
    for (user, role) in [("ed", EDITOR), ("ann", APPROVER)] {
        let patch = [
            "patch",
            "approvalpolicy",
            "floor",
            "--type=merge",
            "-p",
            r#"{"spec":{"requiredApprovals":0}}"#,
        ];
        let result = fixture
            .kubectl(user, role, &patch)
            .await
            .map_err(text_of)
            .unwrap_err();
        assert!(result.contains("forbidden"), "{result}");
        let result = fixture
            .kubectl(user, role, &["delete", "approvalpolicy", "floor"])
            .await
            .map_err(text_of)
            .unwrap_err();
        assert!(result.contains("forbidden"), "{result}");
    }
    let before = fixture.review("ed", EDITOR).await?;
    fixture
        .kubectl("ed", EDITOR, &["delete", "virtplatformconfig", NAME])
        .await?;
    wait_until("it is advertised again", WAIT_TIMEOUT, async || {
        let found = fixture.base.configs().get_opt(NAME).await?;
        Ok(found.filter(|config| config.uid() != before.uid()))
    })
    .await?;
    fixture.base.until(Phase::Ignored).await?;
    let after = fixture.review("ed", EDITOR).await?;
    assert_ne!(
        digest(&before),
        digest(&after),
        "a re-created configuration has other plans"
    );
    fixture
        .patch("ann", APPROVER, &json!({ "spec": { "action": "Apply" } }))
        .await?;
    let config = fixture.is_held("TooFewApprovals").await?;
    let required = &config.status.unwrap_or_default().required_approvals;
    assert_eq!(
        (required[0].source.as_str(), required[0].approvals),
        ("ApprovalPolicy floor", 2)
    );
    fixture.annotate("bob", &digest(&after)).await?;
    fixture.base.until(Phase::Completed).await?;
    assert_eq!(fixture.records().await?[0].approved_by, ["ann", "bob"]);
    fixture.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_are_not_reused_when_a_plan_is_made_again() -> anyhow::Result<()> {
    let fixture = ApprovalFixture::start().await?;
    fixture.policy(&json!({ "requiredApprovals": 2 })).await?;
    let both = async |config: &VirtPlatformConfig| -> anyhow::Result<()> {
        fixture
            .patch("ann", APPROVER, &json!({ "spec": { "action": "Apply" } }))
            .await?;
        fixture.annotate("bob", &digest(config)).await?;
        fixture.base.until(Phase::Completed).await?;
        Ok(())
    };
    let first = fixture.review("ed", EDITOR).await?;
    both(&first).await?;
    fixture
        .patch(
            "ed",
            EDITOR,
            &json!({ "spec": { "action": "DryRun", "rollbackTo": 1 } }),
        )
        .await?;
    let undoing = fixture.base.until(Phase::ReviewRequired).await?;
    both(&undoing).await?;
    fixture.nothing_is_applied().await?;
    // The same plan once more: only its revision differs.
    fixture
        .patch(
            "ed",
            EDITOR,
            &json!({ "spec": { "action": "DryRun", "rollbackTo": null } }),
        )
        .await?;
    let again = fixture.base.until(Phase::ReviewRequired).await?;
    assert_ne!(digest(&first), digest(&again));
    fixture
        .patch("ann", APPROVER, &json!({ "spec": { "action": "Apply" } }))
        .await?;
    fixture.is_held("TooFewApprovals").await?;
    // An approval of the first plan does not match.
    fixture.annotate("cat", &digest(&first)).await?;
    fixture.is_held("TooFewApprovals").await?;
    let records = fixture.records().await?;
    assert_eq!(records.len(), 2);
    assert!(
        records
            .iter()
            .all(|record| record.approved_by == ["ann", "bob"])
    );
    fixture.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_made_after_the_approval_is_reviewed() -> anyhow::Result<()> {
    let fixture = ApprovalFixture::start().await?;
    fixture.review("ed", EDITOR).await?;
    let interval =
        |seconds: i64| json!({ "loadAware": { "deschedulingIntervalSeconds": seconds } });
    // In one patch.
    let both = json!({ "spec": { "action": "Apply", "options": interval(900) } });
    fixture.patch("ann", APPROVER, &both).await?;
    fixture.is_held("NotReviewed").await?;
    // By an editor, just before the approver sets the action. The operator may be fast enough to show the new plan in
    // between; then that is what the approver approved.
    for seconds in 901..907 {
        fixture.review("ed", EDITOR).await?;
        let before = fixture.records().await?.len();
        fixture
            .patch(
                "ed",
                EDITOR,
                &json!({ "spec": { "options": interval(seconds) } }),
            )
            .await?;
        let apply = json!({ "spec": { "action": "Apply" } }).to_string();
        let line = [
            "patch",
            "virtplatformconfig",
            NAME,
            "--type=merge",
            "-o=json",
            "-p",
            &apply,
        ];
        let answer: VirtPlatformConfig =
            serde_json::from_str(&fixture.kubectl("ann", APPROVER, &line).await?)?;
        let shown = answer.status.unwrap_or_default();
        if shown.applied_options == answer.spec.options {
            fixture.base.until(Phase::Completed).await?;
            let records = fixture.records().await?;
            assert_eq!(
                records[before].plan_digest,
                shown.plan_digest.unwrap_or_default()
            );
            break;
        }
        fixture.is_held("NotReviewed").await?;
    }
    fixture.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requester_of_an_advertised_plan_does_not_count() -> anyhow::Result<()> {
    let fixture = ApprovalFixture::start().await?;
    fixture.policy(&json!({ "requiredApprovals": 1 })).await?;
    let config = fixture.review("ann", APPROVER).await?;
    fixture
        .patch("ann", APPROVER, &json!({ "spec": { "action": "Apply" } }))
        .await?;
    fixture.is_held("TooFewApprovals").await?;
    fixture.annotate("bob", &digest(&config)).await?;
    fixture.base.until(Phase::Completed).await?;
    assert_eq!(fixture.records().await?[0].approved_by, ["bob"]);
    fixture.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_covers_windows_and_failure_policy() -> anyhow::Result<()> {
    let fixture = ApprovalFixture::start().await?;
    fixture.policy(&json!({ "requiredApprovals": 1 })).await?;
    // There is no 30th of February: it never opens.
    let window = json!([{ "schedule": "0 3 30 2 *", "duration": "1h" }]);
    let spec = json!({ "spec": { "action": "DryRun", "maintenanceWindows": window } });
    fixture.patch("ed", EDITOR, &spec).await?;
    let config = fixture.base.until(Phase::ReviewRequired).await?;
    fixture
        .patch("ann", APPROVER, &json!({ "spec": { "action": "Apply" } }))
        .await?;
    fixture.base.until(Phase::InProgress).await?;
    fixture.nothing_is_applied().await?;
    // The editor stops it, removes the window, and has an approver start the plan approved before.
    for change in [
        json!({ "maintenanceWindows": null }),
        json!({ "failurePolicy": "Continue" }),
    ] {
        let mut change = json!({ "spec": change });
        change["spec"]["action"] = json!("DryRun");
        fixture.patch("ed", EDITOR, &change).await?;
        let other = fixture.base.until(Phase::ReviewRequired).await?;
        assert_ne!(digest(&config), digest(&other));
        fixture.annotate("ann", &digest(&config)).await?;
        fixture
            .patch("ed", EDITOR, &json!({ "spec": { "action": "Apply" } }))
            .await
            .unwrap_err();
        let spec =
            json!({ "spec": { "approval": { "planDigest": digest(&config) }, "action": "Apply" } });
        fixture.patch("ann", APPROVER, &spec).await?;
        fixture.is_held("OtherPlanApproved").await?;
        fixture
            .patch(
                "ann",
                APPROVER,
                &json!({ "spec": { "approval": null, "action": "DryRun" } }),
            )
            .await?;
    }
    fixture.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn altered_webhook_registration_records_nothing() -> anyhow::Result<()> {
    let fixture = ApprovalFixture::start().await?;
    fixture.policy(&json!({ "requiredApprovals": 1 })).await?;
    let config = fixture.review("ed", EDITOR).await?;
    let weaken =
        json!([{ "op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore" }]);
    let line = [
        "patch",
        "mutatingwebhookconfiguration",
        api::advisor::WEBHOOK,
        "--type=json",
        "-p",
        &weaken.to_string(),
    ];
    fixture.base.served.kubectl("default", &line).await?;
    fixture
        .patch("ann", APPROVER, &json!({ "spec": { "action": "Apply" } }))
        .await?;
    let held = fixture.is_held("ApprovalsNotRecorded").await?;
    let conditions = held.status.unwrap_or_default().conditions;
    let approved = conditions.iter().find(|one| one.type_ == "Approved");
    let message = approved.map(|one| one.message.clone()).unwrap_or_default();
    assert!(message.contains("failurePolicy is Ignore"), "{message}");
    let mend = weaken.to_string().replace("Ignore", "Fail");
    let line = [
        "patch",
        "mutatingwebhookconfiguration",
        api::advisor::WEBHOOK,
        "--type=json",
        "-p",
        &mend,
    ];
    fixture.base.served.kubectl("default", &line).await?;
    fixture.annotate("ann", &digest(&config)).await?;
    fixture.base.until(Phase::Completed).await?;
    fixture.end().await;
    Ok(())
}
