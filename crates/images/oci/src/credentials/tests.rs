use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn keyring(keys: &[&str]) -> Keyring {
    let mut keyring = Keyring::anonymous();
    for key in keys {
        assert!(keyring.add(key, Credential::password(*key, "pw")), "{key}");
    }
    keyring
}

fn found(keyring: &Keyring, host: &str, repository: &str) -> Vec<String> {
    keyring
        .find(host, repository)
        .into_iter()
        .map(|credential| match credential {
            Credential::Password { username, .. } | Credential::Identity { username, .. } => {
                username.clone()
            }
            Credential::Bearer(_) => "bearer".to_owned(),
        })
        .collect()
}

/// The table of the kubelet's documentation and of its keyring tests.
#[rstest]
#[case("registry.io", "registry.io", "a", true)]
#[case("registry.io", "other.io", "a", false)]
#[case("https://registry.io", "registry.io", "a", true)]
#[case("http://registry.io/", "registry.io", "a", true)]
#[case("https://registry.io/v1/", "registry.io", "a/b", true)]
#[case("https://registry.io/v2/foo", "registry.io", "foo/b", true)]
#[case("https://registry.io/v2/foo", "registry.io", "bar/b", false)]
#[case("registry.io/v1", "registry.io", "a", false)]
// A path is a plain beginning.
#[case("registry.io/foo", "registry.io", "foo/bar", true)]
#[case("registry.io/foo", "registry.io", "foobar", true)]
#[case("registry.io/foo/", "registry.io", "foobar", false)]
#[case("registry.io/foo/bar", "registry.io", "foo", false)]
// Ports are equal or both absent.
#[case("registry.io:5000", "registry.io:5000", "a", true)]
#[case("registry.io:5000", "registry.io", "a", false)]
#[case("registry.io", "registry.io:5000", "a", false)]
#[case("*.registry.io:5000", "x.registry.io:5000", "a", true)]
#[case("[::1]:5000", "[::1]:5000", "a", true)]
#[case("[::1]:5000", "[::2]:5000", "a", false)]
// Globs stay within a label.
#[case("*.registry.io", "x.registry.io", "a", true)]
#[case("*.registry.io", "registry.io", "a", false)]
#[case("*.registry.io", "x.y.registry.io", "a", false)]
#[case("*.*.registry.io", "x.y.registry.io", "a", true)]
#[case("prefix.*.io", "prefix.registry.io", "a", true)]
#[case("*-good.registry.io", "very-good.registry.io", "a", true)]
#[case("*-good.registry.io", "bad.registry.io", "a", false)]
// What follows a question mark is a query, for Go as well.
#[case("r?gistry.io", "registry.io", "a", false)]
#[case("reg[a-i]stry.io", "registry.io", "a", true)]
#[case("reg[^a-i]stry.io", "registry.io", "a", false)]
#[case("*", "localhost", "a", true)]
#[case("registry.io/*", "registry.io", "a", false)]
fn keys_match_as_for_the_kubelet(
    #[case] key: &str,
    #[case] host: &str,
    #[case] repository: &str,
    #[case] matches: bool,
) {
    let keyring = keyring(&[key]);
    assert_eq!(
        found(&keyring, host, repository).len(),
        usize::from(matches)
    );
}

#[test]
fn longer_and_less_general_keys_come_first() {
    let keyring = keyring(&[
        "registry.io",
        "*.io",
        "registry.io/foo",
        "registry.io/foo/bar",
    ]);
    let names = found(&keyring, "registry.io", "foo/bar/baz");
    assert_eq!(
        names,
        [
            "registry.io/foo/bar",
            "registry.io/foo",
            "registry.io",
            "*.io"
        ]
    );
    assert_eq!(found(&keyring, "registry.io", "x"), ["registry.io", "*.io"]);
}

#[test]
fn several_credentials_under_one_key_are_all_tried() {
    let mut keyring = Keyring::anonymous();
    for name in ["old", "new", "old"] {
        keyring.add("registry.io", Credential::password(name, "pw"));
    }
    assert_eq!(found(&keyring, "registry.io", "x"), ["old", "new"]);
}

#[test]
fn docker_hub_has_its_old_name_as_default() {
    let hub = keyring(&["https://index.docker.io/v1/", "quay.io"]);
    let old = "https://index.docker.io/v1/";
    assert_eq!(found(&hub, "docker.io", "library/fedora"), [old]);
    assert_eq!(found(&hub, "index.docker.io", "library/fedora"), [old]);
    assert_eq!(found(&hub, "quay.io", "x"), ["quay.io"]);
    // Only if nothing else matches.
    let both = keyring(&["https://index.docker.io/v1/", "docker.io"]);
    assert_eq!(found(&both, "docker.io", "library/fedora"), ["docker.io"]);
}

