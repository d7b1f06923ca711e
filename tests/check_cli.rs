//! `medley check`: before an installation, after it, and with broken installations.

mod installation_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fleet::operators::Installed;
use installation_support::{InstallationFixture, NAMESPACE, objects};
use serde_json::{Value, json};
use testkit::{free_port, has};

/// Runs the check with `-o json`; returns its items and whether it failed.
async fn checked(
    fixture: &InstallationFixture,
    line: &[&str],
) -> anyhow::Result<(Vec<Value>, bool)> {
    checked_as(fixture, &fixture.served.kubeconfig, line).await
}

async fn checked_as(
    fixture: &InstallationFixture,
    who: &Path,
    line: &[&str],
) -> anyhow::Result<(Vec<Value>, bool)> {
    let line = [&["check", "-o", "json"], line].concat();
    let result = fixture.medley_as(who, &line).await?;
    let list: Value = serde_json::from_str(&result.out)?;
    assert_eq!(list["kind"], "List");
    let items = list["items"].as_array().cloned().unwrap_or_default();
    for item in &items {
        let trouble = item["state"] == "Failed" || item["state"] == "Warning";
        assert!(!trouble || item["hint"].is_string(), "{item}");
    }
    let failed = items.iter().any(|it| it["state"] == "Failed");
    assert_eq!(result.code, Some(i32::from(failed)), "{}", result.err);
    Ok((items, failed))
}

/// States of the checks that are not Ok, by id.
fn others(items: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in items.iter().filter(|it| it["state"] != "Ok") {
        let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        found.entry(text("id")).or_default().insert(text("state"));
    }
    found
}

