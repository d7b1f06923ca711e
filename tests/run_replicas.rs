//! Two replicas: both see everything, one writes. What one has begun, the other brings to its end.

use std::time::Duration;

use api::advisor::{ItemState, Phase, VirtPlatformConfig};
use fleet::operators::{DeschedulerVintage, HyperConvergedVersion, Installed};
use http::Method;
use kube::Api;
use kube::api::PostParams;
use runtime::Manager;
use serde_json::json;
use testkit::{ServedCluster, TestCluster};

use crate::binary::{send, stop, until};
use crate::run_wire::{Asked, Record, Trap, wire};
use crate::{Operator, holder_after};

const PATIENCE: Duration = Duration::from_mins(3);
/// A simulated reboot takes a tenth of a second.
const FAST: f64 = 600.0;
/// The plans that are carried out, and what has to be consented to.
const PLANS: [(&str, &str); 2] = [
    ("load-aware-rebalancing", "enable-load-aware-descheduling"),
    ("virt-higher-density", "configure-higher-density"),
];
/// What the plans apply: two items each.
const TARGETS: [&str; 4] = [
    "/machineconfigs/99-worker-psi-karg",
    "/kubedeschedulers/cluster",
    "/machineconfigs/90-worker-kubelet-swap",
    "/hyperconvergeds/kubevirt-hyperconverged",
];

/// A cluster where other people's operators work, and two plans that wait for somebody to carry them out.
struct Scene {
    cluster: TestCluster,
    served: ServedCluster,
    namespace: String,
    record: Record,
    others: Manager,
}

impl Scene {
    async fn set() -> Self {
        let cluster = crate::cluster().await;
        let namespace = cluster.namespace("replicas").await.unwrap();
        let client = cluster.client();
        let installed = Installed {
            descheduler: Some(DeschedulerVintage::Current),
            machine_config: true,
            hyperconverged: Some(HyperConvergedVersion::V1),
            ..Installed::default()
        };
        fleet::operators::install(&client, &installed)
            .await
            .unwrap();
        for name in ["worker-0", "worker-1"] {
            cluster.node(name, "amd64", "worker").await.unwrap();
        }
        let others = Manager::new(client.clone());
        fleet::operators::start(&others, client.clone(), FAST).await;
        let configs: Api<VirtPlatformConfig> = Api::all(client);
        for (name, item) in PLANS {
            let config = serde_json::from_value(json!({
                "apiVersion": "advisor.kubevirt.io/v1alpha1",
                "kind": "VirtPlatformConfig",
                "metadata": { "name": name },
                "spec": {
                    "profile": name,
                    "action": "Apply",
                    "approval": { "takeovers": [{ "item": item }] },
                },
            }))
            .unwrap();
            configs
                .create(&PostParams::default(), &config)
                .await
                .unwrap();
        }
        let served = cluster.serve().await.unwrap();
        Self {
            cluster,
            served,
            namespace,
            record: Record::default(),
            others,
        }
    }

    async fn operator(&self, name: &'static str, trap: Option<Trap>) -> Operator {
        let (client, folder) = (self.cluster.client(), self.served.folder());
        let kubeconfig = wire(client, name, &self.record, trap, folder).await;
        let place = ["--namespace", &self.namespace];
        Operator::start_with(&kubeconfig, folder, name, &place)
    }

    async fn leader_after(&self, before: &str) -> String {
        let held = holder_after(&self.cluster.client(), &self.namespace, before).await;
        held.holder_identity.unwrap()
    }

    /// Waits until both plans are carried out.
    async fn carried_out(&self) {
        let configs: Api<VirtPlatformConfig> = Api::all(self.cluster.client());
        for (name, _) in PLANS {
            let done = testkit::wait_until("the plan is carried out", PATIENCE, async || {
                let status = configs.get(name).await?.status.unwrap_or_default();
                Ok((status.phase == Some(Phase::Completed)).then_some(status))
            });
            let status = done.await.unwrap();
            let mut items = status.items.iter();
            assert_eq!(status.items.len(), 2, "{:?}", status.items);
            assert!(
                items.all(|item| item.state == ItemState::Completed),
                "{:?}",
                status.items
            );
        }
    }

