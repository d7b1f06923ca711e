//! Two replicas: both keep warm caches, one writes. The second completes what the first has started.

use std::time::Duration;

use api::advisor::{ItemState, Phase, VirtPlatformConfig};
use fleet::operators::{DeschedulerRelease, HyperConvergedVersion, Installed};
use http::Method;
use kube::Api;
use kube::api::PostParams;
use runtime::Manager;
use serde_json::json;
use testkit::{DeschedulerPlayer, ServedCluster, TestCluster};

use crate::binary::{send, stop, until};
use crate::run_wire::{Record, RecordedRequest, Trap, wire};
use crate::{Operator, holder_after};

const WAIT_TIMEOUT: Duration = Duration::from_mins(3);
/// Simulation speed: a reboot takes a tenth of a second.
const FAST: f64 = 600.0;
/// The applied plans, and the takeovers they need consent for.
const PLANS: [(&str, &str); 2] = [
    ("load-aware-rebalancing", "enable-load-aware-descheduling"),
    ("virt-higher-density", "configure-higher-density"),
];
/// The targets of the plans: two items each.
const TARGETS: [&str; 4] = [
    "/machineconfigs/99-worker-psi-karg",
    "/kubedeschedulers/cluster",
    "/machineconfigs/90-worker-kubelet-swap",
    "/hyperconvergeds/kubevirt-hyperconverged",
];

/// A cluster with simulated operators, and two approved plans waiting for a leader.
struct ReplicasFixture {
    cluster: TestCluster,
    served: ServedCluster,
    namespace: String,
    record: Record,
    others: Manager,
    _player: DeschedulerPlayer,
}

impl ReplicasFixture {
    async fn set() -> Self {
        let cluster = crate::cluster().await;
        let namespace = cluster.namespace("replicas").await.unwrap();
        let client = cluster.client();
        let installed = Installed {
            descheduler: Some(DeschedulerRelease::Current),
            machine_config: true,
            monitoring: true,
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
        let player = DeschedulerPlayer::running(client.clone());
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
            _player: player,
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

    /// Waits until both plans are applied.
    async fn wait_until_applied(&self) {
        let configs: Api<VirtPlatformConfig> = Api::all(self.cluster.client());
        for (name, _) in PLANS {
            let done = testkit::wait_until("the plan is applied", WAIT_TIMEOUT, async || {
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

    /// Asserts that only the leader wrote, and that nothing was applied twice.
    fn assert_orderly(&self) {
        let all = self.record.all();
        let takeover_index = takeover(&all);
        for (number, recorded) in all.iter().enumerate() {
            let is_leader = match recorded.by {
                "first" => number < takeover_index,
                _ => number > takeover_index,
            };
            assert!(
                is_leader || !recorded.is_write(),
                "written by a replica that is not the leader: {recorded:?}"
            );
        }
        for target in TARGETS {
            let applied = all.iter().filter(|recorded| {
                recorded.applies && recorded.path.contains(target) && recorded.succeeded()
            });
            assert_eq!(applied.count(), 1, "{target} is applied once");
        }
    }
}

/// The index of the request by which the second replica acquired the lease.
fn takeover(all: &[RecordedRequest]) -> usize {
    let mut places = all.iter().enumerate();
    let got = places.find(|(_, recorded)| {
        recorded.by == "second" && recorded.is_lease() && recorded.method == Method::PUT
    });
    got.unwrap().0
}

/// List requests from an index of the record on.
fn lists(all: &[RecordedRequest], from: usize) -> Vec<&RecordedRequest> {
    let later = all[from..].iter();
    later
        .filter(|recorded| {
            let is_list = recorded.method == Method::GET
                && recorded.path.contains("limit=2000")
                && !recorded.path.contains("watch=");
            recorded.by == "second" && is_list
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_of_a_killed_leader_is_completed_by_the_next() {
    let fixture = ReplicasFixture::set().await;
    // The API server has created the object, and the leader never gets the response.
    let trap = Trap::new(TARGETS[0]);
    let mut first = fixture.operator("first", Some(trap.clone())).await;
    let leader = fixture.leader_after("").await;
    tokio::time::timeout(WAIT_TIMEOUT, trap.caught())
        .await
        .unwrap();

    let mut second = fixture.operator("second", None).await;
    second.is_ready();
    let before = fixture.record.all();
    let seen = lists(&before, 0);
    for kind in ["virtplatformconfigs", "machineconfigs", "kubedeschedulers"] {
        assert!(
            seen.iter().any(|recorded| recorded.path.contains(kind)),
            "the second has not seen {kind}: {seen:?}"
        );
    }
    assert!(second.metrics().contains("medley_leader 0"));
    assert!(first.metrics().contains("medley_leader 1"));

    stop(&mut first.process, "-KILL");
    let next = fixture.leader_after(&leader).await;
    assert_ne!(next, leader);
    fixture.wait_until_applied().await;
    fixture.assert_orderly();
    let all = fixture.record.all();
    let again = lists(&all, takeover(&all));
    assert!(again.is_empty(), "what was seen is seen again: {again:?}");
    assert!(second.metrics().contains("medley_leader 1"));
    assert_eq!(stop(&mut second.process, "-TERM").code(), Some(0));
    fixture.others.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_leader_writes_nothing_after_it_resumes() {
    let fixture = ReplicasFixture::set().await;
    let trap = Trap::new(TARGETS[0]);
    let mut first = fixture.operator("first", Some(trap.clone())).await;
    let leader = fixture.leader_after("").await;
    let mut second = fixture.operator("second", None).await;
    second.is_ready();
    tokio::time::timeout(WAIT_TIMEOUT, trap.caught())
        .await
        .unwrap();
    send(&first.process, "-STOP");
    // The response arrives when it resumes: it has something to write at once.
    trap.free();
    fixture.leader_after(&leader).await;
    fixture.wait_until_applied().await;

    send(&first.process, "-CONT");
    let status = until("the first ends", || first.process.ended().unwrap());
    let output = first.process.output();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("error: keeping the lease"), "{output}");
    fixture.assert_orderly();
    assert_eq!(stop(&mut second.process, "-TERM").code(), Some(0));
    fixture.others.stop().await;
}
