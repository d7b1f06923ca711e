//! A fleet on a cluster, as users see it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fleet::{Fleet, Options, commands};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A cluster with a running fleet.
struct Fixture {
    cluster: TestCluster,
    manager: Manager,
    namespace: String,
}

impl Fixture {
    async fn start(fleet: &str, speed: f64) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let namespace = cluster.namespace("fleet").await?;
        // Without controllers the test has to create the service account that pods need.
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), &namespace);
        if let Err(error) = accounts.create(&PostParams::default(), &account).await {
            let there = matches!(&error, kube::Error::Api(status) if status.code == 409);
            anyhow::ensure!(there, error);
        }
        let manager = run(&cluster, Some(fleet), speed).await?;
        let fixture = Self {
            cluster,
            manager,
            namespace,
        };
        fixture.untaint().await?;
        Ok(fixture)
    }

    /// Stops the fleet and starts it again, as another process would.
    async fn restart(&mut self, fleet: &str, speed: f64) -> anyhow::Result<()> {
        self.manager.stop().await;
        self.manager = run(&self.cluster, Some(fleet), speed).await?;
        Ok(())
    }

    fn client(&self) -> Client {
        self.cluster.client()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Removes the not-ready taint that the API server adds to new nodes: no node lifecycle
    /// controller runs here.
    async fn untaint(&self) -> anyhow::Result<()> {
        for node in self.nodes().list(&ListParams::default()).await? {
            let name = node.metadata.name.clone().unwrap_or_default();
            let taints: Vec<_> = node
                .spec
                .and_then(|spec| spec.taints)
                .unwrap_or_default()
                .into_iter()
                .filter(|taint| taint.key != "node.kubernetes.io/not-ready")
                .collect();
            let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
            self.nodes()
                .patch(&name, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    async fn pod(&self, name: &str, spec: Value) -> anyhow::Result<Pod> {
        self.annotated(name, json!({}), spec).await
    }

    async fn annotated(&self, name: &str, annotations: Value, spec: Value) -> anyhow::Result<Pod> {
        let mut pod = json!({
            "metadata": { "name": name, "annotations": annotations, "labels": { "app": name } },
            "spec": { "containers": [{ "name": "main", "image": "registry.example/app:1" }] },
        });
        if let (Some(whole), Some(more)) = (pod["spec"].as_object_mut(), spec.as_object()) {
            whole.extend(more.clone());
        }
        let pod = serde_json::from_value(pod)?;
        Ok(self.pods().create(&PostParams::default(), &pod).await?)
    }

    /// Waits until a pod satisfies the condition.
    async fn until(
        &self,
        name: &str,
        what: &str,
        test: impl Fn(&Pod) -> bool,
    ) -> anyhow::Result<Pod> {
        wait_until(&format!("pod {name} {what}"), WAIT_TIMEOUT, async || {
            let pod = self.pods().get(name).await?;
            Ok(test(&pod).then_some(pod))
        })
        .await
    }

    async fn until_ready(&self, name: &str) -> anyhow::Result<Pod> {
        self.until(name, "is ready", |pod| has_condition(pod, "Ready", "True"))
            .await
    }

    async fn until_gone(&self, name: &str) -> anyhow::Result<()> {
        wait_until(&format!("pod {name} is gone"), WAIT_TIMEOUT, async || {
            let pod = self.pods().get_opt(name).await?;
            Ok(pod.is_none().then_some(()))
        })
        .await
    }
}

async fn run(cluster: &TestCluster, fleet: Option<&str>, speed: f64) -> anyhow::Result<Manager> {
    let manager = Manager::new(cluster.client());
    let options = Options {
        fleet: fleet.map(Fleet::parse).transpose()?,
        speed,
        ..Options::new(cluster.client())
    };
    fleet::start(&manager, options).await?;
    Ok(manager)
}

fn has_condition(pod: &Pod, kind: &str, status: &str) -> bool {
    condition(pod, kind).is_some_and(|(actual, _, _)| actual == status)
}

fn condition(pod: &Pod, kind: &str) -> Option<(String, String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == kind)?;
    Some((
        found.status.clone(),
        found.reason.clone().unwrap_or_default(),
        found.message.clone().unwrap_or_default(),
    ))
}

fn node_of(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.clone())
        .unwrap_or_default()
}

fn phase(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.clone())
        .unwrap_or_default()
}

