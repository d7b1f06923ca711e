//! The commands of governance, as people and programs use them: against a cluster with simulated
//! operators in which the operator runs, and against a snapshot of it.
#[path = "governance_cli_support.rs"]
mod support;

use std::path::Path;

use api::advisor::{Action, Phase, VirtPlatformConfig};
use fleet::operators::Installed;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{NAME, PATIENCE, World, digest, has, medley};
use testkit::wait_until;

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_now_is_the_operators_and_changes_nothing() -> anyhow::Result<()> {
    let world = World::start().await?;
    let config = world.review().await?;
    let text = world.run(&["plan", NAME]).await?.ok()?;
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
    let plan = world.run(&["plan", NAME, "-o", "json"]).await?.json()?;
    assert_eq!(plan["kind"], "Plan");
    assert_eq!(plan["planDigest"], digest(&config));
    assert_eq!(plan["underReview"], true);
    let status = json!(config.status);
    assert_eq!(plan["items"][1]["diff"], status["items"][1]["diff"]);
    let yaml = world.run(&["plan", NAME, "-o", "yaml"]).await?.ok()?;
    has(&yaml, &["kind: Plan\n", &digest(&config)]);
    let wide = world.run(&["plan", NAME, "-o", "wide"]).await?.ok()?;
    has(&wide, &["DEPENDS ON", "spec.kernelArguments"]);

    // Those that are ignored are left out, unless somebody wants all.
    let some = world.run(&["plan", "-o", "json"]).await?.json()?;
    assert_eq!(some["kind"], "List");
    assert_eq!(some["items"].as_array().unwrap().len(), 1);
    let all = world.run(&["plan", "--all"]).await?.ok()?;
    has(
        &all,
        &["virt-higher-density (action Ignore)", "It is ignored."],
    );

    // What if?
    let file = world.served.folder().join("options.yaml");
    std::fs::write(&file, "loadAware: {enablePSIMetrics: false}\n")?;
    let file = file.to_str().unwrap();
    let line = ["plan", "--profile", NAME, "--options", file, "-o", "json"];
    let plan = world.run(&line).await?.json()?;
    assert_eq!(plan["items"].as_array().unwrap().len(), 1);
    assert_eq!(plan["underReview"], false);

    assert_eq!(world.configs().get(NAME).await?, config);
    assert!(world.deschedulers().get_opt("cluster").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_planned_as_its_cluster() -> anyhow::Result<()> {
    let world = World::start().await?;
    let config = world.review().await?;
    let folder = world.served.folder();
    let file = folder.join("cluster.gz");
    let file = file.to_str().unwrap();
    world.run(&["snapshot", "-o", file]).await?.ok()?;
    let nowhere = folder.join("no-such-kubeconfig");
    let line = ["plan", "--offline", "-f", file, NAME, "-o", "json"];
    let plan = medley(&nowhere, &line).await?.json()?;
    assert_eq!(plan["planDigest"], digest(&config));
    assert_eq!(plan["underReview"], true);
    let diff = medley(&nowhere, &["diff", "--offline", "-f", file, NAME]).await?;
    assert_eq!(diff.code, Some(1), "{}", diff.err);
    has(&diff.out, &["+  kernelArguments:"]);
    let said = medley(&nowhere, &["plan", NAME]).await?.refused()?;
    has(&said, &["no-such-kubeconfig"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_kind_a_profile_can_be_planned() -> anyhow::Result<()> {
    let world = World::bare(&Installed::demo()).await?;
    for line in [
        &["plan"][..],
        &["plan", NAME],
        &["approve", NAME],
        &["explain", NAME],
        &["history"],
        &["rollback", NAME],
    ] {
        let said = world.run(line).await?.refused()?;
        has(
            &said,
            &[
                "VirtPlatformConfig is not installed: ",
                "medley plan --profile",
            ],
        );
    }
    let line = ["plan", "--profile", NAME, "-o", "json"];
    let online = world.run(&line).await?.json()?;
    assert_eq!(online["items"].as_array().unwrap().len(), 2);
    let said = world.run(&["plan", "--profile", "nonsense"]).await?;
    has(&said.refused()?, &["no profile nonsense", NAME]);

    let file = world.served.folder().join("cluster");
    let file = file.to_str().unwrap();
    world.run(&["snapshot", "-o", file]).await?.ok()?;
    let offline = ["--offline", "-f", file];
    let line: Vec<&str> = line.iter().chain(&offline).copied().collect();
    let offline = medley(Path::new("/nonexistent"), &line).await?.json()?;
    assert_eq!(offline["planDigest"], online["planDigest"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_tells_by_its_code() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.review().await?;
    let said = world.run(&["diff", NAME]).await?;
    assert_eq!(said.code, Some(1), "{}", said.err);
    has(
        &said.out,
        &[
            "--- /dev/null\n+++ 99-worker-psi-karg (MachineConfig)\n@@",
            "+  - psi=1\n",
            "+++ cluster (KubeDescheduler)",
        ],
    );
    assert!(!said.out.contains('\u{1b}'), "no colours in a pipe");
    let said = world.run(&["diff", "-o", "name"]).await?;
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert_eq!(
        said.out,
        "machineconfig/99-worker-psi-karg\nkubedescheduler/cluster\n"
    );
    for line in [
        &["diff", "nonsense"][..],
        &["diff", "--nonsense"],
        &["diff", "--offline", "-f", "/nonexistent"],
    ] {
        let said = world.run(line).await?;
        assert_eq!(said.code, Some(2), "{line:?}: {}", said.out);
        assert!(said.err.contains("error: "), "{}", said.err);
    }
    world.run(&["approve", NAME, "--yes"]).await?.ok()?;
    world.until(Phase::Completed).await?;
    let said = world.run(&["diff", NAME]).await?;
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), ""),
        "{}",
        said.err
    );
    world.edit(json!({ "mode": "Predictive" })).await?;
    let said = world.run(&["diff", NAME]).await?;
    assert_eq!(said.code, Some(1), "{}", said.err);
    has(&said.out, &["-  mode: Predictive\n+  mode: Automatic\n"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_approved_is_carried_out_and_remembered() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.until(Phase::Ignored).await?;
    let said = world.run(&["approve", NAME, "--yes"]).await?.refused()?;
    has(&said, &["has no plan yet: it is Ignored", "medley explain"]);
    let said = world.run(&["approve", "nonsense"]).await?.refused()?;
    has(&said, &["no VirtPlatformConfig nonsense", NAME]);
    let none = world.run(&["history", NAME]).await?.ok()?;
    assert_eq!(none, "no plan has been carried out\n");

    let config = world.review().await?;
    let digest = digest(&config);
    let other = format!("sha256:{}", "0".repeat(64));
    let line = ["approve", NAME, "--yes", "--digest", &other];
    has(&world.run(&line).await?.refused()?, &[&digest, &other]);
    let said = world.run(&["approve", NAME]).await?.refused()?;
    has(&said, &["--yes"]);
    assert_eq!(
        world.configs().get(NAME).await?.spec.action,
        Action::DryRun,
        "nobody said yes"
    );
    let line = ["approve", NAME, "--yes", "--digest", &digest];
    let said = world.run(&line).await?.ok()?;
    has(
        &said,
        &[
            "enable-psi-metrics",
            "virtplatformconfig.advisor.kubevirt.io/load-aware-rebalancing approved\n",
        ],
    );
    let config = world.until(Phase::Completed).await?;
    let approval = config.spec.approval.unwrap();
    assert_eq!(approval.plan_digest, Some(digest.clone()));
    assert!(world.deschedulers().get_opt("cluster").await?.is_some());
    let said = world.run(&["approve", NAME, "--yes"]).await?.refused()?;
    has(&said, &["no plan under review: it is Completed"]);

    let table = world.run(&["history", NAME]).await?.ok()?;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    has(lines[0], &["REVISION", "DIGEST", "APPROVED BY", "FINISHED"]);
    has(lines[1], &["1 ", &digest[7..19], "High", "Completed"]);
    let all = world.run(&["history", "-o", "wide"]).await?.ok()?;
    has(&all, &[NAME, "enable-psi-metrics", "v9"]);
    let list = world.run(&["history", NAME, "-o", "json"]).await?.json()?;
    assert_eq!(list["items"][0]["planDigest"], digest);
    assert_eq!(list["items"][0]["outcome"]["result"], "Completed");
    let one = world
        .run(&["history", NAME, "--revision", "1"])
        .await?
        .ok()?;
    has(&one, &[&digest, "+  - psi=1"]);
    let said = world.run(&["history", NAME, "--revision", "7"]).await?;
    has(&said.refused()?, &["no revision 7; there are: 1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_others_are_taken_with_consent_only() -> anyhow::Result<()> {
    let world = World::start().await?;
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
    world.deschedulers().create(&params, &descheduler).await?;
    world.review().await?;
    let plan = world.run(&["plan", NAME]).await?.ok()?;
    has(
        &plan,
        &[
            "enable-load-aware-descheduling:spec.mode from argocd: ",
            "medley approve load-aware-rebalancing --take-over approves it.",
        ],
    );
    let said = world.run(&["approve", NAME, "--yes"]).await?.refused()?;
    has(
        &said,
        &[
            "enable-load-aware-descheduling:spec.mode from argocd",
            "enable-load-aware-descheduling:spec.deschedulingIntervalSeconds from argocd",
            "--take-over",
        ],
    );
    assert_eq!(world.configs().get(NAME).await?.spec.action, Action::DryRun);
    let line = ["approve", NAME, "--yes", "--take-over"];
    world.run(&line).await?.ok()?;
    let config = world.until(Phase::Completed).await?;
    assert_eq!(config.spec.approval.unwrap().takeovers.len(), 3);
    let descheduler = world.deschedulers().get("cluster").await?;
    assert_eq!(descheduler.data["spec"]["mode"], "Automatic");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_plan_is_refused_and_renewed() -> anyhow::Result<()> {
    let world = World::start().await?;
    let reviewed = digest(&world.review().await?);
    let descheduler: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
        "metadata": { "name": "cluster" },
        "spec": { "deschedulingIntervalSeconds": 300, "profiles": ["LongLifecycle"] },
    }))?;
    world
        .deschedulers()
        .create(&PostParams::default(), &descheduler)
        .await?;
    let stale = |config: &VirtPlatformConfig| {
        let conditions = config.status.iter().flat_map(|status| &status.conditions);
        let mut stale = conditions.filter(|condition| condition.type_ == "PlanStale");
        stale.any(|condition| condition.status == "True")
    };
    wait_until("the plan is stale", PATIENCE, async || {
        Ok(stale(&world.configs().get(NAME).await?).then_some(()))
    })
    .await?;
    let said = world.run(&["approve", NAME, "--yes"]).await?.refused()?;
    has(
        &said,
        &["is stale", "did not exist and does now", "--renew"],
    );
    world.run(&["plan", NAME, "--renew"]).await?.ok()?;
    let renewed = wait_until("there is a new plan", PATIENCE, async || {
        let config = world.until(Phase::ReviewRequired).await?;
        Ok((!stale(&config) && digest(&config) != reviewed).then_some(config))
    })
    .await?;
    assert_eq!(renewed.spec.action, Action::DryRun);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_waits_for_others_says_so() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.until(Phase::Ignored).await?;
    world
        .specify(json!({ "approvalPolicy": { "requiredApprovals": { "high": 2 } } }))
        .await?;
    let config = world.review().await?;
    let plan = world.run(&["plan", NAME]).await?.ok()?;
    has(
        &plan,
        &["A plan of High impact needs 2 approvals (spec.approvalPolicy), and has 0."],
    );
    // As admission would record it.
    let at = jiff::Timestamp::now();
    let recorded = json!([{ "user": "alice", "digest": digest(&config), "at": at }]).to_string();
    let annotations = json!({ api::advisor::names::APPROVALS: recorded });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    world
        .configs()
        .patch(NAME, &PatchParams::default(), &patch)
        .await?;
    let plan = world.run(&["plan", NAME]).await?.ok()?;
    has(
        &plan,
        &["needs 2 approvals (spec.approvalPolicy), and has 1 (by alice)."],
    );
    let said = world.run(&["approve", NAME, "--yes"]).await?.ok()?;
    has(
        &said,
        &["approved\n", "It is not carried out yet: ", "2 approvals"],
    );
    let waiting = world.until(Phase::ReviewRequired).await?;
    assert_eq!(
        waiting.annotations().get(api::advisor::names::APPROVE),
        Some(&digest(&config)),
        "whoever asks is recorded by admission"
    );
    assert!(world.deschedulers().get_opt("cluster").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_plan_can_be_approved() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.review().await?;
    let line = ["approve", NAME, "--yes", "--items", "nonsense"];
    has(
        &world.run(&line).await?.refused()?,
        &["'nonsense'", "enable-psi-metrics"],
    );
    let line = ["approve", NAME, "--yes", "--items", "enable-psi-metrics"];
    let said = world.run(&line).await?.ok()?;
    assert!(!said.contains("KubeDescheduler"), "{said}");
    wait_until("the item is carried out", PATIENCE, async || {
        Ok(world
            .machine_configs()
            .get_opt("99-worker-psi-karg")
            .await?)
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rejected_is_not_carried_out() -> anyhow::Result<()> {
    let world = World::start().await?;
    let config = world.review().await?;
    let line = ["reject", NAME, "--reason", "not before the holidays"];
    let said = world.run(&line).await?.ok()?;
    has(&said, &["load-aware-rebalancing rejected"]);
    let rejected = world.until(Phase::ReviewRequired).await?;
    let rejection = rejected.spec.approval.unwrap().rejected.unwrap();
    assert_eq!(rejection.plan_digest, digest(&config));
    assert_eq!(rejection.reason.as_deref(), Some("not before the holidays"));
    world.specify(json!({ "action": "Apply" })).await?;
    world.until(Phase::ReviewRequired).await?;
    let said = world.run(&["explain", NAME]).await?.ok()?;
    has(
        &said,
        &[
            "is ReviewRequired (action Apply)",
            "\nBecause:\n",
            "not before the holidays",
            "\nNext:\n",
        ],
    );
    let said = world.run(&["explain", NAME, "-o", "json"]).await?.json()?;
    assert!(!said["next"].as_array().unwrap().is_empty());
    assert!(world.deschedulers().get_opt("cluster").await?.is_none());
    // Whoever approves it has changed their mind.
    world.run(&["approve", NAME, "--yes"]).await?.ok()?;
    let config = world.until(Phase::Completed).await?;
    assert_eq!(config.spec.approval.unwrap().rejected, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_can_be_undone() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.until(Phase::Ignored).await?;
    let said = world.run(&["rollback", NAME, "--yes"]).await?.refused()?;
    has(&said, &["nothing to undo"]);
    world.completed().await?;
    let said = world.run(&["rollback", NAME, "--to", "5"]).await?;
    has(&said.refused()?, &["no revision 5; there are: 1"]);
    let said = world.run(&["rollback", NAME, "--clear"]).await?.refused()?;
    has(&said, &["is not being rolled back"]);
    let said = world.run(&["rollback", NAME, "--yes"]).await?.ok()?;
    has(
        &said,
        &["revision 1", "Nothing is undone yet", "medley approve"],
    );
    let config = world.until(Phase::ReviewRequired).await?;
    assert_eq!(config.spec.rollback_to, Some(1));
    assert_eq!(config.spec.action, Action::DryRun);
    let plan = world.run(&["plan", NAME]).await?.ok()?;
    has(
        &plan,
        &["Delete", "remove-enable-psi-metrics", "under review"],
    );
    assert!(world.deschedulers().get_opt("cluster").await?.is_some());
    world.run(&["approve", NAME, "--yes"]).await?.ok()?;
    world.until(Phase::Completed).await?;
    assert!(world.deschedulers().get_opt("cluster").await?.is_none());
    let machines = world.machine_configs();
    assert!(machines.get_opt("99-worker-psi-karg").await?.is_none());
    let history = world.run(&["history", NAME, "-o", "wide"]).await?.ok()?;
    has(&history, &["1 and later"]);
    let said = world.run(&["rollback", NAME, "--yes"]).await?.refused()?;
    has(&said, &["nothing to undo"]);

    world.run(&["rollback", NAME, "--resume"]).await?.ok()?;
    let config = world.until(Phase::ReviewRequired).await?;
    assert_eq!(config.spec.rollback_to, None);
    world.run(&["approve", NAME, "--yes"]).await?.ok()?;
    world.until(Phase::Completed).await?;
    assert!(world.deschedulers().get_opt("cluster").await?.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_set_becomes_an_option() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.completed().await?;
    let said = world.run(&["adopt", NAME, "--yes"]).await?.refused()?;
    has(&said, &["nothing to adopt"]);
    world
        .edit(json!({ "deschedulingIntervalSeconds": 120 }))
        .await?;
    world.until(Phase::Drifted).await?;
    let said = world.run(&["explain", NAME]).await?.ok()?;
    has(&said, &["is Drifted", "kubectl-edit", "medley adopt"]);
    let said = world
        .run(&["adopt", NAME, "--yes", "--path", "spec.mode"])
        .await?;
    has(
        &said.refused()?,
        &["spec.mode", "spec.deschedulingIntervalSeconds"],
    );
    let said = world.run(&["adopt", NAME]).await?.refused()?;
    has(&said, &["--yes"]);
    let said = world.run(&["adopt", NAME, "--yes"]).await?.ok()?;
    has(
        &said,
        &[
            "120 instead of 60",
            "kubectl-edit",
            "load-aware-rebalancing adopted",
        ],
    );
    let config = world.until(Phase::Completed).await?;
    let options = config.spec.options.unwrap().load_aware.unwrap();
    assert_eq!(options.descheduling_interval_seconds, Some(120));
    let descheduler = world.deschedulers().get("cluster").await?;
    assert_eq!(descheduler.data["spec"]["deschedulingIntervalSeconds"], 120);

    // What no option is for.
    world.edit(json!({ "profiles": ["LongLifecycle"] })).await?;
    world.until(Phase::Drifted).await?;
    let said = world.run(&["adopt", NAME, "--yes"]).await?.refused()?;
    has(&said, &["nothing can be adopted", "spec.profiles"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ejected_manifests_say_nothing_of_medley() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.review().await?;
    let text = world.run(&["eject", NAME]).await?.ok()?;
    has(
        &text,
        &[
            "# load-aware-rebalancing, 1 of 2: enable-psi-metrics\n# Impact: High\n",
            "MachineConfigPool",
            "\n---\n# load-aware-rebalancing, 2 of 2: enable-load-aware-descheduling\n",
        ],
    );
    assert!(!text.contains("advisor.kubevirt.io"), "{text}");
    let folder = world.served.folder().join("git");
    let folder = folder.to_str().unwrap();
    let files = world.run(&["eject", NAME, "--directory", folder]).await?;
    let files = files.ok()?;
    let files: Vec<&str> = files.lines().collect();
    assert_eq!(files.len(), 2);
    for (file, kind) in files.iter().zip(["MachineConfig", "KubeDescheduler"]) {
        let object: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
        assert_eq!(object["kind"], kind);
    }
    has(&world.run(&["eject"]).await?.refused()?, &["which one?"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_said() -> anyhow::Result<()> {
    let installed = Installed {
        descheduler: None,
        ..Installed::demo()
    };
    let world = World::bare(&installed).await?;
    world.govern().await?;
    world.until(Phase::Ignored).await?;
    for line in [["plan", NAME], ["eject", NAME]] {
        let said = world.run(&line).await?.refused()?;
        has(&said, &["Missing required dependencies", "KubeDescheduler"]);
    }
    assert_eq!(world.run(&["diff", NAME]).await?.code, Some(2));
    let plan = world.run(&["plan", NAME, "-o", "json"]).await?;
    assert_eq!(plan.code, Some(1));
    let plan: Value = serde_json::from_str(&plan.out)?;
    has(plan["problem"].as_str().unwrap(), &["KubeDescheduler"]);
    Ok(())
}
