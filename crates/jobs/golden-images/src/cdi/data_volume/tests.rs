use machinery::patch::merge_patch;
use rstest::rstest;
use serde_json::json;

use super::*;

struct ImportFixture {
    volume: Value,
    claim: Claim,
    importer: Option<Importer>,
    nodes: BTreeSet<String>,
    now: i64,
}

impl ImportFixture {
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
        decide(&ImportInputs {
            volume: &serde_json::from_value(self.volume.clone()).unwrap(),
            claim: self.claim,
            importer: self.importer.as_ref(),
            nodes: &self.nodes,
            policy: &Policy::default(),
            now: Timestamp::from_second(self.now).unwrap(),
        })
    }

    /// Applies a decision, and checks that it is idempotent.
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
fn import_passes_all_phases() {
    let mut fixture = ImportFixture::new();
    fixture.claim = Claim::Missing;
    assert_eq!(fixture.settle().run, ImporterAction::MakeClaim);
    fixture.claim = Claim::WaitsForConsumer;
    let decision = fixture.settle();
    assert_eq!(
        decision.status.phase.as_deref(),
        Some("WaitForFirstConsumer")
    );
    fixture.claim = Claim::Bound;
    let decision = fixture.settle();
    assert_eq!(
        decision.run,
        ImporterAction::Start {
            attempt: 1,
            node: None
        }
    );
    let decision = fixture.is(1, State::Scheduled);
    assert_eq!(decision.status.phase.as_deref(), Some("ImportScheduled"));
    assert_eq!(decision.status.progress.as_deref(), Some("N/A"));
    let decision = fixture.is(1, State::Running(Some(4217)));
    assert_eq!(decision.status.phase.as_deref(), Some("ImportInProgress"));
    assert_eq!(decision.status.progress.as_deref(), Some("42.17%"));
    let report = Report {
        content: Some("sha256:c".to_owned()),
        sniffed: ["arm64".to_owned()].into(),
        labels: BTreeMap::new(),
    };
    let decision = fixture.is(1, State::Succeeded(report.clone()));
    assert_eq!(decision.run, ImporterAction::Remove);
    assert_eq!(decision.claim, Some(report));
    assert_eq!(decision.status.phase.as_deref(), Some("Succeeded"));
    assert_eq!(decision.status.progress.as_deref(), Some("100.0%"));
    let notes = &fixture.volume["metadata"]["annotations"];
    assert_eq!(notes["medley.dev/content"], "sha256:c");
    assert_eq!(notes["medley.dev/sniffed-architectures"], "arm64");
    fixture.importer = None;
    assert_eq!(fixture.settle().run, ImporterAction::Nothing);
}

#[test]
fn failed_importer_is_retried_with_backoff() {
    let mut fixture = ImportFixture::new();
    let mut waits = Vec::new();
    for attempt in 1..4 {
        fixture.importer = None;
        let decision = fixture.settle();
        assert_eq!(
            decision.run,
            ImporterAction::Start {
                attempt,
                node: None
            }
        );
        let decision = fixture.is(attempt, failed(Reason::RegistryUnavailable));
        assert_eq!(decision.run, ImporterAction::Remove);
        fixture.importer = None;
        let ImporterAction::Wait(next) = fixture.settle().run else {
            panic!("no backoff");
        };
        assert_eq!(
            fixture.running(),
            ("RegistryUnavailable".to_owned(), "it failed".to_owned())
        );
        waits.push(next.as_second() - fixture.now);
        fixture.now = next.as_second();
    }
    assert_eq!(waits, [30, 60, 120]);
    // Success resets the backoff.
    fixture.is(4, State::Succeeded(Report::default()));
    assert_eq!(fixture.volume["metadata"]["annotations"], json!({}));
}

#[test]
fn node_pull_selects_architecture() {
    let mut fixture = ImportFixture::new();
    fixture.volume["spec"]["source"]["registry"]["pullMethod"] = json!("node");
    let node = Some("arm64".to_owned());
    assert_eq!(
        fixture.settle().run,
        ImporterAction::Start { attempt: 1, node }
    );
    fixture.is(1, State::Unschedulable("0/3 nodes".to_owned()));
    assert_eq!(fixture.running().0, "Unschedulable");
    fixture.nodes.clear();
    fixture.settle();
    assert_eq!(fixture.running().0, "NoMatchingNode");
    fixture.importer = None;
    assert_eq!(fixture.settle().run, ImporterAction::Nothing);
    assert_eq!(
        fixture.running(),
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
fn checksum_mismatch_is_final(#[case] source: Value, #[case] phase: &str) {
    let mut fixture = ImportFixture::new();
    fixture.volume["spec"]["source"] = source;
    let decision = fixture.is(1, failed(Reason::DigestMismatch));
    assert_eq!(decision.status.phase.as_deref(), Some(phase));
}

#[test]
fn checksum_mismatch_of_managed_import_is_retried() {
    let mut fixture = ImportFixture::new();
    fixture.volume["spec"]["source"] =
        json!({ "http": { "url": "https://x", "checksum": "sha256:1" } });
    fixture.volume["metadata"]["labels"] = json!({ "cdi.kubevirt.io/dataImportCron": "c" });
    let decision = fixture.is(1, failed(Reason::DigestMismatch));
    assert_eq!(decision.status.phase.as_deref(), Some("ImportScheduled"));
    assert_eq!(fixture.running().0, "DigestMismatch");
}
