use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const HOME: &str = "kubevirt-os-images";
const NOW: &str = "2026-11-16T12:00:00Z";

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

/// Objects as somebody left them.
#[derive(Default)]
struct World {
    crons: Vec<Value>,
    sources: Vec<Value>,
    imports: Vec<Value>,
    claims: Vec<Claim>,
    snapshots: Vec<Value>,
    policy: Value,
}

impl World {
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
        images(&Facts {
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

/// Two architectures behind one name; one is there, the other could never be had.
fn mixed() -> World {
    let mut world = World::default();
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
    world.crons = vec![bad, good];
    let name = "fedora-amd64-aaaaaaaaaaaa";
    let mut there = source("amd64", &pvc(name), true);
    there["metadata"]["annotations"][names::HISTORY] = json!(history::write(&[
        Entry {
            digest: digest('a'),
            name: name.to_owned(),
            format: "pvc".to_owned(),
            since: "2026-11-14T12:00:00Z".to_owned(),
        },
        Entry {
            digest: digest('b'),
            name: "fedora-amd64-bbbbbbbbbbbb".to_owned(),
            format: "pvc".to_owned(),
            since: "2026-11-01T12:00:00Z".to_owned(),
        },
    ]));
    world.sources = vec![pointer("fedora-amd64", "amd64 (ControlPlane)"), there];
    world.claim(name, &digest('a'));
    world
}

#[test]
fn one_name_stands_before_all_architectures() {
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
    assert_eq!(amd64.reason, None, "that all is well needs no words");
    assert_eq!(amd64.digest, Some(digest('a')));
    assert_eq!(
        amd64.volume.as_deref(),
        Some("pvc/fedora-amd64-aaaaaaaaaaaa")
    );
    assert_eq!(amd64.size.as_deref(), Some("5Gi"));
    assert_eq!(amd64.kept, [digest('a')]);
    assert_eq!(amd64.since, Some("2026-11-14T12:00:00Z".parse().unwrap()));
    // There is no DataSource before the first import.
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
fn a_name_without_architectures_is_an_image_of_its_own() {
    let mut world = World::default();
    let mut legacy = cron("x");
    legacy["metadata"] = json!({ "name": "rhel9-cron", "namespace": "other" });
    legacy["spec"]["managedDataSource"] = json!("rhel9");
    legacy["spec"]["template"]["spec"]["source"] =
        json!({ "http": { "url": "https://example.com/rhel9.qcow2.xz" } });
    world.crons.push(legacy);
    let mut own = source("x", &pvc("win11"), false);
    own["metadata"] = json!({ "name": "win11", "namespace": HOME });
    world.sources.push(own);
    let images = world.images();
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
    assert!(explained[0].next[0].contains("Nobody imports it"));
}

#[rstest]
#[case::ready("True", None, None, State::Ready)]
#[case::ready_but_the_newest_fails("True", Some("RateLimited"), None, State::Ready)]
#[case::failed("False", Some("TooSmall"), None, State::Failed)]
#[case::on_its_way("False", Some("ImportProgressing"), None, State::Pending)]
#[case::not_asked("False", Some("NoDigest"), None, State::Pending)]
#[case::going("True", None, Some("2026-11-16T11:30:00Z"), State::Leaving)]
fn states_have_one_word(
    #[case] ready: &str,
    #[case] trouble: Option<&str>,
    #[case] unwanted: Option<&str>,
    #[case] expected: State,
) {
    let mut world = World::default();
    let mut cron = cron("arm64");
    if let Some(reason) = trouble {
        cron["status"]["conditions"] = up_to_date("False", reason, "words");
    }
    if let Some(since) = unwanted {
        cron["metadata"]["annotations"][names::UNWANTED_SINCE] = json!(since);
    }
    world.crons.push(cron);
    world
        .sources
        .push(source("arm64", &pvc("v"), ready == "True"));
    let found = world.only();
    assert_eq!(found.state, expected);
    let leaves = unwanted.map(|_| "2026-11-16T12:30:00Z".parse().unwrap());
    assert_eq!(found.leaves_at, leaves, "an hour is the grace period");
    if let Some(reason) = trouble {
        assert_eq!(found.reason.as_deref(), Some(reason));
    }
}

#[test]
fn snapshots_and_imports_under_way_are_told() {
    let mut world = World::default();
    let mut cron = cron("arm64");
    cron["metadata"]["annotations"][annotations::DESIRED_DIGEST] = json!(digest('b'));
    cron["status"] = json!({
        "currentImports": [{ "DataVolumeName": "fedora-arm64-bbbbbbbbbbbb", "Digest": digest('b') }],
        "conditions": up_to_date("False", "ImportProgressing", "Import is progressing"),
    });
    world.crons.push(cron);
    let old = json!({ "snapshot": { "namespace": HOME, "name": "fedora-arm64-aaaaaaaaaaaa" } });
    world.sources.push(source("arm64", &old, true));
    world.snapshots.push(json!({
        "metadata": {
            "name": "fedora-arm64-aaaaaaaaaaaa", "namespace": HOME,
            "creationTimestamp": "2026-11-15T00:00:00Z",
            "annotations": { names::DIGEST: digest('a') },
        },
        "spec": { "source": {} }, "status": { "readyToUse": true, "restoreSize": "6Gi" },
    }));
    world.imports.push(json!({
        "metadata": { "name": "fedora-arm64-bbbbbbbbbbbb", "namespace": HOME },
        "spec": {}, "status": { "phase": "ImportInProgress", "progress": "42.17%" },
    }));
    let found = world.only();
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
fn a_pin_is_seen_as_the_policy_means_it() {
    let mut world = mixed();
    world.policy = json!({ "images": [{
        "name": "fedora", "pins": [{ "architecture": "amd64", "digest": digest('b') }],
    }] });
    let images = world.images();
    let [amd64, arm64] = <[Variant; 2]>::try_from(images[0].architectures.clone()).unwrap();
    assert_eq!(amd64.pinned, Some(digest('b')));
    assert_eq!(arm64.pinned, None);
    let key = amd64.policy_key.unwrap();
    assert_eq!(key, (named(HOME, "fedora"), "amd64".to_owned()));
    let said = explain(&images[0], Some("amd64"), NOW.parse().unwrap());
    let said = &said[0];
    let pinned = format!("It is pinned to {}, which is not in use yet.", digest('b'));
    assert!(said.because.contains(&pinned), "{said:#?}");
    let next = said.next.join("\n");
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
        "fedora stands for fedora-amd64 and can be cloned."
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
                "It stands for pvc/fedora-amd64-aaaaaaaaaaaa, which is {} since 2026-11-14T12:00:00Z.",
                digest('a')
            ),
            "docker://quay.io/containerdisks/fedora:latest was last asked at 2026-11-16T06:00:00Z, 6h ago.".to_owned(),
        ]
    );
    assert_eq!(
        amd64.next,
        [
            "Nothing: it is current.".to_owned(),
            format!(
                "To go back to {}: `medley images rollback fedora --arch amd64`.",
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
            "docker://quay.io/containerdisks/fedora:latest was last asked at 2026-11-16T11:50:00Z, 10m ago.",
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
fn every_failure_has_advice_of_its_own() {
    let mut seen = BTreeSet::new();
    for reason in crate::cdi::failure::Reason::ALL {
        let mut world = mixed();
        world.crons[0]["status"]["conditions"] = up_to_date("False", reason.as_str(), "words");
        let images = world.images();
        let said = explain(&images[0], Some("arm64"), NOW.parse().unwrap());
        let [said] = <[Explanation; 1]>::try_from(said).unwrap();
        assert!(said.state.contains(reason.as_str()), "{said:#?}");
        assert!(!said.next[0].is_empty());
        seen.insert(said.next[0].clone());
    }
    // Those that the same helps against share it.
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
