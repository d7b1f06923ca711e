//! A cluster becomes multi-arch under `medley up`: the test plan of the enhancement, end to end.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test does"
)]

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

/// One architecture, as clusters begin.
const FLEET: &str = "
pools:
- name: master
  count: 3
  roles: [control-plane]
  arch: amd64
  taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]
- {name: worker, count: 2, roles: [worker], arch: amd64}
";
/// How long a migration may take: far longer than it does.
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

    /// The releases that the cluster keeps: their images, and what operators have to report.
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

    /// Runs a command of `medley release` against the cluster: its code, and what it says.
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
        assert!(started.elapsed() < limit, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Whether the ClusterVersion claims that a release is all there.
fn claims(version: &ClusterVersion, image: &str) -> bool {
    let history = version.status.as_ref().and_then(|it| it.history.first());
    !holds(version, "Progressing")
        && history.is_some_and(|it| it.image == image && it.is_completed())
}

#[test]
fn a_migration_is_complete_when_every_operator_says_so_and_not_before() {
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

    // A cluster for one architecture is installed.
    let (single, _) = cluster.release(false);
    let (multi, plan) = cluster.release(true);
    within(MIGRATION, "the first release is installed", || {
        claims(&cluster.version(), &single)
    });
    let (code, _, said) = cluster.run(&["verify", "--node-timeout", "0s"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is for one architecture"), "{said}");

    // The registry is asked whether the other one is for all that is wanted.
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
    let (code, said) = ask("multi");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("images are there for arm64, s390x"), "{said}");
    assert_eq!(ask("x86_64").0, Some(1));

    let (code, said, error) = cluster.run(&["migrate", "--to-multi-arch"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(said, "Requested update to multi cluster architecture\n");

    // It is on its way until every operator that reports images reports its new one.
    let started = Instant::now();
    let (mut progressed, mut waited) = (false, false);
    loop {
        // First what is claimed, then what is: what is claimed has to hold from then on.
        let version = cluster.version();
        let operators = cluster.operators();
        let evaluation = plan.evaluate(&operators, Phase::Updating);
        let undone: Vec<&str> = evaluation
            .operators
            .iter()
            .filter(|it| !it.undone.is_empty())
            .map(|it| it.name.as_str())
            .collect();
        if claims(&version, &multi) {
            assert!(
                undone.is_empty(),
                "claimed while {undone:?} were on their way"
            );
            assert!(evaluation.is_complete(), "{:?}", evaluation.failure);
            break;
        }
        if holds(&version, "Progressing") {
            let told = &version.condition("Progressing").unwrap().message;
            progressed = true;
            waited |= told.contains("waiting on") && told.starts_with("Working towards 4.18.0");
            if !undone.is_empty() {
                let (code, _, said) = cluster.run(&["verify", "--node-timeout", "0s"]);
                // It may have ended since.
                let ended = claims(&cluster.version(), &multi);
                assert!(code == Some(2) || ended, "{code:?} {said}");
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

    // Right after that a machine of another architecture joins, and not just by name.
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
