//! The simulated cluster-version operator and cluster operators: a release is installed, and
//! another of the same version replaces it, level by level, as the operators report completion. The
//! test writes the status of the ClusterVersion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::openshift::{
    CLUSTER_VERSION, ClusterOperator, ClusterVersion, Condition, OperandVersion, payloads,
};
use clusteroperator_reporter::{Reporter, Rollout, State, Versions, Written};
use fleet::model::Pool;
use fleet::operators::{Installed, MachineConfig, MachineConfigPool, names};
use fleet::{Fleet, Options, commands};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use release_migration::evaluate::{Phase, Plan, check};
use release_migration::payload::{FileName, Payload};
use runtime::{Cache, Manager};
use serde_json::json;
use testkit::{TestCluster, wait_until};

const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// A reboot takes a tenth of a second.
const SPEED: f64 = 600.0;
const FLEET: &str = "
pools:
- {name: master, count: 2, roles: [control-plane], arch: amd64}
- {name: worker, count: 1, roles: [worker], arch: amd64}
";

struct Fixture {
    cluster: TestCluster,
    _manager: Manager,
}

/// A release stored in the cluster.
struct StoredRelease {
    image: String,
    payload: Payload,
    plan: Plan,
}

impl Fixture {
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::controlled().await?;
        let manager = Manager::new(cluster.client());
        if !cluster.has_controllers() {
            let options = controlplane::Options {
                root_ca: String::new(),
            };
            controlplane::start(&manager, &options).await;
        }
        let options = Options {
            fleet: Some(Fleet::parse(FLEET)?),
            speed: SPEED,
            operators: Some(Installed {
                machine_config: true,
                release: true,
                ..Installed::default()
            }),
            ..Options::new(cluster.client())
        };
        fleet::start(&manager, options).await?;
        Ok(Self {
            cluster,
            _manager: manager,
        })
    }

    fn client(&self) -> Client {
        self.cluster.client()
    }

    /// The single-architecture and the multi-architecture release.
    async fn releases(&self) -> anyhow::Result<[StoredRelease; 2]> {
        let api: Api<ConfigMap> = Api::namespaced(self.client(), payloads::NAMESPACE);
        let labelled = format!("{}={}", payloads::LABEL, payloads::LABELLED);
        let found = api.list(&ListParams::default().labels(&labelled)).await?;
        let mut kept = Vec::new();
        for map in found {
            let image = map.annotations().get(payloads::IMAGE);
            let image = image.context("it names its image")?.clone();
            let files = map.data.unwrap_or_default();
            let payload = Payload::read(&image, &files)?;
            let plan = Plan::new(&payload);
            kept.push(StoredRelease {
                image,
                payload,
                plan,
            });
        }
        kept.sort_by_key(|it| it.payload.metadata.is_multi());
        let kept: Result<[StoredRelease; 2], _> = kept.try_into();
        kept.ok().context("there are two")
    }

    async fn operators(&self) -> anyhow::Result<BTreeMap<String, ClusterOperator>> {
        let api: Api<ClusterOperator> = Api::all(self.client());
        let found = api.list(&ListParams::default()).await?;
        Ok(found.into_iter().map(|it| (it.name_any(), it)).collect())
    }

    async fn until_arrived(&self, at: &StoredRelease, phase: Phase) -> anyhow::Result<()> {
        let what = format!("all operators arrive at {}", at.image);
        wait_until(&what, WAIT_TIMEOUT, async || {
            let evaluation = at.plan.evaluate(&self.operators().await?, phase);
            let all = evaluation.operators.iter().all(|it| it.undone.is_empty());
            Ok((all && evaluation.is_complete()).then_some(()))
        })
        .await
    }

    /// Records the accepted release, as the release migration does.
    async fn decide(
        &self,
        wanted: &StoredRelease,
        history: serde_json::Value,
    ) -> anyhow::Result<()> {
        let api: Api<ClusterVersion> = Api::all(self.client());
        let status = json!({ "status": {
            "desired": { "version": "4.18.0", "image": wanted.image },
            "history": history,
            "observedGeneration": 1,
        } });
        api.patch_status(
            CLUSTER_VERSION,
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await?;
        Ok(())
    }

    /// The nodes that run the daemon.
    async fn daemons(&self) -> anyhow::Result<BTreeSet<String>> {
        let api: Api<Pod> = Api::namespaced(self.client(), names::MACHINE_CONFIG_NAMESPACE);
        let params = ListParams::default().labels("name=machine-config-daemon");
        let found = api.list(&params).await?;
        let ready = |pod: &Pod| {
            let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it.type_ == "Ready" && it.status == "True")
        };
        let running = found.into_iter().filter(ready);
        Ok(running
            .filter_map(|pod| pod.spec.and_then(|it| it.node_name))
            .collect())
    }
}

