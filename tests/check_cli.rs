//! `medley check`: before an installation, after it, and when something is wrong with it.

mod installation_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fleet::operators::Installed;
use installation_support::{NAMESPACE, World, objects};
use serde_json::{Value, json};
use testkit::{free_port, has};

/// What a check says for programs, and whether it failed.
async fn checked(world: &World, line: &[&str]) -> anyhow::Result<(Vec<Value>, bool)> {
    checked_as(world, &world.served.kubeconfig, line).await
}

async fn checked_as(
    world: &World,
    who: &Path,
    line: &[&str],
) -> anyhow::Result<(Vec<Value>, bool)> {
    let line = [&["check", "-o", "json"], line].concat();
    let said = world.medley_as(who, &line).await?;
    let list: Value = serde_json::from_str(&said.out)?;
    assert_eq!(list["kind"], "List");
    let items = list["items"].as_array().cloned().unwrap_or_default();
    for item in &items {
        let trouble = item["state"] == "Failed" || item["state"] == "Warning";
        assert!(!trouble || item["hint"].is_string(), "{item}");
    }
    let failed = items.iter().any(|it| it["state"] == "Failed");
    assert_eq!(said.code, Some(i32::from(failed)), "{}", said.err);
    Ok((items, failed))
}

/// Checks that are not Ok, with how they are.
fn others(items: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in items.iter().filter(|it| it["state"] != "Ok") {
        let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        found.entry(text("id")).or_default().insert(text("state"));
    }
    found
}

/// What is expected of them.
fn expected<const N: usize>(all: [(&str, &str); N]) -> BTreeMap<String, BTreeSet<String>> {
    let all = all.into_iter();
    all.map(|(id, state)| (id.to_owned(), [state.to_owned()].into()))
        .collect()
}

fn message(items: &[Value], id: &str) -> String {
    let all = items
        .iter()
        .filter(|it| it["id"] == id && it["state"] != "Ok");
    let messages = all.filter_map(|it| it["message"].as_str());
    messages.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn an_empty_cluster_can_be_installed_into_by_an_administrator_alone() -> anyhow::Result<()> {
    let world = World::empty().await?;
    let (items, failed) = checked(&world, &["--pre"]).await?;
    assert!(!failed, "{items:?}");
    // There is no KubeVirt, no OpenShift and no Prometheus.
    assert_eq!(
        others(&items),
        expected([("jobs", "Off"), ("monitoring", "Off")])
    );
    has(
        &message(&items, "jobs"),
        &[
            "virtualmachineinstances.kubevirt.io, which comes with KubeVirt",
            "clusterversions.config.openshift.io, which comes with OpenShift",
        ],
    );
    let (items, failed) = checked_as(&world, &world.nobody()?, &["--pre"]).await?;
    assert!(failed);
    let wrong = others(&items);
    assert_eq!(wrong["install-rights"], ["Failed".to_owned()].into());
    assert_eq!(wrong["install-grants"], ["Warning".to_owned()].into());
    has(
        &message(&items, "install-rights"),
        &["you may not ", "more"],
    );
    Ok(())
}

#[tokio::test]
async fn what_is_not_installed_is_told_with_what_to_do() -> anyhow::Result<()> {
    let world = World::empty().await?;
    let said = world.medley(&["check"]).await?;
    assert_eq!(said.code, Some(1));
    has(
        &said.out,
        &[
            "Kubernetes\n  ✓ the API answers: v1.",
            "✗ virtplatformconfigs.advisor.kubevirt.io is there, as this version has it: it is not installed",
            "hint: medley manifests --only crds | kubectl apply --server-side -f -",
            "see https://github.com/medley-dev/medley/blob/main/docs/check.md#kinds",
            "✗ namespace medley-system is there",
            "✗ Deployment medley-operator is available",
        ],
    );
    has(&said.err, &["error: ", " checks failed"]);
    assert!(!said.out.contains('\u{1b}'), "nobody looks: {}", said.out);
    let coloured = world.medley(&["check", "--color", "always"]).await?;
    has(&coloured.out, &["\u{1b}[31m✗\u{1b}[0m"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_is_well_with_an_installation_that_works() -> anyhow::Result<()> {
    let world = World::with(&Installed::demo()).await?;
    world.install(&[]).await?;
    let before = checked(&world, &[]).await?.0;
    let wrong = others(&before);
    for id in ["operator", "webhook", "lease", "registrations"] {
        assert_eq!(wrong[id], ["Failed".to_owned()].into(), "{id}");
    }
    let _running = world.run(&objects(&[]).await?).await?;
    world.deployed().await?;
    let (items, failed) = checked(&world, &[]).await?;
    assert!(!failed, "{items:?}");
    // The operator makes the policy of releases by itself, now or a moment later.
    let mut wrong = others(&items);
    wrong.remove("policies");
    assert_eq!(wrong, expected([("monitoring", "Off")]), "{items:?}");
    let told: BTreeSet<&str> = items.iter().filter_map(|it| it["id"].as_str()).collect();
    for id in [
        "version",
        "kinds",
        "rights",
        "rights-surplus",
        "lease",
        "registrations",
        "jobs",
    ] {
        assert!(told.contains(id), "{id}");
    }
    // It is no more than that: placement has not been installed.
    let (items, failed) = checked(&world, &["--controllers", "governance,placement"]).await?;
    assert!(failed);
    has(&message(&items, "rights"), &["it may not"]);
    has(
        &message(&items, "registrations"),
        &["the check makes it when it starts"],
    );
    Ok(())
}

#[tokio::test]
async fn rights_are_those_that_are_needed_and_no_others() -> anyhow::Result<()> {
    let world = World::empty().await?;
    world.install(&[]).await?;
    let rights = |items: &[Value]| {
        let mut wrong = others(items);
        wrong.retain(|id, _| id.starts_with("rights"));
        wrong
    };
    let (items, _) = checked(&world, &[]).await?;
    assert_eq!(rights(&items), expected([]));

    let line = ["delete", "clusterrolebinding", "medley-operator-cpu-models"];
    world.kubectl(&line).await?;
    let account = format!("--serviceaccount={NAMESPACE}:medley-webhook");
    let line = [
        "create",
        "clusterrolebinding",
        "too-much",
        "--clusterrole=cluster-admin",
        &account,
    ];
    world.kubectl(&line).await?;
    let found = testkit::wait_until(
        "rights have changed",
        installation_support::PATIENCE,
        async || {
            let (items, _) = checked(&world, &[]).await?;
            let wrong = rights(&items);
            let changed = wrong == expected([("rights", "Failed"), ("rights-surplus", "Warning")]);
            Ok(changed.then_some(items))
        },
    );
    let items = found.await?;
    has(&message(&items, "rights"), &["it may not", "kubevirt.io"]);
    has(
        &message(&items, "rights-surplus"),
        &["ClusterRoleBinding too-much gives ClusterRole cluster-admin"],
    );
    // Whoever may not look is told so, and it is no failure of the installation.
    let (items, _) = checked_as(&world, &world.nobody()?, &[]).await?;
    assert_eq!(
        rights(&items),
        expected([("rights", "Warning"), ("rights-surplus", "Warning")])
    );
    has(&message(&items, "rights"), &["it cannot be seen"]);
    Ok(())
}

#[tokio::test]
async fn a_check_that_nobody_answers_is_found() -> anyhow::Result<()> {
    let world = World::empty().await?;
    world.install(&[]).await?;
    let registration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "medley-governance" },
        "webhooks": [{
            "name": "approval.advisor.kubevirt.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": { "service": { "namespace": NAMESPACE, "name": "medley-webhook" } },
            "rules": [{
                "apiGroups": ["advisor.kubevirt.io"], "apiVersions": ["v1alpha1"],
                "resources": ["virtplatformconfigs"], "operations": ["CREATE"],
            }],
        }],
    });
    let line = ["create", "-f", "-"];
    world.pipe(&line, &registration.to_string()).await?;
    let (items, _) = checked(&world, &[]).await?;
    has(
        &message(&items, "webhook-endpoints"),
        &["no endpoint is ready"],
    );
    has(&message(&items, "registrations"), &["names no authority"]);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "medley-webhook-1", "namespace": NAMESPACE,
            "labels": { "kubernetes.io/service-name": "medley-webhook" },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": true } }],
        "ports": [{ "name": "webhook", "port": 9443, "protocol": "TCP" }],
    });
    world.pipe(&line, &slice.to_string()).await?;
    let (items, _) = checked(&world, &[]).await?;
    assert!(
        !others(&items).contains_key("webhook-endpoints"),
        "{items:?}"
    );
    Ok(())
}

