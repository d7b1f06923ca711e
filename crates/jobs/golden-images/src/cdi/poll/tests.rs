use rstest::rstest;
use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn image() -> Image {
    let manifest = |name: &str| Manifest {
        digest: format!("sha256:{name}"),
        content: Some(format!("content of {name}")),
    };
    Image {
        digest: "sha256:index".to_owned(),
        is_index: true,
        platforms: ["amd64", "arm64"]
            .map(|name| (name.to_owned(), manifest(name)))
            .into(),
    }
}

#[test]
fn every_architecture_has_its_own_digest() {
    let found = image().pick(Some("arm64")).unwrap();
    assert_eq!(found.digest, "sha256:arm64");
    assert_eq!(found.index.as_deref(), Some("sha256:index"));
    assert_eq!(found.content.as_deref(), Some("content of arm64"));
    // Without an architecture, the index digest counts, as upstream.
    let found = image().pick(None).unwrap();
    assert_eq!((found.digest.as_str(), found.index), ("sha256:index", None));
    assert_eq!(image().pick(Some("")), image().pick(None));
}

#[test]
fn missing_architecture_has_a_reason() {
    let failure = image().pick(Some("s390x")).unwrap_err();
    assert_eq!(failure.reason, Reason::ArchitectureNotFound);
    assert_eq!(
        failure.message,
        "the image has no s390x; it has amd64, arm64"
    );
    let mut single = image();
    single.is_index = false;
    single.platforms.remove("arm64");
    assert_eq!(single.pick(Some("amd64")).unwrap().index, None);
    let failure = single.pick(Some("arm64")).unwrap_err();
    assert_eq!(failure.reason, Reason::NotAnIndex);
    assert!(failure.message.contains("is for amd64 instead of arm64"));
}

#[test]
fn crons_of_one_url_share_a_poll() {
    let cron = |name: &str, namespace: &str, url: &str| -> DataImportCron {
        serde_json::from_value(json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "managedDataSource": "d", "schedule": "", "template": { "spec": { "source": {
                "registry": { "url": url, "platform": { "architecture": name } },
            } } } },
        }))
        .unwrap()
    };
    let crons = [
        cron("amd64", "a", "docker://x"),
        cron("arm64", "a", "docker://x"),
        cron("s390x", "b", "docker://x"),
        cron("none", "a", ""),
    ];
    let questions = questions(&crons);
    let counts: Vec<usize> = questions.values().map(Vec::len).collect();
    assert_eq!(counts, [2, 1], "credentials are those of a namespace");
}

const HOUR: i64 = 3600;

#[rstest]
#[case::never_asked("0 */12 * * *", None, 5, 0, NextPoll::Now)]
#[case::no_schedule("", None, 5, 0, NextPoll::Never)]
#[case::nonsense("often", Some(0), 5, 0, NextPoll::Never)]
#[case::later("0 */12 * * *", Some(0), 5, 0, NextPoll::At(at(12 * HOUR)))]
#[case::spread("0 */12 * * *", Some(0), 5, 100, NextPoll::At(at(100)))]
#[case::spread_again("0 */12 * * *", Some(100), 105, 100, NextPoll::At(at(12 * HOUR + 100)))]
#[case::missed("0 */12 * * *", Some(0), 20 * HOUR, 0, NextPoll::Now)]
#[case::elsewhere("TZ=Asia/Tokyo 0 */12 * * *", Some(0), 5, 0, NextPoll::At(at(3 * HOUR)))]
#[case::often("* * * * *", Some(300), 301, 300, NextPoll::At(at(360)))]
fn polls_follow_the_schedule(
    #[case] schedule: &str,
    #[case] last: Option<i64>,
    #[case] now: i64,
    #[case] delay: i64,
    #[case] expected: NextPoll,
) {
    let delay = SignedDuration::from_secs(delay);
    assert_eq!(when(schedule, last.map(at), at(now), delay), expected);
}

#[test]
fn earlier_poll_time_wins() {
    assert_eq!(NextPoll::Never.or(NextPoll::At(at(5))), NextPoll::At(at(5)));
    assert_eq!(
        NextPoll::At(at(7)).or(NextPoll::At(at(5))),
        NextPoll::At(at(5))
    );
    assert_eq!(NextPoll::At(at(7)).or(NextPoll::Now), NextPoll::Now);
    assert_eq!(NextPoll::Never.or(NextPoll::Never), NextPoll::Never);
}

#[test]
fn polls_are_spread() {
    let most = SignedDuration::from_mins(5);
    let delays: BTreeSet<i64> = (0..100)
        .map(|index| delay(&format!("docker://image{index}"), 1, most).as_secs())
        .collect();
    assert!(delays.len() > 50, "{} different ones", delays.len());
    assert!(delays.iter().all(|it| (0..300).contains(it)));
    assert_eq!(delay("x", 1, most), delay("x", 1, most));
    assert_eq!(delay("x", 1, SignedDuration::ZERO), SignedDuration::ZERO);
    assert_eq!(
        delay("x", 1, SignedDuration::from_secs(-5)),
        SignedDuration::ZERO
    );
}

#[rstest]
#[case::another_tag(File { etag: Some("\"b\""), ..file() }, false)]
#[case::a_weak_tag_is_the_same(File { etag: Some("W/\"a\""), ..file() }, true)]
#[case::touched(File { modified: Some("Tue"), ..file() }, true)]
#[case::without_a_tag(File { etag: None, ..file() }, false)]
#[case::elsewhere(File { address: "https://b", ..file() }, false)]
#[case::with_a_checksum(File { checksum: Some(format!("sha256:{}", "AB".repeat(32))), ..file() }, false)]
#[case::with_a_long_one(File { checksum: Some("sha512:ab".to_owned()), ..file() }, false)]
fn file_versions_are_distinguished(#[case] other: File<'_>, #[case] same: bool) {
    let before = file().image().unwrap();
    let after = other.image().unwrap();
    assert_eq!(before.digest == after.digest, same);
    for image in [before, after] {
        // It can be part of a PVC name, and it is independent of the architecture.
        assert!(crate::names::volume("fedora", &image.digest).is_ok());
        let found = image.pick(None).unwrap();
        assert_eq!((found.digest, found.index), (image.digest, None));
    }
}

fn file() -> File<'static> {
    File {
        address: "https://a",
        etag: Some("\"a\""),
        modified: Some("Mon"),
        length: Some(5),
        moved: false,
        checksum: None,
    }
}

#[test]
fn mirrors_have_the_same_version() {
    let mirror = |etag, modified| File {
        etag: Some(etag),
        modified: Some(modified),
        moved: true,
        ..file()
    };
    let one = mirror("\"one\"", "Mon").image().unwrap();
    assert_eq!(mirror("\"two\"", "Mon").image().unwrap(), one);
    assert_ne!(mirror("\"one\"", "Tue").image().unwrap(), one);
    let elsewhere = File {
        address: "https://b",
        ..mirror("\"one\"", "Mon")
    };
    assert_ne!(elsewhere.image().unwrap(), one);
    let longer = File {
        length: Some(6),
        ..mirror("\"one\"", "Mon")
    };
    assert_ne!(longer.image().unwrap(), one);
}

#[test]
fn file_without_headers_has_no_version() {
    let silent = File {
        length: Some(5),
        ..File::default()
    };
    let failure = silent.image().unwrap_err();
    assert!(
        failure.message.contains("set a checksum in the source"),
        "{failure}"
    );
    let with_checksum = File {
        checksum: Some("sha512:ab".to_owned()),
        ..silent
    };
    assert!(with_checksum.image().is_ok());
}
