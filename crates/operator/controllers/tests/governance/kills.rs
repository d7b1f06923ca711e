//! The operator is killed at every request, before it is sent and after the response; the next process resumes. Nothing
//! is applied twice, left out or overwritten.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::ensure;
use api::advisor::{
    FIELD_MANAGER, Impact, ItemState, Phase, ProfileOptions, TargetRef, VirtPlatformConfig,
};
use controllers::governance::{Options, history};
use fleet::operators::Installed;
use futures::{StreamExt as _, future::pending};
use governance::profile::kinds::CONFIG_MAP;
use governance::profile::{Access, KindUse, Prerequisite, ProfileInfo, Refusal};
use governance::{Intent, Intents, Profile, Registry, Snapshot};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PostParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt as _};
use runtime::Manager;
use serde_json::json;
use testkit::{TestCluster, by};
use tokio::sync::Notify;

use crate::stage::{NAMESPACE, Stage, WAIT_TIMEOUT};

const PROFILE: &str = "example-profile";
const TARGETS: [&str; 3] = ["first", "second", "third"];

/// Three items: the first two objects exist and are changed, the third is created.
struct ThreeItems;

impl Profile for ThreeItems {
    fn about(&self) -> &ProfileInfo {
        &ProfileInfo {
            name: PROFILE,
            description: "Three items",
            category: "test",
            impact_summary: "None",
            impact: Impact::Low,
            documentation_url: "",
            advertised: false,
        }
    }

    fn uses(&self) -> &[KindUse] {
        &[KindUse {
            of: CONFIG_MAP,
            versions: &["v1"],
            plural: "configmaps",
            access: Access::ApplyAndDelete,
            named: None,
        }]
    }

    fn prerequisites(&self, _: &ProfileOptions) -> Vec<Prerequisite> {
        Vec::new()
    }

    fn intents(&self, _: &ProfileOptions, _: &Snapshot) -> Result<Intents, Refusal> {
        let items = TARGETS.into_iter().map(|name| Intent {
            name,
            target: TargetRef {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                name: name.to_owned(),
                namespace: Some("default".to_owned()),
            },
            desired: json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "namespace": "default" },
                "data": { "ours": "wanted" },
            }),
            managed: vec!["data.ours".to_owned()],
            impact: Impact::Low,
            message: format!("{name} will be configured"),
            depends_on: Vec::new(),
        });
        Ok(Intents {
            items: items.collect(),
            ..Intents::default()
        })
    }
}

/// When a client stops working for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// Before the request is sent.
    Before(usize),
    /// After the response was received, which is then dropped.
    After(usize),
    /// Never.
    Never,
}

/// A client that dies at a given request, not counting watches. Also returns the number of requests, and a notification
/// of its death.
fn mortal(client: Client, death: Death) -> (Client, Arc<AtomicUsize>, Arc<Notify>) {
    let count = Arc::new(AtomicUsize::new(0));
    let dead = Arc::new(Notify::new());
    let (counted, died) = (Arc::clone(&count), Arc::clone(&dead));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, counted, died) = (client.clone(), Arc::clone(&counted), Arc::clone(&died));
        async move {
            let watch = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch="));
            // A separate task emits events, at times that a test cannot reproduce.
            if watch || request.uri().path().ends_with("/events") {
                return client.send(request).await;
            }
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let (Death::Before(last) | Death::After(last)) = death else {
                return client.send(request).await;
            };
            if number < last {
                return client.send(request).await;
            }
            if number == last && death == Death::After(last) {
                let _unheard = client.send(request).await;
            }
            died.notify_one();
            pending().await
        }
    });
    (Client::new(service, "default"), count, dead)
}

/// A cluster with two of the three targets, and a configuration for all of them.
async fn scene() -> anyhow::Result<Arc<Stage>> {
    let stage = Stage::with(Installed::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), "default");
    for name in &TARGETS[..2] {
        let map = serde_json::from_value(json!({
            "metadata": { "name": name }, "data": { "theirs": "kept" },
        }))?;
        maps.create(&PostParams::default(), &map).await?;
    }
    let config: VirtPlatformConfig = serde_json::from_value(json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1",
        "kind": "VirtPlatformConfig",
        "metadata": { "name": PROFILE },
        "spec": { "profile": PROFILE, "action": "Apply" },
    }))?;
    stage
        .configs()
        .create(&PostParams::default(), &config)
        .await?;
    Ok(stage)
}

