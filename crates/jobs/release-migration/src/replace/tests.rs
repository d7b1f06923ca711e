use std::collections::BTreeMap;

use api::openshift::ImageStream;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn stream(tags: &[(&str, &str)]) -> ImageStream {
    let tags: Vec<_> = tags
        .iter()
        .map(|(name, image)| {
            json!({ "name": name, "from": { "kind": "DockerImage", "name": image } })
        })
        .collect();
    serde_json::from_value(json!({ "spec": { "tags": tags } })).unwrap()
}

fn placeholder(tag: &str) -> String {
    format!("{PLACEHOLDER}:{tag}")
}

const IMAGE: &str =
    "quay.io/r@sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn map() -> ImageMap {
    let local = stream(&[("mco", &placeholder("mco")), ("repo", "repo")]);
    ImageMap::new(&local, &stream(&[("mco", IMAGE), ("repo", "r")]), false).unwrap()
}

/// `P` is the placeholder of a component, and `I` its image.
#[rstest]
#[case::alone("P", "I")]
#[case::plain("image: P", "image: I")]
#[case::lines("image: P\nb: P\n", "image: I\nb: I\n")]
#[case::quoted("\"P\"", "\"I\"")]
#[case::single_quoted("image: 'P'", "image: 'I'")]
#[case::flag("- --operator-image=P", "- --operator-image=I")]
#[case::quoted_flag("- \"--operator-image=P\"", "- \"--operator-image=I\"")]
#[case::windows("image: P\r\n", "image: I\r\n")]
#[case::path("//P", "//I")]
#[case::two_with_one_space("P P", "I I")]
#[case::digest_behind("P@sha256:00ff", "I")]
#[case::longer_tag("P-extra", "P-extra")]
#[case::dotted_tag("P.1", "P.1")]
#[case::longer_word("xP", "xP")]
#[case::underscore("_P", "_P")]
#[case::comma("P,", "P,")]
#[case::folder("P/more", "P/more")]
#[case::bad_digest("P@sha256:x", "P@sha256:x")]
#[case::bare("image: repo", "image: r")]
#[case::bare_with_tag("image: repo:v1.2-x", "image: r")]
#[case::bare_with_digest("image: repo@sha256+b64:abcd", "image: r")]
#[case::port_is_no_tag("https://repo:8443/path", "https://repo:8443/path")]
#[case::tag_begins_with_dot("repo:.x", "repo:.x")]
#[case::other_characters("é P é", "é I é")]
fn placeholders(#[case] text: &str, #[case] expected: &str) {
    let fill = |text: &str| text.replace('P', &placeholder("mco")).replace('I', IMAGE);
    assert_eq!(map().replace(&fill(text)), fill(expected));
}

#[test]
fn a_tag_has_at_most_128_characters() {
    let (fits, too_long) = ("t".repeat(128), "t".repeat(129));
    assert_eq!(map().replace(&format!("repo:{fits}")), "r");
    let text = format!("repo:{too_long}");
    assert_eq!(map().replace(&text), text);
}

/// If one placeholder is a prefix of another, the longer one matches.
#[test]
fn longest_placeholder_wins() {
    let local = stream(&[("all", PLACEHOLDER), ("cli", &placeholder("cli"))]);
    let images = stream(&[("all", "all@sha256:aa"), ("cli", "cli@sha256:bb")]);
    let map = ImageMap::new(&local, &images, false).unwrap();
    let text = format!("{PLACEHOLDER}:cli {PLACEHOLDER}:other {PLACEHOLDER}");
    assert_eq!(
        map.replace(&text),
        "cli@sha256:bb all@sha256:aa all@sha256:aa"
    );
}

#[test]
fn unmappable_placeholders_are_rejected() {
    let images = stream(&[("cli", "i@sha256:aa"), ("oc", "i@sha256:aa"), ("void", "")]);
    let refused = |local: &[(&str, &str)]| {
        let error = ImageMap::new(&stream(local), &images, false);
        error.unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[("etcd", "x:etcd")]),
        "no input image tag named \"etcd\""
    );
    assert_eq!(
        refused(&[("void", "x:void")]),
        "no input image tag named \"void\""
    );
    assert_eq!(refused(&[("cli", "")]), "no from.name for the tag cli");
    assert_eq!(
        refused(&[("cli", "x:y"), ("oc", "x:y")]),
        "the source repository \"x:y\" was defined more than once (for \"cli\" and \"oc\")"
    );
}

#[test]
fn missing_images_may_be_allowed() {
    let local = stream(&[("etcd", "x:etcd"), ("cli", "x:cli")]);
    let map = ImageMap::new(&local, &stream(&[("cli", "i@sha256:aa")]), true).unwrap();
    assert_eq!(map.missing(), ["etcd"]);
    assert_eq!(map.components().collect::<Vec<_>>(), ["cli"]);
    assert_eq!(map.replace("x:etcd x:cli"), "x:etcd i@sha256:aa");
}

#[test]
fn other_tag_kinds_are_ignored() {
    let local = serde_json::from_value(json!({ "spec": { "tags": [
        { "name": "a", "from": { "kind": "ImageStreamTag", "name": "x:a" } }, { "name": "b" },
    ] } }));
    let map = ImageMap::new(&local.unwrap(), &ImageStream::default(), false).unwrap();
    assert_eq!(map.replace("x:a"), "x:a");
}

fn versions() -> VersionMap {
    let components = ComponentVersions::of([("kubernetes", "1.31.2"), ("etcd-op", "3.5.0")]);
    VersionMap::new("4.18.0-ec.3+build.7", components)
}

