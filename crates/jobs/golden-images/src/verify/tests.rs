use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::cdi::cron::Claim;
use crate::policy::Policy;

const HOME: &str = "kubevirt-os-images";
const VOLUME: &str = "fedora-arm64-aaaaaaaaaaaa";

fn digest() -> String {
    format!("sha256:{}", "a".repeat(64))
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&it| it.to_owned()).collect()
}

/// An image for arm64, imported by CDI, after these merge patches.
struct Fixture {
    cron: Value,
    source: Value,
    claim: Value,
    import: Value,
}

impl Fixture {
    fn new() -> Self {
        let registry = json!({
            "url": "docker://quay.io/containerdisks/fedora:41", "platform": { "architecture": "arm64" },
        });
        Self {
            cron: json!({
                "metadata": {
                    "name": "cron", "namespace": HOME,
                    "labels": { "template.kubevirt.io/architecture": "arm64" },
                },
                "spec": {
                    "managedDataSource": "fedora-arm64",
                    "template": { "spec": { "source": { "registry": registry } } },
                },
                "status": { "currentImports": [{ "DataVolumeName": VOLUME, "Digest": digest() }] },
            }),
            source: json!({
                "metadata": { "name": "fedora-arm64", "namespace": HOME },
                "spec": { "source": { "pvc": { "namespace": HOME, "name": VOLUME } } },
            }),
            claim: json!({ "name": VOLUME, "namespace": HOME }),
            import: json!({
                "metadata": { "name": VOLUME, "namespace": HOME },
                "spec": { "source": { "registry": registry } }, "status": { "phase": "Succeeded" },
            }),
        }
    }

    fn check(&self, nodes: &[&str]) -> Check {
        let read = |value: &Value| serde_json::from_value(value.clone()).unwrap();
        let claim = Claim {
            metadata: serde_json::from_value(self.claim.clone()).unwrap(),
            bound: true,
            ..Claim::default()
        };
        let crons: Vec<DataImportCron> = if self.cron.is_null() {
            Vec::new()
        } else {
            vec![serde_json::from_value(self.cron.clone()).unwrap()]
        };
        let checks = checks(
            &OverviewInputs {
                crons: &crons,
                sources: &[serde_json::from_value(self.source.clone()).unwrap()],
                imports: &[read(&self.import)],
                claims: &[claim],
                snapshots: &[],
                policy: &Policy::default(),
                now: "2026-11-19T12:00:00Z".parse().unwrap(),
            },
            &set(nodes),
        );
        let [check] = <[Check; 1]>::try_from(checks).unwrap();
        check
    }

    fn question(&self, nodes: &[&str]) -> Question {
        match self.check(nodes).step {
            Step::Ask(question) => *question,
            Step::Decided(verdict) => panic!("{verdict:?}"),
        }
    }

    fn decided(&self, nodes: &[&str]) -> (Outcome, &'static str) {
        match self.check(nodes).step {
            Step::Ask(question) => panic!("{question:?}"),
            Step::Decided(verdict) => (verdict.outcome, verdict.reason),
        }
    }
}

const BOTH: [&str; 2] = ["amd64", "arm64"];

#[test]
fn digest_in_use_is_asked_for() {
    let question = Fixture::new().question(&BOTH);
    assert_eq!(question.digest, digest());
    assert_eq!(question.architecture, "arm64");
    assert!(question.is_selected);
    assert_eq!(
        question.query.url,
        "docker://quay.io/containerdisks/fedora:41"
    );
}

/// A CDI that does not know the field drops it, or does not pass it to its importer.
#[test]
fn importer_that_was_given_no_architecture_is_found() {
    let mut fixture = Fixture::new();
    fixture.import["spec"]["source"]["registry"]["platform"] = Value::Null;
    assert!(!fixture.question(&BOTH).is_selected);
    let mut fixture = Fixture::new();
    fixture.claim["annotations"] = json!({ ENDPOINT: "docker://quay.io/containerdisks/fedora" });
    assert!(!fixture.question(&BOTH).is_selected);
    // With nodes of one architecture, the importer cannot choose another.
    assert!(fixture.question(&["arm64"]).is_selected);
    fixture.claim["annotations"][SELECTED] = json!("arm64");
    assert!(fixture.question(&BOTH).is_selected);
    fixture.claim["annotations"][SELECTED] = json!("amd64");
    let expected = (Outcome::Mismatch, "AnotherSelected");
    assert_eq!(fixture.decided(&BOTH), expected);
}

#[test]
fn disks_without_evidence_have_a_reason() {
    let unknown = |fixture: &Fixture, nodes: &[&str], reason: &str| {
        assert_eq!(fixture.decided(nodes), (Outcome::NotVerifiable, reason));
    };
    let mut none = Fixture::new();
    none.source["spec"]["source"] = json!({});
    unknown(&none, &BOTH, "NotImported");
    let mut unnamed = Fixture::new();
    unnamed.cron["metadata"]["labels"] = Value::Null;
    for object in [&mut unnamed.cron["spec"]["template"], &mut unnamed.import] {
        object["spec"]["source"]["registry"]["platform"] = Value::Null;
    }
    unknown(&unnamed, &BOTH, "NoArchitecture");
    assert_eq!(unnamed.question(&["s390x"]).architecture, "s390x");
    let mut by_user = Fixture::new();
    by_user.cron = Value::Null;
    by_user.source["metadata"]["labels"] = json!({ "template.kubevirt.io/architecture": "arm64" });
    unknown(&by_user, &BOTH, "NoSource");
    let mut stream = Fixture::new();
    stream.cron["spec"]["template"]["spec"]["source"]["registry"] = json!({
        "imageStream": "fedora", "platform": { "architecture": "arm64" },
    });
    unknown(&stream, &BOTH, "NoRegistry");
    let mut undated = Fixture::new();
    undated.cron["status"] = json!({});
    unknown(&undated, &BOTH, "NoDigest");
}

