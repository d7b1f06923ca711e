use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::document::Index;
use crate::platform::Platform;

const HASH: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[rstest]
#[case(
    "docker://quay.io/containerdisks/fedora:latest",
    "docker://quay.io/containerdisks/fedora:latest"
)]
#[case("docker://fedora", "docker://docker.io/library/fedora:latest")]
#[case("fedora", "docker://docker.io/library/fedora:latest")]
#[case("docker:dind", "docker://docker.io/library/docker:dind")]
#[case("oci-archive:///srv/a.tar", "oci-archive:///srv/a.tar")]
#[case("oci-archive://srv/a.tar", "oci-archive:///srv/a.tar")]
#[case("oci-archive:/srv/a.tar:9", "oci-archive:///srv/a.tar:9")]
#[case("oci-archive:a.tar", "oci-archive:a.tar")]
#[case("oci-archive:a@b.tar:9", "oci-archive:a@b.tar:9")]
#[case("oci:layout", "oci:layout")]
#[case("oci:/srv/layout:quay.io/x/y:9", "oci:///srv/layout:quay.io/x/y:9")]
#[case("oci:/", "oci:///")]
#[case("https://example.com/a.qcow2.xz", "https://example.com/a.qcow2.xz")]
#[case("HTTP://Example.com:8080/A?b=c#d", "http://example.com:8080/A?b=c")]
#[case("https://example.com", "https://example.com/")]
#[case("https://Example.com:443/a", "https://example.com/a")]
#[case("http://example.com:80", "http://example.com/")]
#[case("http://example.com:443/a", "http://example.com:443/a")]
#[case("https://[::1]:8443?x", "https://[::1]:8443/?x")]
fn read_and_shown(#[case] text: &str, #[case] shown: &str) {
    let source: Source = text.parse().unwrap();
    assert_eq!(source.to_string(), shown);
    assert_eq!(shown.parse(), Ok(source));
}

#[rstest]
#[case("a.tar", "a.tar", Pick::Only)]
#[case("//a.tar:v1.0", "/a.tar", Pick::Name("v1.0".to_owned()))]
#[case("a:x--y+z@w/q", "a", Pick::Name("x--y+z@w/q".to_owned()))]
fn layouts(#[case] rest: &str, #[case] path: &str, #[case] pick: Pick) {
    let expected = Layout {
        path: path.to_owned(),
        pick,
    };
    assert_eq!(
        format!("oci-archive:{rest}").parse(),
        Ok(Source::Archive(expected.clone()))
    );
    assert_eq!(format!("oci:{rest}").parse(), Ok(Source::Folder(expected)));
}

#[test]
fn layouts_by_digest() {
    let Source::Folder(layout) = format!("oci:/a@b@{HASH}").parse().unwrap() else {
        panic!("not a folder");
    };
    assert_eq!(layout.path(), "/a@b");
    assert_eq!(*layout.pick(), Pick::Digest(HASH.parse().unwrap()));
    let error = "oci:/a@sha256:12".parse::<Source>().unwrap_err();
    assert!(matches!(error, SourceError::Digest { .. }), "{error}");
}