#[rstest]
#[case("")]
#[case("https://")]
#[case("two words")]
#[case("host:port")]
fn keys_that_are_not_addresses_are_skipped(#[case] key: &str) {
    let mut keyring = Keyring::anonymous();
    assert!(!keyring.add(key, Credential::password("a", "b")));
    assert!(keyring.is_empty());
}

#[rstest]
#[case(json!({"username": "u", "password": "p"}), Some(("u", "p")))]
#[case(json!({"auth": STANDARD.encode("u:p:q"), "email": "x@y"}), Some(("u", "p:q")))]
#[case(json!({"auth": STANDARD.encode("u:p:q").trim_end_matches('=')}), Some(("u", "p:q")))]
#[case(json!({"auth": STANDARD.encode("a:b"), "username": "u", "password": "p"}), Some(("a", "b")))]
#[case(json!({"auth": "", "username": "u", "password": "p"}), Some(("u", "p")))]
#[case(json!({"username": "u", "password": "p", "identitytoken": "t"}), Some(("u", "p")))]
#[case(json!({"email": "x@y"}), None)]
#[case(json!({}), None)]
fn entries_of_secrets_are_read(
    #[case] entry: serde_json::Value,
    #[case] expected: Option<(&str, &str)>,
) {
    let expected = expected.map(|(name, password)| Credential::password(name, password));
    let modern = json!({"auths": {"registry.io": entry}}).to_string();
    let legacy = json!({"registry.io": entry}).to_string();
    for (kind, key, body) in [
        (
            "kubernetes.io/dockerconfigjson",
            ".dockerconfigjson",
            modern,
        ),
        ("kubernetes.io/dockercfg", ".dockercfg", legacy),
    ] {
        let mut keyring = Keyring::anonymous();
        let data = BTreeMap::from([(key.to_owned(), body.into_bytes())]);
        let any = keyring.add_secret(kind, &data, "other.io").unwrap();
        assert_eq!(any, expected.is_some());
        assert_eq!(
            keyring.find("registry.io", "a").first().copied(),
            expected.as_ref()
        );
    }
}

#[test]
fn tokens_are_read_from_files_only() {
    let body = json!({"auths": {
        "a.io": {"auth": STANDARD.encode("u:"), "identitytoken": "t1"},
        "b.io": {"registrytoken": "t2"},
    }})
    .to_string();
    let mut keyring = Keyring::anonymous();
    keyring
        .add_docker_config(body.as_bytes(), Origin::File)
        .unwrap();
    assert_eq!(
        keyring.find("a.io", "x"),
        [&Credential::Identity {
            username: "u".to_owned(),
            token: Secret::new("t1")
        }]
    );
    assert_eq!(
        keyring.find("b.io", "x"),
        [&Credential::Bearer(Secret::new("t2"))]
    );
    let mut keyring = Keyring::anonymous();
    keyring
        .add_docker_config(body.as_bytes(), Origin::Secret)
        .unwrap();
    assert_eq!(keyring.find("a.io", "x"), [&Credential::password("u", "")]);
    assert_eq!(keyring.find("b.io", "x"), Vec::<&Credential>::new());
}

#[rstest]
#[case("")]
#[case("[]")]
#[case(r#"{"auths": []}"#)]
#[case(r#"{"auths": {"a.io": {"auth": "not base64 hunter2!"}}}"#)]
#[case(r#"{"auths": {"a.io": {"auth": "aHVudGVyMg=="}}}"#)]
#[case(r#"{"auths": {"a.io": {"password": {"hunter2": 1}}}}"#)]
#[case(r#"{"auths": {"a.io": {"password": "hunter2"}"#)]
fn errors_of_malformed_secrets_reveal_nothing(#[case] body: &str) {
    let mut keyring = Keyring::anonymous();
    let data = BTreeMap::from([(".dockerconfigjson".to_owned(), body.as_bytes().to_vec())]);
    let result = keyring.add_secret("kubernetes.io/dockerconfigjson", &data, "a.io");
    if body.is_empty() {
        assert_eq!(result, Ok(false));
        return;
    }
    let error = result.unwrap_err();
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .starts_with("reading credentials from .dockerconfigjson: ")
    );
}

#[test]
fn secrets_of_cdi_are_for_one_host() {
    let data = BTreeMap::from([
        ("accessKeyId".to_owned(), b"me\n".to_vec()),
        ("secretKey".to_owned(), b"hunter2".to_vec()),
    ]);
    let mut keyring = Keyring::anonymous();
    assert_eq!(keyring.add_secret("Opaque", &data, "quay.io:443"), Ok(true));
    assert_eq!(
        keyring.find("quay.io:443", "any/thing"),
        [&Credential::password("me", "hunter2")]
    );
    assert_eq!(
        keyring.find("quay.io", "any/thing"),
        Vec::<&Credential>::new()
    );
    let empty: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    assert_eq!(keyring.add_secret("Opaque", &empty, "x.io"), Ok(false));
    assert_eq!(
        keyring.add_secret("kubernetes.io/dockerconfigjson", &data, "x.io"),
        Ok(false)
    );
}

