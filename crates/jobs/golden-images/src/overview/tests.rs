use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const HOME: &str = "kubevirt-os-images";
const NOW: &str = "2026-11-16T12:00:00Z";

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

/// Objects as a controller left them.
#[derive(Default)]
struct ObjectsFixture {
    crons: Vec<Value>,
    sources: Vec<Value>,
    imports: Vec<Value>,
    claims: Vec<Claim>,
    snapshots: Vec<Value>,
    policy: Value,
}

impl ObjectsFixture {
    fn images(&self) -> Vec<Image> {
        fn read<T: serde::de::DeserializeOwned>(all: &[Value]) -> Vec<T> {
            let all = all.iter().cloned();
            all.map(|it| serde_json::from_value(it).unwrap()).collect()
        }
        let policy = if self.policy.is_null() {
            Policy::default()
        } else {
            Policy::read(&serde_json::from_value(self.policy.clone()).unwrap()).0
        };
        images(&OverviewInputs {
            crons: &read(&self.crons),
            sources: &read(&self.sources),
            imports: &read(&self.imports),
            claims: &self.claims,
            snapshots: &read(&self.snapshots),
            policy: &policy,
            now: NOW.parse().unwrap(),
        })
    }

    fn only(&self) -> Variant {
        let [image] = <[Image; 1]>::try_from(self.images()).unwrap();
        let [variant] = <[Variant; 1]>::try_from(image.architectures).unwrap();
        variant
    }

    fn claim(&mut self, name: &str, digest: &str) {
        let cron = "fedora-image-cron-amd64".to_owned();
        self.claims.push(Claim {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(HOME.to_owned()),
                labels: Some([(labels::DATA_IMPORT_CRON.to_owned(), cron)].into()),
                annotations: Some([(names::DIGEST.to_owned(), digest.to_owned())].into()),
                ..ObjectMeta::default()
            },
            bound: true,
            mode: None,
            capacity: Some("5Gi".to_owned()),
        });
    }
}

fn cron(architecture: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("fedora-image-cron-{architecture}"), "namespace": HOME,
            "labels": {
                "template.kubevirt.io/architecture": architecture,
                "cdi.kubevirt.io/storage.import.datasource-name": "fedora",
            },
            "annotations": {},
        },
        "spec": {
            "managedDataSource": format!("fedora-{architecture}"), "schedule": "0 */12 * * *",
            "template": { "spec": { "source": { "registry": {
                "url": "docker://quay.io/containerdisks/fedora:latest",
                "platform": { "architecture": architecture },
            } } } },
        },
        "status": {},
    })
}

fn source(architecture: &str, stands_for: &Value, ready: bool) -> Value {
    json!({
        "metadata": {
            "name": format!("fedora-{architecture}"), "namespace": HOME,
            "labels": {
                "template.kubevirt.io/architecture": architecture,
                "cdi.kubevirt.io/storage.import.datasource-name": "fedora",
                "cdi.kubevirt.io/dataImportCron": format!("fedora-image-cron-{architecture}"),
            },
            "annotations": {},
        },
        "spec": { "source": stands_for },
        "status": { "source": {}, "conditions": [{
            "type": "Ready", "status": if ready { "True" } else { "False" },
            "reason": if ready { "Ready" } else { "NotFound" },
            "message": if ready { "DataSource is ready to be consumed" } else { "PVC not found" },
        }] },
    })
}

fn pvc(name: &str) -> Value {
    json!({ "pvc": { "namespace": HOME, "name": name } })
}

fn up_to_date(status: &str, reason: &str, message: &str) -> Value {
    json!([{ "type": "UpToDate", "status": status, "reason": reason, "message": message }])
}