fn answer(is_index: bool, architectures: &[&str], manifest: Result<&str, FailureReason>) -> Answer {
    Answer {
        is_index,
        architectures: set(architectures),
        manifest: manifest
            .map(str::to_owned)
            .map_err(|reason| Failure::new(reason, "why")),
    }
}

#[rstest]
#[case::index(true, true, &BOTH, Ok("sha256:1"), (Outcome::Verified, "ManifestMatches"))]
#[case::not_selected(false, true, &BOTH, Ok("sha256:1"), (Outcome::NotVerifiable, "NothingSelected"))]
#[case::only_one(false, true, &["arm64"], Ok("sha256:1"), (Outcome::Verified, "ManifestMatches"))]
#[case::manifest(false, false, &["arm64"], Ok("sha256:1"), (Outcome::Verified, "ManifestMatches"))]
#[case::missing(true, true, &["amd64"], Err(FailureReason::ArchitectureNotFound), (Outcome::Mismatch, "ArchitectureNotFound"))]
#[case::another(true, false, &["amd64"], Err(FailureReason::NotAnIndex), (Outcome::Mismatch, "NotAnIndex"))]
#[case::contradiction(true, true, &BOTH, Err(FailureReason::ArchitectureMismatch), (Outcome::Mismatch, "ArchitectureMismatch"))]
#[case::lost(true, true, &BOTH, Err(FailureReason::ImageNotFound), (Outcome::NotVerifiable, "ImageNotFound"))]
fn registry_decides(
    #[case] is_selected: bool,
    #[case] is_index: bool,
    #[case] architectures: &[&str],
    #[case] manifest: Result<&str, FailureReason>,
    #[case] expected: (Outcome, &str),
) {
    let mut question = Fixture::new().question(&BOTH);
    question.is_selected = is_selected;
    let verdict = judge(&question, &Ok(answer(is_index, architectures, manifest)));
    assert_eq!((verdict.outcome, verdict.reason), expected);
    let is_lost = verdict.reason == "ImageNotFound";
    assert_eq!(is_final(&verdict), !is_lost);
}

#[test]
fn registry_without_an_answer_is_asked_again() {
    let question = Fixture::new().question(&BOTH);
    let failure = Failure::new(FailureReason::RegistryUnavailable, "connection refused");
    let verdict = judge(&question, &Err(failure));
    assert_eq!(verdict.outcome, Outcome::NotVerifiable);
    assert_eq!(verdict.message, "connection refused");
    assert!(!is_final(&verdict));
}

#[test]
fn contents_overrule_the_manifest() {
    let verified = Verdict::new(
        Outcome::Verified,
        "ManifestMatches",
        "manifest m is for arm64",
    );
    let with = |found: Result<&BTreeSet<String>, &str>| {
        let verdict = verified.clone().with_contents("arm64", found);
        (verdict.outcome, verdict.message)
    };
    let text = |end: &str| format!("manifest m is for arm64; {end}");
    assert_eq!(
        with(Ok(&set(&["arm64"]))),
        (Outcome::Verified, text("the disk boots on arm64"))
    );
    assert_eq!(
        with(Ok(&set(&["amd64"]))),
        (Outcome::Mismatch, text("but the disk boots on amd64"))
    );
    assert_eq!(
        with(Ok(&set(&[]))),
        (
            Outcome::Verified,
            text("no boot loader is recognised on the disk")
        )
    );
    assert_eq!(
        with(Err("too large")),
        (
            Outcome::Verified,
            text("the disk is not verified: too large")
        )
    );
    // Recorded by an import of Medley.
    let mut fixture = Fixture::new();
    fixture.claim["annotations"] = json!({ names::SNIFFED: "amd64" });
    let check = fixture.check(&BOTH);
    let verdict = check.with_recorded_contents(verified.clone());
    assert_eq!(verdict.reason, "DiskMismatch");
}

#[test]
fn worst_disk_decides_the_condition() {
    let check = Fixture::new().check(&BOTH);
    let of = |outcome, reason| check.reported(&Verdict::new(outcome, reason, "why"));
    let verified = of(Outcome::Verified, "ManifestMatches");
    let unknown = of(Outcome::NotVerifiable, "NoDigest");
    let pending = of(Outcome::NotVerifiable, "NotImported");
    let mismatch = of(Outcome::Mismatch, "NotAnIndex");
    let decide = |all: &[&Verification]| {
        let all: Vec<Verification> = all.iter().map(|&it| it.clone()).collect();
        let update = condition(&all);
        (update.status, update.reason, update.message)
    };
    let message = "every disk in use is for the architecture of its DataSource".to_owned();
    let good = (true, CONDITION.to_owned(), message);
    assert_eq!(decide(&[]), good);
    assert_eq!(decide(&[&verified, &pending]), good);
    let message = "kubevirt-os-images/fedora-arm64 for arm64: why".to_owned();
    assert_eq!(
        decide(&[&verified, &unknown]),
        (false, "NotVerifiable".to_owned(), message.clone())
    );
    assert_eq!(
        decide(&[&unknown, &mismatch, &verified]),
        (false, "ArchitectureMismatch".to_owned(), message)
    );
    let many = vec![&mismatch; 10];
    assert!(decide(&many).2.ends_with("; and 2 more"));
}
