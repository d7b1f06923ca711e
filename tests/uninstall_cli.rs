//! `medley uninstall`: the preview changes nothing; then nothing of Medley is left but what the preview keeps, also after
//! an interruption.

mod installation_support;

use std::process::Stdio;

use anyhow::Context as _;
use cpu_models::names::{MODEL_ANNOTATION, REQUESTED_MODEL_ANNOTATION};
use fleet::operators::{self, Installed};
use installation_support::{InstallationFixture, MEDLEY, NAMESPACE, WAIT_TIMEOUT, objects};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{has, wait_until};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// Controllers with webhooks, gates and CPU models.
const CONTROLLERS: [&str; 1] = ["--controllers=governance,cpu-models,placement"];
/// Simulation speed.
const FAST: f64 = 600.0;

/// A cluster with Medley, which has registered its webhooks, and with objects that depend on it.
async fn installed() -> anyhow::Result<InstallationFixture> {
    let fixture = InstallationFixture::with(&Installed::demo()).await?;
    fixture.install(&CONTROLLERS).await?;
    // They create their registrations, leases, certificates and configurations, and end as pods do.
    let running = fixture.run(&objects(&CONTROLLERS).await?).await?;
    wait_until(
        "the profiles have configurations",
        WAIT_TIMEOUT,
        async || {
            let found = fixture
                .kubectl(&["get", "virtplatformconfigs", "-o", "name"])
                .await?;
            Ok((!found.is_empty()).then_some(()))
        },
    )
    .await?;
    drop(running);
    // Not as Medley's webhooks see it, which have no server any more.
    fixture
        .kubectl(&[
            "delete",
            "mutatingwebhookconfiguration",
            "medley-cpu-models",
        ])
        .await?;
    for object in [virtual_machine(), instance(), gated_pod()] {
        let line = ["create", "-f", "-"];
        fixture.pipe(&line, &object.to_string()).await?;
    }
    Ok(fixture)
}

fn virtual_machine() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": { "name": "seed", "namespace": "default" },
        "spec": {
            "runStrategy": "Halted",
            "template": { "spec": {
                "architecture": "amd64",
                "domain": { "cpu": { "model": "best-match-model" }, "devices": {} },
            } },
        },
    })
}

/// The run of that virtual machine.
fn instance() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": "seed", "namespace": "default",
            "annotations": { REQUESTED_MODEL_ANNOTATION: "best-match-model", MODEL_ANNOTATION: "EPYC" },
        },
        "spec": { "architecture": "amd64", "domain": { "cpu": { "model": "EPYC" } } },
        "status": { "phase": "Running", "nodeName": "a" },
    })
}

fn gated_pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "waiting", "namespace": "default" },
        "spec": {
            "schedulingGates": [{ "name": "medley.dev/placement" }, { "name": "example.com/mine" }],
            "containers": [{ "name": "a", "image": "a" }],
        },
    })
}

