use proptest::prelude::*;
use rstest::rstest;

use super::*;

const HASH: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn read(text: &str) -> Reference {
    text.replace("@HASH", &format!("@{HASH}")).parse().unwrap()
}

fn why(text: &str) -> ReferenceError {
    text.parse::<Reference>().unwrap_err()
}

/// What Docker makes of names, from the tables of `distribution/reference`.
#[rstest]
#[case("fedora", "docker.io/library/fedora:latest")]
#[case("fedora:41", "docker.io/library/fedora:41")]
#[case("fedora@HASH", "docker.io/library/fedora@HASH")]
#[case("fedora:41@HASH", "docker.io/library/fedora:41@HASH")]
#[case("library/fedora", "docker.io/library/fedora:latest")]
#[case("docker.io/fedora", "docker.io/library/fedora:latest")]
#[case("docker.io/someone/fedora", "docker.io/someone/fedora:latest")]
#[case("index.docker.io/fedora", "docker.io/library/fedora:latest")]
#[case("index.docker.io/someone/fedora", "docker.io/someone/fedora:latest")]
#[case("someone/fedora", "docker.io/someone/fedora:latest")]
#[case("a/b/c", "docker.io/a/b/c:latest")]
#[case("test.com:tag", "docker.io/library/test.com:tag")]
#[case("test.com:5000", "docker.io/library/test.com:5000")]
#[case("192.168.1.1:5000", "docker.io/library/192.168.1.1:5000")]
#[case("foo_bar.com:8080", "docker.io/library/foo_bar.com:8080")]
#[case("localhost", "docker.io/library/localhost:latest")]
#[case("localhost/x", "localhost/x:latest")]
#[case("localhost:5000/x:1", "localhost:5000/x:1")]
#[case("test:5000/repo:tag@HASH", "test:5000/repo:tag@HASH")]
#[case("192.168.1.1/repo", "192.168.1.1/repo:latest")]
#[case("192.168.1.1:5000/repo:5050", "192.168.1.1:5000/repo:5050")]
#[case("[2001:db8::1]/repo", "[2001:db8::1]/repo:latest")]
#[case("[2001:db8:1:2:3:4:5:6]/repo:tag", "[2001:db8:1:2:3:4:5:6]/repo:tag")]
#[case("[::1]:5000/repo:tag@HASH", "[::1]:5000/repo:tag@HASH")]
#[case("Registry/x", "Registry/x:latest")]
#[case("quay.io/x", "quay.io/x:latest")]
#[case(
    "sub-dom1.foo.com/bar/baz/quux:some-long-tag",
    "sub-dom1.foo.com/bar/baz/quux:some-long-tag"
)]
#[case(
    "b.gcr.io/test.example.com/my-app:test.example.com",
    "b.gcr.io/test.example.com/my-app:test.example.com"
)]
#[case(
    "xn--7o8h.com/myimage:xn--7o8h.com@HASH",
    "xn--7o8h.com/myimage:xn--7o8h.com@HASH"
)]
#[case("a__b/c--d/e.f_g:_", "docker.io/a__b/c--d/e.f_g:_")]
#[case("lowercase:Uppercase", "docker.io/library/lowercase:Uppercase")]
fn normalised(#[case] text: &str, #[case] canonical: &str) {
    let reference = read(text);
    assert_eq!(
        reference.to_string(),
        canonical.replace("@HASH", &format!("@{HASH}"))
    );
    assert_eq!(read(&reference.to_string()), reference);
}

#[rstest]
#[case("")]
#[case(":justtag")]
#[case("quay.io/")]
#[case("quay.io/:tag")]
fn without_a_repository(#[case] text: &str) {
    assert!(matches!(why(text), ReferenceError::Empty { .. }));
}

#[rstest]
#[case("aa/asdf$$^/aa", Part::Repository)]
#[case("a//b", Part::Repository)]
#[case("/a", Part::Repository)]
#[case("a/", Part::Repository)]
#[case("-a", Part::Repository)]
#[case("a-", Part::Repository)]
#[case("a..b", Part::Repository)]
#[case("a___b", Part::Repository)]
#[case("a._b", Part::Repository)]
#[case("a b", Part::Repository)]
#[case("..", Part::Repository)]
#[case("quay.io/../x", Part::Repository)]
#[case("fédora", Part::Repository)]
#[case("[2001:db8::1]", Part::Repository)]
#[case("docker:///x", Part::Port)]
#[case("a:", Part::Tag)]
#[case("a:.b", Part::Tag)]
#[case("a:-b", Part::Tag)]
#[case("a:b:c", Part::Tag)]
#[case("a:é", Part::Tag)]
#[case("a:b ", Part::Tag)]
#[case("[fe80::1%eth0]:5000/repo", Part::Host)]
#[case("[::ffff:1.2.3.4]/repo", Part::Host)]
#[case("[::1:::]/repo", Part::Host)]
#[case("[::1]x/repo", Part::Host)]
#[case("[::1/repo", Part::Host)]
#[case("-a.com/repo", Part::Host)]
#[case("a-.com/repo", Part::Host)]
#[case(".com/repo", Part::Host)]
#[case("a..com/repo", Part::Host)]
#[case("under_score.com/repo", Part::Host)]
#[case("a.com:/repo", Part::Port)]
#[case("a.com:+80/repo", Part::Port)]
#[case("a.com:0/repo", Part::Port)]
#[case("a.com:65536/repo", Part::Port)]
#[case("a.com:80:81/repo", Part::Port)]
#[case("[::1]:99999999999/repo", Part::Port)]
fn malformed(#[case] text: &str, #[case] expected: Part) {
    let error = why(text);
    let ReferenceError::Malformed { part, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*part, expected);
    assert!(error.to_string().contains(expected.accepted()), "{error}");
}

