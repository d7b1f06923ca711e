//! `medley manifests`: a cluster accepts the output in one apply, and its RBAC rules are sufficient.

mod installation_support;

use std::collections::BTreeSet;
use std::path::PathBuf;

use api::advisor::{Phase, VirtPlatformConfig};
use fleet::operators::{self, Installed};
use installation_support::{
    InstallationFixture, MEDLEY, NAMESPACE, WAIT_TIMEOUT, by_name, manifests, objects,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{CommandOutput, DeschedulerPlayer, has, wait_until};

const EVERYTHING: [&str; 4] = [
    "--controllers=governance,images-hco,images-ssp,images-cdi,images-vm,cpu-models,release,placement,runtime-classes",
    "--enable-profile=node-health-remediation,example-profile",
    "--release-owner",
    "--console",
];
/// Simulation speed: a reboot takes a tenth of a second.
const FAST: f64 = 600.0;
const PROFILE: &str = "load-aware-rebalancing";

/// Resource versions of all printed objects in the cluster.
async fn versions(fixture: &InstallationFixture, text: &str) -> anyhow::Result<BTreeSet<String>> {
    let line = ["get", "-f", "-", "-o", "json"];
    let found: Value = serde_json::from_str(&fixture.pipe(&line, text).await?)?;
    let items = found["items"].as_array().cloned().unwrap_or_default();
    let versions = items.iter().map(|it| {
        let metadata = &it["metadata"];
        format!(
            "{} {} {}",
            it["kind"], metadata["name"], metadata["resourceVersion"]
        )
    });
    Ok(versions.collect())
}

#[tokio::test]
async fn manifests_apply_to_an_empty_cluster_and_reapply_without_changes() -> anyhow::Result<()> {
    for line in [&[][..], &EVERYTHING] {
        let fixture = InstallationFixture::empty().await?;
        let printed = objects(line).await?;
        let result = fixture.install(line).await?;
        let applied = result
            .lines()
            .filter(|it| it.ends_with("serverside-applied"));
        assert_eq!(applied.count(), printed.len(), "{result}");
        // The API server updates the status of CRDs a moment later.
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        fixture.kubectl(&established).await?;
        let text = manifests(line).await?;
        let before = versions(&fixture, &text).await?;
        assert_eq!(before.len(), printed.len());
        fixture.install(line).await?;
        assert_eq!(versions(&fixture, &text).await?, before);
    }
    Ok(())
}

#[tokio::test]
async fn monitoring_without_prometheus_crds_is_reported() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    let refused = fixture.install(&["--monitoring"]).await.unwrap_err();
    has(
        &format!("{refused:#}"),
        &["no matches for kind", "ServiceMonitor"],
    );
    let kinds = [
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ];
    for (kind, plural) in kinds {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.monitoring.coreos.com") },
            "spec": {
                "group": "monitoring.coreos.com",
                "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    } },
                }],
            },
        });
        let line = ["apply", "--server-side", "-f", "-"];
        fixture.pipe(&line, &definition.to_string()).await?;
    }
    let established = ["wait", "--for=condition=Established", "crd", "--all"];
    fixture.kubectl(&established).await?;
    let result = fixture.install(&["--monitoring"]).await?;
    has(
        &result,
        &["servicemonitor.monitoring.coreos.com/medley-operator serverside-applied"],
    );
    let rules = fixture
        .served
        .kubectl(NAMESPACE, &["get", "prometheusrules", "-o", "name"])
        .await?;
    assert_eq!(rules.lines().count(), 3, "{rules}");
    Ok(())
}

#[tokio::test]
async fn only_prints_the_selected_parts() -> anyhow::Result<()> {
    let kinds = |objects: Vec<Value>| -> BTreeSet<String> {
        let kinds = objects
            .iter()
            .map(|it| it["kind"].as_str().unwrap_or_default());
        kinds.map(str::to_owned).collect()
    };
    let crds = kinds(objects(&["--only", "crds"]).await?);
    assert_eq!(crds, ["CustomResourceDefinition".to_owned()].into());
    let monitoring = kinds(objects(&["--only", "monitoring"]).await?);
    let expected = ["ConfigMap", "PrometheusRule", "Service", "ServiceMonitor"].map(str::to_owned);
    assert_eq!(monitoring, expected.into());
    let two = kinds(objects(&["--only", "namespace,network"]).await?);
    let expected = ["Namespace", "NetworkPolicy"].map(str::to_owned);
    assert_eq!(two, expected.into());
    let list: Value = serde_json::from_str(&manifests(&["-o", "json"]).await?)?;
    assert_eq!(list["kind"], "List");
    assert_eq!(json!(objects(&[]).await?), list["items"]);
    Ok(())
}