/// Every object with a name of Medley, by kind and name. What is being deleted does not count: no controller finishes
/// namespaces here.
async fn remains(fixture: &InstallationFixture) -> anyhow::Result<Vec<String>> {
    let kinds = "namespaces,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,crds,\
         deployments,services,serviceaccounts,roles,rolebindings,networkpolicies,\
         poddisruptionbudgets,configmaps,secrets,leases,controllerrevisions";
    let found = fixture.kubectl(&["get", kinds, "-A", "-o", "json"]).await?;
    let found: Value = serde_json::from_str(&found)?;
    let items = found["items"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = items
        .iter()
        .filter(|it| it["metadata"]["deletionTimestamp"].is_null())
        .map(|it| {
            let name = text(&it["metadata"]["name"]);
            let namespace = text(&it["metadata"]["namespace"]);
            (format!("{} {name}", text(&it["kind"])), name, namespace)
        })
        .filter(|(_, name, namespace)| {
            name.contains("medley")
                || name.contains("advisor.kubevirt.io")
                || namespace == NAMESPACE
        })
        // Those of the API server, in every namespace.
        .filter(|(_, name, _)| name != "kube-root-ca.crt" && name != "default");
    Ok(named.map(|(object, ..)| object).collect())
}

async fn gates(fixture: &InstallationFixture) -> anyhow::Result<String> {
    let path = "jsonpath={.spec.schedulingGates[*].name}";
    fixture
        .kubectl(&["get", "pod", "waiting", "-o", path])
        .await
}

async fn model(fixture: &InstallationFixture) -> anyhow::Result<String> {
    let path = "jsonpath={.spec.template.spec.domain.cpu.model}";
    fixture.kubectl(&["get", "vm", "seed", "-o", path]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_changes_nothing_and_lists_what_stops_it() -> anyhow::Result<()> {
    let fixture = installed().await?;
    let before = remains(&fixture).await?;
    let refused = fixture.medley(&["uninstall", "--yes"]).await?;
    assert_eq!(refused.code, Some(1));
    has(
        &refused.err,
        &[
            "1 VirtualMachines ask for best-match-model",
            "default/seed",
            "--fix-cpu-models",
            "--keep-cpu-models",
        ],
    );
    let preview = fixture.medley(&["uninstall", "--fix-cpu-models"]).await?;
    assert_eq!(preview.code, Some(0), "{}", preview.err);
    has(
        &preview.out,
        &[
            "Webhooks",
            "MutatingWebhookConfiguration medley-governance",
            "Deployment medley-system/medley-operator",
            "Pod default/waiting",
            "set CPU model EPYC",
            "Secret medley-system/medley-webhook-authority",
            "Kept:",
            "7 CustomResourceDefinitions, with",
            "applied plans",
        ],
    );
    has(&preview.err, &["Nothing was changed; --yes does it."]);
    let tried = [
        "uninstall",
        "--keep-cpu-models",
        "--yes",
        "--dry-run=server",
    ];
    let tried = fixture.medley(&tried).await?;
    assert_eq!(tried.code, Some(0), "{}", tried.err);
    has(
        &tried.out,
        &["MutatingWebhookConfiguration medley-governance deleted (server dry run)"],
    );
    assert_eq!(remains(&fixture).await?, before);
    assert_eq!(
        gates(&fixture).await?,
        "medley.dev/placement example.com/mine"
    );
    assert_eq!(model(&fixture).await?, "best-match-model");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_but_what_the_preview_keeps() -> anyhow::Result<()> {
    let fixture = installed().await?;
    let done = fixture
        .medley(&["uninstall", "--fix-cpu-models", "--yes"])
        .await?;
    assert_eq!(done.code, Some(0), "{}", done.err);
    let left = remains(&fixture).await?;
    let kept = |it: &&String| !it.starts_with("CustomResourceDefinition");
    let others: Vec<&String> = left.iter().filter(kept).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(left.len(), 7);
    // The gates of others are theirs.
    assert_eq!(gates(&fixture).await?, "example.com/mine");
    assert_eq!(model(&fixture).await?, "EPYC");
    // Policies and configurations are still there, and go with the CRDs.
    let export = fixture.served.folder().join("export.jsonl");
    let export = export.to_str().context("a path without letters")?;
    let all = ["uninstall", "--delete-crds", "--export", export, "--yes"];
    let done = fixture.medley(&all).await?;
    assert_eq!(done.code, Some(0), "{}", done.err);
    let exported = std::fs::read_to_string(export)?;
    has(
        &exported,
        &["medley-export/v1", r#""kind":"VirtPlatformConfig""#],
    );
    wait_until("the CRDs are gone", WAIT_TIMEOUT, async || {
        Ok(remains(&fixture).await?.is_empty().then_some(()))
    })
    .await?;
    // Nothing is left to do, and the export keeps what is gone.
    let again = fixture.medley(&all).await?;
    has(&again.ok()?, &["Medley is not installed."]);
    assert_eq!(std::fs::read_to_string(export)?, exported);
    restarted_machine_starts(&fixture).await
}

/// KubeVirt alone starts the virtual machine: its launcher selects nodes by a model that nodes have.
async fn restarted_machine_starts(fixture: &InstallationFixture) -> anyhow::Result<()> {
    fixture.kubectl(&["delete", "vmi", "seed"]).await?;
    let manager = Manager::new(fixture.client.clone());
    operators::start(&manager, fixture.client.clone(), FAST).await;
    let start = json!({ "spec": { "runStrategy": "Always" } }).to_string();
    fixture
        .kubectl(&["patch", "vm", "seed", "--type=merge", "-p", &start])
        .await?;
    let launcher = wait_until(
        "the virtual machine has a launcher",
        WAIT_TIMEOUT,
        async || {
            let line = [
                "get",
                "pods",
                "-l",
                "kubevirt.io=virt-launcher",
                "-o",
                "json",
            ];
            let pods: Value = serde_json::from_str(&fixture.kubectl(&line).await?)?;
            Ok(pods["items"].get(0).cloned())
        },
    )
    .await?;
    manager.stop().await;
    let selector = &launcher["spec"]["nodeSelector"];
    assert_eq!(
        selector["cpu-model.node.kubevirt.io/EPYC"], "true",
        "{selector}"
    );
    assert!(!selector.to_string().contains("best-match"), "{selector}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_run_is_continued() -> anyhow::Result<()> {
    let fixture = installed().await?;
    let line = ["uninstall", "--fix-cpu-models", "--yes"];
    for seen in 1..4 {
        let mut child = Command::new(MEDLEY)
            .args(line)
            .env("KUBECONFIG", &fixture.served.kubeconfig)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(output).lines();
        let mut done = 0;
        while let Some(line) = lines.next_line().await? {
            // Beyond the preview.
            if line.ends_with(" deleted") || line.ends_with(" released") {
                done += 1;
                if done == seen {
                    break;
                }
            }
        }
        assert_eq!(done, seen);
        child.kill().await?;
    }
    assert!(!remains(&fixture).await?.is_empty());
    fixture.medley(&line).await?.ok()?;
    let left = remains(&fixture).await?;
    assert!(
        left.iter()
            .all(|it| it.starts_with("CustomResourceDefinition")),
        "{left:?}"
    );
    assert_eq!(gates(&fixture).await?, "example.com/mine");
    assert_eq!(model(&fixture).await?, "EPYC");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_is_left_to_remove_what_it_installed() -> anyhow::Result<()> {
    let fixture = installed().await?;
    for deployment in ["medley-operator", "medley-webhook"] {
        let name = format!("deployment/{deployment}");
        let label = ["label", &name, "app.kubernetes.io/managed-by=Helm"];
        fixture.served.kubectl(NAMESPACE, &label).await?;
        let annotate = ["annotate", &name, "meta.helm.sh/release-name=mine"];
        fixture.served.kubectl(NAMESPACE, &annotate).await?;
    }
    let line = ["uninstall", "--keep-cpu-models", "--yes"];
    let done = fixture.medley(&line).await?.ok()?;
    has(
        &done,
        &[
            "Deployment medley-system/medley-operator scaled to 0",
            "Now run: helm uninstall mine --namespace medley-system",
        ],
    );
    let path = "jsonpath={.items[*].spec.replicas}";
    let replicas = ["get", "deployments", "-o", path];
    assert_eq!(fixture.served.kubectl(NAMESPACE, &replicas).await?, "0 0");
    assert_eq!(gates(&fixture).await?, "example.com/mine");
    // Nothing registers a webhook any more.
    let left = remains(&fixture).await?;
    assert!(
        !left.iter().any(|it| it.starts_with("MutatingWebhook")),
        "{left:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn installation_of_olm_has_to_be_removed_there_first() -> anyhow::Result<()> {
    let fixture = installed().await?;
    let label = [
        "label",
        "deployment/medley-operator",
        "olm.owner=medley.v0.1.0",
    ];
    fixture.served.kubectl(NAMESPACE, &label).await?;
    let before = remains(&fixture).await?;
    let refused = fixture
        .medley(&["uninstall", "--fix-cpu-models", "--yes"])
        .await?;
    assert_eq!(refused.code, Some(1));
    has(
        &refused.err,
        &[
            "Deployment medley-system/medley-operator is restored by the Operator Lifecycle Manager",
            "delete clusterserviceversion medley.v0.1.0",
        ],
    );
    assert_eq!(remains(&fixture).await?, before);
    assert_eq!(model(&fixture).await?, "best-match-model");
    Ok(())
}
