//! Scenarios over time.

use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{CronFixture, digest, name};
use crate::action::Kind;
use crate::cdi::cron::Outdated;
use crate::cdi::failure::Reason;
use crate::cdi::poll::NextPoll;
use crate::history;

fn pvc(letter: char) -> Value {
    json!({ "pvc": { "namespace": "images", "name": name(letter) } })
}

fn assert_condition(actual: &(String, String, String), status: &str, reason: &str) {
    assert_eq!(
        (actual.0.as_str(), actual.1.as_str()),
        (status, reason),
        "{}",
        actual.2
    );
}

#[test]
fn an_image_is_imported() {
    let mut fixture = CronFixture::new();
    let decision = fixture.settle();
    assert_eq!(decision.poll, NextPoll::Now);
    assert_condition(&fixture.condition("UpToDate"), "False", "NoDigest");
    assert_condition(&fixture.condition("Progressing"), "False", "NoImport");

    fixture.answer('a', None);
    let decision = fixture.settle();
    assert!(matches!(decision.poll, NextPoll::At(_)));
    assert_eq!(fixture.names(Kind::DataVolume), [name('a')]);
    let volume = fixture.objects[&(Kind::DataVolume, name('a'))].clone();
    assert_eq!(
        volume["spec"]["source"]["registry"],
        json!({
            "url": format!("docker://quay.io:443/containerdisks/fedora@{}", digest('a')),
            "platform": { "architecture": "arm64" },
        })
    );
    assert_eq!(
        volume["metadata"]["labels"],
        json!({
            "cdi.kubevirt.io/dataImportCron": "cron-arm64",
            "cdi.kubevirt.io/dataImportCron.cleanup": "true",
            "cdi.kubevirt.io/storage.import.datasource-name": "fedora",
            "template.kubevirt.io/architecture": "arm64",
        }),
        "those of KubeVirt, and no others"
    );
    let notes = &fixture.cron["metadata"]["annotations"];
    assert_eq!(
        notes["cdi.kubevirt.io/storage.import.sourceDesiredDigest"],
        json!(digest('a'))
    );
    assert_eq!(notes["medley.dev/index-digest"], json!(digest('0')));
    assert_eq!(notes["medley.dev/available-architectures"], "amd64,arm64");
    assert_eq!(notes["cdi.kubevirt.io/storage.import.storageClass"], "fast");
    assert_condition(
        &fixture.condition("Progressing"),
        "False",
        "ImportScheduled",
    );
    assert_condition(&fixture.condition("UpToDate"), "False", "ImportProgressing");

    fixture.phase(&name('a'), "ImportInProgress");
    fixture.settle();
    assert_condition(
        &fixture.condition("Progressing"),
        "True",
        "ImportProgressing",
    );
    assert_eq!(fixture.managed_source(), Value::Null);

    fixture.phase(&name('a'), "Succeeded");
    let decision = fixture.settle();
    assert_condition(&fixture.condition("Progressing"), "False", "NoImport");
    assert_condition(&fixture.condition("UpToDate"), "True", "UpToDate");
    assert_eq!(fixture.managed_source(), pvc('a'));
    assert_eq!(
        decision.outdated,
        Some(Outdated {
            pending: false,
            outdated: false
        })
    );
    let status = &fixture.cron["status"];
    assert_eq!(
        status["currentImports"],
        json!([{ "DataVolumeName": name('a'), "Digest": digest('a') }])
    );
    assert_eq!(status["lastImportedPVC"]["name"], json!(name('a')));
    assert_eq!(status["sourceFormat"], "pvc");
}

#[test]
fn data_source_moves_when_import_completes() {
    let mut fixture = CronFixture::new();
    fixture.import('a');
    fixture.answer('b', None);
    fixture.settle();
    assert_eq!(
        fixture.managed_source(),
        pvc('a'),
        "until the new one is imported"
    );
    fixture.phase(&name('b'), "Succeeded");
    fixture.settle();
    assert_eq!(fixture.managed_source(), pvc('b'));
    assert_eq!(fixture.names(Kind::Claim), [name('b')], "one is kept");
    let key = (Kind::DataSource, "fedora-arm64".to_owned());
    let source = serde_json::from_value(fixture.objects[&key].clone()).unwrap();
    let entries = history::read(&source);
    let known: Vec<&str> = entries.iter().map(|it| it.digest.as_str()).collect();
    assert_eq!(known, [digest('b'), digest('a')]);
}