fn pointer(to: &str, reason: &str) -> Value {
    json!({
        "metadata": {
            "name": "fedora", "namespace": HOME,
            "annotations": { names::DEFAULT_REASON: reason },
        },
        "spec": { "source": { "dataSource": { "namespace": HOME, "name": to } } },
        "status": { "source": {}, "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

/// Two architectures behind one name: one is imported, the other failed from the start.
fn mixed() -> ObjectsFixture {
    let mut fixture = ObjectsFixture::default();
    let mut good = cron("amd64");
    good["metadata"]["annotations"] = json!({
        annotations::DESIRED_DIGEST: digest('a'),
        annotations::LAST_CRON_TIME: "2026-11-16T06:00:00Z",
    });
    good["status"]["conditions"] = up_to_date("True", "UpToDate", "Latest import is up to date");
    let mut bad = cron("arm64");
    bad["metadata"]["annotations"] = json!({
        annotations::LAST_CRON_TIME: "2026-11-16T11:50:00Z",
        names::FAILURES: "3",
        names::NEXT_RETRY: "2026-11-16T12:10:00Z",
        names::FAILURE_REASON: "ArchitectureNotFound",
    });
    bad["status"]["conditions"] = up_to_date(
        "False",
        "ArchitectureNotFound",
        "the image has no arm64; it has amd64",
    );
    fixture.crons = vec![bad, good];
    let name = "fedora-amd64-aaaaaaaaaaaa";
    let mut imported = source("amd64", &pvc(name), true);
    imported["metadata"]["annotations"][names::HISTORY] = json!(history::write(&[
        Entry {
            digest: digest('a'),
            name: name.to_owned(),
            format: "pvc".to_owned(),
            since: "2026-11-14T12:00:00Z".to_owned(),
            ..Entry::default()
        },
        Entry {
            digest: digest('b'),
            name: "fedora-amd64-bbbbbbbbbbbb".to_owned(),
            format: "pvc".to_owned(),
            since: "2026-11-01T12:00:00Z".to_owned(),
            ..Entry::default()
        },
    ]));
    fixture.sources = vec![pointer("fedora-amd64", "amd64 (ControlPlane)"), imported];
    fixture.claim(name, &digest('a'));
    fixture
}

#[test]
fn one_name_covers_all_architectures() {
    let [image] = <[Image; 1]>::try_from(mixed().images()).unwrap();
    assert_eq!(
        (image.namespace.as_str(), image.name.as_str()),
        (HOME, "fedora")
    );
    let pointer = image.pointer.clone().unwrap();
    assert_eq!(pointer.data_source, "fedora-amd64");
    assert!(pointer.ready);
    let [amd64, arm64] = <[Variant; 2]>::try_from(image.architectures).unwrap();
    assert_eq!(amd64.state, State::Ready);
    assert!(amd64.is_default && !arm64.is_default);
    assert_eq!(amd64.reason, None, "no reason while all is well");
    assert_eq!(amd64.digest, Some(digest('a')));
    assert_eq!(
        amd64.volume.as_deref(),
        Some("pvc/fedora-amd64-aaaaaaaaaaaa")
    );
    assert_eq!(amd64.size.as_deref(), Some("5Gi"));
    assert_eq!(amd64.kept, [digest('a')]);
    assert_eq!(amd64.since, Some("2026-11-14T12:00:00Z".parse().unwrap()));
    // Before the first import imported is no DataSource.
    assert_eq!(arm64.data_source, "fedora-arm64");
    assert_eq!(arm64.state, State::Failed);
    assert_eq!(arm64.reason.as_deref(), Some("ArchitectureNotFound"));
    assert_eq!(arm64.failures, Some(3));
    assert_eq!(
        arm64.next_retry,
        Some("2026-11-16T12:10:00Z".parse().unwrap())
    );
    assert_eq!(arm64.digest, None);
}

#[test]
fn name_without_architecture_is_its_own_image() {
    let mut fixture = ObjectsFixture::default();
    let mut legacy = cron("x");
    legacy["metadata"] = json!({ "name": "rhel9-cron", "namespace": "other" });
    legacy["spec"]["managedDataSource"] = json!("rhel9");
    legacy["spec"]["template"]["spec"]["source"] =
        json!({ "http": { "url": "https://example.com/rhel9.qcow2.xz" } });
    fixture.crons.push(legacy);
    let mut own = source("x", &pvc("win11"), false);
    own["metadata"] = json!({ "name": "win11", "namespace": HOME });
    fixture.sources.push(own);
    let images = fixture.images();
    let names: Vec<(&str, &str)> = images
        .iter()
        .map(|it| (it.namespace.as_str(), it.name.as_str()))
        .collect();
    assert_eq!(names, [(HOME, "win11"), ("other", "rhel9")]);
    let win11 = &images[0].architectures[0];
    assert_eq!(win11.architecture, "");
    assert_eq!(win11.state, State::Pending);
    assert_eq!(win11.reason.as_deref(), Some("NotFound"));
    let rhel9 = &images[1].architectures[0];
    assert_eq!(
        rhel9.url.as_deref(),
        Some("https://example.com/rhel9.qcow2.xz")
    );
    assert_eq!(rhel9.data_source, "rhel9");
    let explained = explain(&images[0], None, NOW.parse().unwrap());
    assert_eq!(explained.len(), 1);
    assert!(explained[0].next[0].contains("No DataImportCron manages it"));
}

#[rstest]
#[case::ready("True", None, None, State::Ready)]
#[case::ready_but_the_newest_fails("True", Some("RateLimited"), None, State::Ready)]
#[case::failed("False", Some("TooSmall"), None, State::Failed)]
#[case::on_its_way("False", Some("ImportProgressing"), None, State::Pending)]
#[case::not_asked("False", Some("NoDigest"), None, State::Pending)]
#[case::going("True", None, Some("2026-11-16T11:30:00Z"), State::Leaving)]
fn state_precedence(
    #[case] ready: &str,
    #[case] trouble: Option<&str>,
    #[case] unwanted: Option<&str>,
    #[case] expected: State,
) {
    let mut fixture = ObjectsFixture::default();
    let mut cron = cron("arm64");
    if let Some(reason) = trouble {
        cron["status"]["conditions"] = up_to_date("False", reason, "words");
    }
    if let Some(since) = unwanted {
        cron["metadata"]["annotations"][names::UNWANTED_SINCE] = json!(since);
    }
    fixture.crons.push(cron);
    fixture
        .sources
        .push(source("arm64", &pvc("v"), ready == "True"));
    let found = fixture.only();
    assert_eq!(found.state, expected);
    let leaves = unwanted.map(|_| "2026-11-16T12:30:00Z".parse().unwrap());
    assert_eq!(found.leaves_at, leaves, "an hour is the grace period");
    if let Some(reason) = trouble {
        assert_eq!(found.reason.as_deref(), Some(reason));
    }
}

#[test]
fn snapshot_and_running_import_are_reported() {
    let mut fixture = ObjectsFixture::default();
    let mut cron = cron("arm64");
    cron["metadata"]["annotations"][annotations::DESIRED_DIGEST] = json!(digest('b'));
    cron["status"] = json!({
        "currentImports": [{ "DataVolumeName": "fedora-arm64-bbbbbbbbbbbb", "Digest": digest('b') }],
        "conditions": up_to_date("False", "ImportProgressing", "Import is progressing"),
    });
    fixture.crons.push(cron);
    let old = json!({ "snapshot": { "namespace": HOME, "name": "fedora-arm64-aaaaaaaaaaaa" } });
    fixture.sources.push(source("arm64", &old, true));
    fixture.snapshots.push(json!({
        "metadata": {
            "name": "fedora-arm64-aaaaaaaaaaaa", "namespace": HOME,
            "creationTimestamp": "2026-11-15T00:00:00Z",
            "annotations": { names::DIGEST: digest('a') },
        },
        "spec": { "source": {} }, "status": { "readyToUse": true, "restoreSize": "6Gi" },
    }));
    fixture.imports.push(json!({
        "metadata": { "name": "fedora-arm64-bbbbbbbbbbbb", "namespace": HOME },
        "spec": {}, "status": { "phase": "ImportInProgress", "progress": "42.17%" },
    }));
    let found = fixture.only();
    assert_eq!(
        found.volume.as_deref(),
        Some("snapshot/fedora-arm64-aaaaaaaaaaaa")
    );
    assert_eq!(found.digest, Some(digest('a')));
    assert_eq!(found.since, Some("2026-11-15T00:00:00Z".parse().unwrap()));
    assert_eq!(found.size.as_deref(), Some("6Gi"));
    assert_eq!(found.newest, Some(digest('b')));
    assert_eq!(
        found.importing.as_deref(),
        Some("fedora-arm64-bbbbbbbbbbbb")
    );
    assert_eq!(found.progress.as_deref(), Some("42.17%"));
}

#[test]
fn pin_is_reported() {
    let mut fixture = mixed();
    fixture.policy = json!({ "images": [{
        "name": "fedora", "pins": [{ "architecture": "amd64", "digest": digest('b') }],
    }] });
    let images = fixture.images();
    let [amd64, arm64] = <[Variant; 2]>::try_from(images[0].architectures.clone()).unwrap();
    assert_eq!(amd64.pinned, Some(digest('b')));
    assert_eq!(arm64.pinned, None);
    let key = amd64.policy_key.unwrap();
    assert_eq!(key, (named(HOME, "fedora"), "amd64".to_owned()));
    let explanation = explain(&images[0], Some("amd64"), NOW.parse().unwrap());
    let explanation = &explanation[0];
    let pinned = format!("It is pinned to {}, which is not in use yet.", digest('b'));
    assert!(explanation.because.contains(&pinned), "{explanation:#?}");
    let next = explanation.next.join("\n");
    assert!(
        next.contains("`medley images unpin fedora --arch amd64`"),
        "{next}"
    );
}

#[test]
fn an_image_is_explained() {
    let images = mixed().images();
    let all = explain(&images[0], None, NOW.parse().unwrap());
    let [name, amd64, arm64] = <[Explanation; 3]>::try_from(all).unwrap();
    assert_eq!(
        name.state,
        "fedora points to fedora-amd64 and can be cloned."
    );
    assert_eq!(
        name.because,
        [
            "The default architecture is amd64 (ControlPlane).",
            "ControlPlane means that the control plane has it.",
        ]
    );
    assert_eq!(amd64.state, "fedora-amd64 for amd64 is Ready.");
    assert_eq!(
        amd64.because,
        [
            format!(
                "It refers to pvc/fedora-amd64-aaaaaaaaaaaa, version {} since 2026-11-14T12:00:00Z.",
                digest('a')
            ),
            "docker://quay.io/containerdisks/fedora:latest was last polled at 2026-11-16T06:00:00Z, 6h ago.".to_owned(),
        ]
    );
    assert_eq!(
        amd64.next,
        [
            "Nothing: it is up to date.".to_owned(),
            format!(
                "To roll back to {}: `medley images rollback fedora --arch amd64`.",
                digest('b')
            ),
        ]
    );
    assert_eq!(
        arm64.state,
        "fedora-arm64 for arm64 is Failed (ArchitectureNotFound)."
    );
    assert_eq!(
        arm64.because,
        [
            "the image has no arm64; it has amd64.",
            "docker://quay.io/containerdisks/fedora:latest was last polled at 2026-11-16T11:50:00Z, 10m ago.",
            "It failed 3 times in a row; the next try is at 2026-11-16T12:10:00Z.",
        ]
    );
    let next = arm64.next.join("\n");
    for part in [
        "Publish an image for arm64 as docker://quay.io/containerdisks/fedora:latest",
        "ssp.kubevirt.io/dict.architectures",
        "`medley images refresh fedora --arch arm64`",
    ] {
        assert!(next.contains(part), "{part} in {next}");
    }
}

#[test]
fn every_failure_has_advice() {
    let mut seen = BTreeSet::new();
    for reason in crate::cdi::failure::Reason::ALL {
        let mut fixture = mixed();
        fixture.crons[0]["status"]["conditions"] = up_to_date("False", reason.as_str(), "words");
        let images = fixture.images();
        let explanation = explain(&images[0], Some("arm64"), NOW.parse().unwrap());
        let [explanation] = <[Explanation; 1]>::try_from(explanation).unwrap();
        assert!(
            explanation.state.contains(reason.as_str()),
            "{explanation:#?}"
        );
        assert!(!explanation.next[0].is_empty());
        seen.insert(explanation.next[0].clone());
    }
    // Reasons with the same remedy share their advice.
    assert_eq!(seen.len(), 14);
}

#[test]
fn sizes_are_comparable_whatever_their_unit() {
    for (quantity, expected) in [
        ("1Gi", "1.00 GiB"),
        ("5690831668", "5.30 GiB"),
        ("10G", "9.31 GiB"),
        ("512Mi", "512.00 MiB"),
        ("1023", "1023 B"),
        ("large", "large"),
    ] {
        assert_eq!(human_size(quantity), expected);
    }
}

/// Beside a running CDI: volumes carry its labels and names only.
#[test]
fn history_of_cdi_is_derived_from_its_volumes() {
    let mut fixture = ObjectsFixture::default();
    let mut cron = cron("amd64");
    cron["status"] = json!({
        "currentImports": [{ "DataVolumeName": "fedora-amd64-aaaaaaaaaaaa", "Digest": digest('a') }],
        "conditions": up_to_date("True", "UpToDate", "Latest import is up to date"),
    });
    fixture.crons.push(cron);
    fixture
        .sources
        .push(source("amd64", &pvc("fedora-amd64-aaaaaaaaaaaa"), true));
    for letter in ['b', 'a'] {
        let name = format!("fedora-amd64-{}", letter.to_string().repeat(12));
        fixture.claim(&name, "");
        let claim = fixture.claims.last_mut().unwrap();
        claim.metadata.annotations = None;
    }
    let found = fixture.only();
    assert_eq!(found.digest, Some(digest('a')));
    let short = "sha256:bbbbbbbbbbbb".to_owned();
    let history: Vec<&str> = found.history.iter().map(|it| it.digest.as_str()).collect();
    assert_eq!(history, [&digest('a'), &short]);
    assert_eq!(found.kept, [digest('a'), short.clone()]);
    let explained = explain(&fixture.images()[0], None, NOW.parse().unwrap());
    let line = format!("CDI keeps version {short} as pvc/fedora-amd64-bbbbbbbbbbbb.");
    assert!(explained[0].because.contains(&line), "{explained:#?}");
    let rollback = |it: &String| it.contains("rollback");
    assert!(!explained[0].next.iter().any(rollback), "{explained:#?}");
}