#[rstest]
#[case::alone("S", "4.18.0-ec.3")]
#[case::quoted("version: \"S\"", "version: \"4.18.0-ec.3\"")]
#[case::flag("--payload-version=S", "--payload-version=4.18.0-ec.3")]
#[case::two_with_one_space("S S", "4.18.0-ec.3 4.18.0-ec.3")]
#[case::key("S-kubernetes", "1.31.2")]
#[case::key_with_dash("'S-etcd-op'", "'3.5.0'")]
#[case::key_in_a_sentence("S-kubernetes, S.", "1.31.2, 4.18.0-ec.3.")]
#[case::longer_word("Sx", "Sx")]
#[case::underscore("S_", "S_")]
#[case::before("xS", "xS")]
#[case::dot_before("v.S", "v.4.18.0-ec.3")]
fn snapshots(#[case] text: &str, #[case] expected: &str) {
    let text = text.replace('S', SNAPSHOT);
    let expected = expected.replace('S', SNAPSHOT);
    assert_eq!(versions().replace(&text), Ok(expected));
}

#[rstest]
#[case("S-", "empty version references are not allowed")]
#[case("S-\"", "empty version references are not allowed")]
#[case("S-Kubernetes", "empty version references are not allowed")]
#[case("S-oc", "unknown version reference \"oc\"")]
#[case("S-kubernetes-", "unknown version reference \"kubernetes-\"")]
#[case("S-oc S-kubernetes S-x", "unknown version references: oc, x")]
fn unknown_snapshots(#[case] text: &str, #[case] expected: &str) {
    let error = versions().replace(&text.replace('S', SNAPSHOT));
    assert_eq!(error.unwrap_err().to_string(), expected);
}

#[test]
fn a_release_without_a_semantic_version_leaves_snapshots_alone() {
    let map = VersionMap::new("ci-ln-4", ComponentVersions::of([("oc", "1.0.0")]));
    let text = "0.0.1-snapshot 0.0.1-snapshot-oc";
    assert_eq!(map.replace(text).unwrap(), "0.0.1-snapshot 1.0.0");
}

fn stated(tags: &[(&str, &str)], usual: &str) -> ImageStream {
    let tags: Vec<_> = tags
        .iter()
        .map(|(name, annotation)| {
            json!({ "name": name, "annotations": { "io.openshift.build.versions": annotation } })
        })
        .collect();
    let annotations = json!({ "io.openshift.build.versions": usual });
    let stream = json!({ "metadata": { "annotations": annotations }, "spec": { "tags": tags } });
    serde_json::from_value(stream).unwrap()
}

#[test]
fn versions_come_from_image_annotations() {
    let images = stated(
        &[
            ("hyperkube", "kubernetes=1.31.2+abc, kubectl=1.0.0"),
            ("pod", "kubernetes=1.31.2"),
            ("cli", "kubectl=1.31.1"),
            ("other", "etcd=3.5.1"),
            ("etcd", "etcd=3.5.2"),
            ("unused", "etcd=9.9.9"),
        ],
        "machine-os=41.0.1,kubernetes=0.0.9",
    );
    let components = ComponentVersions::new(&images, |tag| tag != "unused").unwrap();
    let map = VersionMap::new("4.18.0", components);
    let replaced = |key: &str| map.replace(&format!("{SNAPSHOT}-{key}"));
    assert_eq!(replaced("kubernetes").unwrap(), "1.31.2", "declared twice");
    assert_eq!(replaced("kubectl").unwrap(), "1.31.1", "that of the cli");
    assert_eq!(replaced("machine-os").unwrap(), "41.0.1");
    assert_eq!(
        replaced("etcd").unwrap_err().to_string(),
        "the version for \"etcd\" is inconsistent across the referenced images: etcd, other"
    );
}

#[test]
fn invalid_versions_are_rejected() {
    for annotation in [
        "kubernetes",
        "k=1.0.0",
        "Kubernetes=1.0.0",
        "kube-=1.0.0",
        "kubernetes=1.0",
        "ok=1.0.0,",
    ] {
        let error = ComponentVersions::new(&stated(&[("a", annotation)], ""), |_| true);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("image \"a\""), "{annotation}: {error}");
        assert!(ComponentVersions::new(&stated(&[("a", annotation)], ""), |_| false).is_ok());
    }
}

#[test]
fn exact_pull_specifications_are_replaced() {
    let map = ExactMap::new(BTreeMap::from([
        ("q/a@sha256:aa".to_owned(), "q/b@sha256:bb".to_owned()),
        ("q/b@sha256:bb".to_owned(), "m/b@sha256:bb".to_owned()),
        (String::new(), "never".to_owned()),
    ]));
    for (text, expected) in [
        ("q/a@sha256:aa", "q/b@sha256:bb"),
        (
            "--x=q/a@sha256:aa,q/b@sha256:bb",
            "--x=q/b@sha256:bb,m/b@sha256:bb",
        ),
        ("q/a@sha256:aab", "q/a@sha256:aab"),
        ("xq/a@sha256:aa", "xq/a@sha256:aa"),
        ("/q/a@sha256:aa/", "/q/b@sha256:bb/"),
    ] {
        assert_eq!(map.replace(text), expected);
    }
}

proptest! {
    /// Replacements are not replaced again, and text without placeholders is unchanged.
    #[test]
    fn replacement_is_idempotent(parts in prop::collection::vec("[ -~\\n]{0,12}|P|S", 0..12)) {
        let text = parts.concat().replace('P', &placeholder("mco")).replace('S', SNAPSHOT);
        let once = map().replace(&text);
        prop_assert_eq!(map().replace(&once), once.clone());
        if let Ok(versioned) = versions().replace(&once) {
            prop_assert_eq!(versions().replace(&versioned), Ok(versioned));
        }
        if !text.contains("repo") && !text.contains(PLACEHOLDER) {
            prop_assert_eq!(once, text);
        }
    }
}