/// The index digest changed, but not the manifest of this architecture.
#[test]
fn the_same_digest_is_not_imported_again() {
    let mut fixture = CronFixture::new();
    fixture.import('a');
    fixture.answer('a', None);
    let decision = fixture.settle();
    assert_eq!(decision.events, []);
    assert_eq!(fixture.names(Kind::DataVolume), [name('a')]);
    assert_condition(&fixture.condition("UpToDate"), "True", "UpToDate");
}

#[test]
fn unchanged_content_is_not_imported_again() {
    let mut fixture = CronFixture::new();
    fixture.answer('a', Some("disk-1"));
    fixture.settle();
    fixture.phase(&name('a'), "Succeeded");
    fixture.settle();
    fixture.answer('b', Some("disk-1"));
    let decision = fixture.settle();
    assert_eq!(decision.events[0].reason, "ContentUnchanged");
    assert_eq!(fixture.names(Kind::DataVolume), [name('a')]);
    assert_eq!(
        fixture.cron["status"]["currentImports"],
        json!([{ "DataVolumeName": name('a'), "Digest": digest('b') }])
    );
    assert_condition(&fixture.condition("UpToDate"), "True", "UpToDate");
    // Different content is imported.
    fixture.answer('c', Some("disk-2"));
    fixture.settle();
    assert!(
        fixture
            .names(Kind::DataVolume)
            .contains(&name('c').as_str())
    );
}

#[test]
fn policy_can_import_unchanged_content() {
    let mut fixture = CronFixture::new();
    fixture.policy(json!({ "unchangedContent": "Import" }));
    fixture.answer('a', Some("disk-1"));
    fixture.settle();
    fixture.phase(&name('a'), "Succeeded");
    fixture.settle();
    fixture.answer('b', Some("disk-1"));
    fixture.settle();
    assert!(
        fixture
            .names(Kind::DataVolume)
            .contains(&name('b').as_str())
    );
}

#[test]
fn snapshot_replaces_the_claim() {
    let mut fixture = CronFixture::new();
    fixture.storage.snapshots = true;
    fixture.storage.snapshot_class = Some("snap".to_owned());
    fixture.answer('a', Some("disk-1"));
    fixture.settle();
    fixture.phase(&name('a'), "Succeeded");
    fixture.settle();
    let key = (Kind::Snapshot, name('a'));
    let snapshot = &fixture.objects[&key];
    assert_eq!(
        snapshot["spec"],
        json!({
            "source": { "persistentVolumeClaimName": name('a') },
            "volumeSnapshotClassName": "snap",
        })
    );
    assert_eq!(
        snapshot["metadata"]["annotations"]["cdi.kubevirt.io/storage.import.sourceVolumeMode"],
        "Filesystem"
    );
    assert_condition(&fixture.condition("UpToDate"), "False", "ImportProgressing");
    assert_eq!(fixture.managed_source(), Value::Null);
    fixture.objects.get_mut(&key).unwrap()["status"] = json!({ "readyToUse": true });
    fixture.settle();
    assert_eq!(
        fixture.managed_source(),
        json!({ "snapshot": { "namespace": "images", "name": name('a') } })
    );
    assert_eq!(fixture.names(Kind::DataVolume), Vec::<&str>::new());
    assert_eq!(fixture.names(Kind::Claim), Vec::<&str>::new());
    assert_condition(&fixture.condition("UpToDate"), "True", "UpToDate");
    assert_eq!(fixture.cron["status"]["sourceFormat"], "snapshot");
    // The snapshot keeps the content annotation.
    fixture.answer('b', Some("disk-1"));
    assert_eq!(fixture.settle().events[0].reason, "ContentUnchanged");
}

