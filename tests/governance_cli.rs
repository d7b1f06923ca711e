//! The governance commands, on a cluster with simulated operators and a running operator, and on a snapshot
//! of it.
#[path = "governance_cli_support.rs"]
mod support;

use std::path::Path;

use api::advisor::{Action, Phase, VirtPlatformConfig};
use fleet::operators::Installed;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{GovernanceFixture, NAME, WAIT_TIMEOUT, digest, has, medley};
use testkit::wait_until;

#[tokio::test(flavor = "multi_thread")]
async fn plan_matches_the_operator_and_changes_nothing() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    let config = fixture.review().await?;
    let text = fixture.run(&["plan", NAME]).await?.ok()?;
    has(
        &text,
        &[
            "load-aware-rebalancing (action DryRun): 2 items, impact High",
            &digest(&config),
            "(this is the plan under review)",
            "enable-psi-metrics",
            "MachineConfig 99-worker-psi-karg",
            "evictionLimits.total",
            "medley approve load-aware-rebalancing approves it.",
        ],
    );
    let plan = fixture.run(&["plan", NAME, "-o", "json"]).await?.json()?;
    assert_eq!(plan["kind"], "Plan");
    assert_eq!(plan["planDigest"], digest(&config));
    assert_eq!(plan["underReview"], true);
    let status = json!(config.status);
    assert_eq!(plan["items"][1]["diff"], status["items"][1]["diff"]);
    let yaml = fixture.run(&["plan", NAME, "-o", "yaml"]).await?.ok()?;
    has(&yaml, &["kind: Plan\n", &digest(&config)]);
    let wide = fixture.run(&["plan", NAME, "-o", "wide"]).await?.ok()?;
    has(&wide, &["DEPENDS ON", "spec.kernelArguments"]);

    // Ignored configurations are left out, unless all are requested.
    let some = fixture.run(&["plan", "-o", "json"]).await?.json()?;
    assert_eq!(some["kind"], "List");
    assert_eq!(some["items"].as_array().unwrap().len(), 1);
    let all = fixture.run(&["plan", "--all"]).await?.ok()?;
    has(
        &all,
        &["virt-higher-density (action Ignore)", "It is ignored."],
    );

    // A profile with other options.
    let file = fixture.served.folder().join("options.yaml");
    std::fs::write(&file, "loadAware: {enablePSIMetrics: false}\n")?;
    let file = file.to_str().unwrap();
    let line = ["plan", "--profile", NAME, "--options", file, "-o", "json"];
    let plan = fixture.run(&line).await?.json()?;
    assert_eq!(plan["items"].as_array().unwrap().len(), 1);
    assert_eq!(plan["underReview"], false);

    assert_eq!(fixture.configs().get(NAME).await?, config);
    assert!(fixture.deschedulers().get_opt("cluster").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_plan_matches_the_cluster() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    let config = fixture.review().await?;
    let folder = fixture.served.folder();
    let file = folder.join("cluster.gz");
    let file = file.to_str().unwrap();
    fixture.run(&["snapshot", "-o", file]).await?.ok()?;
    let nowhere = folder.join("no-such-kubeconfig");
    let line = ["plan", "--offline", "-f", file, NAME, "-o", "json"];
    let plan = medley(&nowhere, &line).await?.json()?;
    assert_eq!(plan["planDigest"], digest(&config));
    assert_eq!(plan["underReview"], true);
    let diff = medley(&nowhere, &["diff", "--offline", "-f", file, NAME]).await?;
    assert_eq!(diff.code, Some(1), "{}", diff.err);
    has(&diff.out, &["+  kernelArguments:"]);
    let result = medley(&nowhere, &["plan", NAME]).await?.refused()?;
    has(&result, &["no-such-kubeconfig"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn profile_can_be_planned_without_the_crd() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::bare(&Installed::demo()).await?;
    for line in [
        &["plan"][..],
        &["plan", NAME],
        &["approve", NAME],
        &["explain", NAME],
        &["history"],
        &["rollback", NAME],
    ] {
        let result = fixture.run(line).await?.refused()?;
        has(
            &result,
            &[
                "VirtPlatformConfig is not installed: ",
                "medley plan --profile",
            ],
        );
    }
    let line = ["plan", "--profile", NAME, "-o", "json"];
    let online = fixture.run(&line).await?.json()?;
    assert_eq!(online["items"].as_array().unwrap().len(), 2);
    let result = fixture.run(&["plan", "--profile", "nonsense"]).await?;
    has(&result.refused()?, &["no profile nonsense", NAME]);

    let file = fixture.served.folder().join("cluster");
    let file = file.to_str().unwrap();
    fixture.run(&["snapshot", "-o", file]).await?.ok()?;
    let offline = ["--offline", "-f", file];
    let line: Vec<&str> = line.iter().chain(&offline).copied().collect();
    let offline = medley(Path::new("/nonexistent"), &line).await?.json()?;
    assert_eq!(offline["planDigest"], online["planDigest"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_exit_code_reports_changes() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    fixture.review().await?;
    let result = fixture.run(&["diff", NAME]).await?;
    assert_eq!(result.code, Some(1), "{}", result.err);
    has(
        &result.out,
        &[
            "--- /dev/null\n+++ 99-worker-psi-karg (MachineConfig)\n@@",
            "+  - psi=1\n",
            "+++ cluster (KubeDescheduler)",
        ],
    );
    assert!(!result.out.contains('\u{1b}'), "no colours in a pipe");
    let result = fixture.run(&["diff", "-o", "name"]).await?;
    assert_eq!(result.code, Some(1), "{}", result.err);
    assert_eq!(
        result.out,
        "machineconfig/99-worker-psi-karg\nkubedescheduler/cluster\n"
    );
    for line in [
        &["diff", "nonsense"][..],
        &["diff", "--nonsense"],
        &["diff", "--offline", "-f", "/nonexistent"],
    ] {
        let result = fixture.run(line).await?;
        assert_eq!(result.code, Some(2), "{line:?}: {}", result.out);
        assert!(result.err.contains("error: "), "{}", result.err);
    }
    fixture.run(&["approve", NAME, "--yes"]).await?.ok()?;
    fixture.until(Phase::Completed).await?;
    let result = fixture.run(&["diff", NAME]).await?;
    assert_eq!(
        (result.code, result.out.as_str()),
        (Some(0), ""),
        "{}",
        result.err
    );
    fixture.edit(json!({ "mode": "Predictive" })).await?;
    let result = fixture.run(&["diff", NAME]).await?;
    assert_eq!(result.code, Some(1), "{}", result.err);
    has(&result.out, &["-  mode: Predictive\n+  mode: Automatic\n"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn approved_plan_is_applied_and_recorded() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    fixture.until(Phase::Ignored).await?;
    let result = fixture.run(&["approve", NAME, "--yes"]).await?.refused()?;
    has(
        &result,
        &["has no plan yet: it is Ignored", "medley explain"],
    );
    let result = fixture.run(&["approve", "nonsense"]).await?.refused()?;
    has(&result, &["no VirtPlatformConfig nonsense", NAME]);
    let none = fixture.run(&["history", NAME]).await?.ok()?;
    assert_eq!(none, "no plan has been applied\n");

    let config = fixture.review().await?;
    let digest = digest(&config);
    let other = format!("sha256:{}", "0".repeat(64));
    let line = ["approve", NAME, "--yes", "--digest", &other];
    has(&fixture.run(&line).await?.refused()?, &[&digest, &other]);
    let result = fixture.run(&["approve", NAME]).await?.refused()?;
    has(&result, &["--yes"]);
    assert_eq!(
        fixture.configs().get(NAME).await?.spec.action,
        Action::DryRun,
        "approved without confirmation"
    );
    let line = ["approve", NAME, "--yes", "--digest", &digest];
    let result = fixture.run(&line).await?.ok()?;
    has(
        &result,
        &[
            "enable-psi-metrics",
            "virtplatformconfig.advisor.kubevirt.io/load-aware-rebalancing approved\n",
        ],
    );
    let config = fixture.until(Phase::Completed).await?;
    let approval = config.spec.approval.unwrap();
    assert_eq!(approval.plan_digest, Some(digest.clone()));
    assert!(fixture.deschedulers().get_opt("cluster").await?.is_some());
    let result = fixture.run(&["approve", NAME, "--yes"]).await?.refused()?;
    has(&result, &["no plan under review: it is Completed"]);

    let table = fixture.run(&["history", NAME]).await?.ok()?;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    has(lines[0], &["REVISION", "DIGEST", "APPROVED BY", "FINISHED"]);
    has(lines[1], &["1 ", &digest[7..19], "High", "Completed"]);
    let all = fixture.run(&["history", "-o", "wide"]).await?.ok()?;
    has(&all, &[NAME, "enable-psi-metrics", "v9"]);
    let list = fixture
        .run(&["history", NAME, "-o", "json"])
        .await?
        .json()?;
    assert_eq!(list["items"][0]["planDigest"], digest);
    assert_eq!(list["items"][0]["outcome"]["result"], "Completed");
    let one = fixture
        .run(&["history", NAME, "--revision", "1"])
        .await?
        .ok()?;
    has(&one, &[&digest, "+  - psi=1"]);
    let result = fixture.run(&["history", NAME, "--revision", "7"]).await?;
    has(&result.refused()?, &["no revision 7; there are: 1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_taken_over_with_consent_only() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    let descheduler: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
        "metadata": { "name": "cluster" },
        "spec": {
            "mode": "Predictive", "deschedulingIntervalSeconds": 300, "profiles": ["LongLifecycle"],
        },
    }))?;
    let params = PostParams {
        field_manager: Some("argocd".to_owned()),
        ..PostParams::default()
    };
    fixture.deschedulers().create(&params, &descheduler).await?;
    fixture.review().await?;
    let plan = fixture.run(&["plan", NAME]).await?.ok()?;
    has(
        &plan,
        &[
            "enable-load-aware-descheduling:spec.profiles from argocd, its owner since ",
            "medley approve load-aware-rebalancing --take-over approves it.",
        ],
    );
    let result = fixture.run(&["approve", NAME, "--yes"]).await?.refused()?;
    has(
        &result,
        &[
            "enable-load-aware-descheduling:spec.profiles from argocd",
            "enable-load-aware-descheduling:spec.deschedulingIntervalSeconds from argocd",
            "--take-over",
        ],
    );
    assert_eq!(
        fixture.configs().get(NAME).await?.spec.action,
        Action::DryRun
    );
    let line = ["approve", NAME, "--yes", "--take-over"];
    fixture.run(&line).await?.ok()?;
    let config = fixture.until(Phase::Completed).await?;
    // Not spec.mode, which has the default of the CRD, and was not applied.
    assert_eq!(config.spec.approval.unwrap().takeovers.len(), 2);
    let descheduler = fixture.deschedulers().get("cluster").await?;
    assert_eq!(descheduler.data["spec"]["mode"], "Automatic");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_plan_is_refused_and_renewed() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    let reviewed = digest(&fixture.review().await?);
    let descheduler: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
        "metadata": { "name": "cluster" },
        "spec": { "deschedulingIntervalSeconds": 300, "profiles": ["LongLifecycle"] },
    }))?;
    fixture
        .deschedulers()
        .create(&PostParams::default(), &descheduler)
        .await?;
    let stale = |config: &VirtPlatformConfig| {
        let conditions = config.status.iter().flat_map(|status| &status.conditions);
        let mut stale = conditions.filter(|condition| condition.type_ == "PlanStale");
        stale.any(|condition| condition.status == "True")
    };
    wait_until("the plan is stale", WAIT_TIMEOUT, async || {
        Ok(stale(&fixture.configs().get(NAME).await?).then_some(()))
    })
    .await?;
    let result = fixture.run(&["approve", NAME, "--yes"]).await?.refused()?;
    has(
        &result,
        &["is stale", "did not exist and was created", "--renew"],
    );
    fixture.run(&["plan", NAME, "--renew"]).await?.ok()?;
    let renewed = wait_until("there is a new plan", WAIT_TIMEOUT, async || {
        let config = fixture.until(Phase::ReviewRequired).await?;
        Ok((!stale(&config) && digest(&config) != reviewed).then_some(config))
    })
    .await?;
    assert_eq!(renewed.spec.action, Action::DryRun);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_reports_missing_approvers() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    fixture.until(Phase::Ignored).await?;
    fixture
        .specify(json!({ "approvalPolicy": { "requiredApprovals": { "high": 2 } } }))
        .await?;
    let config = fixture.review().await?;
    let plan = fixture.run(&["plan", NAME]).await?.ok()?;
    has(
        &plan,
        &["A plan of High impact needs 2 approvals (spec.approvalPolicy), and has 0."],
    );
    // Written as the admission webhook would record it.
    let at = jiff::Timestamp::now();
    let recorded = json!([{ "user": "alice", "digest": digest(&config), "at": at }]).to_string();
    let annotations = json!({ api::advisor::names::APPROVALS: recorded });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    fixture
        .configs()
        .patch(NAME, &PatchParams::default(), &patch)
        .await?;
    let plan = fixture.run(&["plan", NAME]).await?.ok()?;
    has(
        &plan,
        &["needs 2 approvals (spec.approvalPolicy), and has 1 (by alice)."],
    );
    let result = fixture.run(&["approve", NAME, "--yes"]).await?.ok()?;
    has(
        &result,
        &["approved\n", "It is not applied yet: ", "2 approvals"],
    );
    let waiting = fixture.until(Phase::ReviewRequired).await?;
    assert_eq!(
        waiting.annotations().get(api::advisor::names::APPROVE),
        Some(&digest(&config)),
        "admission records the requester"
    );
    assert!(fixture.deschedulers().get_opt("cluster").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn single_items_can_be_approved() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    fixture.review().await?;
    let line = ["approve", NAME, "--yes", "--items", "nonsense"];
    has(
        &fixture.run(&line).await?.refused()?,
        &["'nonsense'", "enable-psi-metrics"],
    );
    let line = ["approve", NAME, "--yes", "--items", "enable-psi-metrics"];
    let result = fixture.run(&line).await?.ok()?;
    assert!(!result.contains("KubeDescheduler"), "{result}");
    wait_until("the item is applied", WAIT_TIMEOUT, async || {
        Ok(fixture
            .machine_configs()
            .get_opt("99-worker-psi-karg")
            .await?)
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_plan_is_not_applied() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    let config = fixture.review().await?;
    let line = ["reject", NAME, "--reason", "not before the holidays"];
    let result = fixture.run(&line).await?.ok()?;
    has(&result, &["load-aware-rebalancing rejected"]);
    let rejected = fixture.until(Phase::ReviewRequired).await?;
    let rejection = rejected.spec.approval.unwrap().rejected.unwrap();
    assert_eq!(rejection.plan_digest, digest(&config));
    assert_eq!(rejection.reason.as_deref(), Some("not before the holidays"));
    fixture.specify(json!({ "action": "Apply" })).await?;
    fixture.until(Phase::ReviewRequired).await?;
    let result = fixture.run(&["explain", NAME]).await?.ok()?;
    has(
        &result,
        &[
            "is ReviewRequired (action Apply)",
            "\nBecause:\n",
            "not before the holidays",
            "\nNext:\n",
        ],
    );
    let result = fixture
        .run(&["explain", NAME, "-o", "json"])
        .await?
        .json()?;
    assert!(!result["next"].as_array().unwrap().is_empty());
    assert!(fixture.deschedulers().get_opt("cluster").await?.is_none());
    // Approving it withdraws the rejection.
    fixture.run(&["approve", NAME, "--yes"]).await?.ok()?;
    let config = fixture.until(Phase::Completed).await?;
    assert_eq!(config.spec.approval.unwrap().rejected, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_plan_can_be_rolled_back() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    fixture.until(Phase::Ignored).await?;
    let result = fixture.run(&["rollback", NAME, "--yes"]).await?.refused()?;
    has(&result, &["nothing to undo"]);
    fixture.completed().await?;
    let result = fixture.run(&["rollback", NAME, "--to", "5"]).await?;
    has(&result.refused()?, &["no revision 5; there are: 1"]);
    let result = fixture
        .run(&["rollback", NAME, "--clear"])
        .await?
        .refused()?;
    has(&result, &["is not being rolled back"]);
    let result = fixture.run(&["rollback", NAME, "--yes"]).await?.ok()?;
    has(
        &result,
        &["revision 1", "Nothing is reverted yet", "medley approve"],
    );
    let config = fixture.until(Phase::ReviewRequired).await?;
    assert_eq!(config.spec.rollback_to, Some(1));
    assert_eq!(config.spec.action, Action::DryRun);
    let plan = fixture.run(&["plan", NAME]).await?.ok()?;
    has(
        &plan,
        &["Delete", "remove-enable-psi-metrics", "under review"],
    );
    assert!(fixture.deschedulers().get_opt("cluster").await?.is_some());
    fixture.run(&["approve", NAME, "--yes"]).await?.ok()?;
    fixture.until(Phase::Completed).await?;
    assert!(fixture.deschedulers().get_opt("cluster").await?.is_none());
    let machines = fixture.machine_configs();
    assert!(machines.get_opt("99-worker-psi-karg").await?.is_none());
    let history = fixture.run(&["history", NAME, "-o", "wide"]).await?.ok()?;
    has(&history, &["1 and later"]);
    let result = fixture.run(&["rollback", NAME, "--yes"]).await?.refused()?;
    has(&result, &["nothing to undo"]);

    fixture.run(&["rollback", NAME, "--resume"]).await?.ok()?;
    let config = fixture.until(Phase::ReviewRequired).await?;
    assert_eq!(config.spec.rollback_to, None);
    fixture.run(&["approve", NAME, "--yes"]).await?.ok()?;
    fixture.until(Phase::Completed).await?;
    assert!(fixture.deschedulers().get_opt("cluster").await?.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_drift_becomes_an_option() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    fixture.completed().await?;
    let result = fixture.run(&["adopt", NAME, "--yes"]).await?.refused()?;
    has(&result, &["nothing to adopt"]);
    fixture
        .edit(json!({ "deschedulingIntervalSeconds": 120 }))
        .await?;
    fixture.until(Phase::Drifted).await?;
    let result = fixture.run(&["explain", NAME]).await?.ok()?;
    has(&result, &["is Drifted", "kubectl-edit", "medley adopt"]);
    let result = fixture
        .run(&["adopt", NAME, "--yes", "--path", "spec.mode"])
        .await?;
    has(
        &result.refused()?,
        &["spec.mode", "spec.deschedulingIntervalSeconds"],
    );
    let result = fixture.run(&["adopt", NAME]).await?.refused()?;
    has(&result, &["--yes"]);
    let result = fixture.run(&["adopt", NAME, "--yes"]).await?.ok()?;
    has(
        &result,
        &[
            "120 instead of 60",
            "kubectl-edit",
            "load-aware-rebalancing adopted",
        ],
    );
    let config = fixture.until(Phase::Completed).await?;
    let options = config.spec.options.unwrap().load_aware.unwrap();
    assert_eq!(options.descheduling_interval_seconds, Some(120));
    let descheduler = fixture.deschedulers().get("cluster").await?;
    assert_eq!(descheduler.data["spec"]["deschedulingIntervalSeconds"], 120);

    // A field without a matching option.
    fixture
        .edit(json!({ "profiles": ["LongLifecycle"] }))
        .await?;
    fixture.until(Phase::Drifted).await?;
    let result = fixture.run(&["adopt", NAME, "--yes"]).await?.refused()?;
    has(&result, &["nothing can be adopted", "spec.profiles"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ejected_manifests_have_no_medley_metadata() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    fixture.review().await?;
    let text = fixture.run(&["eject", NAME]).await?.ok()?;
    has(
        &text,
        &[
            "# load-aware-rebalancing, 1 of 2: enable-psi-metrics\n# Impact: High\n",
            "MachineConfigPool",
            "\n---\n# load-aware-rebalancing, 2 of 2: enable-load-aware-descheduling\n",
        ],
    );
    assert!(!text.contains("advisor.kubevirt.io"), "{text}");
    let folder = fixture.served.folder().join("git");
    let folder = folder.to_str().unwrap();
    let files = fixture.run(&["eject", NAME, "--directory", folder]).await?;
    let files = files.ok()?;
    let files: Vec<&str> = files.lines().collect();
    assert_eq!(files.len(), 2);
    for (file, kind) in files.iter().zip(["MachineConfig", "KubeDescheduler"]) {
        let object: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
        assert_eq!(object["kind"], kind);
    }
    has(
        &fixture.run(&["eject"]).await?.refused()?,
        &["name a configuration"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_objects_are_reported() -> anyhow::Result<()> {
    let installed = Installed {
        descheduler: None,
        ..Installed::demo()
    };
    let fixture = GovernanceFixture::bare(&installed).await?;
    fixture.govern().await?;
    fixture.until(Phase::Ignored).await?;
    for line in [["plan", NAME], ["eject", NAME]] {
        let result = fixture.run(&line).await?.refused()?;
        has(
            &result,
            &["Missing required dependencies", "KubeDescheduler"],
        );
    }
    assert_eq!(fixture.run(&["diff", NAME]).await?.code, Some(2));
    let plan = fixture.run(&["plan", NAME, "-o", "json"]).await?;
    assert_eq!(plan.code, Some(1));
    let plan: Value = serde_json::from_str(&plan.out)?;
    has(plan["problem"].as_str().unwrap(), &["KubeDescheduler"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn approve_names_its_controller_and_waits_for_the_result() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    fixture.review().await?;
    let line = ["approve", NAME, "--yes", "--wait", "--timeout", "60s"];
    let result = fixture.run(&line).await?;
    has(
        &result.err,
        &["Acted on by controller governance of the operator in namespace medley-system."],
    );
    has(&result.ok()?, &[&format!("{NAME} is Completed")]);
    Ok(())
}
