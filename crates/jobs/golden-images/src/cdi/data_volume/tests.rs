use machinery::patch::merge_patch;
use rstest::rstest;
use serde_json::json;

use super::*;

struct World {
    volume: Value,
    claim: Claim,
    importer: Option<Importer>,
    nodes: BTreeSet<String>,
    now: i64,
}

impl World {
    fn new() -> Self {
        Self {
            volume: json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
                "metadata": { "name": "v", "namespace": "n" },
                "spec": { "source": { "registry": {
                    "url": "docker://x", "platform": { "architecture": "arm64" },
                } } },
            }),
            claim: Claim::Bound,
            importer: None,
            nodes: ["arm64".to_owned()].into(),
            now: 1000,
        }
    }

    fn decide(&self) -> Decision {
        decide(&Facts {
            volume: &serde_json::from_value(self.volume.clone()).unwrap(),
            claim: self.claim,
            importer: self.importer.as_ref(),
            nodes: &self.nodes,
            policy: &Policy::default(),
            now: Timestamp::from_second(self.now).unwrap(),
        })
    }

    /// Decides and writes it down; deciding again changes nothing.
    fn settle(&mut self) -> Decision {
        let decision = self.decide();
        if let Some(patch) = &decision.patch {
            merge_patch(&mut self.volume, patch).unwrap();
        }
        self.volume["status"] = json!(decision.status);
        let again = self.decide();
        assert_eq!((again.patch, again.status_changed), (None, false));
        decision
    }

    fn is(&mut self, attempt: u32, state: State) -> Decision {
        self.importer = Some(Importer { attempt, state });
        self.settle()
    }

    fn running(&self) -> (String, String) {
        let all = self.volume["status"]["conditions"].as_array().unwrap();
        let it = all.iter().find(|it| it["type"] == "Running").unwrap();
        let text = |name: &str| it[name].as_str().unwrap().to_owned();
        (text("reason"), text("message"))
    }
}

fn failed(reason: Reason) -> State {
    State::Failed(Failure::new(reason, "it failed"))
}

#[test]
fn an_import_goes_from_phase_to_phase() {
    let mut world = World::new();
    world.claim = Claim::Missing;
    assert_eq!(world.settle().run, Run::MakeClaim);
    world.claim = Claim::WaitsForConsumer;
    let decision = world.settle();
    assert_eq!(
        decision.status.phase.as_deref(),
        Some("WaitForFirstConsumer")
    );
    world.claim = Claim::Bound;
    let decision = world.settle();
    assert_eq!(
        decision.run,
        Run::Start {
            attempt: 1,
            node: None
        }
    );
    let decision = world.is(1, State::Scheduled);
    assert_eq!(decision.status.phase.as_deref(), Some("ImportScheduled"));
    assert_eq!(decision.status.progress.as_deref(), Some("N/A"));
    let decision = world.is(1, State::Running(Some(4217)));
    assert_eq!(decision.status.phase.as_deref(), Some("ImportInProgress"));
    assert_eq!(decision.status.progress.as_deref(), Some("42.17%"));
    let report = Report {
        content: Some("sha256:c".to_owned()),
        sniffed: ["arm64".to_owned()].into(),
        labels: BTreeMap::new(),
    };
    let decision = world.is(1, State::Succeeded(report.clone()));
    assert_eq!(decision.run, Run::Remove);
    assert_eq!(decision.claim, Some(report));
    assert_eq!(decision.status.phase.as_deref(), Some("Succeeded"));
    assert_eq!(decision.status.progress.as_deref(), Some("100.0%"));
    let notes = &world.volume["metadata"]["annotations"];
    assert_eq!(notes["medley.dev/content"], "sha256:c");
    assert_eq!(notes["medley.dev/sniffed-architectures"], "arm64");
    world.importer = None;
    assert_eq!(world.settle().run, Run::Nothing);
}

#[test]
fn an_importer_that_fails_is_started_later_and_later() {
    let mut world = World::new();
    let mut waits = Vec::new();
    for attempt in 1..4 {
        world.importer = None;
        let decision = world.settle();
        assert_eq!(
            decision.run,
            Run::Start {
                attempt,
                node: None
            }
        );
        let decision = world.is(attempt, failed(Reason::RegistryUnavailable));
        assert_eq!(decision.run, Run::Remove);
        world.importer = None;
        let Run::Wait(next) = world.settle().run else {
            panic!("it waits");
        };
        assert_eq!(
            world.running(),
            ("RegistryUnavailable".to_owned(), "it failed".to_owned())
        );
        waits.push(next.as_second() - world.now);
        world.now = next.as_second();
    }
    assert_eq!(waits, [30, 60, 120]);
    // Success forgets all of it.
    world.is(4, State::Succeeded(Report::default()));
    assert_eq!(world.volume["metadata"]["annotations"], json!({}));
}

#[test]
fn a_node_that_pulls_has_the_architecture() {
    let mut world = World::new();
    world.volume["spec"]["source"]["registry"]["pullMethod"] = json!("node");
    let node = Some("arm64".to_owned());
    assert_eq!(world.settle().run, Run::Start { attempt: 1, node });
    world.is(1, State::Unschedulable("0/3 nodes".to_owned()));
    assert_eq!(world.running().0, "Unschedulable");
    world.nodes.clear();
    world.settle();
    assert_eq!(world.running().0, "NoMatchingNode");
    world.importer = None;
    assert_eq!(world.settle().run, Run::Nothing);
    assert_eq!(
        world.running(),
        (
            "NoMatchingNode".to_owned(),
            "no node has kubernetes.io/arch=arm64".to_owned()
        )
    );
}

#[rstest]
#[case(json!({ "http": { "url": "https://x", "checksum": "sha256:1" } }), "Failed")]
#[case(json!({ "http": { "url": "https://x" } }), "ImportScheduled")]
#[case(json!({ "registry": { "url": "docker://x" } }), "ImportScheduled")]
fn a_wrong_checksum_is_final(#[case] source: Value, #[case] phase: &str) {
    let mut world = World::new();
    world.volume["spec"]["source"] = source;
    let decision = world.is(1, failed(Reason::DigestMismatch));
    assert_eq!(decision.status.phase.as_deref(), Some(phase));
}

#[test]
fn a_wrong_checksum_of_what_is_kept_current_is_tried_again() {
    let mut world = World::new();
    world.volume["spec"]["source"] =
        json!({ "http": { "url": "https://x", "checksum": "sha256:1" } });
    world.volume["metadata"]["labels"] = json!({ "cdi.kubevirt.io/dataImportCron": "c" });
    let decision = world.is(1, failed(Reason::DigestMismatch));
    assert_eq!(decision.status.phase.as_deref(), Some("ImportScheduled"));
    assert_eq!(world.running().0, "DigestMismatch");
}