#[rstest]
#[case(Reason::ArchitectureNotFound)]
#[case(Reason::NotAnIndex)]
#[case(Reason::PullUnauthorized)]
#[case(Reason::RateLimited)]
fn failed_poll_is_retried_with_backoff(#[case] reason: Reason) {
    let mut fixture = CronFixture::new();
    fixture.import('a');
    let mut waits = Vec::new();
    for count in 0..3 {
        fixture.refuse(reason);
        let polled_at = fixture.now;
        let decision = fixture.settle();
        assert_eq!(decision.failure.as_ref().unwrap().reason, reason);
        let NextPoll::At(next) = decision.poll else {
            panic!("{:?}", decision.poll);
        };
        waits.push(next.as_second() - polled_at);
        let emitted: Vec<_> = decision.events.iter().map(|it| it.reason).collect();
        let once: &[&str] = if count == 0 { &[reason.as_str()] } else { &[] };
        assert_eq!(emitted, once, "on the change");
        let (status, condition_reason, message) = fixture.condition("UpToDate");
        assert_eq!(
            (status.as_str(), condition_reason.as_str()),
            ("False", reason.as_str())
        );
        assert!(
            message.starts_with("registry refused; next try at 1970-"),
            "{message}"
        );
    }
    assert_eq!(waits, [30, 60, 120]);
    assert_eq!(
        fixture.managed_source(),
        pvc('a'),
        "the last import stays in use"
    );
    // A new leader has not polled itself: the conditions stay the same.
    fixture.polled = None;
    let before = fixture.condition("UpToDate");
    fixture.settle();
    assert_eq!(fixture.condition("UpToDate"), before);
    fixture.answer('a', None);
    fixture.settle();
    assert_condition(&fixture.condition("UpToDate"), "True", "UpToDate");
    let notes = &fixture.cron["metadata"]["annotations"];
    assert_eq!(
        notes.get("medley.dev/failures"),
        None,
        "success resets the backoff"
    );
}

#[test]
fn failed_import_keeps_the_last_one() {
    let mut fixture = CronFixture::new();
    fixture.import('a');
    fixture.answer('b', None);
    fixture.settle();
    fixture.fail(
        &name('b'),
        "Error",
        "virtual image size 9 is larger than the reported available storage 5. A larger PVC is required",
    );
    let decision = fixture.settle();
    assert_eq!(decision.failure.unwrap().reason, Reason::TooSmall);
    assert_condition(&fixture.condition("UpToDate"), "False", "TooSmall");
    assert_condition(&fixture.condition("Progressing"), "False", "TooSmall");
    assert_eq!(fixture.managed_source(), pvc('a'));
    assert_eq!(
        fixture.names(Kind::DataVolume).len(),
        2,
        "the DataVolume controller retries"
    );
    // A newer version replaces the failed one.
    fixture.answer('c', None);
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataVolume), [name('a'), name('c')]);
    fixture.phase(&name('c'), "Succeeded");
    fixture.settle();
    assert_eq!(fixture.managed_source(), pvc('c'));
}

#[test]
fn failure_reason_stays_during_retry() {
    let mut fixture = CronFixture::new();
    fixture.answer('a', None);
    fixture.settle();
    fixture.fail(&name('a'), "RegistryUnavailable", "connection refused");
    let key = (Kind::DataVolume, name('a'));
    fixture.objects.get_mut(&key).unwrap()["metadata"]["annotations"] = json!({
        "medley.dev/failures": "1",
        "medley.dev/failure-reason": "RegistryUnavailable",
        "medley.dev/next-retry-time": "1970-01-01T00:10:00Z",
    });
    fixture.settle();
    let failed = fixture.condition("UpToDate");
    assert_condition(&failed, "False", "RegistryUnavailable");
    assert_eq!(
        failed.2,
        "connection refused; next try at 1970-01-01T00:10:00Z"
    );
    // A retry does not change the reason that the image is missing.
    let volume = fixture.objects.get_mut(&key).unwrap();
    volume["status"] = json!({
        "phase": "ImportScheduled",
        "conditions": [{
            "type": "Running", "status": "False", "reason": "Pending", "message": "Importer is scheduled",
        }],
    });
    fixture.settle();
    assert_eq!(fixture.condition("UpToDate"), failed);
}

