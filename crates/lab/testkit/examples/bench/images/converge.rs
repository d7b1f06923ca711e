//! A large cluster: time from the request of images until all derived objects exist, and the cost
//! afterwards.
//!
//! The controllers run in the benchmark's process; the API server runs in its own process and
//! writes every object to disk before it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use api::cdi::{DataImportCron, DataSource};
use api::ssp::SSP;
use controllers::Job;
use controllers::images::cdi::Imports;
use fleet::operators::{self, HyperConvergedVersion, Installed, hyperconverged, names};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use runtime::Manager;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::wait_until;

use super::cluster::{ARCHITECTURE, node, template};
use crate::idle;
use crate::report::Report;
use crate::target::Target;

/// Namespace of Medley.
const NAMESPACE: &str = "medley-system";
/// Budget of the convergence, in seconds.
const BUDGET_SECONDS: f64 = 10.0;
/// Timeout of the convergence.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Clients that create nodes.
const CLIENTS: usize = 16;

/// Measures this number of images, each for three architectures, in a cluster of this many nodes.
pub(super) async fn measure(
    target: &Target,
    images: usize,
    nodes: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let client = target.client().await?;
    let installed = Installed {
        hyperconverged: Some(HyperConvergedVersion::V1),
        cdi: true,
        ssp: true,
        ..Installed::default()
    };
    operators::install(&client, &installed).await?;
    controllers::install(&client, NAMESPACE).await?;
    join(target, nodes).await?;

    let manager = Manager::new(target.client().await?);
    let options = controllers::Options {
        jobs: BTreeSet::from([Job::ImagesHco, Job::ImagesSsp]),
        namespace: NAMESPACE.to_owned(),
        profiles: Vec::new(),
        version: "v1".to_owned(),
        imports: Imports::Pods {
            image: "nobody imports".to_owned(),
        },
        registries: controllers::Registries::default(),
        addresses: platform::AddressPolicy::default(),
        audit_entries: controllers::governance::AUDIT_ENTRIES,
        payload_folders: Vec::new(),
    };
    controllers::start(&manager, &options).await?;
    let started = Instant::now();
    want(&client, images).await?;
    until(&manager, images).await?;
    report.at_most(
        BUDGET_SECONDS,
        &format!("converge, {images} images"),
        "s",
        started.elapsed().as_secs_f64(),
    );
    let started = Instant::now();
    want(&client, images + 1).await?;
    until(&manager, images + 1).await?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    report.less_is_better("converge, one more", "ms", took);
    idle::quiet(&manager, target, async || versions(&client).await, report).await?;
    manager.stop().await;
    Ok(())
}

/// Creates all nodes.
async fn join(target: &Target, nodes: usize) -> anyhow::Result<()> {
    let clients = try_join_all((0..CLIENTS).map(|_| target.client())).await?;
    let work = clients.into_iter().enumerate().map(|(first, client)| {
        let api: Api<Node> = Api::all(client);
        async move {
            for number in (first..nodes).step_by(CLIENTS) {
                let node = serde_json::from_value(node(number)).context("making a node")?;
                let made = api.create(&PostParams::default(), &node).await;
                made.with_context(|| format!("creating node {number}"))?;
            }
            anyhow::Ok(())
        }
    });
    try_join_all(work).await?;
    Ok(())
}

/// Requests the images.
async fn want(client: &Client, images: usize) -> anyhow::Result<()> {
    let kind = hyperconverged(HyperConvergedVersion::V1);
    let home = names::VIRTUALIZATION_NAMESPACE;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), home, &kind);
    let templates: Vec<Value> = (0..images).map(template).collect();
    let patch = json!({ "spec": { "workloadSources": {
        "enableMultiArchBootImageImport": true, "dataImportCronTemplates": templates,
    } } });
    let params = PatchParams::default();
    api.patch(names::HYPERCONVERGED, &params, &Patch::Merge(patch))
        .await
        .context("asking for images")?;
    Ok(())
}

/// Waits until there are a DataImportCron and a DataSource for each architecture of each image, and
/// a DataSource that points to the right one.
async fn until(manager: &Manager, images: usize) -> anyhow::Result<()> {
    let crons = manager.cache::<DataImportCron>();
    let sources = manager.cache::<DataSource>();
    let all = images * ARCHITECTURE.len();
    let named = all + images;
    wait_until("everything is there", TIMEOUT, async || {
        Ok((crons.len() >= all && sources.len() >= named).then_some(()))
    })
    .await?;
    anyhow::ensure!(crons.len() == all, "{} DataImportCrons", crons.len());
    anyhow::ensure!(sources.len() == named, "{} DataSources", sources.len());
    Ok(())
}

/// The resource versions of all objects the controllers write.
async fn versions(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    let kind = hyperconverged(HyperConvergedVersion::V1);
    let converged: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    add(&mut all, &converged).await?;
    add::<SSP>(&mut all, &Api::all(client.clone())).await?;
    add::<DataImportCron>(&mut all, &Api::all(client.clone())).await?;
    add::<DataSource>(&mut all, &Api::all(client.clone())).await?;
    Ok(all)
}

async fn add<K>(all: &mut BTreeMap<String, String>, api: &Api<K>) -> anyhow::Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let listed = api.list(&ListParams::default()).await;
    for object in listed.context("listing")? {
        let version = object.resource_version().unwrap_or_default();
        all.insert(object.uid().unwrap_or_default(), version);
    }
    Ok(())
}