    /// Nobody wrote out of turn, and nothing was applied twice.
    fn was_orderly(&self) {
        let all = self.record.all();
        let turn = takeover(&all);
        for (number, asked) in all.iter().enumerate() {
            let in_turn = match asked.by {
                "first" => number < turn,
                _ => number > turn,
            };
            assert!(in_turn || !asked.is_write(), "out of turn: {asked:?}");
        }
        for target in TARGETS {
            let applied = all
                .iter()
                .filter(|asked| asked.applies && asked.path.contains(target) && asked.succeeded());
            assert_eq!(applied.count(), 1, "{target} is applied once");
        }
    }
}

/// When the second got the lease: its place in the record.
fn takeover(all: &[Asked]) -> usize {
    let mut places = all.iter().enumerate();
    let got = places
        .find(|(_, asked)| asked.by == "second" && asked.is_lease() && asked.method == Method::PUT);
    got.unwrap().0
}

/// Lists of whole kinds that somebody asked for from a place in the record on.
fn lists(all: &[Asked], from: usize) -> Vec<&Asked> {
    let later = all[from..].iter();
    later
        .filter(|asked| {
            let is_list = asked.method == Method::GET
                && asked.path.contains("limit=2000")
                && !asked.path.contains("watch=");
            asked.by == "second" && is_list
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_leader_has_begun_the_next_brings_to_its_end() {
    let scene = Scene::set().await;
    // The cluster has made the object, and the leader never learns of it.
    let trap = Trap::new(TARGETS[0]);
    let mut first = scene.operator("first", Some(trap.clone())).await;
    let leader = scene.leader_after("").await;
    tokio::time::timeout(PATIENCE, trap.caught()).await.unwrap();

    let mut second = scene.operator("second", None).await;
    second.is_ready();
    let before = scene.record.all();
    let seen = lists(&before, 0);
    for kind in ["virtplatformconfigs", "machineconfigs", "kubedeschedulers"] {
        assert!(
            seen.iter().any(|asked| asked.path.contains(kind)),
            "the second has not seen {kind}: {seen:?}"
        );
    }
    assert!(second.metrics().contains("medley_leader 0"));
    assert!(first.metrics().contains("medley_leader 1"));

    stop(&mut first.process, "-KILL");
    let next = scene.leader_after(&leader).await;
    assert_ne!(next, leader);
    scene.carried_out().await;
    scene.was_orderly();
    let all = scene.record.all();
    let again = lists(&all, takeover(&all));
    assert!(again.is_empty(), "what was seen is seen again: {again:?}");
    assert!(second.metrics().contains("medley_leader 1"));
    assert_eq!(stop(&mut second.process, "-TERM").code(), Some(0));
    scene.others.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_stopped_for_long_writes_nothing_when_it_goes_on() {
    let scene = Scene::set().await;
    let trap = Trap::new(TARGETS[0]);
    let mut first = scene.operator("first", Some(trap.clone())).await;
    let leader = scene.leader_after("").await;
    let mut second = scene.operator("second", None).await;
    second.is_ready();
    tokio::time::timeout(PATIENCE, trap.caught()).await.unwrap();
    send(&first.process, "-STOP");
    // What it waited for is there when it goes on: it has something to write at once.
    trap.free();
    scene.leader_after(&leader).await;
    scene.carried_out().await;

    send(&first.process, "-CONT");
    let status = until("the first ends", || first.process.ended().unwrap());
    let output = first.process.output();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("error: keeping the lease"), "{output}");
    scene.was_orderly();
    assert_eq!(stop(&mut second.process, "-TERM").code(), Some(0));
    scene.others.stop().await;
}