/// Runs an operator until the configuration is settled or the operator is dead; returns the number of its requests if
/// it survived.
async fn run(stage: &Stage, death: Death) -> anyhow::Result<Option<usize>> {
    let (client, count, dead) = mortal(stage.cluster.client(), death);
    let manager = Manager::new(client);
    let options = Options {
        registry: Registry::new(vec![Arc::new(ThreeItems)]),
        version: "v1".to_owned(),
        namespace: NAMESPACE.to_owned(),
        client: crate::stage::receivers(),
        audit_entries: controllers::governance::AUDIT_ENTRIES,
    };
    let living = async {
        controllers::governance::start(&manager, options).await?;
        stage
            .until("the plan is settled", PROFILE, |status| {
                let settled = [
                    Phase::Completed,
                    Phase::Drifted,
                    Phase::Failed,
                    Phase::ReviewRequired,
                ];
                status.phase.is_some_and(|phase| settled.contains(&phase))
            })
            .await?;
        // The outcome of the plan is written last.
        testkit::wait_until("the history is closed", WAIT_TIMEOUT, async || {
            let records = history::records(&stage.cluster.client(), NAMESPACE, PROFILE).await?;
            Ok(records
                .iter()
                .all(|record| record.outcome.is_some())
                .then_some(()))
        })
        .await
    };
    tokio::select! {
        lived = living => {
            lived?;
            manager.stop().await;
            Ok(Some(count.load(Ordering::SeqCst)))
        }
        // Dropping the manager aborts everything in flight.
        () = dead.notified() => Ok(None),
    }
}

/// Number of writes to each target since a resourceVersion.
async fn writes(stage: &Stage, from: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), "default");
    // The last write marks the end of the watch.
    let last = serde_json::from_value(json!({ "metadata": { "name": "last" } }))?;
    maps.create(&PostParams::default(), &last).await?;
    let mut events = maps.watch(&WatchParams::default(), from).await?.boxed();
    let mut seen = BTreeMap::new();
    while let Some(event) = events.next().await {
        if let WatchEvent::Added(map) | WatchEvent::Modified(map) = event? {
            if map.name_any() == "last" {
                break;
            }
            *seen.entry(map.name_any()).or_default() += 1;
        }
    }
    Ok(seen)
}

async fn killed(death: Death) -> anyhow::Result<Option<usize>> {
    let stage = scene().await?;
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), "default");
    let from = maps
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let lived = run(&stage, death).await?;
    if lived.is_none() {
        run(&stage, Death::Never).await?;
    }
    let status = stage.reaches(PROFILE, Phase::Completed).await?;
    ensure!(
        status
            .items
            .iter()
            .all(|item| item.state == ItemState::Completed),
        "not everything is done: {:?}",
        status.items
    );
    for name in TARGETS {
        let data = maps.get(name).await?.data.unwrap_or_default();
        ensure!(
            data.get("ours").map(String::as_str) == Some("wanted"),
            "{name} was left out: {data:?}"
        );
    }
    let writes = writes(&stage, &from).await?;
    ensure!(
        writes
            == TARGETS
                .into_iter()
                .map(|name| (name.to_owned(), 1))
                .collect(),
        "each target is written once, but there were {writes:?}"
    );
    let records = history::records(&stage.cluster.client(), NAMESPACE, PROFILE).await?;
    ensure!(
        records.len() == 1,
        "one plan was carried out, but there are {} entries",
        records.len()
    );
    ensure!(status.revision == Some(1));
    Ok(lived)
}