#[tokio::test]
async fn invalid_options_are_rejected() -> anyhow::Result<()> {
    for (line, why) in [
        (
            &["--only", "everything"][..],
            "unknown part; expected one of: namespace, crds",
        ),
        (
            &["--controllers", "knitting"],
            "unknown controller; expected one of",
        ),
        (
            &["--enable-profile", "knitting"],
            "There is no profile 'knitting'",
        ),
        (
            &["--namespace", "Mine"],
            "\"Mine\" cannot be the name of a namespace",
        ),
        (&["--replicas", "0"], "0 replicas"),
        (&["--console-host", "a.b"], "--console"),
    ] {
        let output = tokio::process::Command::new(MEDLEY)
            .arg("manifests")
            .args(line)
            .output()
            .await?;
        let result = CommandOutput::of(&output);
        assert_eq!(result.code, Some(1), "{line:?}");
        has(&result.err, &[why]);
    }
    Ok(())
}

#[tokio::test]
async fn kustomize_builds_the_same_objects() -> anyhow::Result<()> {
    let deploy = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/kustomize");
    for (folder, line) in [
        ("base", &[][..]),
        ("overlays/monitoring", &["--monitoring"]),
        ("overlays/console", &["--console"]),
        ("overlays/openshift", &["--openshift", "--monitoring"]),
    ] {
        let output = tokio::process::Command::new("kubectl")
            .arg("kustomize")
            .arg(deploy.join(folder))
            .output()
            .await?;
        let built: Vec<Value> = serde_saphyr::from_multiple(&CommandOutput::of(&output).ok()?)?;
        let (built, printed) = (by_name(built), by_name(objects(line).await?));
        let keys = |all: &std::collections::BTreeMap<String, Value>| {
            all.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(keys(&built), keys(&printed), "{folder}");
        for (key, object) in built {
            assert_eq!(object, printed[&key], "{folder}: {key}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn olm_bundle_examples_are_accepted() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    fixture.install(&["--only", "crds"]).await?;
    let established = ["wait", "--for=condition=Established", "crd", "--all"];
    fixture.kubectl(&established).await?;
    let version = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../deploy/olm/manifests/medley.clusterserviceversion.yaml");
    let version: Value = serde_saphyr::from_str(&std::fs::read_to_string(version)?)?;
    let examples = &version["metadata"]["annotations"]["alm-examples"];
    let examples: Vec<Value> = serde_json::from_str(examples.as_str().unwrap_or_default())?;
    assert_eq!(examples.len(), 7);
    for example in examples {
        let line = ["create", "--validate=strict", "-f", "-"];
        fixture.pipe(&line, &example.to_string()).await?;
    }
    Ok(())
}

/// Requests, approves and applies a plan with the installed RBAC rules.
async fn plan_is_applied(fixture: &InstallationFixture) -> anyhow::Result<()> {
    let configs: Api<VirtPlatformConfig> = Api::all(fixture.client.clone());
    let until = async |phase: Phase| {
        wait_until(&format!("{PROFILE} is {phase}"), WAIT_TIMEOUT, async || {
            let found = configs.get_opt(PROFILE).await?;
            Ok(found.filter(|config| {
                config.status.as_ref().is_some_and(|status| {
                    status.phase == Some(phase)
                        && status.observed_generation == config.metadata.generation
                })
            }))
        })
        .await
    };
    until(Phase::Ignored).await?;
    let plan = Patch::Merge(json!({ "spec": { "action": "DryRun" } }));
    configs
        .patch(PROFILE, &PatchParams::default(), &plan)
        .await?;
    until(Phase::ReviewRequired).await?;
    fixture.medley(&["approve", PROFILE, "--yes"]).await?.ok()?;
    let done = until(Phase::Completed).await?;
    // The webhook has recorded the approver.
    let annotations = done.metadata.annotations.unwrap_or_default();
    assert!(
        annotations.contains_key("advisor.kubevirt.io/approvals"),
        "{annotations:?}"
    );
    Ok(())
}

async fn works_with(line: &[&str]) -> anyhow::Result<()> {
    let fixture = InstallationFixture::with(&Installed::demo()).await?;
    let manager = Manager::new(fixture.client.clone());
    operators::start(&manager, fixture.client.clone(), FAST).await;
    fixture.cluster.node("worker-1", "amd64", "worker").await?;
    let _player = DeschedulerPlayer::running(fixture.client.clone());
    fixture.install(line).await?;
    // kube-apiserver observes new RBAC rules a moment later.
    wait_until("RBAC rules are in effect", WAIT_TIMEOUT, async || {
        let result = fixture.medley(&["check", "-o", "json"]).await?;
        let list: Value = serde_json::from_str(&result.out)?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let mut rights = items.iter().filter(|it| it["id"] == "rights");
        Ok(rights.all(|it| it["state"] == "Ok").then_some(()))
    })
    .await?;
    let mut running = fixture.run(&objects(line).await?).await?;
    plan_is_applied(&fixture).await?;
    running.assert_nothing_forbidden()?;
    manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_is_applied_with_the_installed_rbac_rules() -> anyhow::Result<()> {
    works_with(&[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_controllers_run_with_the_installed_rbac_rules() -> anyhow::Result<()> {
    // The console is left out: its port may be in use.
    works_with(&EVERYTHING[..3]).await
}
