//! Templates whose images are files on web servers.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{World, template};
use crate::action::Kind;

fn file(list: Option<&str>, url: &str) -> Value {
    let mut template = template("fedora-image-cron", "fedora", list);
    template["spec"]["template"]["spec"]["source"] = json!({ "http": { "url": url } });
    template
}

fn source<'a>(world: &'a World, cron: &str) -> &'a Value {
    &world.get(Kind::DataImportCron, cron)["spec"]["template"]["spec"]["source"]
}

#[rstest]
#[case(
    "https://x/{architecture}.img",
    "https://x/amd64.img",
    "https://x/arm64.img"
)]
#[case(
    "https://x/{machine}/f.{machine}.qcow2",
    "https://x/x86_64/f.x86_64.qcow2",
    "https://x/aarch64/f.aarch64.qcow2"
)]
#[case("https://x/f.qcow2", "https://x/f.qcow2", "https://x/f.qcow2")]
fn every_architecture_has_its_own_file(
    #[case] url: &str,
    #[case] amd64: &str,
    #[case] arm64: &str,
) {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"])
        .templates(&[file(Some("amd64,arm64,s390x"), url)]);
    world.settle();
    for (cron, url) in [
        ("fedora-image-cron-amd64", amd64),
        ("fedora-image-cron-arm64", arm64),
    ] {
        assert_eq!(source(&world, cron), &json!({ "http": { "url": url } }));
    }
    let made = world.get(Kind::DataImportCron, "fedora-image-cron-arm64");
    let labels = &made["metadata"]["labels"];
    assert_eq!(labels["template.kubevirt.io/architecture"], "arm64");
    // What was made is what is wanted: nothing is made anew.
    assert_eq!(world.decide().actions, []);
}

#[test]
fn one_file_for_all_is_that_of_the_default() {
    let url = "https://x/{machine}.img";
    let mut world = World::new(&["arm64"], &["amd64", "arm64"]).templates(&[file(None, url)]);
    world.switch(false);
    world.settle();
    let expected = json!({ "http": { "url": "https://x/aarch64.img" } });
    assert_eq!(source(&world, "fedora-image-cron"), &expected);
}
