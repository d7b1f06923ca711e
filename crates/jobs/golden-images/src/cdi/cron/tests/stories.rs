//! What happens over time.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{World, digest, name};
use crate::action::Kind;
use crate::cdi::cron::Outdated;
use crate::cdi::failure::Reason;
use crate::cdi::poll::When;
use crate::history;

fn pvc(letter: char) -> Value {
    json!({ "pvc": { "namespace": "images", "name": name(letter) } })
}

fn ends(told: &(String, String, String), status: &str, reason: &str) {
    assert_eq!(
        (told.0.as_str(), told.1.as_str()),
        (status, reason),
        "{}",
        told.2
    );
}

#[test]
fn an_image_is_imported() {
    let mut world = World::new();
    let decision = world.settle();
    assert_eq!(decision.poll, When::Now);
    ends(&world.condition("UpToDate"), "False", "NoDigest");
    ends(&world.condition("Progressing"), "False", "NoImport");

    world.answer('a', None);
    let decision = world.settle();
    assert!(matches!(decision.poll, When::At(_)));
    assert_eq!(world.names(Kind::DataVolume), [name('a')]);
    let volume = world.objects[&(Kind::DataVolume, name('a'))].clone();
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
    let notes = &world.cron["metadata"]["annotations"];
    assert_eq!(
        notes["cdi.kubevirt.io/storage.import.sourceDesiredDigest"],
        json!(digest('a'))
    );
    assert_eq!(notes["medley.dev/index-digest"], json!(digest('0')));
    assert_eq!(notes["medley.dev/available-architectures"], "amd64,arm64");
    assert_eq!(notes["cdi.kubevirt.io/storage.import.storageClass"], "fast");
    ends(&world.condition("Progressing"), "False", "ImportScheduled");
    ends(&world.condition("UpToDate"), "False", "ImportProgressing");

    world.phase(&name('a'), "ImportInProgress");
    world.settle();
    ends(&world.condition("Progressing"), "True", "ImportProgressing");
    assert_eq!(world.stands_for(), Value::Null);

    world.phase(&name('a'), "Succeeded");
    let decision = world.settle();
    ends(&world.condition("Progressing"), "False", "NoImport");
    ends(&world.condition("UpToDate"), "True", "UpToDate");
    assert_eq!(world.stands_for(), pvc('a'));
    assert_eq!(
        decision.outdated,
        Some(Outdated {
            pending: false,
            outdated: false
        })
    );
    let status = &world.cron["status"];
    assert_eq!(
        status["currentImports"],
        json!([{ "DataVolumeName": name('a'), "Digest": digest('a') }])
    );
    assert_eq!(status["lastImportedPVC"]["name"], json!(name('a')));
    assert_eq!(status["sourceFormat"], "pvc");
}

#[test]
fn a_new_version_takes_over_when_it_is_there() {
    let mut world = World::new();
    world.import('a');
    world.answer('b', None);
    world.settle();
    assert_eq!(world.stands_for(), pvc('a'), "until the new one is there");
    world.phase(&name('b'), "Succeeded");
    world.settle();
    assert_eq!(world.stands_for(), pvc('b'));
    assert_eq!(world.names(Kind::Claim), [name('b')], "one is kept");
    let key = (Kind::DataSource, "fedora-arm64".to_owned());
    let source = serde_json::from_value(world.objects[&key].clone()).unwrap();
    let entries = history::read(&source);
    let known: Vec<&str> = entries.iter().map(|it| it.digest.as_str()).collect();
    assert_eq!(known, [digest('b'), digest('a')]);
}

/// The index changed, but not for this architecture.
#[test]
fn the_same_digest_is_not_imported_again() {
    let mut world = World::new();
    world.import('a');
    world.answer('a', None);
    let decision = world.settle();
    assert_eq!(decision.events, []);
    assert_eq!(world.names(Kind::DataVolume), [name('a')]);
    ends(&world.condition("UpToDate"), "True", "UpToDate");
}