/// The expected states, by id.
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
async fn precheck_of_an_empty_cluster_passes_for_an_administrator_only() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    let (items, failed) = checked(&fixture, &["--pre"]).await?;
    assert!(!failed, "{items:?}");
    // KubeVirt, OpenShift and Prometheus are not installed.
    assert_eq!(
        others(&items),
        expected([("jobs", "Off"), ("monitoring", "Off")])
    );
    has(
        &message(&items, "jobs"),
        &[
            "virtualmachineinstances.kubevirt.io, which KubeVirt installs",
            "clusterversions.config.openshift.io, which OpenShift installs",
        ],
    );
    let (items, failed) = checked_as(&fixture, &fixture.nobody()?, &["--pre"]).await?;
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
async fn missing_installation_is_reported_with_hints() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    let result = fixture.medley(&["check"]).await?;
    assert_eq!(result.code, Some(1));
    has(
        &result.out,
        &[
            "Kubernetes\n  ✓ the API server responds: v1.",
            "✗ CRD virtplatformconfigs.advisor.kubevirt.io is installed in this version: it is not installed",
            "hint: medley manifests --only crds | kubectl apply --server-side -f -",
            "see https://github.com/medley-dev/medley/blob/main/docs/check.md#kinds",
            "✗ namespace medley-system exists",
            "✗ Deployment medley-operator is available",
        ],
    );
    has(&result.err, &["error: ", " checks failed"]);
    assert!(
        !result.out.contains('\u{1b}'),
        "colours without a terminal: {}",
        result.out
    );
    let coloured = fixture.medley(&["check", "--color", "always"]).await?;
    has(&coloured.out, &["\u{1b}[31m✗\u{1b}[0m"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn working_installation_passes_every_check() -> anyhow::Result<()> {
    let fixture = InstallationFixture::with(&Installed::demo()).await?;
    fixture.install(&[]).await?;
    let before = checked(&fixture, &[]).await?.0;
    let wrong = others(&before);
    for id in ["operator", "webhook", "lease", "registrations"] {
        assert_eq!(wrong[id], ["Failed".to_owned()].into(), "{id}");
    }
    let _running = fixture.run(&objects(&[]).await?).await?;
    fixture.deployed().await?;
    let (items, failed) = checked(&fixture, &[]).await?;
    assert!(!failed, "{items:?}");
    // The operator creates the ReleasePolicy on its own, now or a moment later.
    let mut wrong = others(&items);
    wrong.remove("policies");
    assert_eq!(wrong, expected([("monitoring", "Off")]), "{items:?}");
    let ids: BTreeSet<&str> = items.iter().filter_map(|it| it["id"].as_str()).collect();
    for id in [
        "version",
        "kinds",
        "rights",
        "rights-surplus",
        "lease",
        "registrations",
        "jobs",
    ] {
        assert!(ids.contains(id), "{id}");
    }
    // Placement is not part of the installation, so its check fails.
    let (items, failed) = checked(&fixture, &["--controllers", "governance,placement"]).await?;
    assert!(failed);
    has(&message(&items, "rights"), &["it may not"]);
    has(
        &message(&items, "registrations"),
        &["the webhook creates it when it starts"],
    );
    Ok(())
}

#[tokio::test]
async fn missing_and_surplus_permissions_are_reported() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    fixture.install(&[]).await?;
    let rights = |items: &[Value]| {
        let mut wrong = others(items);
        wrong.retain(|id, _| id.starts_with("rights"));
        wrong
    };
    let (items, _) = checked(&fixture, &[]).await?;
    assert_eq!(rights(&items), expected([]));

    let line = ["delete", "clusterrolebinding", "medley-operator-cpu-models"];
    fixture.kubectl(&line).await?;
    let account = format!("--serviceaccount={NAMESPACE}:medley-webhook");
    let line = [
        "create",
        "clusterrolebinding",
        "too-much",
        "--clusterrole=cluster-admin",
        &account,
    ];
    fixture.kubectl(&line).await?;
    let found = testkit::wait_until(
        "permissions have changed",
        installation_support::WAIT_TIMEOUT,
        async || {
            let (items, _) = checked(&fixture, &[]).await?;
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
    // A user without read permissions gets a warning, not a failure of the installation.
    let (items, _) = checked_as(&fixture, &fixture.nobody()?, &[]).await?;
    assert_eq!(
        rights(&items),
        expected([("rights", "Warning"), ("rights-surplus", "Warning")])
    );
    has(&message(&items, "rights"), &["it cannot be read"]);
    Ok(())
}

#[tokio::test]
async fn webhook_without_endpoints_is_reported() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    fixture.install(&[]).await?;
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
    fixture.pipe(&line, &registration.to_string()).await?;
    let (items, _) = checked(&fixture, &[]).await?;
    has(
        &message(&items, "webhook-endpoints"),
        &["no endpoint is ready"],
    );
    has(
        &message(&items, "registrations"),
        &["has no valid CA bundle"],
    );
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
    fixture.pipe(&line, &slice.to_string()).await?;
    let (items, _) = checked(&fixture, &[]).await?;
    assert!(
        !others(&items).contains_key("webhook-endpoints"),
        "{items:?}"
    );
    Ok(())
}

#[tokio::test]
async fn outdated_crds_are_reported() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    fixture.install(&[]).await?;
    let established = ["wait", "--for=condition=Established", "crd", "--all"];
    fixture.kubectl(&established).await?;
    let (items, _) = checked(&fixture, &[]).await?;
    assert!(!others(&items).contains_key("kinds"), "{items:?}");
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/mode";
    let patch = json!([{ "op": "remove", "path": path }]).to_string();
    let name = "releasepolicies.medley.dev";
    let line = ["patch", "crd", name, "--type=json", "-p", &patch];
    fixture.kubectl(&line).await?;
    let (items, _) = checked(&fixture, &[]).await?;
    assert_eq!(others(&items)["kinds"], ["Warning".to_owned()].into());
    has(
        &message(&items, "kinds"),
        &["it is from another version of Medley"],
    );
    Ok(())
}

/// A CRD that keeps all fields.
fn definition(group: &str, kind: &str, plural: &str, scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": scope,
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}

#[tokio::test]
async fn openshift_is_recognised_and_its_constraints_are_missed() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    for (group, kind, plural, scope) in [
        (
            "security.openshift.io",
            "SecurityContextConstraints",
            "securitycontextconstraints",
            "Cluster",
        ),
        ("route.openshift.io", "Route", "routes", "Namespaced"),
    ] {
        let line = ["apply", "--server-side", "-f", "-"];
        let definition = definition(group, kind, plural, scope);
        fixture.pipe(&line, &definition.to_string()).await?;
    }
    let established = ["wait", "--for=condition=Established", "crd", "--all"];
    fixture.kubectl(&established).await?;
    let (items, failed) = checked(&fixture, &["--pre"]).await?;
    assert!(!failed, "{items:?}");
    let found = items.iter().filter(|it| it["id"] == "openshift");
    let hints: Vec<&str> = found.filter_map(|it| it["hint"].as_str()).collect();
    has(&hints.join("\n"), &["medley manifests --openshift"]);
    has(
        &message(&items, "openshift"),
        &["the cluster is OpenShift", "does not serve a menu entry"],
    );
    // Installed as elsewhere, importer pods would be refused.
    let line = ["--controllers", "images-cdi"];
    fixture.install(&line).await?;
    let (items, _) = checked(&fixture, &line).await?;
    assert_eq!(
        others(&items)["openshift-constraints"],
        ["Failed".to_owned()].into()
    );
    for namespace in ["openshift-config", "openshift-monitoring"] {
        fixture.kubectl(&["create", "namespace", namespace]).await?;
    }
    fixture
        .install(&[&line[..], &["--openshift"]].concat())
        .await?;
    let (items, _) = checked(&fixture, &line).await?;
    assert!(
        !others(&items).contains_key("openshift-constraints"),
        "{items:?}"
    );
    Ok(())
}

