//! `medley run`: one replica leads, the next stands by and takes over.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;
mod run_process;
mod run_replicas;
mod run_wire;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use api::openshift::ClusterOperator;
use binary::{MEDLEY, medley, stop, text, until};
use fleet::operators::Installed;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use testkit::{Process, ServedCluster, TestCluster, free_port};

/// An operator process with a folder of its own.
pub(crate) struct Operator {
    process: Process,
    port: u16,
}

impl Operator {
    fn start(served: &ServedCluster, name: &str, arguments: &[&str]) -> Self {
        Self::start_with(&served.kubeconfig, served.folder(), name, arguments)
    }

    fn start_with(kubeconfig: &Path, folder: &Path, name: &str, arguments: &[&str]) -> Self {
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        let port = free_port().unwrap();
        let address = format!("127.0.0.1:{port}");
        let common = [
            "run",
            "-v",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--health-address",
            &address,
        ];
        let arguments = common.iter().chain(arguments);
        let process = Process::start(Path::new(MEDLEY), arguments, &folder).unwrap();
        Self { process, port }
    }

    /// Status code and body of a response; nothing if the port is closed.
    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let code = answer.split(' ').nth(1)?.parse().ok()?;
        Some((code, answer))
    }

    /// Its metrics.
    fn metrics(&self) -> String {
        let (code, text) = self.get("/metrics").unwrap();
        assert_eq!(code, 200, "{text}");
        text
    }

    fn is_ready(&mut self) {
        until("it is ready", || {
            let output = self.process.output();
            assert!(self.process.ended().unwrap().is_none(), "{output}");
            self.get("/readyz").filter(|(code, _)| *code == 200)
        });
    }
}

/// A cluster with Medley's CRDs.
async fn cluster() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    controllers::install(&cluster.client(), "medley-system")
        .await
        .unwrap();
    cluster
}

async fn lease(client: &Client, namespace: &str) -> Option<LeaseSpec> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    api.get_opt("medley").await.unwrap()?.spec
}