#[test]
fn the_same_disk_packed_again_is_not_imported_again() {
    let mut world = World::new();
    world.answer('a', Some("disk-1"));
    world.settle();
    world.phase(&name('a'), "Succeeded");
    world.settle();
    world.answer('b', Some("disk-1"));
    let decision = world.settle();
    assert_eq!(decision.events[0].reason, "ContentUnchanged");
    assert_eq!(world.names(Kind::DataVolume), [name('a')]);
    assert_eq!(
        world.cron["status"]["currentImports"],
        json!([{ "DataVolumeName": name('a'), "Digest": digest('b') }])
    );
    ends(&world.condition("UpToDate"), "True", "UpToDate");
    // Another disk is.
    world.answer('c', Some("disk-2"));
    world.settle();
    assert!(world.names(Kind::DataVolume).contains(&name('c').as_str()));
}

#[test]
fn a_policy_can_ask_for_every_version() {
    let mut world = World::new();
    world.policy(json!({ "unchangedContent": "Import" }));
    world.answer('a', Some("disk-1"));
    world.settle();
    world.phase(&name('a'), "Succeeded");
    world.settle();
    world.answer('b', Some("disk-1"));
    world.settle();
    assert!(world.names(Kind::DataVolume).contains(&name('b').as_str()));
}

#[test]
fn a_snapshot_takes_the_place_of_the_volume() {
    let mut world = World::new();
    world.storage.snapshots = true;
    world.storage.snapshot_class = Some("snap".to_owned());
    world.answer('a', Some("disk-1"));
    world.settle();
    world.phase(&name('a'), "Succeeded");
    world.settle();
    let key = (Kind::Snapshot, name('a'));
    let snapshot = &world.objects[&key];
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
    ends(&world.condition("UpToDate"), "False", "ImportProgressing");
    assert_eq!(world.stands_for(), Value::Null);
    world.objects.get_mut(&key).unwrap()["status"] = json!({ "readyToUse": true });
    world.settle();
    assert_eq!(
        world.stands_for(),
        json!({ "snapshot": { "namespace": "images", "name": name('a') } })
    );
    assert_eq!(world.names(Kind::DataVolume), Vec::<&str>::new());
    assert_eq!(world.names(Kind::Claim), Vec::<&str>::new());
    ends(&world.condition("UpToDate"), "True", "UpToDate");
    assert_eq!(world.cron["status"]["sourceFormat"], "snapshot");
    // What it holds is remembered by the snapshot.
    world.answer('b', Some("disk-1"));
    assert_eq!(world.settle().events[0].reason, "ContentUnchanged");
}

#[rstest]
#[case(Reason::ArchitectureNotFound)]
#[case(Reason::NotAnIndex)]
#[case(Reason::PullUnauthorized)]
#[case(Reason::RateLimited)]
fn a_poll_that_fails_is_named_and_asked_again_later_and_later(#[case] reason: Reason) {
    let mut world = World::new();
    world.import('a');
    let mut waits = Vec::new();
    for count in 0..3 {
        world.refuse(reason);
        let asked = world.now;
        let decision = world.settle();
        assert_eq!(decision.failure.as_ref().unwrap().reason, reason);
        let When::At(next) = decision.poll else {
            panic!("{:?}", decision.poll);
        };
        waits.push(next.as_second() - asked);
        let told: Vec<_> = decision.events.iter().map(|it| it.reason).collect();
        let once: &[&str] = if count == 0 { &[reason.as_str()] } else { &[] };
        assert_eq!(told, once, "on the change");
        let (status, said, message) = world.condition("UpToDate");
        assert_eq!((status.as_str(), said.as_str()), ("False", reason.as_str()));
        assert!(
            message.starts_with("the registry says no; next try at 1970-"),
            "{message}"
        );
    }
    assert_eq!(waits, [30, 60, 120]);
    assert_eq!(
        world.stands_for(),
        pvc('a'),
        "the last one stays in service"
    );
    // Another program goes on: it knows the same.
    world.polled = None;
    let before = world.condition("UpToDate");
    world.settle();
    assert_eq!(world.condition("UpToDate"), before);
    world.answer('a', None);
    world.settle();
    ends(&world.condition("UpToDate"), "True", "UpToDate");
    let notes = &world.cron["metadata"]["annotations"];
    assert_eq!(notes.get("medley.dev/failures"), None, "it is forgotten");
}