#[test]
fn running_import_completes_before_the_next() {
    let mut fixture = CronFixture::new();
    fixture.answer('a', None);
    fixture.settle();
    fixture.phase(&name('a'), "ImportInProgress");
    fixture.answer('b', None);
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataVolume), [name('a')]);
    assert_condition(&fixture.condition("UpToDate"), "False", "Outdated");
    fixture.phase(&name('a'), "Succeeded");
    fixture.settle();
    assert!(
        fixture
            .names(Kind::DataVolume)
            .contains(&name('b').as_str())
    );
}

#[test]
fn node_pull_needs_a_matching_node() {
    let mut fixture = CronFixture::new();
    fixture.cron["spec"]["template"]["spec"]["source"]["registry"]["pullMethod"] = json!("node");
    fixture.nodes = ["amd64".to_owned()].into();
    fixture.answer('a', None);
    let decision = fixture.settle();
    assert_eq!(decision.failure.unwrap().reason, Reason::NoMatchingNode);
    assert_eq!(fixture.names(Kind::DataVolume), Vec::<&str>::new());
    fixture.nodes.insert("arm64".to_owned());
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataVolume), [name('a')]);
}

#[test]
fn pin_rolls_back() {
    let mut fixture = CronFixture::new();
    fixture.cron["spec"]["importsToKeep"] = json!(2);
    fixture.import('a');
    fixture.import('b');
    assert_eq!(fixture.names(Kind::Claim), [name('a'), name('b')]);
    let pin = json!({ "images": [{
        "name": "fedora", "namespace": "images", "pins": [{ "architecture": "arm64", "digest": digest('a') }],
    }] });
    fixture.policy(pin);
    fixture.settle();
    assert_eq!(fixture.managed_source(), pvc('a'), "it is still kept");
    fixture.answer('c', None);
    fixture.settle();
    assert_eq!(fixture.managed_source(), pvc('a'), "whatever is new");
    fixture.policy(json!({}));
    fixture.settle();
    assert_eq!(
        fixture.names(Kind::DataVolume).last(),
        Some(&name('c').as_str())
    );
}

/// A pinned version that is gone is imported again, by its digest.
#[test]
fn pinned_version_that_is_gone_is_imported_again() {
    let mut fixture = CronFixture::new();
    fixture.import('b');
    fixture.policy(json!({ "images": [{
        "name": "fedora", "namespace": "images", "pins": [{ "architecture": "arm64", "digest": digest('a') }],
    }] }));
    fixture.settle();
    assert_eq!(fixture.managed_source(), pvc('b'));
    fixture.phase(&name('a'), "Succeeded");
    fixture.settle();
    assert_eq!(fixture.managed_source(), pvc('a'));
}

/// Other writers may set the digest; it counts until the next poll.
#[test]
fn digest_annotation_of_other_writers_is_imported() {
    let mut fixture = CronFixture::new();
    fixture.cron["spec"]["schedule"] = json!("");
    fixture.cron["metadata"]["annotations"] =
        json!({ "cdi.kubevirt.io/storage.import.sourceDesiredDigest": digest('d') });
    let decision = fixture.settle();
    assert_eq!(decision.poll, NextPoll::Never);
    assert_eq!(fixture.names(Kind::DataVolume), [name('d')]);
    fixture.cron["metadata"]["annotations"]["cdi.kubevirt.io/storage.import.sourceDesiredDigest"] =
        json!("md5:1");
    fixture.phase(&name('d'), "Succeeded");
    let decision = fixture.settle();
    assert_eq!(decision.failure.unwrap().reason, Reason::InvalidDigest);
}