#[rstest]
#[case("Uppercase:tag", "Uppercase")]
#[case("test:5000/Uppercase/lowercase:tag", "Uppercase/lowercase")]
fn repositories_are_in_lower_case(#[case] text: &str, #[case] path: &str) {
    let error = why(text);
    assert!(matches!(error, ReferenceError::UpperCase { .. }), "{error}");
    assert!(error.to_string().contains(path), "{error}");
}

#[test]
fn an_id_is_no_name() {
    let id = HASH.strip_prefix("sha256:").unwrap();
    assert!(matches!(why(id), ReferenceError::Id { .. }));
    assert_eq!(
        read(&format!("x/{id}")).repository().as_str(),
        format!("x/{id}")
    );
}

#[rstest]
#[case("repo@")]
#[case("repo@sha256:ffff")]
#[case("repo@md5:ffffffffffffffffffffffffffffffff")]
#[case("repo@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855@x")]
fn malformed_digests(#[case] text: &str) {
    let error = why(text);
    assert!(matches!(error, ReferenceError::Digest { .. }), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn parts_have_their_greatest_lengths() {
    let path = |length: usize| format!("example.com/{}:tag", "a".repeat(length));
    assert_eq!(read(&path(255)).repository().as_str().len(), 255);
    let expect = |text: &str, expected: Part, longest: usize| {
        let error = why(text);
        let ReferenceError::TooLong {
            part, most, found, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((part, most, found), (expected, longest, longest + 1));
    };
    expect(&path(256), Part::Repository, 255);
    // The path that counts is the one with `library/` in it.
    expect(&"a".repeat(248), Part::Repository, 255);
    assert_eq!(
        read(&format!("a:{}", "t".repeat(128))).manifest().len(),
        128
    );
    expect(&format!("a:{}", "t".repeat(129)), Part::Tag, 128);
    expect(&format!("{}.a/x", "h".repeat(252)), Part::Host, 253);
    expect(&"a".repeat(1025), Part::Whole, 1024);
}

#[test]
fn everything_at_its_longest_still_fits() {
    let text = format!(
        "{}:65535/{}:{}@sha512:{}",
        format!("{}.", "h".repeat(50)).repeat(5).get(..253).unwrap(),
        "r".repeat(255),
        "t".repeat(128),
        "0".repeat(128),
    );
    assert_eq!(read(&text).to_string(), text);
}

#[test]
fn a_registry_is_asked_by_digest_or_else_by_tag() {
    assert_eq!(read("a").manifest(), "latest");
    assert_eq!(read("a:b").manifest(), "b");
    assert_eq!(read("a:b@HASH").manifest(), HASH);
    assert_eq!(read("a:b@HASH").tag().map(Tag::as_str), Some("b"));
    assert_eq!(read("a@HASH").tag(), None);
    assert_eq!(read("a:b").digest(), None);
}

#[test]
fn docker_hub_answers_elsewhere() {
    assert_eq!(read("fedora").host().endpoint(), "registry-1.docker.io");
    assert_eq!(read("quay.io/x").host().endpoint(), "quay.io");
    let host: Host = "[::1]:5000".parse().unwrap();
    assert_eq!((host.name(), host.port()), ("[::1]", Some(5000)));
    let host: Host = "[::1]".parse().unwrap();
    assert_eq!((host.name(), host.port()), ("[::1]", None));
    let host: Host = "localhost:80".parse().unwrap();
    assert_eq!((host.name(), host.port()), ("localhost", Some(80)));
}

#[test]
fn another_place_and_another_version() {
    let reference = read("quay.io/a/b:1");
    let mirror = reference.moved("m.local:5000".parse().unwrap(), "mirror/b".parse().unwrap());
    assert_eq!(mirror.to_string(), "m.local:5000/mirror/b:1");
    let pinned = reference.with_digest(HASH.parse().unwrap());
    assert_eq!(pinned.to_string(), format!("quay.io/a/b@{HASH}"));
    assert_eq!(pinned.name(), "quay.io/a/b");
}

proptest! {
    #[test]
    fn made_by_the_grammar_is_read(
        host in "([a-zA-Z0-9]{1,8}(-[a-z0-9]+)?\\.[a-z]{2,3}(:[1-9][0-9]{0,3})?/)?",
        path in "[a-z0-9]{1,5}((_|__|-{1,3})[a-z0-9]{1,5}){0,3}(/[a-z0-9]{1,9}(\\.[a-z0-9]{1,4})?){0,3}",
        tag in "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,20})?",
        pinned in any::<bool>(),
    ) {
        let digest = if pinned { format!("@{HASH}") } else { String::new() };
        let text = format!("{host}{path}{tag}{digest}");
        let reference: Reference = text.parse().unwrap();
        prop_assert!(reference.to_string().contains(&text) || tag.is_empty());
        prop_assert!(reference.tag().is_some() || pinned);
        prop_assert_eq!(reference.digest().is_some(), pinned);
    }

    #[test]
    fn any_text_is_refused_or_settles(text in "[a-zA-Z0-9./:@\\[\\]_-]{0,40}|.{0,80}") {
        if let Ok(reference) = text.parse::<Reference>() {
            let canonical = reference.to_string();
            prop_assert_eq!(&canonical.parse::<Reference>().unwrap(), &reference);
            let json = serde_json::to_string(&reference).unwrap();
            prop_assert_eq!(serde_json::from_str::<Reference>(&json).unwrap(), reference);
        }
    }
}
