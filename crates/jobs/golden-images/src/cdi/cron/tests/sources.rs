//! Sources that are not polled over the network: nodes, image streams and PVCs.

use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{CronFixture, digest, name};
use crate::action::{Kind, named};
use crate::cdi::failure::{Failure, Reason};
use crate::cdi::poll::{NextPoll, question};
use crate::cdi::poll::{
    PollMethod, PollResult, PolledVersion, Stream, elsewhere, not_allowed, of_claim, way,
};

fn with_source(source: Value) -> CronFixture {
    let mut fixture = CronFixture::new();
    fixture.cron["spec"]["template"]["spec"]["source"] = source;
    fixture
}

fn by_node() -> CronFixture {
    let mut fixture = CronFixture::new();
    let registry = &mut fixture.cron["spec"]["template"]["spec"]["source"]["registry"];
    registry["pullMethod"] = json!("node");
    fixture
}

fn set_poll_result(fixture: &mut CronFixture, found: Result<PolledVersion, Failure>) {
    fixture.now += 60;
    fixture.polled = Some(PollResult {
        at: jiff::Timestamp::from_second(fixture.now).unwrap(),
        answer: found,
    });
}

fn reason(fixture: &CronFixture, kind: &str) -> String {
    fixture.condition(kind).1
}

#[rstest]
#[case(json!({ "registry": { "url": "docker://r/x" } }), PollMethod::Server)]
#[case(json!({ "http": { "url": "https://h/x" } }), PollMethod::Server)]
#[case(json!({ "registry": { "url": "docker://r/x", "pullMethod": "node" } }), PollMethod::Node)]
// No node has the file.
#[case(json!({ "registry": { "url": "oci-archive://x", "pullMethod": "node" } }), PollMethod::Server)]
#[case(
    json!({ "registry": { "imageStream": "fedora:41", "pullMethod": "node" } }),
    PollMethod::Stream(Stream { of: named("images", "fedora"), tag: Some("41".to_owned()) })
)]
#[case(
    json!({ "registry": { "imageStream": "fedora", "pullMethod": "node" } }),
    PollMethod::Stream(Stream { of: named("images", "fedora"), tag: None })
)]
#[case(json!({ "pvc": { "namespace": "", "name": "base" } }), PollMethod::Claim(named("images", "base")))]
#[case(json!({ "s3": {} }), PollMethod::Unsupported)]
fn source_determines_poll_method(#[case] source: Value, #[case] expected: PollMethod) {
    let fixture = with_source(source);
    let cron = serde_json::from_value(fixture.cron).unwrap();
    assert_eq!(way(&cron), expected);
}

#[test]
fn node_poll_needs_a_matching_node() {
    let mut fixture = by_node();
    assert_eq!(fixture.settle().poll, NextPoll::Now);
    fixture.nodes.clear();
    let decision = fixture.settle();
    assert_eq!(decision.poll, NextPoll::Never, "no node could answer");
    assert_eq!(reason(&fixture, "UpToDate"), "NoMatchingNode");
    fixture.nodes.insert("arm64".to_owned());
    assert_eq!(fixture.settle().poll, NextPoll::Now);
    assert_eq!(reason(&fixture, "UpToDate"), "NoDigest");
    // An unschedulable poller pod is reported as a condition.
    fixture.hindered = Some(Failure::new(Reason::Unschedulable, "0/3 nodes"));
    fixture.settle();
    assert_eq!(reason(&fixture, "UpToDate"), "Unschedulable");
    fixture.hindered = None;
    let found = PolledVersion {
        digest: digest('a'),
        ..PolledVersion::default()
    };
    set_poll_result(&mut fixture, Ok(found));
    fixture.settle();
    let volume = &fixture.objects[&(Kind::DataVolume, name('a'))];
    let registry = &volume["spec"]["source"]["registry"];
    assert_eq!(registry["pullMethod"], "node");
    let url = format!("docker://quay.io:443/containerdisks/fedora@{}", digest('a'));
    assert_eq!(registry["url"], url);
}

fn stream(tag: Option<&str>) -> Stream {
    Stream {
        of: named("images", "fedora"),
        tag: tag.map(str::to_owned),
    }
}

fn tags() -> Value {
    let item = |letter: char| {
        json!({
            "image": digest(letter),
            "dockerImageReference": format!("registry.example/fedora@{}", digest(letter)),
        })
    };
    json!({ "status": { "tags": [
        { "tag": "41", "items": [item('b'), item('a')] },
        { "tag": "40", "items": [item('c')] },
        { "tag": "39", "items": [] },
    ] } })
}