const MIXED: &str = "
pools:
  - {name: amd, count: 2, arch: amd64, capacity: {cpu: 4, memory: 8Gi, pods: 20}}
  - {name: arm, arch: arm64}
  - name: win
    arch: amd64
    os: windows
    windowsBuild: 10.0.20348
    taints: [{key: os, value: windows, effect: NoSchedule}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_run_on_matching_nodes() -> anyhow::Result<()> {
    let fixture = Fixture::start(MIXED, 50.0).await?;
    fixture
        .pod(
            "arm",
            json!({ "nodeSelector": { "kubernetes.io/arch": "arm64" } }),
        )
        .await?;
    let windows = json!({
        "nodeSelector": { "kubernetes.io/os": "windows" },
        "tolerations": [{ "key": "os", "operator": "Equal", "value": "windows" }],
    });
    fixture.pod("windows", windows).await?;
    fixture
        .pod(
            "nowhere",
            json!({ "nodeSelector": { "kubernetes.io/arch": "s390x" } }),
        )
        .await?;

    let arm = fixture.until_ready("arm").await?;
    assert_eq!(node_of(&arm), "arm-1");
    assert_eq!(node_of(&fixture.until_ready("windows").await?), "win-1");
    let status = arm.status.context("a status")?;
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let address = status.pod_ip.context("an address")?;
    let node = fixture.nodes().get("arm-1").await?;
    let range = node
        .spec
        .and_then(|spec| spec.pod_cidr)
        .context("a range")?;
    let network = range.trim_end_matches("0/24");
    assert!(address.starts_with(network), "{address} is in {range}");

    let nowhere = fixture
        .until("nowhere", "is unschedulable", |pod| {
            has_condition(pod, "PodScheduled", "False")
        })
        .await?;
    let (_, reason, message) = condition(&nowhere, "PodScheduled").context("a condition")?;
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), \
         3 node(s) didn't match Pod's node affinity/selector. \
         preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
    );
    let events: Api<Event> = Api::namespaced(fixture.client(), &fixture.namespace);
    wait_until("both outcomes are events", WAIT_TIMEOUT, async || {
        let list = events.list(&ListParams::default()).await?.items;
        let has = |pod: &str, reason: &str| {
            list.iter().any(|event| {
                event.reason.as_deref() == Some(reason)
                    && event.involved_object.name.as_deref() == Some(pod)
            })
        };
        let both = has("nowhere", "FailedScheduling") && has("arm", "Scheduled");
        Ok(both.then_some(()))
    })
    .await?;

    // Once a matching node is added, the waiting pod is scheduled.
    commands::add(&fixture.client(), fleet::model::Pool::new("ibmz", "s390x")).await?;
    wait_until("the new node is ready", WAIT_TIMEOUT, async || {
        let nodes = commands::list(&fixture.client()).await?;
        Ok(nodes
            .iter()
            .any(|node| node.name == "ibmz-1" && node.ready)
            .then_some(()))
    })
    .await?;
    fixture.untaint().await?;
    assert_eq!(node_of(&fixture.until_ready("nowhere").await?), "ibmz-1");
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_register_with_full_status_and_heartbeats() -> anyhow::Result<()> {
    let mut fixture = Fixture::start(fleet::model::DEMO, 50.0).await?;
    let lines = commands::list(&fixture.client()).await?;
    assert_eq!(lines.len(), 15);
    assert!(lines.iter().all(|line| line.ready && line.simulated));
    let leases: Api<Lease> = Api::namespaced(fixture.client(), "kube-node-lease");
    wait_until("every node has a lease", WAIT_TIMEOUT, async || {
        let count = leases.list(&ListParams::default()).await?.items.len();
        Ok((count == 15).then_some(()))
    })
    .await?;
    let lease = leases.get("ibmz-1").await?;
    assert_eq!(
        lease.spec.and_then(|spec| spec.lease_duration_seconds),
        Some(40)
    );

    // A removed node stays removed; a node added to the file is created.
    commands::remove(&fixture.client(), "win2019-1").await?;
    let extra = "pools:\n  - {name: extra, arch: ppc64le}\n";
    let more = fleet::model::DEMO.replacen("pools:\n", extra, 1);
    fixture.restart(&more, 50.0).await?;
    let names: Vec<String> = commands::list(&fixture.client())
        .await?
        .into_iter()
        .map(|line| line.name)
        .collect();
    assert!(names.contains(&"extra-1".to_owned()));
    assert!(!names.contains(&"win2019-1".to_owned()), "{names:?}");
    assert_eq!(names.len(), 15);
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gated_pod_runs_once_ungated() -> anyhow::Result<()> {
    let fixture = Fixture::start(MIXED, 50.0).await?;
    let gates = json!({ "schedulingGates": [{ "name": "example.com/wait" }] });
    fixture.pod("gated", gates).await?;
    fixture.pod("free", json!({})).await?;
    fixture.until_ready("free").await?;
    let gated = fixture.pods().get("gated").await?;
    let (status, reason, _) = condition(&gated, "PodScheduled").context("a condition")?;
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "SchedulingGated")
    );
    let open = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
    fixture
        .pods()
        .patch("gated", &PatchParams::default(), &open)
        .await?;
    fixture.until_ready("gated").await?;
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_affinity_waits_for_a_match() -> anyhow::Result<()> {
    let fixture = Fixture::start(MIXED, 50.0).await?;
    let company = json!({ "affinity": { "podAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "host" } } },
    ]}}});
    fixture.pod("guest", company).await?;
    fixture
        .until("guest", "waits", |pod| {
            has_condition(pod, "PodScheduled", "False")
        })
        .await?;
    let arm = json!({ "nodeSelector": { "kubernetes.io/arch": "arm64" } });
    fixture.pod("host", arm).await?;
    assert_eq!(node_of(&fixture.until_ready("guest").await?), "arm-1");
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn higher_priority_preempts_lower() -> anyhow::Result<()> {
    let fixture = Fixture::start(MIXED, 50.0).await?;
    let class: PriorityClass = serde_json::from_value(json!({
        "metadata": { "name": format!("high-{}", fixture.namespace) }, "value": 1000,
    }))?;
    let high = class.metadata.name.clone();
    Api::all(fixture.client())
        .create(&PostParams::default(), &class)
        .await?;
    let asking = |class: Option<&String>| {
        json!({
            "priorityClassName": class,
            "nodeSelector": { "kubernetes.io/hostname": "amd-1" },
            "containers": [{
                "name": "main", "image": "registry.example/app:1",
                "resources": { "requests": { "cpu": "3" } },
            }],
        })
    };
    fixture.pod("low", asking(None)).await?;
    fixture.until_ready("low").await?;
    fixture.pod("other", asking(None)).await?;
    fixture
        .until("other", "waits", |pod| {
            has_condition(pod, "PodScheduled", "False")
        })
        .await?;
    fixture.pod("high", asking(high.as_ref())).await?;
    fixture.until_gone("low").await?;
    assert_eq!(node_of(&fixture.until_ready("high").await?), "amd-1");
    assert_eq!(
        node_of(&fixture.pods().get("other").await?),
        "",
        "it has not jumped the queue"
    );
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_follow_behaviour_annotations() -> anyhow::Result<()> {
    let fixture = Fixture::start(MIXED, 50.0).await?;
    let once = json!({ "restartPolicy": "Never" });
    fixture.pod("job", once.clone()).await?;
    let failing = json!({ "fleet.medley.dev/exit-code": "3", "fleet.medley.dev/run-for": "100ms" });
    fixture.annotated("failing", failing.clone(), once).await?;
    fixture.annotated("crashing", failing, json!({})).await?;
    let broken = json!({ "fleet.medley.dev/fail-image": "ErrImagePull" });
    fixture.annotated("broken", broken, json!({})).await?;
    let inits = json!({ "initContainers": [
        { "name": "first", "image": "registry.example/init:1" },
        { "name": "beside", "image": "registry.example/side:1", "restartPolicy": "Always" },
    ]});
    fixture.pod("prepared", inits).await?;
    fixture
        .pod(
            "wrong",
            json!({ "nodeName": "win-1", "os": { "name": "linux" } }),
        )
        .await?;

    let job = fixture
        .until("job", "ends", |pod| phase(pod) == "Succeeded")
        .await?;
    assert_eq!(
        condition(&job, "Ready")
            .map(|(_, reason, _)| reason)
            .as_deref(),
        Some("PodCompleted")
    );
    let failed = fixture
        .until("failing", "fails", |pod| phase(pod) == "Failed")
        .await?;
    let ends = |pod: &Pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        statuses.first()?.state.clone()?.terminated
    };
    assert_eq!(ends(&failed).context("an end")?.exit_code, 3);
    fixture
        .until("crashing", "backs off", |pod| {
            waits(pod) == "CrashLoopBackOff"
        })
        .await?;
    fixture
        .until("broken", "cannot pull", |pod| {
            waits(pod) == "ImagePullBackOff"
        })
        .await?;
    let prepared = fixture.until_ready("prepared").await?;
    let status = prepared.status.context("a status")?;
    let inits = status.init_container_statuses.context("init containers")?;
    assert!(
        inits[0]
            .state
            .as_ref()
            .is_some_and(|state| state.terminated.is_some())
    );
    assert!(
        inits[1]
            .state
            .as_ref()
            .is_some_and(|state| state.running.is_some())
    );
    let wrong = fixture
        .until("wrong", "is rejected", |pod| phase(pod) == "Failed")
        .await?;
    let reason = wrong.status.and_then(|status| status.reason);
    assert_eq!(reason.as_deref(), Some("PodOSNotSupported"));

    for name in ["prepared", "crashing", "broken", "job"] {
        fixture
            .pods()
            .delete(name, &DeleteParams::default())
            .await?;
        fixture.until_gone(name).await?;
    }
    fixture.manager.stop().await;
    Ok(())
}