#[test]
fn an_import_that_fails_is_named_and_the_last_one_stays() {
    let mut world = World::new();
    world.import('a');
    world.answer('b', None);
    world.settle();
    world.fail(
        &name('b'),
        "Error",
        "virtual image size 9 is larger than the reported available storage 5. A larger PVC is required",
    );
    let decision = world.settle();
    assert_eq!(decision.failure.unwrap().reason, Reason::TooSmall);
    ends(&world.condition("UpToDate"), "False", "TooSmall");
    ends(&world.condition("Progressing"), "False", "TooSmall");
    assert_eq!(world.stands_for(), pvc('a'));
    assert_eq!(
        world.names(Kind::DataVolume).len(),
        2,
        "whoever imports tries again"
    );
    // A newer version takes the place of the one that failed.
    world.answer('c', None);
    world.settle();
    assert_eq!(world.names(Kind::DataVolume), [name('a'), name('c')]);
    world.phase(&name('c'), "Succeeded");
    world.settle();
    assert_eq!(world.stands_for(), pvc('c'));
}

#[test]
fn why_an_import_failed_is_told_until_it_gets_on() {
    let mut world = World::new();
    world.answer('a', None);
    world.settle();
    world.fail(&name('a'), "RegistryUnavailable", "nobody answers");
    let key = (Kind::DataVolume, name('a'));
    world.objects.get_mut(&key).unwrap()["metadata"]["annotations"] = json!({
        "medley.dev/failures": "1",
        "medley.dev/failure-reason": "RegistryUnavailable",
        "medley.dev/next-retry-time": "1970-01-01T00:10:00Z",
    });
    world.settle();
    let told = world.condition("UpToDate");
    ends(&told, "False", "RegistryUnavailable");
    assert_eq!(told.2, "nobody answers; next try at 1970-01-01T00:10:00Z");
    // It is tried again, which is no reason for anything to be missing.
    let volume = world.objects.get_mut(&key).unwrap();
    volume["status"] = json!({
        "phase": "ImportScheduled",
        "conditions": [{
            "type": "Running", "status": "False", "reason": "Pending", "message": "Importer is scheduled",
        }],
    });
    world.settle();
    assert_eq!(world.condition("UpToDate"), told);
}

#[test]
fn what_has_begun_is_finished_first() {
    let mut world = World::new();
    world.answer('a', None);
    world.settle();
    world.phase(&name('a'), "ImportInProgress");
    world.answer('b', None);
    world.settle();
    assert_eq!(world.names(Kind::DataVolume), [name('a')]);
    ends(&world.condition("UpToDate"), "False", "Outdated");
    world.phase(&name('a'), "Succeeded");
    world.settle();
    assert!(world.names(Kind::DataVolume).contains(&name('b').as_str()));
}

#[test]
fn a_node_of_the_architecture_has_to_be_there_to_pull() {
    let mut world = World::new();
    world.cron["spec"]["template"]["spec"]["source"]["registry"]["pullMethod"] = json!("node");
    world.nodes = ["amd64".to_owned()].into();
    world.answer('a', None);
    let decision = world.settle();
    assert_eq!(decision.failure.unwrap().reason, Reason::NoMatchingNode);
    assert_eq!(world.names(Kind::DataVolume), Vec::<&str>::new());
    world.nodes.insert("arm64".to_owned());
    world.settle();
    assert_eq!(world.names(Kind::DataVolume), [name('a')]);
}

#[test]
fn going_back_is_a_pin() {
    let mut world = World::new();
    world.cron["spec"]["importsToKeep"] = json!(2);
    world.import('a');
    world.import('b');
    assert_eq!(world.names(Kind::Claim), [name('a'), name('b')]);
    let pin = json!({ "images": [{
        "name": "fedora", "namespace": "images", "pins": [{ "architecture": "arm64", "digest": digest('a') }],
    }] });
    world.policy(pin);
    world.settle();
    assert_eq!(world.stands_for(), pvc('a'), "it is still there");
    world.answer('c', None);
    world.settle();
    assert_eq!(world.stands_for(), pvc('a'), "whatever is new");
    world.policy(json!({}));
    world.settle();
    assert_eq!(
        world.names(Kind::DataVolume).last(),
        Some(&name('c').as_str())
    );
}