#[tokio::test]
async fn every_check_is_documented() -> anyhow::Result<()> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/check.md");
    let page = std::fs::read_to_string(page)?;
    let fixture = InstallationFixture::empty().await?;
    let mut items = checked(&fixture, &["--pre"]).await?.0;
    items.extend(checked(&fixture, &[]).await?.0);
    for item in items {
        let id = item["id"].as_str().unwrap_or_default();
        assert!(page.contains(&format!("\n## {id}\n")), "{id}");
        let docs = item["docs"].as_str().unwrap_or_default();
        assert!(docs.ends_with(&format!("/docs/check.md#{id}")), "{docs}");
    }
    Ok(())
}

#[tokio::test]
async fn unreachable_cluster_is_an_error() -> anyhow::Result<()> {
    let fixture = InstallationFixture::empty().await?;
    let text = std::fs::read_to_string(&fixture.served.kubeconfig)?;
    let elsewhere = format!("https://127.0.0.1:{}", free_port()?);
    let path = fixture.served.folder().join("elsewhere");
    std::fs::write(&path, text.replace(&fixture.served.url, &elsewhere))?;
    let result = fixture.medley_as(&path, &["check"]).await?.refused()?;
    has(&result, &["reading the version of the cluster"]);
    Ok(())
}

/// An operator that is installed, and whether anything runs it: that its Deployment wants replicas is enough.
fn operator((namespace, name): (&str, &str)) -> [Value; 2] {
    let labels = json!({ "app": name });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "manager", "image": "x" }] },
            },
        },
    });
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    [namespace, deployment]
}

#[tokio::test]
async fn precheck_finds_each_other_operator() -> anyhow::Result<()> {
    let fixture = InstallationFixture::with(&Installed::demo()).await?;
    let rivals = [
        "argo-cd",
        "cluster-version",
        "flux",
        "multiarch-tuning",
        "virt-advisor",
        "virt-platform-autopilot",
    ];
    let (items, _) = checked(&fixture, &["--pre"]).await?;
    let before = others(&items);
    for id in rivals {
        assert!(items.iter().any(|it| it["id"] == id), "{id}");
        assert_eq!(before.get(id), None, "{id}");
    }
    let mut all = Vec::new();
    for deployed in [
        ("openshift-cnv", "virt-advisor-operator-controller-manager"),
        ("openshift-cnv", "virt-platform-autopilot"),
        ("openshift-cluster-version", "cluster-version-operator"),
        ("tuning", "pod-placement-controller"),
    ] {
        all.extend(operator(deployed));
    }
    all.push(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": { "name": "version" },
        "spec": { "clusterID": "12345678-1234-1234-1234-123456789012" },
    }));
    all.push(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "pod-placement-mutating-webhook-configuration" },
        "webhooks": [{
            "name": "pod-placement-scheduling-gate.multiarch.openshift.io",
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": { "url": "https://127.0.0.1:1/" },
        }],
    }));
    all.extend([
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "openshift-kube-descheduler-operator" } }),
        json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
            "metadata": {
                "name": "cluster", "namespace": "openshift-kube-descheduler-operator",
                "annotations": { "argocd.argoproj.io/tracking-id": "virt:operator.openshift.io/KubeDescheduler:x/cluster" },
                "labels": {
                    "platform.kubevirt.io/managed-by": "virt-platform-autopilot",
                    "kustomize.toolkit.fluxcd.io/name": "virt",
                    "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
                },
            },
            "spec": { "managementState": "Managed", "profiles": ["LongLifecycle"] },
        }),
    ]);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": all }).to_string();
    fixture
        .pipe(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            &list,
        )
        .await?;
    let (items, failed) = checked(&fixture, &["--pre"]).await?;
    assert!(!failed, "other operators prevent no installation");
    let expected = [
        (
            "argo-cd",
            "Warning",
            "Argo CD (Application virt)",
            "spec.ignoreDifferences of virt",
        ),
        (
            "cluster-version",
            "Off",
            "the cluster version operator runs",
            "ReleasePolicy",
        ),
        (
            "flux",
            "Warning",
            "Flux (Kustomization flux-system/virt)",
            "reconcile=disabled",
        ),
        (
            "multiarch-tuning",
            "Off",
            "the multiarch-tuning-operator runs",
            "medley place take-over",
        ),
        (
            "virt-advisor",
            "Warning",
            "the virt-advisor-operator runs",
            "scale Deployment openshift-cnv/",
        ),
        (
            "virt-platform-autopilot",
            "Warning",
            "managed by the virt-platform-autopilot",
            "management-state=Unmanaged",
        ),
    ];
    for (id, state, what, next) in expected {
        let found = items.iter().find(|it| it["id"] == id);
        let found = found.cloned().unwrap_or_default();
        assert_eq!(found["state"], state, "{found}");
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        has(&text("message"), &[what]);
        has(&text("hint"), &[next]);
    }
    Ok(())
}