fn waits(pod: &Pod) -> String {
    let waits = || {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        statuses.first()?.state.clone()?.waiting?.reason
    };
    waits().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_for_first_consumer_binds_on_the_pods_node() -> anyhow::Result<()> {
    let fixture = Fixture::start(MIXED, 50.0).await?;
    let class: StorageClass = serde_json::from_value(json!({
        "metadata": { "name": format!("local-{}", fixture.namespace) },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }))?;
    let class_name = class.metadata.name.clone();
    Api::all(fixture.client())
        .create(&PostParams::default(), &class)
        .await?;
    let volumes: Api<PersistentVolume> = Api::all(fixture.client());
    let name = format!("disk-{}", fixture.namespace);
    let volume = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name, "local": { "path": "/disk" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "kubernetes.io/hostname", "operator": "In", "values": ["amd-2"] },
            ]}]}},
        },
    }))?;
    volumes.create(&PostParams::default(), &volume).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(fixture.client(), &fixture.namespace);
    let claim = serde_json::from_value(json!({
        "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class_name,
            "resources": { "requests": { "storage": "1Gi" } },
        },
    }))?;
    claims.create(&PostParams::default(), &claim).await?;
    let volumes_of_pod = json!({ "volumes": [
        { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
    ]});
    fixture.pod("stateful", volumes_of_pod).await?;

    // The scheduler reserves the volume for the claim; the volume controller would complete the
    // binding, which the test does in its place.
    let given = wait_until(
        "the volume is given to the claim",
        WAIT_TIMEOUT,
        async || {
            let volume = volumes.get(&name).await?;
            Ok(volume.spec.and_then(|spec| spec.claim_ref))
        },
    )
    .await?;
    assert_eq!(given.name.as_deref(), Some("data"));
    assert_eq!(node_of(&fixture.pods().get("stateful").await?), "");
    let bound = json!({
        "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": name },
    });
    claims
        .patch("data", &PatchParams::default(), &Patch::Merge(bound))
        .await?;
    let phase = json!({ "status": { "phase": "Bound" } });
    claims
        .patch_status("data", &PatchParams::default(), &Patch::Merge(phase))
        .await?;
    assert_eq!(node_of(&fixture.until_ready("stateful").await?), "amd-2");
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_node_stops_heartbeats_and_recovers() -> anyhow::Result<()> {
    let fixture = Fixture::start(MIXED, 50.0).await?;
    let pinned = json!({ "nodeSelector": { "kubernetes.io/hostname": "arm-1" } });
    fixture.pod("pinned", pinned).await?;
    fixture.until_ready("pinned").await?;
    commands::fail(&fixture.client(), "arm-1").await?;
    let lines = commands::list(&fixture.client()).await?;
    assert!(lines.iter().any(|line| line.name == "arm-1" && line.failed));
    // The conditions a control plane sets on a node without heartbeats.
    let lost = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown" },
    ]}});
    fixture
        .nodes()
        .patch_status("arm-1", &PatchParams::default(), &Patch::Strategic(lost))
        .await?;
    fixture
        .pods()
        .delete("pinned", &DeleteParams::default())
        .await?;
    // Another pod runs to completion meanwhile, which gives an active kubelet enough time to act.
    let other = json!({ "nodeSelector": { "kubernetes.io/hostname": "amd-1" } });
    fixture.pod("other", other).await?;
    fixture.until_ready("other").await?;
    fixture
        .pods()
        .delete("other", &DeleteParams::default())
        .await?;
    fixture.until_gone("other").await?;
    let ready = |node: &Node| {
        let conditions = node.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions.iter().find(|known| known.type_ == "Ready")?;
        Some(ready.status.clone())
    };
    assert!(fixture.pods().get_opt("pinned").await?.is_some());
    let node = fixture.nodes().get("arm-1").await?;
    assert_eq!(ready(&node).as_deref(), Some("Unknown"));

    commands::recover(&fixture.client(), "arm-1").await?;
    wait_until("the node is ready again", WAIT_TIMEOUT, async || {
        let node = fixture.nodes().get("arm-1").await?;
        Ok((ready(&node).as_deref() == Some("True")).then_some(()))
    })
    .await?;
    fixture.until_gone("pinned").await?;
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drained_node_is_empty_and_cordoned() -> anyhow::Result<()> {
    let fixture = Fixture::start(MIXED, 50.0).await?;
    let on = |node: &str| json!({ "nodeSelector": { "kubernetes.io/hostname": node } });
    fixture.pod("leaves", on("amd-1")).await?;
    fixture.pod("stays", on("amd-2")).await?;
    fixture.until_ready("leaves").await?;
    fixture.until_ready("stays").await?;
    let careful = commands::DrainOptions::default();
    let refused = commands::drain(&fixture.client(), "amd-1", &careful, drop).await;
    let text = refused
        .err()
        .context("a pod without a controller")?
        .to_string();
    assert!(text.contains("declare no controller"), "{text}");
    let options = commands::DrainOptions {
        force: true,
        timeout: Some(WAIT_TIMEOUT),
        ..careful
    };
    commands::drain(&fixture.client(), "amd-1", &options, drop).await?;
    assert!(fixture.pods().get_opt("leaves").await?.is_none());
    assert_eq!(phase(&fixture.pods().get("stays").await?), "Running");
    fixture.pod("late", on("amd-1")).await?;
    fixture
        .until("late", "has no node", |pod| {
            condition(pod, "PodScheduled")
                .is_some_and(|(_, _, message)| message.contains("1 node(s) were unschedulable"))
        })
        .await?;
    commands::uncordon(&fixture.client(), "amd-1").await?;
    fixture.until_ready("late").await?;
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_resumes_the_fleet() -> anyhow::Result<()> {
    let mut fixture = Fixture::start(MIXED, 50.0).await?;
    fixture.pod("running", json!({})).await?;
    let before = fixture.until_ready("running").await?;
    let slow = json!({ "fleet.medley.dev/stop-after": "20s" });
    fixture.annotated("stopping", slow, json!({})).await?;
    fixture.until_ready("stopping").await?;
    fixture
        .pods()
        .delete("stopping", &DeleteParams::default())
        .await?;
    fixture.manager.stop().await;
    fixture.pod("waiting", json!({})).await?;
    fixture.manager = run(&fixture.cluster, Some(MIXED), 50.0).await?;
    fixture.until_ready("waiting").await?;
    fixture.until_gone("stopping").await?;
    let after = fixture.pods().get("running").await?;
    assert_eq!(after.status, before.status, "nothing happened to it");
    assert_eq!(node_of(&after), node_of(&before));
    let waiting = fixture.pods().get("waiting").await?;
    let address = |pod: &Pod| pod.status.clone().and_then(|status| status.pod_ip);
    assert_ne!(address(&waiting), address(&after));
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_never_overcommitted() -> anyhow::Result<()> {
    let fixture = Arc::new(Fixture::start(MIXED, 200.0).await?);
    for index in 0..12 {
        let container = json!({ "containers": [{
            "name": "main", "image": "registry.example/app:1",
            "resources": { "requests": { "cpu": "1" } },
        }], "nodeSelector": { "kubernetes.io/arch": "amd64" } });
        fixture.pod(&format!("p{index}"), container).await?;
    }
    let count = async |test: fn(&Pod) -> bool| -> anyhow::Result<usize> {
        let pods = fixture.pods().list(&ListParams::default()).await?.items;
        Ok(pods.iter().filter(|pod| test(pod)).count())
    };
    let runs: fn(&Pod) -> bool = |pod| has_condition(pod, "Ready", "True");
    let waits: fn(&Pod) -> bool = |pod| {
        condition(pod, "PodScheduled").is_some_and(|(_, _, message)| {
            message.contains("2 Insufficient cpu") && message.contains("No preemption victims")
        })
    };
    // Two nodes of four cores each.
    wait_until("eight run and four wait", WAIT_TIMEOUT, async || {
        Ok((count(runs).await? == 8 && count(waits).await? == 4).then_some(()))
    })
    .await?;
    let pods = fixture.pods().list(&ListParams::default()).await?.items;
    let leaver = pods.iter().find(|pod| runs(pod)).context("one that runs")?;
    let name = leaver.metadata.name.clone().unwrap_or_default();
    fixture
        .pods()
        .delete(&name, &DeleteParams::default())
        .await?;
    wait_until("another takes its place", WAIT_TIMEOUT, async || {
        Ok((count(runs).await? == 8 && count(waits).await? == 3).then_some(()))
    })
    .await?;
    fixture.manager.stop().await;
    Ok(())
}