/// A pinned version that is gone is imported again, by its digest.
#[test]
fn a_version_that_is_gone_is_imported_again() {
    let mut world = World::new();
    world.import('b');
    world.policy(json!({ "images": [{
        "name": "fedora", "namespace": "images", "pins": [{ "architecture": "arm64", "digest": digest('a') }],
    }] }));
    world.settle();
    assert_eq!(world.stands_for(), pvc('b'));
    world.phase(&name('a'), "Succeeded");
    world.settle();
    assert_eq!(world.stands_for(), pvc('a'));
}

/// Anybody may write the digest; it counts until the registry is asked again.
#[test]
fn others_may_say_what_to_import() {
    let mut world = World::new();
    world.cron["spec"]["schedule"] = json!("");
    world.cron["metadata"]["annotations"] =
        json!({ "cdi.kubevirt.io/storage.import.sourceDesiredDigest": digest('d') });
    let decision = world.settle();
    assert_eq!(decision.poll, When::Never);
    assert_eq!(world.names(Kind::DataVolume), [name('d')]);
    world.cron["metadata"]["annotations"]["cdi.kubevirt.io/storage.import.sourceDesiredDigest"] =
        json!("md5:1");
    world.phase(&name('d'), "Succeeded");
    let decision = world.settle();
    assert_eq!(decision.failure.unwrap().reason, Reason::InvalidDigest);
}

#[test]
fn what_is_there_is_adopted() {
    let mut world = World::new();
    let claim = json!({ "metadata": { "name": name('a'), "namespace": "images" }, "bound": true });
    world.objects.insert((Kind::Claim, name('a')), claim);
    world.answer('a', None);
    world.settle();
    assert_eq!(world.names(Kind::DataVolume), Vec::<&str>::new());
    assert_eq!(world.stands_for(), pvc('a'));
    let meta = &world.objects[&(Kind::Claim, name('a'))]["metadata"];
    assert_eq!(
        meta["labels"]["cdi.kubevirt.io/dataImportCron"],
        "cron-arm64"
    );
    assert_eq!(meta["annotations"]["medley.dev/digest"], json!(digest('a')));
}

#[test]
fn an_import_that_somebody_deleted_is_made_again() {
    let mut world = World::new();
    world.import('a');
    world.objects.remove(&(Kind::DataVolume, name('a')));
    world.objects.remove(&(Kind::Claim, name('a')));
    world.settle();
    assert_eq!(world.names(Kind::DataVolume), [name('a')]);
}

#[test]
fn what_is_being_cloned_is_kept() {
    let mut world = World::new();
    world.import('a');
    world.busy.insert(name('a'));
    world.import('b');
    assert_eq!(world.names(Kind::Claim), [name('a'), name('b')]);
    world.busy.clear();
    world.settle();
    assert_eq!(world.names(Kind::Claim), [name('b')]);
    world.cron["spec"]["garbageCollect"] = json!("Never");
    world.import('c');
    assert_eq!(world.names(Kind::Claim), [name('b'), name('c')]);
}

/// Upstream would delete even the import in use.
#[test]
fn keeping_none_keeps_the_one_in_use() {
    let mut world = World::new();
    world.cron["spec"]["importsToKeep"] = json!(0);
    world.import('a');
    world.import('b');
    assert_eq!(world.names(Kind::Claim), [name('b')]);
}

#[rstest]
#[case("Refuse", Value::Null, "False", "ArchitectureMismatch")]
#[case("Warn", pvc('a'), "True", "UpToDate")]
#[case("Off", pvc('a'), "True", "UpToDate")]
fn a_disk_for_another_architecture_is_found_out(
    #[case] sniffing: &str,
    #[case] stands_for: Value,
    #[case] status: &str,
    #[case] reason: &str,
    #[values(false, true)] is_file: bool,
) {
    let mut world = World::new();
    if is_file {
        world.cron["spec"]["template"]["spec"]["source"] =
            json!({ "http": { "url": "https://example.com/fedora.qcow2" } });
    }
    world.policy(json!({ "sniffing": sniffing }));
    world.answer('a', None);
    world.settle();
    world.phase(&name('a'), "Succeeded");
    let key = (Kind::Claim, name('a'));
    world.objects.get_mut(&key).unwrap()["metadata"]["annotations"]["medley.dev/sniffed-architectures"] =
        json!("amd64");
    let decision = world.settle();
    assert_eq!(world.stands_for(), stands_for);
    ends(&world.condition("UpToDate"), status, reason);
    let warned = decision
        .events
        .iter()
        .any(|it| it.reason == "ArchitectureMismatch");
    assert_eq!(warned, sniffing != "Off");
}