/// The lease, once its holder is another than `before`.
async fn holder_after(client: &Client, namespace: &str, before: &str) -> LeaseSpec {
    testkit::wait_until("a replica leads", Duration::from_mins(2), async || {
        let lease = lease(client, namespace).await;
        Ok(lease.filter(|lease| {
            let holder = lease.holder_identity.as_deref().unwrap_or_default();
            !holder.is_empty() && holder != before
        }))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_takes_over_when_the_leader_is_killed() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("run").await.unwrap();
    let client = cluster.client();
    let served = cluster.serve().await.unwrap();
    let place = ["--namespace", &namespace];

    let mut first = Operator::start(&served, "first", &place);
    let held = holder_after(&client, &namespace, "").await;
    let leader = held.holder_identity.unwrap();
    assert_eq!(held.lease_duration_seconds, Some(15));
    assert_eq!(held.lease_transitions, Some(0));
    until("the first works", || {
        let output = first.process.output();
        output.lines().any(|line| line == "ready").then_some(())
    });
    first.is_ready();
    assert_eq!(first.get("/healthz").unwrap().0, 200);
    assert_eq!(first.get("/elsewhere").unwrap().0, 404);
    let (code, metrics) = first.get("/metrics").unwrap();
    assert_eq!(code, 200);
    assert!(
        metrics.contains("application/openmetrics-text"),
        "{metrics}"
    );
    assert!(
        metrics.contains("# TYPE medley_queue_length gauge"),
        "{metrics}"
    );
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    until("an event names the leader", || {
        let listed = block_on_current(events.list(&ListParams::default()));
        let wanted = format!("{leader} became leader");
        let matches = |event: &Event| event.message.as_deref() == Some(&wanted);
        listed.unwrap().items.iter().any(matches).then_some(())
    });

    // The second replica is ready, but does not lead.
    let mut second = Operator::start(&served, "second", &place);
    second.is_ready();
    until("the second sees the first", || {
        let waits = second.process.output().contains("another replica leads");
        waits.then_some(())
    });
    assert!(!second.process.output().contains("ready\n"));

    stop(&mut first.process, "-KILL");
    let held = holder_after(&client, &namespace, &leader).await;
    assert_eq!(held.lease_transitions, Some(1));
    until("the second works", || {
        let output = second.process.output();
        output.lines().any(|line| line == "ready").then_some(())
    });

    // On shutdown it releases the lease.
    assert_eq!(stop(&mut second.process, "-TERM").code(), Some(0));
    let held = lease(&client, &namespace).await.unwrap();
    assert_eq!(held.holder_identity.as_deref(), Some(""));
}

/// Runs a future from within a synchronous closure.
fn block_on_current<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

#[tokio::test(flavor = "multi_thread")]
async fn deposed_leader_exits() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("run").await.unwrap();
    let client = cluster.client();
    let served = cluster.serve().await.unwrap();
    let mut operator = Operator::start(&served, "deposed", &["--namespace", &namespace]);
    holder_after(&client, &namespace, "").await;

    let api: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let patch = serde_json::json!({"spec": {"holderIdentity": "thief"}});
    let patch = Patch::Merge(&patch);
    api.patch("medley", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let status = until("the operator ends", || operator.process.ended().unwrap());
    let output = operator.process.output();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("error: keeping the lease"), "{output}");
    let held = lease(&client, &namespace).await.unwrap();
    assert_eq!(held.holder_identity.as_deref(), Some("thief"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_lease_without_leader_election() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("run").await.unwrap();
    let served = cluster.serve().await.unwrap();
    let alone = ["--leader-elect=false", "--namespace", &namespace];
    let mut operator = Operator::start(&served, "alone", &alone);
    operator.is_ready();
    until("it works", || {
        let output = operator.process.output();
        output.lines().any(|line| line == "ready").then_some(())
    });
    assert!(lease(&cluster.client(), &namespace).await.is_none());

    // The port is in use, and the message names the remedy.
    let address = format!("127.0.0.1:{}", operator.port);
    let refused = medley(&[
        "run",
        "--kubeconfig",
        served.kubeconfig.to_str().unwrap(),
        "--health-address",
        &address,
    ]);
    assert_eq!(refused.status.code(), Some(1));
    let printed = text(&refused.stderr);
    assert!(
        printed.contains(&address) && printed.contains("--health-address"),
        "{printed}"
    );
    assert_eq!(stop(&mut operator.process, "-INT").code(), Some(0));
}

#[test]
fn unknown_controllers_are_rejected() {
    let refused = medley(&["run", "--controllers", "knitting"]);
    assert_eq!(refused.status.code(), Some(1));
    let printed = text(&refused.stderr);
    assert!(
        printed.contains("knitting") && printed.contains("--controllers"),
        "{printed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_reports_its_own_cluster_operator() {
    let cluster = cluster().await;
    let client = cluster.client();
    let namespace = cluster.namespace("run").await.unwrap();
    let served = cluster.serve().await.unwrap();
    let image = format!("quay.io/x/medley@sha256:{}", "a".repeat(64));
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    let deployment = serde_json::from_value(json!({
        "metadata": { "name": "medley-operator" },
        "spec": {
            "selector": { "matchLabels": { "app": "medley" } },
            "template": {
                "metadata": { "labels": { "app": "medley" } },
                "spec": { "containers": [{ "name": "operator", "image": image }] },
            },
        },
    }))
    .unwrap();
    let params = PostParams::default();
    let made = deployments.create(&params, &deployment).await.unwrap();
    let place = [
        "--namespace",
        &namespace,
        "--leader-elect=false",
        "--release-version",
        "4.18.0",
        "--operator-image",
        &image,
    ];
    // It also works without the ClusterOperator CRD.
    let mut operator = Operator::start(&served, "own", &place);
    operator.is_ready();
    let installed = Installed {
        machine_config: true,
        release: true,
        ..Installed::default()
    };
    fleet::operators::install(&client, &installed)
        .await
        .unwrap();
    let api: Api<ClusterOperator> = Api::all(client.clone());
    let timeout = Duration::from_mins(2);
    let found = testkit::wait_until("it is progressing", timeout, async || {
        Ok(api
            .get_opt("medley")
            .await?
            .filter(|it| it.status.is_some()))
    });
    assert!(found.await.unwrap().versions().is_empty());
    let status = json!({ "status": {
        "observedGeneration": made.metadata.generation,
        "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1,
    } });
    deployments
        .patch_status(
            "medley-operator",
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await
        .unwrap();
    let found = testkit::wait_until("it has reported its versions", timeout, async || {
        let found = api.get("medley").await?;
        Ok((!found.versions().is_empty()).then_some(found))
    })
    .await
    .unwrap();
    assert_eq!(found.version("operator"), Some("4.18.0"));
    assert_eq!(found.version("operator-image"), Some(image.as_str()));
    stop(&mut operator.process, "-TERM");
}
