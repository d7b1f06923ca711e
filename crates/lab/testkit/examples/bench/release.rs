//! Evaluation of a release for a large cluster: in memory, the cost after each report of an
//! operator; with an API server, the latency until the verdict changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use api::openshift::{ClusterOperator, payloads};
use api::release::ReleasePolicy;
use controllers::Job;
use controllers::images::cdi::Imports;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use release_migration::evaluate::{Phase, Plan};
use release_migration::payload::{Manifest, Payload};
use runtime::{Manager, wait_until_served};
use serde_json::{Value, json};
use testkit::{TestCluster, by, wait_until};

use crate::report::Report;

/// Budget for noticing the change of one image, in milliseconds.
const CHANGE_BUDGET_MS: f64 = 100.0;

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Number of operators.
    pub(crate) operators: usize,
    /// Number of manifests, operators included.
    pub(crate) manifests: usize,
    /// Number of reports.
    pub(crate) rounds: usize,
}

fn image(new: bool) -> String {
    let letter = if new { "b" } else { "a" };
    format!("quay.io/release@sha256:{}", letter.repeat(64))
}

fn operator(name: &str, new: bool) -> anyhow::Result<ClusterOperator> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {},
        "status": {
            "versions": [
                { "name": "operator", "version": "4.18.0" },
                { "name": "operator-image", "version": image(new) },
            ],
            "conditions": [
                { "type": "Available", "status": "True" }, { "type": "Degraded", "status": "False" },
            ],
        },
    }))?)
}

fn payload(size: Size) -> anyhow::Result<Payload> {
    let each = size.manifests / size.operators.max(1);
    let mut manifests = Vec::new();
    for number in 0..size.operators {
        let name = format!("operator-{number:03}");
        // Ten levels, so that some wait for others.
        let level = 10 + number * 10 / size.operators;
        for place in 1..each {
            manifests.push(Manifest {
                file: format!("0000_{level}_{name}_{place:03}.yaml"),
                object: json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": { "name": format!("c-{place}"), "namespace": name },
                }),
            });
        }
        let mut object = serde_json::to_value(operator(&name, true)?)?;
        object["apiVersion"] = json!("config.openshift.io/v1");
        object["kind"] = json!("ClusterOperator");
        manifests.push(Manifest {
            file: format!("0000_{level}_{name}_999_co.yaml"),
            object,
        });
    }
    Ok(Payload {
        manifests,
        ..Payload::default()
    })
}

/// Measures evaluations in memory.
pub(crate) fn measure(size: Size, report: &mut Report) -> anyhow::Result<()> {
    report.column("medley");
    let payload = payload(size)?;
    let started = Instant::now();
    let plan = Plan::new(&payload);
    report.less_is_better("plan", "ms", started.elapsed().as_secs_f64() * 1e3);
    let names: Vec<String> = plan.operators().iter().map(|it| it.name.clone()).collect();
    let mut actual = BTreeMap::new();
    for name in &names {
        actual.insert(name.clone(), operator(name, false)?);
    }
    let mut slowest = 0.0_f64;
    let started = Instant::now();
    for round in 0..size.rounds {
        let name = &names[round % names.len()];
        actual.insert(
            name.clone(),
            operator(name, (round / names.len()).is_multiple_of(2))?,
        );
        let look = Instant::now();
        let evaluation = plan.evaluate(&actual, Phase::Updating);
        slowest = slowest.max(look.elapsed().as_secs_f64() * 1e3);
        ensure!(
            evaluation.total == payload.manifests.len(),
            "manifests are lost"
        );
    }
    let seconds = started.elapsed().as_secs_f64();
    let judged = size.rounds * payload.manifests.len();
    let rate = f64::from(u32::try_from(judged)?) / seconds;
    let (operators, manifests) = (size.operators, payload.manifests.len());
    report.more_is_better(
        &format!("manifests judged, {operators} operators, {manifests} manifests"),
        "/s",
        rate,
    );
    report.less_is_better("a look at all operators, slowest", "ms", slowest);
    Ok(())
}

/// The release of the cluster.
const IMAGE: &str = "quay.io/release:4.18.0-multi";
/// Number of image changes.
const IMAGE_CHANGES: usize = 200;
/// Timeout of each step.
const STEP_TIMEOUT: Duration = Duration::from_mins(1);

fn kind(name: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", name))
}

/// Creates an object and sets its status.
async fn put(client: &Client, name: &str, mut object: Value) -> anyhow::Result<()> {
    let resource = kind(name);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    object["apiVersion"] = json!(resource.api_version);
    object["kind"] = json!(name);
    let patch = json!({ "status": object["status"].take() });
    let made = serde_json::from_value(object)?;
    let made = api.create(&PostParams::default(), &made).await?;
    let status = Patch::Merge(patch);
    api.patch_status(&made.name_any(), &by("bench"), &status)
        .await?;
    Ok(())
}

