//! The simulated cluster-version operator and cluster operators: a release is installed, and another of the
//! same version takes its place, level after level, as operators truly arrive. What writes the status of
//! the ClusterVersion is played by the test.

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

const PATIENCE: Duration = Duration::from_mins(2);
/// A reboot takes a tenth of a second.
const FAST: f64 = 600.0;
const FLEET: &str = "
pools:
- {name: master, count: 2, roles: [control-plane], arch: amd64}
- {name: worker, count: 1, roles: [worker], arch: amd64}
";

struct World {
    cluster: TestCluster,
    _manager: Manager,
}

/// A release of the cluster.
struct Kept {
    image: String,
    payload: Payload,
    plan: Plan,
}

impl World {
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
            speed: FAST,
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

    /// The releases: for one architecture, and for several.
    async fn releases(&self) -> anyhow::Result<[Kept; 2]> {
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
            kept.push(Kept {
                image,
                payload,
                plan,
            });
        }
        kept.sort_by_key(|it| it.payload.metadata.is_multi());
        let kept: Result<[Kept; 2], _> = kept.try_into();
        kept.ok().context("there are two")
    }

    async fn operators(&self) -> anyhow::Result<BTreeMap<String, ClusterOperator>> {
        let api: Api<ClusterOperator> = Api::all(self.client());
        let found = api.list(&ListParams::default()).await?;
        Ok(found.into_iter().map(|it| (it.name_any(), it)).collect())
    }

    async fn until_arrived(&self, at: &Kept, phase: Phase) -> anyhow::Result<()> {
        let what = format!("all operators arrive at {}", at.image);
        wait_until(&what, PATIENCE, async || {
            let evaluation = at.plan.evaluate(&self.operators().await?, phase);
            let all = evaluation.operators.iter().all(|it| it.undone.is_empty());
            Ok((all && evaluation.is_complete()).then_some(()))
        })
        .await
    }

    /// Says which release is wanted, as whoever judges releases does.
    async fn decide(&self, wanted: &Kept, history: serde_json::Value) -> anyhow::Result<()> {
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

    /// Where daemons of machines run.
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

fn entry(kept: &Kept, state: &str) -> serde_json::Value {
    let ended = (state == "Completed").then_some("2026-01-01T00:00:00Z");
    json!({
        "state": state, "version": "4.18.0", "image": kept.image, "verified": false,
        "startedTime": "2026-01-01T00:00:00Z", "completionTime": ended,
    })
}

/// What an operator ever said, in order.
type Said = BTreeMap<String, Vec<(Vec<OperandVersion>, bool)>>;

/// Takes down everything that operators say from now on.
async fn listen(manager: &Manager) -> (Cache<ClusterOperator>, Arc<Mutex<Said>>) {
    let cache: Cache<ClusterOperator> = manager.cache();
    let said: Arc<Mutex<Said>> = Arc::default();
    let to = Arc::clone(&said);
    cache.on_change(move |change| {
        if let Some(operator) = &change.new {
            let degraded = operator
                .condition("Degraded")
                .is_some_and(Condition::is_true);
            let versions = operator.versions().to_vec();
            let mut said = to.lock();
            let of = said.entry(operator.name_any()).or_default();
            if of.last() != Some(&(versions.clone(), degraded)) {
                of.push((versions, degraded));
            }
        }
    });
    cache.synced().await;
    (cache, said)
}

fn expected(kept: &Kept, name: &str) -> Vec<OperandVersion> {
    let operators = kept.plan.operators().iter();
    let mut found = operators.filter(|it| it.name == name);
    let versions = found.next().map(|it| it.expected.versions().to_vec());
    let mut versions = versions.unwrap_or_default();
    versions.sort_by(|one, other| one.name.cmp(&other.name));
    versions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_and_another_of_the_same_version_takes_its_place()
-> anyhow::Result<()> {
    let world = World::start().await?;
    let [single, multi] = world.releases().await?;
    world.until_arrived(&single, Phase::Initializing).await?;
    let nodes: BTreeSet<String> = ["master-1", "master-2", "worker-1"]
        .map(str::to_owned)
        .into();
    wait_until("daemons run", PATIENCE, async || {
        Ok((world.daemons().await? == nodes).then_some(()))
    })
    .await?;

    // A machine of another architecture comes too early: nothing of the release runs there.
    commands::add(&world.client(), Pool::new("early", "arm64")).await?;

    let listener = Manager::new(world.client());
    let (_cache, said) = listen(&listener).await;
    world
        .decide(&single, json!([entry(&single, "Completed")]))
        .await?;
    let history = json!([entry(&multi, "Partial"), entry(&single, "Completed")]);
    world.decide(&multi, history).await?;

    // No level begins before all operators of those before it have arrived.
    let deployments: Api<Deployment> = Api::all(world.client());
    let total = multi.payload.manifests.len();
    wait_until("the migration ends", PATIENCE, async || {
        let rolled = deployments.list(&ListParams::default()).await?;
        let operators = world.operators().await?;
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
                // What was looked at first may have arrived since; only what was looked at later may
                // not be ahead of it. The list of Deployments is the older one.
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
    world.until_arrived(&multi, Phase::Updating).await?;

    // Nobody was ever between the two: all versions of an operator change in one write.
    let heard = wait_until("all is heard", PATIENCE, async || {
        let said = said.lock().clone();
        let all = said.iter().all(|(name, of)| {
            of.last()
                .is_some_and(|(versions, _)| *versions == expected(&multi, name))
        });
        Ok((all && said.len() == 13).then_some(said))
    })
    .await?;
    for (name, of) in &heard {
        for (versions, _) in of {
            let known = [expected(&single, name), expected(&multi, name)];
            assert!(known.contains(versions), "{name} said {versions:?}");
        }
    }
    let troubled = |name: &str| heard[name].iter().any(|(_, degraded)| *degraded);
    assert!(troubled("dns"), "{:?}", heard["dns"]);
    assert!(!troubled("etcd"), "{:?}", heard["etcd"]);

    // Machines of the control plane run the operating system of the release.
    let pools: Api<MachineConfigPool> = Api::all(world.client());
    let configs: Api<MachineConfig> = Api::all(world.client());
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

    // Now machines of other architectures are looked after, also the one that came too early.
    commands::add(&world.client(), Pool::new("late", "s390x")).await?;
    let mut all = nodes.clone();
    all.extend(["early-1".to_owned(), "late-1".to_owned()]);
    wait_until("daemons run everywhere", PATIENCE, async || {
        Ok((world.daemons().await? == all).then_some(()))
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_of_a_release_is_taken_away_comes_back() -> anyhow::Result<()> {
    let world = World::start().await?;
    let [single, _] = world.releases().await?;
    world.until_arrived(&single, Phase::Initializing).await?;
    let api: Api<Deployment> = Api::namespaced(world.client(), "openshift-dns-operator");
    let old = api.get("cluster-dns-operator").await?;
    api.delete(
        "cluster-dns-operator",
        &kube::api::DeleteParams::background(),
    )
    .await?;
    wait_until("it is there again", PATIENCE, async || {
        let found = api.get_opt("cluster-dns-operator").await?;
        Ok(found.filter(|it| it.uid() != old.uid()))
    })
    .await?;
    world.until_arrived(&single, Phase::Initializing).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_written_at_once_by_however_many_and_not_twice() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let versions = Versions::default().with("operator", "4.18.0")?;
    let state = State::of(&Rollout::Done, &versions);
    let reporter = Reporter::new(client.clone(), "mine");
    // Without the kind there is nobody to tell.
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

    // Several write at the same time, each under its own name: none is lost.
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