#[test]
fn existing_claim_is_adopted() {
    let mut fixture = CronFixture::new();
    let claim = json!({ "metadata": { "name": name('a'), "namespace": "images" }, "bound": true });
    fixture.objects.insert((Kind::Claim, name('a')), claim);
    fixture.answer('a', None);
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataVolume), Vec::<&str>::new());
    assert_eq!(fixture.managed_source(), pvc('a'));
    let meta = &fixture.objects[&(Kind::Claim, name('a'))]["metadata"];
    assert_eq!(
        meta["labels"]["cdi.kubevirt.io/dataImportCron"],
        "cron-arm64"
    );
    assert_eq!(meta["annotations"]["medley.dev/digest"], json!(digest('a')));
}

#[test]
fn deleted_import_is_created_again() {
    let mut fixture = CronFixture::new();
    fixture.import('a');
    fixture.objects.remove(&(Kind::DataVolume, name('a')));
    fixture.objects.remove(&(Kind::Claim, name('a')));
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataVolume), [name('a')]);
}

#[test]
fn import_being_cloned_is_not_collected() {
    let mut fixture = CronFixture::new();
    fixture.import('a');
    fixture.busy.insert(name('a'));
    fixture.import('b');
    assert_eq!(fixture.names(Kind::Claim), [name('a'), name('b')]);
    fixture.busy.clear();
    fixture.settle();
    assert_eq!(fixture.names(Kind::Claim), [name('b')]);
    fixture.cron["spec"]["garbageCollect"] = json!("Never");
    fixture.import('c');
    assert_eq!(fixture.names(Kind::Claim), [name('b'), name('c')]);
}

/// Upstream would delete even the current import.
#[test]
fn current_import_is_never_collected() {
    let mut fixture = CronFixture::new();
    fixture.cron["spec"]["importsToKeep"] = json!(0);
    fixture.import('a');
    fixture.import('b');
    assert_eq!(fixture.names(Kind::Claim), [name('b')]);
}

#[rstest]
#[case("Refuse", Value::Null, "False", "ArchitectureMismatch")]
#[case("Warn", pvc('a'), "True", "UpToDate")]
#[case("Off", pvc('a'), "True", "UpToDate")]
fn sniffed_architecture_mismatch_follows_policy(
    #[case] sniffing: &str,
    #[case] managed_source: Value,
    #[case] status: &str,
    #[case] reason: &str,
    #[values(false, true)] is_file: bool,
) {
    let mut fixture = CronFixture::new();
    if is_file {
        fixture.cron["spec"]["template"]["spec"]["source"] =
            json!({ "http": { "url": "https://example.com/fedora.qcow2" } });
    }
    fixture.policy(json!({ "sniffing": sniffing }));
    fixture.answer('a', None);
    fixture.settle();
    fixture.phase(&name('a'), "Succeeded");
    let key = (Kind::Claim, name('a'));
    fixture.objects.get_mut(&key).unwrap()["metadata"]["annotations"]["medley.dev/sniffed-architectures"] =
        json!("amd64");
    let decision = fixture.settle();
    assert_eq!(fixture.managed_source(), managed_source);
    assert_condition(&fixture.condition("UpToDate"), status, reason);
    let warned = decision
        .events
        .iter()
        .any(|it| it.reason == "ArchitectureMismatch");
    assert_eq!(warned, sniffing != "Off");
}

#[test]
fn unlabelled_data_source_is_not_changed() {
    let mut fixture = CronFixture::new();
    let theirs = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": { "name": "fedora-arm64", "namespace": "images" },
        "spec": { "source": { "pvc": { "namespace": "images", "name": "mine" } } },
    });
    let key = (Kind::DataSource, "fedora-arm64".to_owned());
    fixture.objects.insert(key.clone(), theirs.clone());
    fixture.import('a');
    assert_eq!(fixture.objects[&key], theirs);
    assert_condition(&fixture.condition("UpToDate"), "True", "UpToDate");
}