/// The same, with an edit of the last target by another manager while no operator runs.
async fn edited_while_dead(death: Death) -> anyhow::Result<Option<usize>> {
    let stage = scene().await?;
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), "default");
    let lived = run(&stage, death).await?;
    if lived.is_some() {
        return Ok(lived);
    }
    let edit = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "third" },
        "data": { "ours": "external" },
    });
    let params = by("somebody").clone();
    let params = kube::api::PatchParams {
        force: true,
        ..params
    };
    maps.patch("third", &params, &Patch::Apply(&edit)).await?;
    run(&stage, Death::Never).await?;
    let data = maps.get("third").await?.data.unwrap_or_default();
    ensure!(
        data.get("ours").map(String::as_str) == Some("external"),
        "an edit was overwritten: {data:?}"
    );
    Ok(None)
}

/// The applied plan is rolled back while the operator dies.
async fn undone(death: Death) -> anyhow::Result<Option<usize>> {
    let stage = scene().await?;
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), "default");
    run(&stage, Death::Never).await?;
    stage.edit(PROFILE, json!({ "rollbackTo": 1 })).await?;
    let lived = run(&stage, death).await?;
    if lived.is_none() {
        run(&stage, Death::Never).await?;
    }
    let status = stage.reaches(PROFILE, Phase::Completed).await?;
    ensure!(
        status.rolled_back_to == Some(1),
        "it is not undone: {status:?}"
    );
    ensure!(
        status.applied.is_empty(),
        "something is still in force: {:?}",
        status.applied
    );
    for name in &TARGETS[..2] {
        let map = maps.get(name).await?;
        ensure!(
            map.data == Some([("theirs".to_owned(), "kept".to_owned())].into()),
            "{name} is {:?}",
            map.data
        );
        let ours = map
            .managed_fields()
            .iter()
            .any(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
        ensure!(
            !ours,
            "{name} is still ours in part: {:?}",
            map.managed_fields()
        );
    }
    ensure!(
        maps.get_opt("third").await?.is_none(),
        "what was created is not deleted"
    );
    let records = history::records(&stage.cluster.client(), NAMESPACE, PROFILE).await?;
    ensure!(
        records.len() == 2,
        "two plans were carried out, but there are {} entries",
        records.len()
    );
    Ok(lived)
}

/// Another manager owns the field of the first target, and the takeover has consent.
async fn taken_over(death: Death) -> anyhow::Result<Option<usize>> {
    let stage = scene().await?;
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), "default");
    let theirs = json!({ "data": { "ours": "theirs" } });
    maps.patch("first", &by("somebody"), &Patch::Merge(&theirs))
        .await?;
    let consent = json!({ "takeovers": [{ "item": "first", "path": "data.ours" }] });
    stage.edit(PROFILE, json!({ "approval": consent })).await?;
    let from = maps
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let lived = run(&stage, death).await?;
    if lived.is_none() {
        run(&stage, Death::Never).await?;
    }
    stage.reaches(PROFILE, Phase::Completed).await?;
    let writes = writes(&stage, &from).await?;
    ensure!(
        writes.values().all(|times| *times == 1) && writes.len() == 3,
        "there were {writes:?}"
    );
    Ok(lived)
}

/// Tries all deaths until the operator survives.
///
/// Every death needs a cluster of its own, and a real one takes seconds to start: there, only every fifth request.
async fn at_every_request<F>(scene: impl Fn(Death) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<Option<usize>>>,
{
    let genuine = TestCluster::start().await?.is_genuine();
    let stride = if genuine { 5 } else { 1 };
    let mut deaths = 0;
    for request in (0..).step_by(stride) {
        for death in [Death::Before(request), Death::After(request)] {
            let outcome = scene(death)
                .await
                .map_err(|error| error.context(format!("killed {death:?}")))?;
            if outcome.is_some() {
                ensure!(deaths >= DEATHS / stride, "only {deaths} deaths");
                return Ok(());
            }
            deaths += 1;
        }
    }
    Ok(())
}

/// More than two hundred deaths in all: each of the four scenarios has at least this many.
const DEATHS: usize = 52;

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_request_everything_is_applied_once() -> anyhow::Result<()> {
    at_every_request(killed).await
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_request_edits_of_others_survive() -> anyhow::Result<()> {
    at_every_request(edited_while_dead).await
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_request_everything_is_rolled_back() -> anyhow::Result<()> {
    at_every_request(undone).await
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_request_fields_with_consent_are_taken_once() -> anyhow::Result<()> {
    at_every_request(taken_over).await
}
