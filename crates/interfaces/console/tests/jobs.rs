//! The pages of CPU models, releases, placement and virtual machines over HTTP: what each user
//! sees, and what they write.

#[path = "http/world.rs"]
#[allow(dead_code, reason = "other suites use the rest of it")]
mod world;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use api::cdi::{DataImportCron, annotations, labels};
use api::kubevirt::VirtualMachine;
use fleet::operators::{self, Installed};
use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use placement::names::{GATE, WHY};
use serde_json::{Value, json};
use testkit::has;

use world::{Browser, ConsoleFixture, WAIT_TIMEOUT};

const ADMIN: &str = "cluster-admin";

/// A fixture with the CRDs of KubeVirt and CDI.
async fn start() -> anyhow::Result<ConsoleFixture> {
    let fixture = ConsoleFixture::start().await?;
    let installed = Installed {
        virtual_machines: true,
        cdi: true,
        ..Installed::default()
    };
    operators::install(&fixture.cluster.client(), &installed).await?;
    Ok(fixture)
}

/// A node that runs virtual machines, as labelled by KubeVirt's node-labeller.
async fn node(
    client: &Client,
    name: &str,
    of: (&str, &str),
    models: &[&str],
) -> anyhow::Result<()> {
    let (architecture, host_model) = of;
    let mut labels = json!({
        "kubevirt.io/schedulable": "true",
        "kubernetes.io/arch": architecture,
        "kubernetes.io/os": "linux",
    });
    if !models.is_empty() {
        labels["cpu-vendor.node.kubevirt.io/AMD"] = json!("true");
        labels[format!("host-model-cpu.node.kubevirt.io/{host_model}")] = json!("true");
    }
    for model in models {
        labels[format!("cpu-model.node.kubevirt.io/{model}")] = json!("true");
        labels[format!("cpu-model-migration.node.kubevirt.io/{model}")] = json!("true");
    }
    let node = json!({ "metadata": { "name": name, "labels": labels } });
    let api: Api<Node> = Api::all(client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(node)?)
        .await?;
    // The API server taints nodes until they report to be ready.
    let patch = Patch::Merge(json!({ "spec": { "taints": null } }));
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// An object of any kind, with its status.
async fn create(
    client: &Client,
    of: (&str, &str, &str),
    namespace: Option<&str>,
    object: Value,
) -> anyhow::Result<()> {
    let (group, version, kind) = of;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut object = object;
    object["apiVersion"] = resource.api_version.clone().into();
    object["kind"] = kind.into();
    let name = object["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    let new: DynamicObject = serde_json::from_value(object.clone())?;
    api.create(&PostParams::default(), &new).await?;
    if let Some(status) = object.get("status") {
        let patch = Patch::Merge(json!({ "status": status }));
        // Without a status subresource, the status was written with the rest.
        let _ = api
            .patch_status(&name, &PatchParams::default(), &patch)
            .await;
    }
    Ok(())
}

/// A CRD without a schema.
async fn define(client: &Client, group: &str, kind: &str) -> anyhow::Result<()> {
    let plural = format!("{}s", kind.to_lowercase());
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    }))?;
    Api::all(client.clone())
        .create(&PostParams::default(), &definition)
        .await?;
    Ok(())
}