#[test]
fn rival_cron_blocks_and_emits_one_event() {
    let mut fixture = CronFixture::new();
    fixture.rival = Some("other");
    fixture.answer('a', None);
    let decision = fixture.settle();
    assert_eq!(fixture.objects.len(), 0);
    let emitted: Vec<_> = decision
        .events
        .iter()
        .map(|it| it.message.as_str())
        .collect();
    assert_eq!(
        emitted,
        ["DataSource fedora-arm64 is already managed by DataImportCron other"]
    );
}

#[test]
fn cleanup_follows_retention_policy() {
    let mut fixture = CronFixture::new();
    fixture.import('a');
    fixture.cron["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!fixture.decide().finished);
    let decision = fixture.settle();
    assert!(decision.finished);
    assert_eq!(fixture.objects.len(), 0, "{:?}", fixture.objects.keys());
    // With retentionPolicy All, objects stay.
    let mut fixture = CronFixture::new();
    fixture.cron["spec"]["retentionPolicy"] = json!("All");
    fixture.import('a');
    fixture.cron["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let decision = fixture.settle();
    assert!(decision.finished);
    assert_eq!(fixture.managed_source(), pvc('a'));
}

#[test]
fn missing_storage_class_is_pending() {
    let mut fixture = CronFixture::new();
    fixture.storage.class = None;
    fixture.answer('a', None);
    let decision = fixture.settle();
    assert_eq!(
        decision.outdated,
        Some(Outdated {
            pending: true,
            outdated: true
        })
    );
}

#[rstest]
#[case::scheduled("0 */12 * * *")]
#[case::without_a_schedule("")]
fn requested_poll_happens_once(#[case] schedule: &str) {
    const NEXT_CRON_TIME: &str = "cdi.kubevirt.io/storage.import.nextCronTime";
    let mut fixture = CronFixture::new();
    fixture.cron["spec"]["schedule"] = json!(schedule);
    fixture.answer('a', None);
    let before = fixture.settle().poll;
    assert_ne!(before, NextPoll::Now);
    let time = |second: i64| {
        let time = jiff::Timestamp::from_second(second).unwrap();
        machinery::time::format_time(time)
    };
    // A request before the last poll is done.
    fixture.cron["metadata"]["annotations"][NEXT_CRON_TIME] = json!(time(fixture.now - 100));
    assert_eq!(fixture.decide().poll, before);
    fixture.cron["metadata"]["annotations"][NEXT_CRON_TIME] = json!(time(fixture.now));
    assert_eq!(fixture.decide().poll, NextPoll::Now);
    // A request ignores the backoff.
    fixture.refuse(Reason::RateLimited);
    let after = fixture.settle().poll;
    assert_ne!(after, NextPoll::Now, "it was polled since");
    fixture.cron["metadata"]["annotations"][NEXT_CRON_TIME] = json!(time(fixture.now));
    assert_eq!(fixture.decide().poll, NextPoll::Now);
    fixture.answer('b', None);
    assert_eq!(fixture.settle().poll, before);
}

#[test]
fn pinned_http_version_cannot_be_imported_again() {
    let mut fixture = CronFixture::new();
    fixture.cron["spec"]["template"]["spec"]["source"] =
        json!({ "http": { "url": "https://example.com/fedora.qcow2" } });
    fixture.import('a');
    assert_eq!(fixture.managed_source(), pvc('a'));
    let pinned = |letter: char| {
        json!({ "images": [{
            "name": "fedora", "namespace": "images",
            "pins": [{ "architecture": "arm64", "digest": digest(letter) }],
        }] })
    };
    fixture.policy(pinned('b'));
    fixture.settle();
    assert_condition(&fixture.condition("UpToDate"), "False", "ImageNotFound");
    assert_eq!(
        fixture.names(Kind::DataVolume),
        [name('a')],
        "the URL now serves another file"
    );
    assert_eq!(fixture.managed_source(), pvc('a'));
    fixture.policy(pinned('a'));
    fixture.settle();
    assert_condition(&fixture.condition("UpToDate"), "True", "UpToDate");
}