#[test]
fn secrets_are_never_displayed() {
    let all = [
        Credential::password("me", "hunter2"),
        Credential::Identity {
            username: "me".to_owned(),
            token: Secret::new("hunter2"),
        },
        Credential::Bearer(Secret::new("hunter2")),
    ];
    let mut keyring = Keyring::anonymous();
    for credential in &all {
        keyring.add("a.io", credential.clone());
        let shown = format!(
            "{credential:?} {:?} {}",
            credential.id(),
            Credential::describe(Some(credential))
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert!(!format!("{keyring:?}").contains("hunter2"));
}

#[test]
fn credentials_have_distinct_identities() {
    let all = [
        Credential::password("a", "bc"),
        Credential::password("ab", "c"),
        Credential::password("a", "b"),
        Credential::Identity {
            username: "a".to_owned(),
            token: Secret::new("bc"),
        },
        Credential::Bearer(Secret::new("bc")),
    ];
    for (at, one) in all.iter().enumerate() {
        assert_ne!(one.id(), CredentialId::ANONYMOUS);
        for (other_at, other) in all.iter().enumerate() {
            assert_eq!(one.id() == other.id(), at == other_at);
        }
    }
}

#[rstest]
#[case("a*b*c", "aXbYbZc", true)]
#[case("a*b*c", "aXbYbZ", false)]
#[case("", "", true)]
#[case("*", "", true)]
#[case("?", "", false)]
#[case("\\*", "*", true)]
#[case("\\*", "x", false)]
#[case("[", "[", false)]
#[case("[]a]", "]", false)]
#[case("[a-]", "a", false)]
#[case("[\\]]", "]", true)]
#[case("a[", "a", false)]
#[case("x\\", "x", false)]
fn patterns_are_those_of_go(#[case] glob: &str, #[case] text: &str, #[case] matches: bool) {
    assert_eq!(pattern::matches(glob, text), matches);
}

proptest! {
    #[test]
    fn patterns_never_panic_and_stars_match_all(glob in "\\PC{0,20}", text in "\\PC{0,20}") {
        let _ = pattern::matches(&glob, &text);
        prop_assert!(pattern::matches("*", &text));
        prop_assert!(pattern::matches("**", &text));
    }

    #[test]
    fn keys_never_panic(key in "\\PC{0,60}", host in "\\PC{0,30}") {
        let mut keyring = Keyring::anonymous();
        keyring.add(&key, Credential::password("a", "b"));
        let _ = keyring.find(&host, "x");
    }

    #[test]
    fn configurations_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut keyring = Keyring::anonymous();
        let _ = keyring.add_docker_config(&bytes, Origin::File);
        let _ = keyring.add_legacy_config(&bytes, Origin::Secret);
    }

    #[test]
    fn auth_with_any_content_is_read(name in "[^:]{1,10}", password in "[^\0]{0,10}") {
        let body = json!({"auths": {"a.io": {"auth": STANDARD.encode(format!("{name}:{password}"))}}});
        let mut keyring = Keyring::anonymous();
        keyring.add_docker_config(body.to_string().as_bytes(), Origin::Secret).unwrap();
        prop_assert_eq!(keyring.find("a.io", "x"), [&Credential::password(name, password)]);
    }
}

#[test]
fn credential_helpers_are_those_of_the_registry_before_the_store() {
    let config = json!({
        "auths": { "quay.io": {}, "ghcr.io": { "auth": "dTpw" } },
        "credHelpers": { "gcr.io": "gcloud", "ghcr.io": "pass" },
        "credsStore": "secretservice",
    });
    let entries = helper_entries(config.to_string().as_bytes()).unwrap();
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| (entry.registry.as_str(), entry.helper.as_str()))
        .collect();
    assert_eq!(
        entries,
        [
            ("gcr.io", "gcloud"),
            ("ghcr.io", "pass"),
            ("quay.io", "secretservice"),
        ]
    );
    assert_eq!(helper_entries(b"{}").unwrap(), []);
}

#[rstest]
#[case("/tmp/evil")]
#[case("../evil")]
#[case("a b")]
#[case("")]
fn credential_helper_is_no_path(#[case] helper: &str) {
    let config = json!({ "credHelpers": { "quay.io": helper } });
    let error = helper_entries(config.to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("\"quay.io\""), "{error}");
}

#[test]
fn username_token_of_a_helper_marks_an_identity_token() {
    let token = Credential::of_helper("<token>".to_owned(), "secret".to_owned());
    assert!(matches!(&token, Credential::Identity { username, .. } if username.is_empty()));
    let password = Credential::of_helper("me".to_owned(), "secret".to_owned());
    assert_eq!(password, Credential::password("me", "secret"));
}