fn entry(kept: &StoredRelease, state: &str) -> serde_json::Value {
    let ended = (state == "Completed").then_some("2026-01-01T00:00:00Z");
    json!({
        "state": state, "version": "4.18.0", "image": kept.image, "verified": false,
        "startedTime": "2026-01-01T00:00:00Z", "completionTime": ended,
    })
}

/// All reports of the operators, in order.
type OperatorReports = BTreeMap<String, Vec<(Vec<OperandVersion>, bool)>>;

/// Records all reports of the operators from now on.
async fn record_reports(
    manager: &Manager,
) -> (Cache<ClusterOperator>, Arc<Mutex<OperatorReports>>) {
    let cache: Cache<ClusterOperator> = manager.cache();
    let recorded: Arc<Mutex<OperatorReports>> = Arc::default();
    let to = Arc::clone(&recorded);
    cache.on_change(move |change| {
        if let Some(operator) = &change.new {
            let degraded = operator
                .condition("Degraded")
                .is_some_and(Condition::is_true);
            let versions = operator.versions().to_vec();
            let mut recorded = to.lock();
            let of = recorded.entry(operator.name_any()).or_default();
            if of.last() != Some(&(versions.clone(), degraded)) {
                of.push((versions, degraded));
            }
        }
    });
    cache.synced().await;
    (cache, recorded)
}

fn expected(kept: &StoredRelease, name: &str) -> Vec<OperandVersion> {
    let operators = kept.plan.operators().iter();
    let mut found = operators.filter(|it| it.name == name);
    let versions = found.next().map(|it| it.expected.versions().to_vec());
    let mut versions = versions.unwrap_or_default();
    versions.sort_by(|one, other| one.name.cmp(&other.name));
    versions
}

