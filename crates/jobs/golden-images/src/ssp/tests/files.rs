//! Templates with files on web servers.

use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{SspFixture, template};
use crate::action::Kind;

fn file(list: Option<&str>, url: &str) -> Value {
    let mut template = template("fedora-image-cron", "fedora", list);
    template["spec"]["template"]["spec"]["source"] = json!({ "http": { "url": url } });
    template
}

fn source<'a>(fixture: &'a SspFixture, cron: &str) -> &'a Value {
    &fixture.get(Kind::DataImportCron, cron)["spec"]["template"]["spec"]["source"]
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
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"])
        .templates(&[file(Some("amd64,arm64,s390x"), url)]);
    fixture.settle();
    for (cron, url) in [
        ("fedora-image-cron-amd64", amd64),
        ("fedora-image-cron-arm64", arm64),
    ] {
        assert_eq!(source(&fixture, cron), &json!({ "http": { "url": url } }));
    }
    let made = fixture.get(Kind::DataImportCron, "fedora-image-cron-arm64");
    let labels = &made["metadata"]["labels"];
    assert_eq!(labels["template.kubevirt.io/architecture"], "arm64");
    // The live object equals the desired one, so it is not replaced.
    assert_eq!(fixture.decide().actions, []);
}

#[test]
fn one_file_for_all_is_that_of_the_default() {
    let url = "https://x/{machine}.img";
    let mut fixture =
        SspFixture::new(&["arm64"], &["amd64", "arm64"]).templates(&[file(None, url)]);
    fixture.switch(false);
    fixture.settle();
    let expected = json!({ "http": { "url": "https://x/aarch64.img" } });
    assert_eq!(source(&fixture, "fedora-image-cron"), &expected);
}
