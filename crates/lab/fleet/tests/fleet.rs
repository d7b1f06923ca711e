//! A fleet on a cluster: what users see of it.

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

const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster with a running fleet.
struct World {
    cluster: TestCluster,
    manager: Manager,
    namespace: String,
}

impl World {
    async fn start(fleet: &str, speed: f64) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let namespace = cluster.namespace("fleet").await?;
        // On a cluster without controllers nobody makes it, and pods need it.
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), &namespace);
        if let Err(error) = accounts.create(&PostParams::default(), &account).await {
            let there = matches!(&error, kube::Error::Api(status) if status.code == 409);
            anyhow::ensure!(there, error);
        }
        let manager = run(&cluster, Some(fleet), speed).await?;
        let world = Self {
            cluster,
            manager,
            namespace,
        };
        world.untaint().await?;
        Ok(world)
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

    /// Takes away the taint the server gives new nodes: no controller here would.
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

    /// Waits until a pod is as told.
    async fn until(
        &self,
        name: &str,
        what: &str,
        test: impl Fn(&Pod) -> bool,
    ) -> anyhow::Result<Pod> {
        wait_until(&format!("pod {name} {what}"), PATIENCE, async || {
            let pod = self.pods().get(name).await?;
            Ok(test(&pod).then_some(pod))
        })
        .await
    }

    async fn until_ready(&self, name: &str) -> anyhow::Result<Pod> {
        self.until(name, "is ready", |pod| says(pod, "Ready", "True"))
            .await
    }

    async fn until_gone(&self, name: &str) -> anyhow::Result<()> {
        wait_until(&format!("pod {name} is gone"), PATIENCE, async || {
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

fn says(pod: &Pod, kind: &str, status: &str) -> bool {
    condition(pod, kind).is_some_and(|(said, _, _)| said == status)
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
async fn pods_run_where_they_belong() -> anyhow::Result<()> {
    let world = World::start(MIXED, 50.0).await?;
    world
        .pod(
            "arm",
            json!({ "nodeSelector": { "kubernetes.io/arch": "arm64" } }),
        )
        .await?;
    let windows = json!({
        "nodeSelector": { "kubernetes.io/os": "windows" },
        "tolerations": [{ "key": "os", "operator": "Equal", "value": "windows" }],
    });
    world.pod("windows", windows).await?;
    world
        .pod(
            "nowhere",
            json!({ "nodeSelector": { "kubernetes.io/arch": "s390x" } }),
        )
        .await?;

    let arm = world.until_ready("arm").await?;
    assert_eq!(node_of(&arm), "arm-1");
    assert_eq!(node_of(&world.until_ready("windows").await?), "win-1");
    let status = arm.status.context("a status")?;
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let address = status.pod_ip.context("an address")?;
    let node = world.nodes().get("arm-1").await?;
    let range = node
        .spec
        .and_then(|spec| spec.pod_cidr)
        .context("a range")?;
    let network = range.trim_end_matches("0/24");
    assert!(address.starts_with(network), "{address} is in {range}");

    let nowhere = world
        .until("nowhere", "is unschedulable", |pod| {
            says(pod, "PodScheduled", "False")
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
    let events: Api<Event> = Api::namespaced(world.client(), &world.namespace);
    wait_until("both outcomes are events", PATIENCE, async || {
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

    // A node that fits comes: the pod does not wait for ever.
    commands::add(&world.client(), fleet::model::Pool::new("ibmz", "s390x")).await?;
    wait_until("the new node is ready", PATIENCE, async || {
        let nodes = commands::list(&world.client()).await?;
        Ok(nodes
            .iter()
            .any(|node| node.name == "ibmz-1" && node.ready)
            .then_some(()))
    })
    .await?;
    world.untaint().await?;
    assert_eq!(node_of(&world.until_ready("nowhere").await?), "ibmz-1");
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_registered_whole_and_heard_of() -> anyhow::Result<()> {
    let mut world = World::start(fleet::model::DEMO, 50.0).await?;
    let lines = commands::list(&world.client()).await?;
    assert_eq!(lines.len(), 15);
    assert!(lines.iter().all(|line| line.ready && line.simulated));
    let leases: Api<Lease> = Api::namespaced(world.client(), "kube-node-lease");
    wait_until("every node has a lease", PATIENCE, async || {
        let count = leases.list(&ListParams::default()).await?.items.len();
        Ok((count == 15).then_some(()))
    })
    .await?;
    let lease = leases.get("ibmz-1").await?;
    assert_eq!(
        lease.spec.and_then(|spec| spec.lease_duration_seconds),
        Some(40)
    );

    // What was removed stays removed; what the file has gained comes.
    commands::remove(&world.client(), "win2019-1").await?;
    let extra = "pools:\n  - {name: extra, arch: ppc64le}\n";
    let more = fleet::model::DEMO.replacen("pools:\n", extra, 1);
    world.restart(&more, 50.0).await?;
    let names: Vec<String> = commands::list(&world.client())
        .await?
        .into_iter()
        .map(|line| line.name)
        .collect();
    assert!(names.contains(&"extra-1".to_owned()));
    assert!(!names.contains(&"win2019-1".to_owned()), "{names:?}");
    assert_eq!(names.len(), 15);
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gated_pod_waits_and_then_runs() -> anyhow::Result<()> {
    let world = World::start(MIXED, 50.0).await?;
    let gates = json!({ "schedulingGates": [{ "name": "example.com/wait" }] });
    world.pod("gated", gates).await?;
    world.pod("free", json!({})).await?;
    world.until_ready("free").await?;
    let gated = world.pods().get("gated").await?;
    let (status, reason, _) = condition(&gated, "PodScheduled").context("a condition")?;
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "SchedulingGated")
    );
    let open = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
    world
        .pods()
        .patch("gated", &PatchParams::default(), &open)
        .await?;
    world.until_ready("gated").await?;
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_wants_company_waits_for_it() -> anyhow::Result<()> {
    let world = World::start(MIXED, 50.0).await?;
    let company = json!({ "affinity": { "podAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "host" } } },
    ]}}});
    world.pod("guest", company).await?;
    world
        .until("guest", "waits", |pod| says(pod, "PodScheduled", "False"))
        .await?;
    let arm = json!({ "nodeSelector": { "kubernetes.io/arch": "arm64" } });
    world.pod("host", arm).await?;
    assert_eq!(node_of(&world.until_ready("guest").await?), "arm-1");
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_important_displace_the_unimportant() -> anyhow::Result<()> {
    let world = World::start(MIXED, 50.0).await?;
    let class: PriorityClass = serde_json::from_value(json!({
        "metadata": { "name": format!("high-{}", world.namespace) }, "value": 1000,
    }))?;
    let high = class.metadata.name.clone();
    Api::all(world.client())
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
    world.pod("low", asking(None)).await?;
    world.until_ready("low").await?;
    world.pod("other", asking(None)).await?;
    world
        .until("other", "waits", |pod| says(pod, "PodScheduled", "False"))
        .await?;
    world.pod("high", asking(high.as_ref())).await?;
    world.until_gone("low").await?;
    assert_eq!(node_of(&world.until_ready("high").await?), "amd-1");
    assert_eq!(
        node_of(&world.pods().get("other").await?),
        "",
        "it has not jumped the queue"
    );
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_end_fail_and_stop_as_they_are_told() -> anyhow::Result<()> {
    let world = World::start(MIXED, 50.0).await?;
    let once = json!({ "restartPolicy": "Never" });
    world.pod("job", once.clone()).await?;
    let failing = json!({ "fleet.medley.dev/exit-code": "3", "fleet.medley.dev/run-for": "100ms" });
    world.annotated("failing", failing.clone(), once).await?;
    world.annotated("crashing", failing, json!({})).await?;
    let broken = json!({ "fleet.medley.dev/fail-image": "ErrImagePull" });
    world.annotated("broken", broken, json!({})).await?;
    let inits = json!({ "initContainers": [
        { "name": "first", "image": "registry.example/init:1" },
        { "name": "beside", "image": "registry.example/side:1", "restartPolicy": "Always" },
    ]});
    world.pod("prepared", inits).await?;
    world
        .pod(
            "wrong",
            json!({ "nodeName": "win-1", "os": { "name": "linux" } }),
        )
        .await?;

    let job = world
        .until("job", "ends", |pod| phase(pod) == "Succeeded")
        .await?;
    assert_eq!(
        condition(&job, "Ready")
            .map(|(_, reason, _)| reason)
            .as_deref(),
        Some("PodCompleted")
    );
    let failed = world
        .until("failing", "fails", |pod| phase(pod) == "Failed")
        .await?;
    let ends = |pod: &Pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        statuses.first()?.state.clone()?.terminated
    };
    assert_eq!(ends(&failed).context("an end")?.exit_code, 3);
    world
        .until("crashing", "backs off", |pod| {
            waits(pod) == "CrashLoopBackOff"
        })
        .await?;
    world
        .until("broken", "cannot pull", |pod| {
            waits(pod) == "ImagePullBackOff"
        })
        .await?;
    let prepared = world.until_ready("prepared").await?;
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
    let wrong = world
        .until("wrong", "is rejected", |pod| phase(pod) == "Failed")
        .await?;
    let reason = wrong.status.and_then(|status| status.reason);
    assert_eq!(reason.as_deref(), Some("PodOSNotSupported"));

    for name in ["prepared", "crashing", "broken", "job"] {
        world.pods().delete(name, &DeleteParams::default()).await?;
        world.until_gone(name).await?;
    }
    world.manager.stop().await;
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
async fn volumes_that_wait_for_a_consumer_come_to_its_node() -> anyhow::Result<()> {
    let world = World::start(MIXED, 50.0).await?;
    let class: StorageClass = serde_json::from_value(json!({
        "metadata": { "name": format!("local-{}", world.namespace) },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }))?;
    let class_name = class.metadata.name.clone();
    Api::all(world.client())
        .create(&PostParams::default(), &class)
        .await?;
    let volumes: Api<PersistentVolume> = Api::all(world.client());
    let name = format!("disk-{}", world.namespace);
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
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.client(), &world.namespace);
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
    world.pod("stateful", volumes_of_pod).await?;

    // The scheduler gives the volume to the claim; who completes it is the volume controller, which
    // the test stands in for.
    let given = wait_until("the volume is given to the claim", PATIENCE, async || {
        let volume = volumes.get(&name).await?;
        Ok(volume.spec.and_then(|spec| spec.claim_ref))
    })
    .await?;
    assert_eq!(given.name.as_deref(), Some("data"));
    assert_eq!(node_of(&world.pods().get("stateful").await?), "");
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
    assert_eq!(node_of(&world.until_ready("stateful").await?), "amd-2");
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_node_falls_silent_and_comes_back() -> anyhow::Result<()> {
    let world = World::start(MIXED, 50.0).await?;
    let pinned = json!({ "nodeSelector": { "kubernetes.io/hostname": "arm-1" } });
    world.pod("pinned", pinned).await?;
    world.until_ready("pinned").await?;
    commands::fail(&world.client(), "arm-1").await?;
    let lines = commands::list(&world.client()).await?;
    assert!(lines.iter().any(|line| line.name == "arm-1" && line.failed));
    // What a control plane would write about a node nobody hears of.
    let lost = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown" },
    ]}});
    world
        .nodes()
        .patch_status("arm-1", &PatchParams::default(), &Patch::Strategic(lost))
        .await?;
    world
        .pods()
        .delete("pinned", &DeleteParams::default())
        .await?;
    // Another pod lives and dies meanwhile: time enough for a kubelet that were not silent.
    let other = json!({ "nodeSelector": { "kubernetes.io/hostname": "amd-1" } });
    world.pod("other", other).await?;
    world.until_ready("other").await?;
    world
        .pods()
        .delete("other", &DeleteParams::default())
        .await?;
    world.until_gone("other").await?;
    let ready = |node: &Node| {
        let conditions = node.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions.iter().find(|known| known.type_ == "Ready")?;
        Some(ready.status.clone())
    };
    assert!(world.pods().get_opt("pinned").await?.is_some());
    let node = world.nodes().get("arm-1").await?;
    assert_eq!(ready(&node).as_deref(), Some("Unknown"));

    commands::recover(&world.client(), "arm-1").await?;
    wait_until("the node is ready again", PATIENCE, async || {
        let node = world.nodes().get("arm-1").await?;
        Ok((ready(&node).as_deref() == Some("True")).then_some(()))
    })
    .await?;
    world.until_gone("pinned").await?;
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_is_empty_and_takes_nothing() -> anyhow::Result<()> {
    let world = World::start(MIXED, 50.0).await?;
    let on = |node: &str| json!({ "nodeSelector": { "kubernetes.io/hostname": node } });
    world.pod("leaves", on("amd-1")).await?;
    world.pod("stays", on("amd-2")).await?;
    world.until_ready("leaves").await?;
    world.until_ready("stays").await?;
    let careful = commands::DrainOptions::default();
    let refused = commands::drain(&world.client(), "amd-1", &careful, drop).await;
    let text = refused
        .err()
        .context("a pod without a controller")?
        .to_string();
    assert!(text.contains("declare no controller"), "{text}");
    let options = commands::DrainOptions {
        force: true,
        timeout: Some(PATIENCE),
        ..careful
    };
    commands::drain(&world.client(), "amd-1", &options, drop).await?;
    assert!(world.pods().get_opt("leaves").await?.is_none());
    assert_eq!(phase(&world.pods().get("stays").await?), "Running");
    world.pod("late", on("amd-1")).await?;
    world
        .until("late", "has no node", |pod| {
            condition(pod, "PodScheduled")
                .is_some_and(|(_, _, message)| message.contains("1 node(s) were unschedulable"))
        })
        .await?;
    commands::uncordon(&world.client(), "amd-1").await?;
    world.until_ready("late").await?;
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on_where_it_stopped() -> anyhow::Result<()> {
    let mut world = World::start(MIXED, 50.0).await?;
    world.pod("running", json!({})).await?;
    let before = world.until_ready("running").await?;
    let slow = json!({ "fleet.medley.dev/stop-after": "20s" });
    world.annotated("stopping", slow, json!({})).await?;
    world.until_ready("stopping").await?;
    world
        .pods()
        .delete("stopping", &DeleteParams::default())
        .await?;
    world.manager.stop().await;
    world.pod("waiting", json!({})).await?;
    world.manager = run(&world.cluster, Some(MIXED), 50.0).await?;
    world.until_ready("waiting").await?;
    world.until_gone("stopping").await?;
    let after = world.pods().get("running").await?;
    assert_eq!(after.status, before.status, "nothing happened to it");
    assert_eq!(node_of(&after), node_of(&before));
    let waiting = world.pods().get("waiting").await?;
    let address = |pod: &Pod| pod.status.clone().and_then(|status| status.pod_ip);
    assert_ne!(address(&waiting), address(&after));
    world.manager.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_never_asked_for_more_than_they_have() -> anyhow::Result<()> {
    let world = Arc::new(World::start(MIXED, 200.0).await?);
    for index in 0..12 {
        let container = json!({ "containers": [{
            "name": "main", "image": "registry.example/app:1",
            "resources": { "requests": { "cpu": "1" } },
        }], "nodeSelector": { "kubernetes.io/arch": "amd64" } });
        world.pod(&format!("p{index}"), container).await?;
    }
    let count = async |test: fn(&Pod) -> bool| -> anyhow::Result<usize> {
        let pods = world.pods().list(&ListParams::default()).await?.items;
        Ok(pods.iter().filter(|pod| test(pod)).count())
    };
    let runs: fn(&Pod) -> bool = |pod| says(pod, "Ready", "True");
    let waits: fn(&Pod) -> bool = |pod| {
        condition(pod, "PodScheduled").is_some_and(|(_, _, message)| {
            message.contains("2 Insufficient cpu") && message.contains("No preemption victims")
        })
    };
    // Two nodes of four cores each.
    wait_until("eight run and four wait", PATIENCE, async || {
        Ok((count(runs).await? == 8 && count(waits).await? == 4).then_some(()))
    })
    .await?;
    let pods = world.pods().list(&ListParams::default()).await?.items;
    let leaver = pods.iter().find(|pod| runs(pod)).context("one that runs")?;
    let name = leaver.metadata.name.clone().unwrap_or_default();
    world.pods().delete(&name, &DeleteParams::default()).await?;
    wait_until("another takes its place", PATIENCE, async || {
        Ok((count(runs).await? == 8 && count(waits).await? == 3).then_some(()))
    })
    .await?;
    world.manager.stop().await;
    Ok(())
}