#[rstest]
#[case(None, Ok('b'))]
#[case(Some("40"), Ok('c'))]
#[case(Some("39"), Err("ImageStream images/fedora has no image under \"39\""))]
#[case(Some("38"), Err("ImageStream images/fedora has no tag \"38\""))]
fn stream_yields_newest_image_of_tag(
    #[case] tag: Option<&str>,
    #[case] expected: Result<char, &str>,
) {
    let found = stream(tag).found(Some(&tags()));
    match expected {
        Ok(letter) => assert_eq!(found.unwrap().digest, digest(letter)),
        Err(message) => assert_eq!(found.unwrap_err().message, message),
    }
}

#[test]
fn stream_reference_becomes_registry_url() {
    let source = json!({ "registry": { "imageStream": "fedora:41", "pullMethod": "node", "platform": { "architecture": "arm64" } } });
    let mut fixture = with_source(source);
    assert_eq!(fixture.settle().poll, NextPoll::Now);
    set_poll_result(&mut fixture, Err(stream(None).unknown()));
    fixture.settle();
    assert_eq!(reason(&fixture, "UpToDate"), "KindNotInstalled");
    set_poll_result(&mut fixture, stream(None).found(None));
    fixture.settle();
    assert_eq!(reason(&fixture, "UpToDate"), "ImageNotFound");
    set_poll_result(&mut fixture, stream(Some("41")).found(Some(&tags())));
    fixture.settle();
    let volume = &fixture.objects[&(Kind::DataVolume, name('b'))];
    let registry = &volume["spec"]["source"]["registry"];
    let url = format!("docker://registry.example/fedora@{}", digest('b'));
    assert_eq!(registry["url"], url);
    assert_eq!(registry["imageStream"], Value::Null);
    let notes = &fixture.cron["metadata"]["annotations"];
    let reference = format!("registry.example/fedora@{}", digest('b'));
    assert_eq!(
        notes["cdi.kubevirt.io/storage.import.imageStreamDockerRef"],
        reference
    );
}

#[test]
fn foreign_digest_without_stream_reference_is_not_imported() {
    let source = json!({ "registry": { "imageStream": "fedora", "pullMethod": "node" } });
    let mut fixture = with_source(source);
    fixture.cron["metadata"]["annotations"] =
        json!({ "cdi.kubevirt.io/storage.import.sourceDesiredDigest": digest('a') });
    fixture.settle();
    assert_eq!(reason(&fixture, "UpToDate"), "ImageNotFound");
    assert_eq!(fixture.names(Kind::DataVolume), Vec::<&str>::new());
}

const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

#[test]
fn claim_version_is_its_uid() {
    let source = json!({ "pvc": { "namespace": "builds", "name": "base" } });
    let mut fixture = with_source(source.clone());
    let cron = serde_json::from_value(fixture.cron.clone()).unwrap();
    assert_eq!(question(&cron), None, "no registry is polled");
    let of = named("builds", "base");
    assert_eq!(elsewhere(&cron), Some(of.clone()));
    assert_eq!(fixture.settle().poll, NextPoll::Now);
    set_poll_result(&mut fixture, of_claim(&of, None));
    fixture.settle();
    assert_eq!(reason(&fixture, "UpToDate"), "ImageNotFound");

    // It exists but may not be cloned, not even if another writer sets its digest.
    fixture.denied = Some(not_allowed("system:serviceaccount:images:default", &of));
    set_poll_result(&mut fixture, of_claim(&of, Some(UID)));
    let decision = fixture.settle();
    assert_eq!(reason(&fixture, "UpToDate"), "NotAuthorized");
    assert_eq!(reason(&fixture, "Progressing"), "NotAuthorized");
    assert!(
        matches!(decision.poll, NextPoll::At(_)),
        "it may be allowed"
    );
    assert_eq!(fixture.names(Kind::DataVolume), Vec::<&str>::new());

    fixture.denied = None;
    fixture.settle();
    let volume = "fedora-arm64-0f1e2d3c-4b5";
    assert_eq!(fixture.names(Kind::DataVolume), [volume]);
    let made = &fixture.objects[&(Kind::DataVolume, volume.to_owned())];
    assert_eq!(made["spec"]["source"], source);
    fixture.phase(volume, "Succeeded");
    fixture.settle();
    assert_eq!(reason(&fixture, "UpToDate"), "UpToDate");
    assert_eq!(fixture.managed_source()["pvc"]["name"], volume);
}

#[test]
fn pinned_claim_version_cannot_be_imported_again() {
    let mut fixture = with_source(json!({ "pvc": { "namespace": "images", "name": "base" } }));
    let of = named("images", "base");
    set_poll_result(&mut fixture, of_claim(&of, Some(UID)));
    fixture.policy(json!({ "images": [{
        "name": "fedora", "namespace": "images",
        "pins": [{ "architecture": "arm64", "digest": digest('a') }],
    }] }));
    fixture.settle();
    assert_eq!(reason(&fixture, "UpToDate"), "ImageNotFound");
}