/// The embedded server with a cluster in the middle of an update, and the release controller.
async fn cluster(size: Size) -> anyhow::Result<(TestCluster, Manager)> {
    let cluster = TestCluster::embedded().await?;
    let client = cluster.client();
    controllers::install(&client, "medley-system").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in testkit::openshift_crds() {
        let definition = serde_json::from_value(definition)?;
        let made = definitions
            .create(&PostParams::default(), &definition)
            .await?;
        wait_until_served(&client, &made.name_any()).await?;
    }
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": payloads::NAMESPACE } }))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let mut files = BTreeMap::from([
        (
            "release-metadata".to_owned(),
            json!({ "kind": "cincinnati-metadata-v0", "version": "4.18.0" }).to_string(),
        ),
        (
            "image-references".to_owned(),
            json!({
                "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
                "metadata": { "name": "4.18.0" },
            })
            .to_string(),
        ),
    ]);
    // Only the operators are needed; all manifests would exceed the size of a ConfigMap.
    for manifest in payload(size)?.manifests {
        if manifest.kind() == "ClusterOperator" {
            files.insert(manifest.file, manifest.object.to_string());
        }
    }
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {
            "name": "release", "labels": { payloads::LABEL: payloads::LABELLED },
            "annotations": { payloads::IMAGE: IMAGE },
        },
        "data": files,
    }))?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), payloads::NAMESPACE);
    maps.create(&PostParams::default(), &map).await?;
    for number in 0..size.operators {
        let name = format!("operator-{number:03}");
        let mut object = serde_json::to_value(operator(&name, true)?)?;
        for condition in object["status"]["conditions"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            condition["lastTransitionTime"] = json!("2026-01-02T12:00:00Z");
        }
        put(&client, "ClusterOperator", object).await?;
    }
    let entry = json!({
        "state": "Completed", "startedTime": "2026-01-02T12:00:00Z",
        "completionTime": "2026-01-02T12:30:00Z", "version": "4.18.0", "image": IMAGE,
        "verified": true,
    });
    let version = json!({
        "metadata": { "name": "version" },
        "spec": { "clusterID": "b54b0d5e-6b8a-4b0c-9b3e-0f6a5d1c2e3f" },
        "status": {
            "desired": { "version": "4.18.0", "image": IMAGE }, "history": [entry],
            "observedGeneration": 1, "versionHash": "x=", "availableUpdates": null,
        },
    });
    put(&client, "ClusterVersion", version).await?;
    let manager = Manager::new(client);
    let options = controllers::Options {
        jobs: BTreeSet::from([Job::Release]),
        namespace: "medley-system".to_owned(),
        profiles: Vec::new(),
        version: "bench".to_owned(),
        imports: Imports::Pods {
            image: "nobody imports".to_owned(),
        },
        registries: controllers::Registries::default(),
        addresses: platform::AddressPolicy::default(),
        audit_entries: controllers::governance::AUDIT_ENTRIES,
        payload_folders: Vec::new(),
    };
    controllers::start(&manager, &options).await?;
    Ok((cluster, manager))
}

/// Measures the time from an operator's report of another image to the event that shows the new
/// verdict.
pub(crate) async fn flips(size: Size, report: &mut Report) -> anyhow::Result<()> {
    let (cluster, manager) = Box::pin(cluster(size)).await?;
    let policies: Api<ReleasePolicy> = Api::all(cluster.client());
    let arrived = |it: &ReleasePolicy| {
        let progress = it.status.as_ref().and_then(|it| it.progress.clone());
        progress.map_or(-1, |it| it.arrived)
    };
    let all = i32::try_from(size.operators)?;
    let first = wait_until("the first verdict", STEP_TIMEOUT, async || {
        let found = policies.get_opt("default").await?;
        Ok(found.filter(|it| arrived(it) == all))
    })
    .await?;
    let since = first.resource_version().unwrap_or_default();
    let mut watch = policies
        .watch(&WatchParams::default(), &since)
        .await?
        .boxed();
    let operators: Api<DynamicObject> = Api::all_with(cluster.client(), &kind("ClusterOperator"));
    let mut took = Vec::with_capacity(IMAGE_CHANGES);
    for round in 0..IMAGE_CHANGES {
        let name = format!("operator-{:03}", (round / 2) % size.operators);
        let new = !round.is_multiple_of(2);
        let object = serde_json::to_value(operator(&name, new)?)?;
        let patch = json!({ "status": { "versions": object["status"]["versions"] } });
        let expected = if new { all } else { all - 1 };
        let started = Instant::now();
        operators
            .patch_status(&name, &by("bench"), &Patch::Merge(patch))
            .await?;
        loop {
            let event = tokio::time::timeout(STEP_TIMEOUT, watch.next()).await;
            let event =
                event.with_context(|| format!("the image change of {name} was not noticed"))?;
            match event.context("the watch ended")?? {
                WatchEvent::Modified(it) if arrived(&it) == expected => break,
                _ => {}
            }
        }
        took.push(started.elapsed().as_secs_f64() * 1e3);
    }
    manager.stop().await;
    took.sort_by(f64::total_cmp);
    let at = |hundredth: usize| {
        let place = (took.len() * hundredth / 100).min(took.len() - 1);
        took.get(place).copied().unwrap_or_default()
    };
    let what = format!(
        "an image of {} flips until the verdict shows it",
        size.operators
    );
    report.less_is_better(&format!("{what}, median"), "ms", at(50));
    report.at_most(CHANGE_BUDGET_MS, &format!("{what}, p99"), "ms", at(99));
    Ok(())
}
