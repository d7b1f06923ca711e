//! Migration to multi-arch under `medley up`: the test plan of the enhancement, end to end.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use api::openshift::{ClusterOperator, ClusterVersion, Condition, payloads};
use binary::{MEDLEY, Server, medley, text};
use kube::ResourceExt as _;
use release_migration::evaluate::{Phase, Plan};
use release_migration::payload::Payload;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A fleet of one architecture, as before a migration.
const FLEET: &str = "
pools:
- name: master
  count: 3
  roles: [control-plane]
  arch: amd64
  taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]
- {name: worker, count: 2, roles: [worker], arch: amd64}
";
/// Limit of a migration; far more than it takes.
const MIGRATION: Duration = Duration::from_mins(5);

struct Cluster {
    server: Server,
}

impl Cluster {
    fn all<K: DeserializeOwned>(&self, line: &[&str]) -> Vec<K> {
        let mut all = vec!["get", "-o", "json"];
        all.extend(line);
        let mut list: Value = serde_json::from_str(&self.server.ask(&all)).unwrap();
        serde_json::from_value(list["items"].take()).unwrap()
    }

    fn version(&self) -> ClusterVersion {
        let mut found: Vec<ClusterVersion> = self.all(&["clusterversions"]);
        found.pop().unwrap()
    }

    fn operators(&self) -> BTreeMap<String, ClusterOperator> {
        let found: Vec<ClusterOperator> = self.all(&["clusteroperators"]);
        found.into_iter().map(|it| (it.name_any(), it)).collect()
    }

    /// A release stored in the cluster: its image, and the versions that operators have to report.
    fn release(&self, multi: bool) -> (String, Plan) {
        let label = format!("{}={}", payloads::LABEL, payloads::LABELLED);
        let line = ["configmaps", "-n", payloads::NAMESPACE, "-l", &label];
        let found: Vec<k8s_openapi::api::core::v1::ConfigMap> = self.all(&line);
        let mut read = found.into_iter().map(|map| {
            let image = map.annotations()[payloads::IMAGE].clone();
            let payload = Payload::read(&image, &map.data.unwrap_or_default()).unwrap();
            (image, payload)
        });
        let (image, payload) = read
            .find(|(_, it)| it.metadata.is_multi() == multi)
            .unwrap();
        (image, Plan::new(&payload))
    }

    /// Runs a `medley release` command on the cluster; returns its exit code and output.
    fn run(&self, line: &[&str]) -> (Option<i32>, String, String) {
        let kubeconfig = ["--kubeconfig", self.server.kubeconfig.to_str().unwrap()];
        let output = medley(&[&["release"], line, &kubeconfig].concat());
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}

fn holds(version: &ClusterVersion, kind: &str) -> bool {
    version.condition(kind).is_some_and(Condition::is_true)
}

fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < limit, "timed out waiting: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Whether the ClusterVersion reports that a release is complete.
fn reports_completion_of(version: &ClusterVersion, image: &str) -> bool {
    let history = version.status.as_ref().and_then(|it| it.history.first());
    !holds(version, "Progressing")
        && history.is_some_and(|it| it.image == image && it.is_completed())
}

#[test]
fn migration_completes_when_every_operator_reports_its_image() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, data) = (folder.path().join("fleet.yaml"), folder.path().join("data"));
    std::fs::write(&fleet, FLEET).unwrap();
    let line = [
        "--data",
        data.to_str().unwrap(),
        "--fleet",
        fleet.to_str().unwrap(),
        "--speed",
        "50",
    ];
    let cluster = Cluster {
        server: Server::up(folder.path(), &line),
    };

    // A single-arch release is installed.
    let (single, _) = cluster.release(false);
    let (multi, plan) = cluster.release(true);
    within(MIGRATION, "the first release is installed", || {
        reports_completion_of(&cluster.version(), &single)
    });
    let (code, _, printed) = cluster.run(&["verify", "--node-timeout", "0s"]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("is for one architecture"), "{printed}");

    // Preflight: the other payload has all requested architectures.
    let registry = multi.split('/').next().unwrap();
    let ask = |word: &str| {
        let release = format!("{registry}/openshift-release-dev/ocp-release:4.18.0-{word}");
        let line = [
            "release",
            "preflight",
            &release,
            "--arch",
            "arm64,s390x",
            "--insecure",
            registry,
        ];
        let output = medley(&line);
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let (code, printed) = ask("multi");
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("images are available for arm64, s390x"),
        "{printed}"
    );
    assert_eq!(ask("x86_64").0, Some(1));

    let (code, printed, error) = cluster.run(&["migrate", "--to-multi-arch"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(printed, "Requested update to multi cluster architecture\n");

    // It is progressing until every operator that reports images reports its new one.
    let started = Instant::now();
    let (mut progressed, mut waited) = (false, false);
    loop {
        // Read the claim first, then the operators: a claim has to hold from then on.
        let version = cluster.version();
        let operators = cluster.operators();
        let evaluation = plan.evaluate(&operators, Phase::Updating);
        let undone: Vec<&str> = evaluation
            .operators
            .iter()
            .filter(|it| !it.undone.is_empty())
            .map(|it| it.name.as_str())
            .collect();
        if reports_completion_of(&version, &multi) {
            assert!(
                undone.is_empty(),
                "claimed while {undone:?} were on their way"
            );
            assert!(evaluation.is_complete(), "{:?}", evaluation.failure);
            break;
        }
        if holds(&version, "Progressing") {
            let progress = &version.condition("Progressing").unwrap().message;
            progressed = true;
            waited |=
                progress.contains("waiting on") && progress.starts_with("Working towards 4.18.0");
            if !undone.is_empty() {
                let (code, _, printed) = cluster.run(&["verify", "--node-timeout", "0s"]);
                // The migration may have completed since.
                let ended = reports_completion_of(&cluster.version(), &multi);
                assert!(code == Some(2) || ended, "{code:?} {printed}");
            }
        }
        assert!(
            started.elapsed() < MIGRATION,
            "{undone:?} {:?}",
            version.status
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(progressed && waited, "it was never on its way");
    let history = cluster.version().status.unwrap().history;
    let states: Vec<(&str, &str)> = history
        .iter()
        .map(|it| (it.image.as_str(), it.state.as_str()))
        .collect();
    assert_eq!(
        states,
        [
            (multi.as_str(), "Completed"),
            (single.as_str(), "Completed")
        ]
    );

    // Right after completion a node of another architecture joins, and its daemon runs.
    let mut verifying = Command::new(MEDLEY)
        .args(["release", "verify", "--node-timeout", "15m", "-o", "json"])
        .env("KUBECONFIG", &cluster.server.kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let kubeconfig = cluster.server.kubeconfig.to_str().unwrap();
    let added = medley(&[
        "fleet",
        "add",
        "arm",
        "--arch",
        "arm64",
        "--kubeconfig",
        kubeconfig,
    ]);
    assert!(added.status.success(), "{}", text(&added.stderr));
    within(MIGRATION, "it is proven", || {
        verifying.try_wait().unwrap().is_some()
    });
    let output = verifying.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let proof: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(proof["before"], serde_json::json!(["amd64"]));
    assert_eq!(proof["joined"][0]["architecture"], "arm64");
    let daemon = &proof["joined"][0]["daemon"];
    let image = daemon["image"].as_str().unwrap();
    let expected = plan
        .operators()
        .iter()
        .find(|it| it.name == "machine-config");
    let expected = expected.unwrap().expected.version("operator-image");
    assert_eq!(
        Some(image),
        expected,
        "the daemon is that of the new release"
    );
}
