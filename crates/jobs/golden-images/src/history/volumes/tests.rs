use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const HOME: &str = "kubevirt-os-images";
const CRON: &str = "fedora-image-cron-arm64";

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn name(letter: char) -> String {
    format!("fedora-arm64-{}", letter.to_string().repeat(12))
}

fn cron(annotations: &Value, status: &Value) -> DataImportCron {
    serde_json::from_value(json!({
        "metadata": { "name": CRON, "namespace": HOME, "annotations": annotations },
        "spec": { "managedDataSource": "fedora-arm64", "template": { "spec": {} } },
        "status": status,
    }))
    .unwrap()
}

/// A volume as CDI leaves it, last used in this hour.
fn volume_of(name: &str, hour: u8, annotations: &Value) -> ObjectMeta {
    let mut meta = json!({
        "name": name, "namespace": HOME, "labels": { labels::DATA_IMPORT_CRON: CRON },
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "annotations": { annotations::LAST_USE_TIME: format!("2026-11-19T{hour:02}:00:00.123456789Z") },
    });
    for (key, value) in annotations.as_object().into_iter().flatten() {
        meta["annotations"][key] = value.clone();
    }
    serde_json::from_value(meta).unwrap()
}

fn import(name: &str, url: &str, phase: &str) -> DataVolume {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": HOME },
        "spec": { "source": { "registry": { "url": url } } }, "status": { "phase": phase },
    }))
    .unwrap()
}

fn digests(
    cron: &DataImportCron,
    volumes: &[(ObjectMeta, bool)],
    imports: &[DataVolume],
    current: Option<&str>,
) -> Vec<String> {
    let all = volumes.iter().map(|(metadata, is_snapshot)| Volume {
        metadata,
        is_snapshot: *is_snapshot,
    });
    let entries = kept(cron, all, imports, current);
    assert!(
        entries
            .iter()
            .all(|it| it.derived && it.since == "2026-11-01T00:00:00Z")
    );
    entries.into_iter().map(|it| it.digest).collect()
}

#[test]
fn volume_in_use_is_first_and_others_follow_by_their_last_use() {
    let none = json!({});
    let cron = cron(&none, &none);
    let volumes = ['a', 'b', 'c'].map(name);
    let volumes = [
        (volume_of(&volumes[0], 9, &none), false),
        (volume_of(&volumes[1], 3, &none), true),
        (volume_of(&volumes[2], 6, &none), false),
    ];
    let short = |letter: char| format!("sha256:{}", letter.to_string().repeat(12));
    let in_use = name('b');
    assert_eq!(
        digests(&cron, &volumes, &[], Some(&in_use)),
        [short('b'), short('a'), short('c')]
    );
    assert_eq!(
        digests(&cron, &volumes, &[], None),
        [short('a'), short('c'), short('b')]
    );
}

/// Each of them names the whole digest; one that does not fit the name of the volume is of another version.
#[rstest]
#[case::data_volume("docker://quay.io/containerdisks/fedora@DIGEST", json!({}), json!({}), json!({}))]
#[case::endpoint("", json!({ ENDPOINT: "docker://quay.io/containerdisks/fedora@DIGEST" }), json!({}), json!({}))]
#[case::current_import("", json!({}), json!({}), json!({ "currentImports": [{ "DataVolumeName": "x", "Digest": "DIGEST" }] }))]
#[case::desired("", json!({}), json!({ annotations::DESIRED_DIGEST: "DIGEST" }), json!({}))]
fn whole_digest_is_found(
    #[case] url: &str,
    #[case] on_volume: Value,
    #[case] on_cron: Value,
    #[case] status: Value,
) {
    for (letter, expected) in [
        ('a', digest('a')),
        ('b', format!("sha256:{}", "a".repeat(12))),
    ] {
        let fill = |value: &Value| -> Value {
            serde_json::from_str(&value.to_string().replace("DIGEST", &digest(letter))).unwrap()
        };
        let cron = cron(&fill(&on_cron), &fill(&status));
        let volumes = [(volume_of(&name('a'), 1, &fill(&on_volume)), false)];
        let import = import(
            &name('a'),
            &url.replace("DIGEST", &digest(letter)),
            "Succeeded",
        );
        assert_eq!(digests(&cron, &volumes, &[import], None), [expected]);
    }
}

#[test]
fn volumes_that_are_no_version_are_left_out() {
    let none = json!({});
    let cron = cron(&none, &none);
    let mut foreign = volume_of(&name('a'), 1, &none);
    foreign.labels = None;
    let own = volume_of(&name('b'), 1, &json!({ names::DIGEST: digest('b') }));
    let volumes = [
        (foreign, false),
        (own, false),
        (volume_of(&name('c'), 1, &none), false),
        (volume_of("prime-1234", 1, &none), false),
        (volume_of("fedora-arm64-1234abcd-12e", 1, &none), false),
        (volume_of("fedora-arm64-too-long-by-far", 1, &none), false),
    ];
    let importing = import(&name('c'), "docker://quay.io/a", "ImportInProgress");
    assert_eq!(
        digests(&cron, &volumes, &[importing], None),
        ["uid:1234abcd-12e"]
    );
}

#[test]
fn snapshot_and_its_volume_are_one_version() {
    let none = json!({});
    let cron = cron(&none, &none);
    let meta = volume_of(&name('a'), 1, &none);
    for order in [[false, true], [true, false]] {
        let all = order.map(|is_snapshot| Volume {
            metadata: &meta,
            is_snapshot,
        });
        let entries = kept(&cron, all.into_iter(), &[], None);
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!(entries[0].format, "snapshot");
        assert!(!entries[0].is_whole());
    }
}

/// What Medley recorded before CDI took over again stays, once.
#[test]
fn recorded_versions_follow_those_of_volumes() {
    let entry = |name: &str, derived| Entry {
        name: name.to_owned(),
        derived,
        ..Entry::default()
    };
    let all = merged(
        vec![entry("c", true), entry("a", true)],
        vec![entry("b", false), entry("a", false)],
    );
    let names: Vec<(&str, bool)> = all
        .iter()
        .map(|it| (it.name.as_str(), it.derived))
        .collect();
    assert_eq!(names, [("c", true), ("b", false), ("a", false)]);
}
