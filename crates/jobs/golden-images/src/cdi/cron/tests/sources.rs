//! Sources that are not asked over the network: nodes, image streams and volumes.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{World, digest, name};
use crate::action::{Kind, named};
use crate::cdi::failure::{Failure, Reason};
use crate::cdi::poll::{Found, Polled, Stream, Way, elsewhere, not_allowed, of_claim, way};
use crate::cdi::poll::{When, question};

fn with_source(source: Value) -> World {
    let mut world = World::new();
    world.cron["spec"]["template"]["spec"]["source"] = source;
    world
}

fn by_node() -> World {
    let mut world = World::new();
    let registry = &mut world.cron["spec"]["template"]["spec"]["source"]["registry"];
    registry["pullMethod"] = json!("node");
    world
}

fn answered(world: &mut World, found: Result<Found, Failure>) {
    world.now += 60;
    world.polled = Some(Polled {
        at: jiff::Timestamp::from_second(world.now).unwrap(),
        answer: found,
    });
}

fn reason(world: &World, kind: &str) -> String {
    world.condition(kind).1
}

#[rstest]
#[case(json!({ "registry": { "url": "docker://r/x" } }), Way::Server)]
#[case(json!({ "http": { "url": "https://h/x" } }), Way::Server)]
#[case(json!({ "registry": { "url": "docker://r/x", "pullMethod": "node" } }), Way::Node)]
// A file is on no node.
#[case(json!({ "registry": { "url": "oci-archive://x", "pullMethod": "node" } }), Way::Server)]
#[case(
    json!({ "registry": { "imageStream": "fedora:41", "pullMethod": "node" } }),
    Way::Stream(Stream { of: named("images", "fedora"), tag: Some("41".to_owned()) })
)]
#[case(
    json!({ "registry": { "imageStream": "fedora", "pullMethod": "node" } }),
    Way::Stream(Stream { of: named("images", "fedora"), tag: None })
)]
#[case(json!({ "pvc": { "namespace": "", "name": "base" } }), Way::Claim(named("images", "base")))]
#[case(json!({ "s3": {} }), Way::Nobody)]
fn sources_are_asked_in_their_way(#[case] source: Value, #[case] expected: Way) {
    let world = with_source(source);
    let cron = serde_json::from_value(world.cron).unwrap();
    assert_eq!(way(&cron), expected);
}

#[test]
fn a_node_is_asked_while_there_is_one() {
    let mut world = by_node();
    assert_eq!(world.settle().poll, When::Now);
    world.nodes.clear();
    let decision = world.settle();
    assert_eq!(decision.poll, When::Never, "nobody could answer");
    assert_eq!(reason(&world, "UpToDate"), "NoMatchingNode");
    world.nodes.insert("arm64".to_owned());
    assert_eq!(world.settle().poll, When::Now);
    assert_eq!(reason(&world, "UpToDate"), "NoDigest");
    // A pod that no node takes is waited for, and told.
    world.hindered = Some(Failure::new(Reason::Unschedulable, "0/3 nodes"));
    world.settle();
    assert_eq!(reason(&world, "UpToDate"), "Unschedulable");
    world.hindered = None;
    let found = Found {
        digest: digest('a'),
        ..Found::default()
    };
    answered(&mut world, Ok(found));
    world.settle();
    let volume = &world.objects[&(Kind::DataVolume, name('a'))];
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
fn the_newest_image_of_a_tag_is_wanted(
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
fn an_image_stream_says_where_its_images_are() {
    let source = json!({ "registry": { "imageStream": "fedora:41", "pullMethod": "node", "platform": { "architecture": "arm64" } } });
    let mut world = with_source(source);
    assert_eq!(world.settle().poll, When::Now);
    answered(&mut world, Err(stream(None).unknown()));
    world.settle();
    assert_eq!(reason(&world, "UpToDate"), "KindNotInstalled");
    answered(&mut world, stream(None).found(None));
    world.settle();
    assert_eq!(reason(&world, "UpToDate"), "ImageNotFound");
    answered(&mut world, stream(Some("41")).found(Some(&tags())));
    world.settle();
    let volume = &world.objects[&(Kind::DataVolume, name('b'))];
    let registry = &volume["spec"]["source"]["registry"];
    let url = format!("docker://registry.example/fedora@{}", digest('b'));
    assert_eq!(registry["url"], url);
    assert_eq!(registry["imageStream"], Value::Null);
    let notes = &world.cron["metadata"]["annotations"];
    let reference = format!("registry.example/fedora@{}", digest('b'));
    assert_eq!(
        notes["cdi.kubevirt.io/storage.import.imageStreamDockerRef"],
        reference
    );
}

#[test]
fn a_digest_that_somebody_wrote_says_not_where_the_image_is() {
    let source = json!({ "registry": { "imageStream": "fedora", "pullMethod": "node" } });
    let mut world = with_source(source);
    world.cron["metadata"]["annotations"] =
        json!({ "cdi.kubevirt.io/storage.import.sourceDesiredDigest": digest('a') });
    world.settle();
    assert_eq!(reason(&world, "UpToDate"), "ImageNotFound");
    assert_eq!(world.names(Kind::DataVolume), Vec::<&str>::new());
}

const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

#[test]
fn another_volume_of_a_name_is_another_version() {
    let source = json!({ "pvc": { "namespace": "builds", "name": "base" } });
    let mut world = with_source(source.clone());
    let cron = serde_json::from_value(world.cron.clone()).unwrap();
    assert_eq!(question(&cron), None, "no registry is asked");
    let of = named("builds", "base");
    assert_eq!(elsewhere(&cron), Some(of.clone()));
    assert_eq!(world.settle().poll, When::Now);
    answered(&mut world, of_claim(&of, None));
    world.settle();
    assert_eq!(reason(&world, "UpToDate"), "ImageNotFound");

    // It is there, but nobody allows it to be copied: not even if somebody writes its version.
    world.denied = Some(not_allowed("system:serviceaccount:images:default", &of));
    answered(&mut world, of_claim(&of, Some(UID)));
    let decision = world.settle();
    assert_eq!(reason(&world, "UpToDate"), "NotAuthorized");
    assert_eq!(reason(&world, "Progressing"), "NotAuthorized");
    assert!(matches!(decision.poll, When::At(_)), "it may be allowed");
    assert_eq!(world.names(Kind::DataVolume), Vec::<&str>::new());

    world.denied = None;
    world.settle();
    let volume = "fedora-arm64-0f1e2d3c-4b5";
    assert_eq!(world.names(Kind::DataVolume), [volume]);
    let made = &world.objects[&(Kind::DataVolume, volume.to_owned())];
    assert_eq!(made["spec"]["source"], source);
    world.phase(volume, "Succeeded");
    world.settle();
    assert_eq!(reason(&world, "UpToDate"), "UpToDate");
    assert_eq!(world.stands_for()["pvc"]["name"], volume);
}

#[test]
fn a_version_of_a_volume_that_is_gone_cannot_be_had_again() {
    let mut world = with_source(json!({ "pvc": { "namespace": "images", "name": "base" } }));
    let of = named("images", "base");
    answered(&mut world, of_claim(&of, Some(UID)));
    world.policy(json!({ "images": [{
        "name": "fedora", "namespace": "images",
        "pins": [{ "architecture": "arm64", "digest": digest('a') }],
    }] }));
    world.settle();
    assert_eq!(reason(&world, "UpToDate"), "ImageNotFound");
}