/// Waits until a page contains all of these.
async fn page_contains(
    browser: &mut Browser,
    path: &str,
    parts: &[&str],
) -> anyhow::Result<String> {
    let started = Instant::now();
    loop {
        let page = browser.page(path).await?;
        if parts.iter().all(|part| page.contains(part)) {
            return Ok(page);
        }
        ensure!(started.elapsed() < WAIT_TIMEOUT, "{parts:?} in\n{page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_page_shows_models_and_what_if_changes_nothing() -> anyhow::Result<()> {
    let fixture = start().await?;
    let client = fixture.cluster.client();
    node(
        &client,
        "rome0",
        ("amd64", "EPYC-Rome"),
        &["EPYC", "EPYC-Rome"],
    )
    .await?;
    node(
        &client,
        "rome1",
        ("amd64", "EPYC-Rome"),
        &["EPYC", "EPYC-Rome"],
    )
    .await?;
    node(&client, "naples0", ("amd64", "EPYC"), &["EPYC"]).await?;
    let machine = |name: &str, node: &str, model: &str| {
        json!({
            "metadata": { "name": name },
            "spec": { "architecture": "amd64", "domain": { "cpu": { "model": model } } },
            "status": { "phase": "Running", "nodeName": node },
        })
    };
    let of = ("kubevirt.io", "v1", "VirtualMachineInstance");
    create(
        &client,
        of,
        Some("default"),
        machine("web", "rome0", "EPYC-Rome"),
    )
    .await?;
    let mut browser = fixture.browser("ada", &[ADMIN]).await?;
    let page = page_contains(
        &mut browser,
        "/cpu",
        &["amd64 by AMD", "default/</span>web"],
    )
    .await?;
    has(
        &page,
        &[
            "2 of 2 EPYC-Rome nodes support EPYC-Rome",
            "0 of 1 EPYC nodes support EPYC-Rome",
        ],
    );
    // The form has its result on the same page, and the node stays.
    let asked = browser.page("/cpu?remove=rome1&like=&count=1").await?;
    has(
        &asked,
        &[
            "id=\"outcome\"",
            "Without a node to migrate to",
            "0 → <strong class=\"bad\">1",
        ],
    );
    let nodes: Api<Node> = Api::all(client);
    assert!(nodes.get_opt("rome1").await?.is_some());
    let more = browser.page("/cpu?like=rome0&count=3").await?;
    has(
        &more,
        &[
            "id=\"outcome\"",
            "value=\"rome0\" selected>EPYC-Rome, amd64",
        ],
    );
    has(&browser.page("/").await?, &["node classes"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn user_without_permissions_is_shown_the_required_role() -> anyhow::Result<()> {
    let fixture = start().await?;
    let mut browser = fixture.browser("nobody", &[]).await?;
    for (path, part) in [
        ("/cpu", "Your account may not read nodes"),
        ("/release", "Your account may not read clusterversions"),
        ("/placement", "Your account may not read pods"),
        ("/machines", "Your account may not read virtualmachines"),
    ] {
        has(&browser.page(path).await?, &[part]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn release_page_shows_progress_of_operators() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    let mut browser = fixture.browser("ada", &[ADMIN]).await?;
    has(
        &browser.page("/release").await?,
        &["This cluster has no clusterversions.config.openshift.io"],
    );
    let client = fixture.cluster.client();
    let group = "config.openshift.io";
    for kind in ["ClusterVersion", "ClusterOperator"] {
        define(&client, group, kind).await?;
        let name = format!("{}s.{group}", kind.to_lowercase());
        runtime::wait_until_served(&client, &name).await?;
    }
    let time = "2026-01-01T00:00:00Z";
    create(
        &client,
        (group, "v1", "ClusterVersion"),
        None,
        json!({
            "metadata": { "name": "version" },
            "spec": { "clusterID": "x" },
            "status": {
                "desired": { "version": "4.18.0", "image": "quay.io/x/release@sha256:11" },
                "history": [{ "state": "Partial", "version": "4.18.0", "image": "quay.io/x/release@sha256:11", "startedTime": time }],
                "conditions": [{ "type": "Progressing", "status": "True", "lastTransitionTime": time }],
            },
        }),
    )
    .await?;
    for (name, version) in [("dns", "4.18.0"), ("etcd", "4.17.0")] {
        create(
            &client,
            (group, "v1", "ClusterOperator"),
            None,
            json!({
                "metadata": { "name": name, "annotations": { "include.release.openshift.io/self-managed-high-availability": "true" } },
                "spec": {},
                "status": {
                    "versions": [{ "name": "operator", "version": version }],
                    "conditions": [
                        { "type": "Available", "status": "True", "lastTransitionTime": time },
                        { "type": "Progressing", "status": if name == "etcd" { "True" } else { "False" }, "lastTransitionTime": time },
                        { "type": "Degraded", "status": "False", "lastTransitionTime": time },
                    ],
                },
            }),
        )
        .await?;
    }
    let page = page_contains(
        &mut browser,
        "/release",
        &["1 of 2 operators", "operator-etcd"],
    )
    .await?;
    has(
        &page,
        &[
            "0 of 2 operators report images",
            "4.18.0",
            ">Arrived<",
            ">Updating<",
        ],
    );
    has(
        &browser.page("/").await?,
        &["1 of 2 operators have completed"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn gated_pods_are_shown_with_the_reason() -> anyhow::Result<()> {
    let fixture = start().await?;
    let client = fixture.cluster.client();
    node(&client, "arm0", ("arm64", ""), &[]).await?;
    create(
        &client,
        ("", "v1", "Pod"),
        Some("default"),
        json!({
            "metadata": { "name": "nowhere", "annotations": { WHY: "no node runs windows/arm64" } },
            "spec": {
                "schedulingGates": [{ "name": GATE }],
                "containers": [{ "name": "c", "image": "127.0.0.1:1/shop/web:1" }],
            },
        }),
    )
    .await?;
    let mut browser = fixture.browser("ada", &[ADMIN]).await?;
    let page = page_contains(&mut browser, "/placement", &["default/</span>nowhere"]).await?;
    has(
        &page,
        &[">Refused<", "no node runs windows/arm64", "not queried<"],
    );
    has(&browser.page("/").await?, &["no node runs windows/arm64"]);
    // The lookup requires a session and a CSRF token.
    let refused = browser.post("/placement/look", &[]).await?;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let asked = browser.submit("/placement/look", &[]).await?;
    assert_eq!(asked.location(), "/placement");
    let page = browser.page("/placement").await?;
    has(
        &page,
        &[
            "Registries were queried for 1 image.",
            "127.0.0.1:1",
            "Does not answer",
        ],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_is_created_for_the_chosen_architecture() -> anyhow::Result<()> {
    let fixture = start().await?;
    let client = fixture.cluster.client();
    node(&client, "rome0", ("amd64", "EPYC-Rome"), &["EPYC-Rome"]).await?;
    node(&client, "arm0", ("arm64", ""), &[]).await?;
    for architecture in ["amd64", "arm64"] {
        create(
            &client,
            ("cdi.kubevirt.io", "v1beta1", "DataSource"),
            Some("default"),
            json!({
                "metadata": {
                    "name": format!("fedora-{architecture}"),
                    "labels": { "template.kubevirt.io/architecture": architecture },
                },
                "spec": { "source": { "pvc": { "namespace": "default", "name": "x" } } },
                "status": { "source": {}, "conditions": [{ "type": "Ready", "status": "True" }] },
            }),
        )
        .await?;
    }
    let mut browser = fixture.browser("ada", &[ADMIN]).await?;
    let first = page_contains(
        &mut browser,
        "/machines/new",
        &["?arch=amd64", "?arch=arm64"],
    )
    .await?;
    has(&first, &["Which architecture?", "EPYC-Rome"]);
    let second = page_contains(&mut browser, "/machines/new?arch=arm64", &["fedora-arm64"]).await?;
    assert!(!second.contains("fedora-amd64"), "{second}");
    let image = "default/fedora-arm64";
    let last = browser
        .page("/machines/new?arch=arm64&image=default%2Ffedora-arm64")
        .await?;
    has(
        &last,
        &["name=\"memory\"", "<option selected>default</option>"],
    );
    let fields = |architecture: &'static str| {
        [
            ("arch", architecture),
            ("image", image),
            ("name", "web-0"),
            ("namespace", "default"),
            ("cores", "2"),
            ("memory", "4Gi"),
            ("start", "yes"),
        ]
    };
    // An image of another architecture is rejected.
    let refused = browser.submit("/machines", &fields("amd64")).await?;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    has(&refused.body, &["the virtual machine for amd64"]);
    let made = browser.submit("/machines", &fields("arm64")).await?;
    assert_eq!(made.location(), "/machines", "{}", made.body);
    let machines: Api<VirtualMachine> = Api::namespaced(client, "default");
    let found = machines.get("web-0").await?;
    let template = &found.spec.template.spec;
    assert_eq!(template.architecture.as_deref(), Some("arm64"));
    let managers: Vec<Option<String>> = found
        .managed_fields()
        .iter()
        .map(|it| it.manager.clone())
        .collect();
    assert!(
        managers.contains(&Some(console::MANAGER.to_owned())),
        "{managers:?}"
    );
    let page = browser.page("/machines").await?;
    has(
        &page,
        &["default/web-0 was created", "default/</span>web-0", "arm64"],
    );
    // A duplicate is rejected with the message of the API server.
    let twice = browser.submit("/machines", &fields("arm64")).await?;
    assert_eq!(twice.status, StatusCode::CONFLICT);

    // The page says that a user has only read permissions, and the user cannot submit the form by hand.
    let mut viewer = fixture.browser("vic", &["view"]).await?;
    let refused = viewer.submit("/machines", &fields("arm64")).await?;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pin_beside_cdi_edits_what_cdi_imports() -> anyhow::Result<()> {
    let fixture = start().await?;
    let client = fixture.cluster.client();
    let labels = json!({ "name": "cdi-deployment" });
    let cdi = json!({
        "metadata": { "name": "cdi-deployment" },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "c", "image": "registry.example/c:1" }] },
            },
        },
    });
    create(&client, ("apps", "v1", "Deployment"), Some("default"), cdi).await?;
    let (newest, other) = (
        format!("sha256:{}", "b".repeat(64)),
        format!("sha256:{}", "a".repeat(64)),
    );
    for (image, schedule) in [("fedora", ""), ("polled", "0 */12 * * *")] {
        let source = format!("{image}-arm64");
        let cron = json!({
            "metadata": {
                "name": format!("{image}-cron"),
                "annotations": { annotations::DESIRED_DIGEST: newest },
                "labels": { labels::ARCHITECTURE: "arm64", labels::DATA_SOURCE_NAME: image },
            },
            "spec": {
                "schedule": schedule, "managedDataSource": source,
                "template": { "spec": {
                    "source": { "registry": { "url": "docker://registry.invalid/fedora:41" } },
                    "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                } },
            },
        });
        let of = ("cdi.kubevirt.io", "v1beta1", "DataImportCron");
        create(&client, of, Some("default"), cron).await?;
        let object = json!({
            "metadata": { "name": source, "labels": {
                labels::ARCHITECTURE: "arm64", labels::DATA_SOURCE_NAME: image,
                labels::DATA_IMPORT_CRON: format!("{image}-cron"),
            } },
            "spec": { "source": { "pvc": { "namespace": "default", "name": format!("{source}-bbbbbbbbbbbb") } } },
        });
        let of = ("cdi.kubevirt.io", "v1beta1", "DataSource");
        create(&client, of, Some("default"), object).await?;
    }
    let mut browser = fixture.browser("ada", &[ADMIN]).await?;
    let crons: Api<DataImportCron> = Api::namespaced(client, "default");
    let digest = async |name: &str| -> anyhow::Result<Option<String>> {
        let cron = crons.get(name).await?;
        Ok(cron.annotations().get(annotations::DESIRED_DIGEST).cloned())
    };
    page_contains(&mut browser, "/images/default/fedora", &["fedora-arm64"]).await?;
    let fields = [("source", "fedora-arm64"), ("digest", other.as_str())];
    let pinned = browser
        .submit("/images/default/fedora/pin", &fields)
        .await?;
    assert_eq!(
        pinned.location(),
        "/images/default/fedora",
        "{}",
        pinned.body
    );
    assert_eq!(digest("fedora-cron").await?, Some(other.clone()));
    // The next page knows the pin, and removes it.
    page_contains(&mut browser, "/images/default/fedora", &["pinned to"]).await?;
    let unpinned = browser
        .submit("/images/default/fedora/unpin", &fields[..1])
        .await?;
    assert_eq!(unpinned.location(), "/images/default/fedora");
    assert_eq!(digest("fedora-cron").await?, Some(newest.clone()));

    // The next poll of CDI would overwrite this one.
    let fields = [("source", "polled-arm64"), ("digest", other.as_str())];
    let refused = browser
        .submit("/images/default/polled/pin", &fields)
        .await?;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    has(&refused.body, &["overwrites the pin"]);
    assert_eq!(digest("polled-cron").await?, Some(newest));
    Ok(())
}