#[tokio::test]
async fn kinds_of_another_version_are_found() -> anyhow::Result<()> {
    let world = World::empty().await?;
    world.install(&[]).await?;
    let established = ["wait", "--for=condition=Established", "crd", "--all"];
    world.kubectl(&established).await?;
    let (items, _) = checked(&world, &[]).await?;
    assert!(!others(&items).contains_key("kinds"), "{items:?}");
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/mode";
    let patch = json!([{ "op": "remove", "path": path }]).to_string();
    let name = "releasepolicies.medley.dev";
    let line = ["patch", "crd", name, "--type=json", "-p", &patch];
    world.kubectl(&line).await?;
    let (items, _) = checked(&world, &[]).await?;
    assert_eq!(others(&items)["kinds"], ["Warning".to_owned()].into());
    has(
        &message(&items, "kinds"),
        &["it is of another version of Medley"],
    );
    Ok(())
}

#[tokio::test]
async fn every_check_has_its_place_in_the_documentation() -> anyhow::Result<()> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/check.md");
    let page = std::fs::read_to_string(page)?;
    let world = World::empty().await?;
    let mut items = checked(&world, &["--pre"]).await?.0;
    items.extend(checked(&world, &[]).await?.0);
    for item in items {
        let id = item["id"].as_str().unwrap_or_default();
        assert!(page.contains(&format!("\n## {id}\n")), "{id}");
        let docs = item["docs"].as_str().unwrap_or_default();
        assert!(docs.ends_with(&format!("/docs/check.md#{id}")), "{docs}");
    }
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_an_error() -> anyhow::Result<()> {
    let world = World::empty().await?;
    let text = std::fs::read_to_string(&world.served.kubeconfig)?;
    let elsewhere = format!("https://127.0.0.1:{}", free_port()?);
    let path = world.served.folder().join("elsewhere");
    std::fs::write(&path, text.replace(&world.served.url, &elsewhere))?;
    let said = world.medley_as(&path, &["check"]).await?.refused()?;
    has(&said, &["asking the cluster for its version"]);
    Ok(())
}