#[tokio::test(flavor = "multi_thread")]
async fn release_is_installed_and_replaced_by_the_multi_architecture_one() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let [single, multi] = fixture.releases().await?;
    fixture.until_arrived(&single, Phase::Initializing).await?;
    let nodes: BTreeSet<String> = ["master-1", "master-2", "worker-1"]
        .map(str::to_owned)
        .into();
    wait_until("daemons run", WAIT_TIMEOUT, async || {
        Ok((fixture.daemons().await? == nodes).then_some(()))
    })
    .await?;

    // A node of another architecture is added too early: no pod of the release runs there.
    commands::add(&fixture.client(), Pool::new("early", "arm64")).await?;

    let listener = Manager::new(fixture.client());
    let (_cache, recorded) = record_reports(&listener).await;
    fixture
        .decide(&single, json!([entry(&single, "Completed")]))
        .await?;
    let history = json!([entry(&multi, "Partial"), entry(&single, "Completed")]);
    fixture.decide(&multi, history).await?;

    // No level starts before all operators of earlier levels have completed.
    let deployments: Api<Deployment> = Api::all(fixture.client());
    let total = multi.payload.manifests.len();
    wait_until("the migration ends", WAIT_TIMEOUT, async || {
        let rolled = deployments.list(&ListParams::default()).await?;
        let operators = fixture.operators().await?;
        let mut open: Vec<u32> = Vec::new();
        for manifest in &multi.payload.manifests {
            let level = FileName::read(&manifest.file).map_or(0, |it| it.level);
            if let Some(wanted) = manifest.cluster_operator() {
                let actual = operators.get(manifest.name());
                if check(&wanted, actual, Phase::Updating, 1, total).is_some() {
                    open.push(level);
                }
            } else if manifest.kind() == "Deployment" {
                let image = |object: &serde_json::Value| {
                    object
                        .pointer("/spec/template/spec/containers/0/image")
                        .cloned()
                };
                let found = rolled.iter().find(|it| it.name_any() == manifest.name());
                let found = found.and_then(|it| image(&json!(it)));
                let begun = found == image(&manifest.object);
                let early = open.iter().any(|before| *before < level);
                let same = single.payload.images.image(manifest.name())
                    == multi.payload.images.image(manifest.name());
                // Operators may complete between the two reads; only the later read may be ahead.
                // The list of Deployments is the older one.
                anyhow::ensure!(
                    !(begun && early) || same,
                    "{} began while levels {open:?} were not done",
                    manifest.name()
                );
            }
        }
        Ok(open.is_empty().then_some(()))
    })
    .await?;
    fixture.until_arrived(&multi, Phase::Updating).await?;

    // An operator is never between the two releases: all its versions change in one write.
    let all_reports = wait_until("all reports are recorded", WAIT_TIMEOUT, async || {
        let recorded = recorded.lock().clone();
        let all = recorded.iter().all(|(name, of)| {
            of.last()
                .is_some_and(|(versions, _)| *versions == expected(&multi, name))
        });
        Ok((all && recorded.len() == 13).then_some(recorded))
    })
    .await?;
    for (name, of) in &all_reports {
        for (versions, _) in of {
            let known = [expected(&single, name), expected(&multi, name)];
            assert!(known.contains(versions), "{name} reported {versions:?}");
        }
    }
    let troubled = |name: &str| all_reports[name].iter().any(|(_, degraded)| *degraded);
    assert!(troubled("dns"), "{:?}", all_reports["dns"]);
    assert!(!troubled("etcd"), "{:?}", all_reports["etcd"]);

    // Control-plane nodes run the operating system of the release.
    let pools: Api<MachineConfigPool> = Api::all(fixture.client());
    let configs: Api<MachineConfig> = Api::all(fixture.client());
    let pool = pools.get("master").await?;
    let status = pool.status.context("it says how far it is")?;
    assert_eq!((status.machine_count, status.updated_machine_count), (2, 2));
    let rendered = configs
        .get(&status.configuration.name.context("it runs something")?)
        .await?;
    assert_eq!(
        rendered.spec.os_image_url.as_deref(),
        multi.payload.images.image("rhel-coreos")
    );

    // Now nodes of other architectures are included, also the one that was added too early.
    commands::add(&fixture.client(), Pool::new("late", "s390x")).await?;
    let mut all = nodes.clone();
    all.extend(["early-1".to_owned(), "late-1".to_owned()]);
    wait_until("daemons run everywhere", WAIT_TIMEOUT, async || {
        Ok((fixture.daemons().await? == all).then_some(()))
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_manifests_are_applied_again() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let [single, _] = fixture.releases().await?;
    fixture.until_arrived(&single, Phase::Initializing).await?;
    let api: Api<Deployment> = Api::namespaced(fixture.client(), "openshift-dns-operator");
    let old = api.get("cluster-dns-operator").await?;
    api.delete(
        "cluster-dns-operator",
        &kube::api::DeleteParams::background(),
    )
    .await?;
    wait_until("it is there again", WAIT_TIMEOUT, async || {
        let found = api.get_opt("cluster-dns-operator").await?;
        Ok(found.filter(|it| it.uid() != old.uid()))
    })
    .await?;
    fixture.until_arrived(&single, Phase::Initializing).await
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reports_are_written_once() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let versions = Versions::default().with("operator", "4.18.0")?;
    let state = State::of(&Rollout::Done, &versions);
    let reporter = Reporter::new(client.clone(), "mine");
    // The ClusterOperator CRD is not installed yet.
    assert_eq!(
        reporter.report(&versions, &state).await?,
        Written::NotInstalled
    );
    let installed = Installed {
        machine_config: true,
        release: true,
        ..Installed::default()
    };
    fleet::operators::install(&client, &installed).await?;
    let written = reporter.report(&versions, &state).await?;
    assert_eq!(
        written.event("mine").as_deref(),
        Some("clusteroperator/mine version changed from [] to [{operator 4.18.0}]")
    );
    assert_eq!(
        reporter.report(&versions, &state).await?,
        Written::Unchanged
    );

    // Concurrent writers with different field managers: no write is lost.
    let reports = (0..6).map(|number| {
        let reporter = reporter.clone();
        async move {
            let versions = Versions::default().with(&format!("operand-{number}"), "1")?;
            let state = State::of(&Rollout::Done, &versions);
            anyhow::Ok(reporter.report(&versions, &state).await?)
        }
    });
    futures::future::try_join_all(reports).await?;
    let api: Api<ClusterOperator> = Api::all(client);
    let found = api.get("mine").await?;
    let names: Vec<&str> = found.versions().iter().map(|it| it.name.as_str()).collect();
    let operands = (0..6).map(|number| format!("operand-{number}"));
    let expected: Vec<String> = operands.chain(["operator".to_owned()]).collect();
    assert_eq!(names, expected);
    Ok(())
}