#[test]
fn a_data_source_without_the_label_belongs_to_somebody_else() {
    let mut world = World::new();
    let theirs = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": { "name": "fedora-arm64", "namespace": "images" },
        "spec": { "source": { "pvc": { "namespace": "images", "name": "mine" } } },
    });
    let key = (Kind::DataSource, "fedora-arm64".to_owned());
    world.objects.insert(key.clone(), theirs.clone());
    world.import('a');
    assert_eq!(world.objects[&key], theirs);
    ends(&world.condition("UpToDate"), "True", "UpToDate");
}

#[test]
fn a_rival_stops_everything_and_is_told_once() {
    let mut world = World::new();
    world.rival = Some("other");
    world.answer('a', None);
    let decision = world.settle();
    assert_eq!(world.objects.len(), 0);
    let told: Vec<_> = decision
        .events
        .iter()
        .map(|it| it.message.as_str())
        .collect();
    assert_eq!(
        told,
        ["DataSource fedora-arm64 is already managed by DataImportCron other"]
    );
}

#[test]
fn what_goes_with_the_cron_goes() {
    let mut world = World::new();
    world.import('a');
    world.cron["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!world.decide().finished);
    let decision = world.settle();
    assert!(decision.finished);
    assert_eq!(world.objects.len(), 0, "{:?}", world.objects.keys());
    // Unless it is to stay.
    let mut world = World::new();
    world.cron["spec"]["retentionPolicy"] = json!("All");
    world.import('a');
    world.cron["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let decision = world.settle();
    assert!(decision.finished);
    assert_eq!(world.stands_for(), pvc('a'));
}

#[test]
fn without_storage_it_is_pending() {
    let mut world = World::new();
    world.storage.class = None;
    world.answer('a', None);
    let decision = world.settle();
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
fn a_poll_that_is_asked_for_happens_once(#[case] schedule: &str) {
    const ASKED: &str = "cdi.kubevirt.io/storage.import.nextCronTime";
    let mut world = World::new();
    world.cron["spec"]["schedule"] = json!(schedule);
    world.answer('a', None);
    let before = world.settle().poll;
    assert_ne!(before, When::Now);
    let time = |second: i64| {
        let time = jiff::Timestamp::from_second(second).unwrap();
        machinery::time::format_time(time)
    };
    // What was asked for before the last poll is over.
    world.cron["metadata"]["annotations"][ASKED] = json!(time(world.now - 100));
    assert_eq!(world.decide().poll, before);
    world.cron["metadata"]["annotations"][ASKED] = json!(time(world.now));
    assert_eq!(world.decide().poll, When::Now);
    // Nor does it wait for what failed.
    world.refuse(Reason::RateLimited);
    let after = world.settle().poll;
    assert_ne!(after, When::Now, "it was asked since");
    world.cron["metadata"]["annotations"][ASKED] = json!(time(world.now));
    assert_eq!(world.decide().poll, When::Now);
    world.answer('b', None);
    assert_eq!(world.settle().poll, before);
}

#[test]
fn an_old_file_of_a_web_server_cannot_be_imported_again() {
    let mut world = World::new();
    world.cron["spec"]["template"]["spec"]["source"] =
        json!({ "http": { "url": "https://example.com/fedora.qcow2" } });
    world.import('a');
    assert_eq!(world.stands_for(), pvc('a'));
    let pinned = |letter: char| {
        json!({ "images": [{
            "name": "fedora", "namespace": "images",
            "pins": [{ "architecture": "arm64", "digest": digest(letter) }],
        }] })
    };
    world.policy(pinned('b'));
    world.settle();
    ends(&world.condition("UpToDate"), "False", "ImageNotFound");
    assert_eq!(
        world.names(Kind::DataVolume),
        [name('a')],
        "another file has its address"
    );
    assert_eq!(world.stands_for(), pvc('a'));
    world.policy(pinned('a'));
    world.settle();
    ends(&world.condition("UpToDate"), "True", "UpToDate");
}