#[rstest]
#[case(
    "ftp://example.com/a.qcow2",
    "scheme \"ftp\" is not supported; docker://, oci-archive:, oci:, https:// and http:// are"
)]
#[case("https://", "there is no host")]
#[case("https:///a", "there is no host")]
#[case("https://:80/a", "there is no host")]
#[case("https://me:secret@example.com/a", "a name or password in an address")]
#[case("https://example.com/a b", "have to be written with %")]
#[case("https://example.com/a\r\nX: y", "have to be written with %")]
#[case("https://exämple.com/", "have to be written with %")]
#[case(
    "docker-archive:///a.tar",
    "scheme \"docker-archive\" is not supported"
)]
#[case("Docker://a", "scheme \"Docker\" is not supported")]
#[case("://a", "scheme \"\" is not supported")]
#[case("docker://", "it names no repository")]
#[case("docker:///a", "the repository \"/a\" is malformed")]
#[case("oci:", "expected a path")]
#[case("oci-archive::tag", "expected a path")]
#[case("oci:a\0b", "expected a path")]
#[case("oci:a:", "name \"\" is malformed")]
#[case("oci:a:-x", "name \"-x\" is malformed")]
#[case("oci:a:x..y", "name \"x..y\" is malformed")]
#[case("oci:C:\\a", "is malformed")]
fn refused(#[case] text: &str, #[case] why: &str) {
    let error = text.parse::<Source>().unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn addresses_have_parts() {
    let Source::Web(address) = "https://Example.com:8443/a/b.img?c/d".parse().unwrap() else {
        panic!("not an address");
    };
    assert_eq!(address.host(), "example.com:8443");
    assert_eq!(address.path(), "/a/b.img");
    assert_eq!(address.as_str(), "https://example.com:8443/a/b.img?c/d");
    let long = format!("https://example.com/{}", "a".repeat(8000));
    assert!(long.parse::<Source>().is_err());
}

#[test]
fn lengths_have_limits() {
    assert!(
        format!("oci:{}", "a".repeat(4096))
            .parse::<Source>()
            .is_ok()
    );
    assert!(
        format!("oci:{}", "a".repeat(4097))
            .parse::<Source>()
            .is_err()
    );
    assert!(
        format!("oci:a:{}", "a".repeat(255))
            .parse::<Source>()
            .is_ok()
    );
    assert!(
        format!("oci:a:{}", "a".repeat(256))
            .parse::<Source>()
            .is_err()
    );
}

/// An entry of a layout: a name or none, a platform or none. Its digest is that of its number.
fn layout(entries: &[(Option<&str>, Option<&str>)]) -> Index {
    let manifests = entries.iter().enumerate().map(|(n, (name, platform))| {
        let mut entry = json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": number(n),
            "size": 1,
        });
        if let Some(name) = name {
            entry["annotations"] = json!({
                "org.opencontainers.image.ref.name": name,
                "io.containerd.image.name": format!("quay.io/x:{name}"),
            });
        }
        if let Some(platform) = platform {
            entry["platform"] =
                serde_json::to_value(platform.parse::<Platform>().unwrap()).unwrap();
        }
        serde_json::from_value(entry).unwrap()
    });
    Index {
        manifests: manifests.collect(),
        ..Index::default()
    }
}

fn number(n: usize) -> Digest {
    Digest::sha256(n.to_string().as_bytes())
}

#[rstest]
#[case(&[(None, None)], Pick::Only, Some(0))]
#[case(&[(Some("9"), None)], Pick::Only, Some(0))]
#[case(&[(Some("8"), None), (Some("9"), None)], Pick::Name("9".to_owned()), Some(1))]
#[case(&[(Some("9"), None), (Some("9"), None)], Pick::Name("9".to_owned()), Some(0))]
#[case(&[(Some("8"), None), (Some("9"), None)], Pick::Name("quay.io/x:9".to_owned()), Some(1))]
#[case(&[(None, None), (None, None)], Pick::Digest(number(1)), Some(1))]
// One image for several platforms, without an index of its own.
#[case(&[(None, Some("amd64")), (None, Some("arm64"))], Pick::Only, None)]
// Attestations are not images.
#[case(&[(Some("9"), None), (None, Some("unknown/unknown"))], Pick::Only, Some(0))]
fn picked(
    #[case] entries: &[(Option<&str>, Option<&str>)],
    #[case] pick: Pick,
    #[case] expected: Option<usize>,
) {
    let index = layout(entries);
    let expected = expected.map_or(Picked::Whole, |n| Picked::Entry(&index.manifests[n]));
    assert_eq!(pick.find(&index), Ok(expected));
}

#[rstest]
#[case(&[], Pick::Only, "index.json lists none")]
#[case(&[(None, Some("unknown/unknown"))], Pick::Only, "index.json lists none")]
#[case(&[(Some("8"), None), (Some("9"), None)], Pick::Only, "name one after a colon: \"8\", \"9\"")]
#[case(&[(None, None), (None, None)], Pick::Only, "no names")]
#[case(&[(Some("8"), Some("amd64")), (Some("9"), Some("arm64"))], Pick::Only, "several")]
#[case(&[(Some("8"), None)], Pick::Name("9".to_owned()), "none is named \"9\"; there are \"8\"")]
#[case(&[(Some("8"), None)], Pick::Digest(number(7)), "does not list sha256:")]
fn not_picked(
    #[case] entries: &[(Option<&str>, Option<&str>)],
    #[case] pick: Pick,
    #[case] why: &str,
) {
    let error = pick.find(&layout(entries)).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_refused_or_settles(text in "(docker|oci|oci-archive)?:?/{0,3}[a-z0-9./:@_-]{0,40}|.{0,60}") {
        if let Ok(source) = text.parse::<Source>() {
            prop_assert_eq!(&source.to_string().parse::<Source>().unwrap(), &source);
            prop_assert_eq!(source.reference().is_some(), matches!(source, Source::Registry(_)));
            let json = serde_json::to_string(&source).unwrap();
            prop_assert_eq!(serde_json::from_str::<Source>(&json).unwrap(), source);
        }
    }
}
