//! The Helm chart beside the genuine helm: what it installs is what `medley manifests` prints.

#[path = "beside/fixture.rs"]
mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use testkit::{CommandOutput, peer};

use fixture::{GenuineCluster, NAMESPACE};

/// An installation, in the words of the command line and of the chart.
struct Installation {
    arguments: &'static [&'static str],
    values: &'static str,
}

const DEFAULT: Installation = Installation {
    arguments: &[],
    values: "{}",
};
const EVERYTHING: Installation = Installation {
    arguments: &[
        "--controllers=governance,images-hco,images-ssp,images-cdi,images-vm,cpu-models,release,placement,runtime-classes",
        "--enable-profile=node-health-remediation,example-profile",
        "--release-owner",
        "--console",
        "--console-tls",
        "--console-oidc-issuer=https://id.example.com",
        "--console-oidc-client-id=medley",
        "--replicas=3",
    ],
    values: r#"{
        "controllers": ["governance", "images-hco", "images-ssp", "images-cdi", "images-vm", "cpu-models", "release",
            "placement", "runtime-classes"],
        "profiles": ["example-profile", "node-health-remediation"],
        "releaseOwner": true,
        "console": {
            "enabled": true, "tls": true, "oidc": {"issuer": "https://id.example.com", "clientId": "medley"}
        },
        "replicas": 3
    }"#,
};

/// Kind, namespace and name of an object.
type Key = (String, String, String);

fn chart() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/helm/medley")
}

/// Runs helm with folders of its own, and returns its output.
fn helm(
    beside: &GenuineCluster,
    arguments: &[&str],
    installation: Option<&Installation>,
) -> anyhow::Result<String> {
    let folder = beside.served.folder();
    let mut command = Command::new(peer("helm")?);
    command
        .args(arguments)
        .args(["--namespace", NAMESPACE])
        .env("HOME", folder)
        .env("KUBECONFIG", &beside.served.kubeconfig)
        .stdin(Stdio::null());
    if let Some(installation) = installation {
        let values = folder.join("values.json");
        std::fs::write(&values, installation.values).context("writing values")?;
        command.arg("--values").arg(values);
    }
    let output = command.output().context("running helm")?;
    CommandOutput::of(&output)
        .ok()
        .with_context(|| format!("helm {}", arguments.join(" ")))
}

/// The objects that `medley manifests` prints, without the namespace: helm creates it.
fn printed(beside: &GenuineCluster, installation: &Installation) -> anyhow::Result<Vec<Value>> {
    let arguments = [&["manifests", "--output=json"], installation.arguments].concat();
    let list = beside.medley(&arguments)?.json()?;
    let items = list["items"].as_array().context("a list")?.iter();
    let items = items.filter(|object| object["kind"] != "Namespace");
    Ok(items.cloned().collect())
}

fn key(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"]),
    )
}

/// These objects as a cluster has them, without what differs between clusters and installers.
async fn live(
    beside: &GenuineCluster,
    objects: &[Value],
) -> anyhow::Result<BTreeMap<Key, Option<Value>>> {
    let mut found = BTreeMap::new();
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let namespace = object["metadata"]["namespace"].as_str();
        let api = beside.objects(&api_version, &kind, namespace);
        let name = text(&object["metadata"]["name"]);
        let current = api.get_opt(&name).await;
        let current = current.with_context(|| format!("reading {kind} {name}"))?;
        found.insert(key(object), current.map(|object| comparable(&object)));
    }
    Ok(found)
}

fn comparable(object: &DynamicObject) -> Value {
    let mut value = json!(object);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    // Addresses that the API server allocates.
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|name, _| !matches!(name.as_str(), "clusterIP" | "clusterIPs"));
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        for server in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
        ] {
            metadata.remove(server);
        }
        // What helm adds to every object, and its rule to keep CRDs.
        for (map, names) in [
            ("labels", &["app.kubernetes.io/managed-by"][..]),
            (
                "annotations",
                &[
                    "meta.helm.sh/release-name",
                    "meta.helm.sh/release-namespace",
                    "helm.sh/resource-policy",
                ],
            ),
        ] {
            if let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) {
                entries.retain(|name, _| !names.contains(&name.as_str()));
                if entries.is_empty() {
                    metadata.remove(map);
                }
            }
        }
    }
    value
}

/// Installs with `kubectl`, as the documentation has it.
fn apply(beside: &GenuineCluster, installation: &Installation) -> anyhow::Result<()> {
    let arguments = [&["manifests"], installation.arguments].concat();
    let manifests = beside.served.folder().join("manifests.yaml");
    std::fs::write(&manifests, beside.medley(&arguments)?.ok()?).context("writing manifests")?;
    let file = manifests.to_str().context("a path in UTF-8")?;
    let line = ["apply", "--server-side", "--filename", file];
    // Without a namespace: the objects have several.
    let output = Command::new("kubectl")
        .args(line)
        .env("HOME", beside.served.folder())
        .env("KUBECONFIG", &beside.served.kubeconfig)
        .stdin(Stdio::null())
        .output()
        .context("running kubectl")?;
    let applied = CommandOutput::of(&output).ok();
    applied.with_context(|| format!("kubectl {line:?}"))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn chart_installs_and_upgrades_to_what_manifests_prints() -> anyhow::Result<()> {
    let chart = chart();
    let chart = chart.to_str().context("a path in UTF-8")?;
    let by_helm = GenuineCluster::start().await?;
    let by_kubectl = GenuineCluster::start().await?;
    for (installation, command) in [
        (&DEFAULT, &["install", "--create-namespace"][..]),
        (&EVERYTHING, &["upgrade"]),
    ] {
        helm(&by_helm, &["lint", "--strict", chart], Some(installation))?;
        let objects = printed(&by_helm, installation)?;
        let expected: BTreeSet<Key> = objects.iter().map(key).collect();
        let template = helm(&by_helm, &["template", "medley", chart], Some(installation))?;
        let rendered: Vec<Value> = serde_saphyr::from_multiple(&template)
            .context("reading the output of helm template")?;
        assert_eq!(rendered.iter().map(key).collect::<BTreeSet<_>>(), expected);

        helm(
            &by_helm,
            &[command, &["medley", chart]].concat(),
            Some(installation),
        )?;
        apply(&by_kubectl, installation)?;
        let installed = live(&by_helm, &objects).await?;
        for (key, applied) in live(&by_kubectl, &objects).await? {
            assert!(applied.is_some(), "kubectl did not create {key:?}");
            assert_eq!(installed[&key], applied, "{key:?}");
        }
    }

    // CRDs stay, and with them the objects of users.
    let objects = printed(&by_helm, &EVERYTHING)?;
    helm(&by_helm, &["uninstall", "medley", "--wait"], None)?;
    for ((kind, namespace, name), left) in live(&by_helm, &objects).await? {
        let is_crd = kind == "CustomResourceDefinition";
        assert_eq!(left.is_some(), is_crd, "{kind} {namespace}/{name}");
    }
    Ok(())
}
