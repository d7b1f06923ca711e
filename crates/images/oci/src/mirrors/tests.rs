use std::path::Path;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

const DIGEST: &str = "@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// The endpoints as `host/base/repository`, with a mark for the security.
fn places(routes: &Routes, reference: &str) -> Vec<String> {
    let found = routes.endpoints(&reference.parse().unwrap()).unwrap();
    let (last, mirrors) = found.split_last().unwrap();
    assert!(mirrors.iter().all(|endpoint| endpoint.is_mirror));
    let _ = last;
    found
        .iter()
        .map(|endpoint| {
            let mark = match endpoint.security {
                Security::Verified => "",
                Security::Unverified => " unverified",
                Security::Insecure => " insecure",
                Security::Plain => " plain",
            };
            format!(
                "{}{}/{}{mark}",
                endpoint.host, endpoint.base, endpoint.repository
            )
        })
        .collect()
}

fn conf(text: &str) -> Routes {
    Routes::direct().with_registries(Registries::read([("registries.conf", text)]).unwrap())
}

const CONF: &str = r#"
unqualified-search-registries = ["docker.io"]

[[registry]]
prefix = "example.com/foo"
location = "internal.example.net/bar"
[[registry.mirror]]
location = "mirror-1.example.net/x"
[[registry.mirror]]
location = "mirror-2.example.net:5000"
insecure = true
pull-from-mirror = "digest-only"
[[registry.mirror]]
location = "mirror-3.example.net"
pull-from-mirror = "tag-only"

[[registry]]
location = "example.com/foo/special"
insecure = true

[[registry]]
prefix = "*.wild.example"
[[registry.mirror]]
location = "mirror.example.net/wild"

[[registry]]
location = "docker.io"
mirror-by-digest-only = true
[[registry.mirror]]
location = "hub.example.net"

[[registry]]
location = "blocked.example"
blocked = true

[[registry]]
location = "hidden.example"
blocked = true
[[registry.mirror]]
location = "mirror.example.net/hidden"
"#;

#[rstest]
#[case("example.com/foo/a:1", "", &["mirror-1.example.net/v2/x/a", "mirror-3.example.net/v2/a", "internal.example.net/v2/bar/a"])]
#[case("example.com/foo/a", DIGEST, &["mirror-1.example.net/v2/x/a", "mirror-2.example.net:5000/v2/a insecure", "internal.example.net/v2/bar/a"])]
// The longest prefix counts, and it ends at a slash.
#[case("example.com/foo/special/a:1", "", &["example.com/v2/foo/special/a insecure"])]
#[case("example.com/foo/specialist:1", "", &["mirror-1.example.net/v2/x/specialist", "mirror-3.example.net/v2/specialist", "internal.example.net/v2/bar/specialist"])]
#[case("example.com/food:1", "", &["example.com/v2/food"])]
#[case("example.com:5000/foo/a:1", "", &["example.com:5000/v2/foo/a"])]
// Subdomains at any depth, not the domain.
#[case("a.b.wild.example/x:1", "", &["mirror.example.net/v2/wild/x", "a.b.wild.example/v2/x"])]
#[case("wild.example/x:1", "", &["wild.example/v2/x"])]
// Docker Hub: library is part of the name.
#[case("fedora:41", "", &["registry-1.docker.io/v2/library/fedora"])]
#[case("fedora", DIGEST, &["hub.example.net/v2/library/fedora", "registry-1.docker.io/v2/library/fedora"])]
// Blocked is the registry, not its mirrors.
#[case("hidden.example/x:1", "", &["mirror.example.net/v2/hidden/x"])]
#[case("quay.io/x:1", "", &["quay.io/v2/x"])]
fn registries_conf_is_followed(
    #[case] reference: &str,
    #[case] digest: &str,
    #[case] expected: &[&str],
) {
    assert_eq!(
        places(&conf(CONF), &format!("{reference}{digest}")),
        expected
    );
}

#[test]
fn blocked_registries_are_not_contacted() {
    let error = conf(CONF)
        .endpoints(&"blocked.example/x:1".parse().unwrap())
        .unwrap_err();
    assert!(matches!(error, Cause::Blocked(_)), "{error:?}");
}

#[test]
fn blocked_mirror_is_skipped() {
    let routes = conf(
        r#"
        [[registry]]
        location = "a.example"
        [[registry.mirror]]
        location = "b.example"
        [[registry]]
        location = "b.example"
        blocked = true
        "#,
    );
    assert_eq!(places(&routes, "a.example/x:1"), ["a.example/v2/x"]);
}

#[test]
fn drop_ins_replace_entries() {
    let read = Registries::read([
        (
            "registries.conf",
            "[[registry]]\nlocation='a.example'\n[[registry]]\nlocation='b.example'\n",
        ),
        (
            "50-x.conf",
            "[[registry]]\nprefix='a.example'\nlocation='c.example'\n",
        ),
    ])
    .unwrap();
    let routes = Routes::direct().with_registries(read);
    assert_eq!(places(&routes, "a.example/x:1"), ["c.example/v2/x"]);
    assert_eq!(places(&routes, "b.example/x:1"), ["b.example/v2/x"]);
}

#[rstest]
#[case("[[registry]]\n", "neither prefix nor location")]
#[case("[[registry]]\nprefix='*.a.example/x'\n", "first label")]
#[case("[[registry]]\nprefix='a.*.example'\n", "first label")]
#[case(
    "[[registry]]\nlocation='a.example'\n[[registry.mirror]]\nlocation=''\n",
    "no location"
)]
#[case(
    "[[registry]]\nlocation='a.example'\nmirror-by-digest-only=true\n[[registry.mirror]]\nlocation='b.example'\npull-from-mirror='all'\n",
    "only one of them"
)]
#[case(
    "[[registry]]\nlocation='a.example'\n[[registry.mirror]]\nlocation='b.example'\npull-from-mirror='some'\n",
    "unknown variant"
)]
#[case("[registries.search]\nregistries=['a']\n", "version 1")]
#[case("[[registry]\n", "")]
fn wrong_registries_conf_is_an_error(#[case] text: &str, #[case] says: &str) {
    let error = Registries::read([("registries.conf", text)])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("reading registries.conf: ") && error.contains(says),
        "{error}"
    );
}

#[test]
fn location_without_host_is_an_error_when_used() {
    let routes = conf("[[registry]]\nprefix='a.example'\nlocation='../etc'\n");
    let error = routes
        .endpoints(&"a.example/x:1".parse().unwrap())
        .unwrap_err();
    assert!(
        matches!(&error, Cause::Invalid(why) if why.contains("host[:port]/repository")),
        "{error}"
    );
}

fn hosts(registry: &str, text: &str) -> Routes {
    let mut hosts = Hosts::default();
    let none = |path: &Path| Err(MirrorError::new(path.display().to_string(), "no such file"));
    hosts
        .add(
            registry,
            "hosts.toml",
            text.as_bytes(),
            Path::new("/etc"),
            &none,
        )
        .unwrap();
    Routes::direct().with_hosts(hosts)
}

const HOSTS: &str = r#"
server = "https://upstream.example:8443/base"

[host."https://z-mirror.example"]
  capabilities = ["pull", "resolve"]

[host."http://a-mirror.example:5000/path"]
  capabilities = ["pull"]

[host."b-mirror.example"]
  skip_verify = true
  override_path = true
  [host."b-mirror.example".header]
    x-one = "1"
    x-two = ["2", "3"]
"#;

#[test]
fn hosts_toml_is_followed_in_the_order_of_the_file() {
    let routes = hosts("example.com:5000", HOSTS);
    assert_eq!(
        places(&routes, &format!("example.com:5000/x{DIGEST}")),
        [
            "z-mirror.example/v2/x",
            "a-mirror.example:5000/path/v2/x plain",
            "b-mirror.example/x unverified",
            "upstream.example:8443/base/v2/x"
        ]
    );
    // A host without `resolve` is not asked for tags.
    assert_eq!(
        places(&routes, "example.com:5000/x:1"),
        [
            "z-mirror.example/v2/x",
            "b-mirror.example/x unverified",
            "upstream.example:8443/base/v2/x"
        ]
    );
    assert_eq!(places(&routes, "example.com/x:1"), ["example.com/v2/x"]);
    let found = routes
        .endpoints(&"example.com:5000/x:1".parse().unwrap())
        .unwrap();
    assert!(
        found
            .iter()
            .all(|endpoint| endpoint.namespace.as_deref() == Some("example.com:5000"))
    );
    assert_eq!(found[1].headers.len(), 3);
    assert_eq!(found[0].known_as, "z-mirror.example");
}

#[test]
fn default_folder_applies_to_other_registries() {
    let routes = hosts("_default", "[host.'https://all.example']\n");
    assert_eq!(
        places(&routes, "quay.io/x:1"),
        ["all.example/v2/x", "quay.io/v2/x"]
    );
    assert_eq!(
        places(&routes, "fedora"),
        [
            "all.example/v2/library/fedora",
            "registry-1.docker.io/v2/library/fedora"
        ]
    );
    // The registry itself gets no `ns` parameter.
    let found = routes.endpoints(&"quay.io/x:1".parse().unwrap()).unwrap();
    assert_eq!(found[0].namespace.as_deref(), Some("quay.io"));
    assert_eq!(found[1].namespace, None);
}

#[rstest]
#[case("server = 'ftp://x'\n")]
#[case("[host.'https://u:p@x']\n")]
#[case("[host.'https://x']\ncapabilities = ['fly']\n")]
#[case("[host.'https://x']\nca = 'missing.pem'\n")]
#[case("[host.'https://x']\nclient = 7\n")]
#[case("[host.'https://x'.header]\n'a b' = 'c'\n")]
#[case("[host\n")]
fn wrong_hosts_toml_is_an_error(#[case] text: &str) {
    let none = |path: &Path| Err(MirrorError::new(path.display().to_string(), "no such file"));
    let mut hosts = Hosts::default();
    assert!(
        hosts
            .add(
                "x.io",
                "hosts.toml",
                text.as_bytes(),
                Path::new("/etc"),
                &none
            )
            .is_err()
    );
}

#[test]
fn folders_of_hosts_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("a.example_5000_/hosts.toml", "[host.'https://m.example']\n");
    write("b.example:5000/hosts.toml", "[host.'https://n.example']\n");
    write("c.example/readme", "nothing\n");
    write("stray.toml", "nothing\n");
    let routes = Routes::direct().with_hosts(Hosts::load(folder.path()).unwrap());
    assert_eq!(places(&routes, "a.example:5000/x")[0], "m.example/v2/x");
    assert_eq!(places(&routes, "b.example:5000/x")[0], "n.example/v2/x");
    assert_eq!(places(&routes, "c.example/x"), ["c.example/v2/x"]);
    write("d.example/ca.crt", "no certificate\n");
    assert!(Hosts::load(folder.path()).is_err());
}

fn cluster(sets: &serde_json::Value, sources: &serde_json::Value) -> Routes {
    let sets: Vec<MirrorSet> = serde_json::from_value(sets.clone()).unwrap();
    let sources = serde_json::from_value(sources.clone()).unwrap();
    Routes::direct().with_registries(registries_of(&sets, &sources).unwrap())
}

#[test]
fn openshift_objects_are_followed() {
    let routes = cluster(
        &json!([
            {"repositoryDigestMirrors": [{"source": "quay.io/a", "mirrors": ["m.example/b", "m.example/c"]}]},
            {"imageDigestMirrors": [
                {"source": "quay.io/a", "mirrors": ["m.example/a", "m.example/b"]},
                {"source": "never.example", "mirrors": ["m.example/n"], "mirrorSourcePolicy": "NeverContactSource"},
            ]},
            {"imageTagMirrors": [{"source": "quay.io/a", "mirrors": ["m.example/t", "quay.io/a"]}]},
        ]),
        &json!({"insecureRegistries": ["m.example/b"], "blockedRegistries": ["bad.example"]}),
    );
    assert_eq!(
        places(&routes, &format!("quay.io/a/x{DIGEST}")),
        [
            "m.example/v2/a/x",
            "m.example/v2/b/x insecure",
            "m.example/v2/c/x",
            "quay.io/v2/a/x"
        ]
    );
    assert_eq!(
        places(&routes, "quay.io/a/x:1"),
        ["m.example/v2/t/x", "quay.io/v2/a/x"]
    );
    assert_eq!(places(&routes, "quay.io/ab/x:1"), ["quay.io/v2/ab/x"]);
    assert_eq!(
        places(&routes, &format!("never.example/x{DIGEST}")),
        ["m.example/v2/n/x"]
    );
    for reference in ["never.example/x:1", "bad.example/y:1"] {
        assert!(
            routes.endpoints(&reference.parse().unwrap()).is_err(),
            "{reference}"
        );
    }
}

#[test]
fn nested_scopes_inherit_mirrors() {
    let routes = cluster(
        &json!([{"imageDigestMirrors": [{"source": "quay.io", "mirrors": ["m.example/q"]}]}]),
        &json!({"insecureRegistries": ["quay.io/lab"]}),
    );
    assert_eq!(
        places(&routes, &format!("quay.io/lab/x{DIGEST}")),
        ["m.example/v2/q/lab/x", "quay.io/v2/lab/x insecure"]
    );
}

#[rstest]
#[case("bc ab", &["a", "b", "c"])]
#[case("a b", &["a", "b"])]
#[case("ab ba", &["a", "b"])]
#[case("aa", &["a"])]
fn mirrors_of_several_objects_are_merged(#[case] lists: &str, #[case] expected: &[&str]) {
    let sets: Vec<_> = lists
        .split(' ')
        .map(|mirrors| {
            let mirrors: Vec<String> = mirrors.chars().map(|m| format!("{m}.example")).collect();
            json!({"imageDigestMirrors": [{"source": "quay.io", "mirrors": mirrors}]})
        })
        .collect();
    let mut reversed = sets.clone();
    reversed.reverse();
    for sets in [sets, reversed] {
        let routes = cluster(&json!(sets), &json!({}));
        let mut expected: Vec<String> = expected
            .iter()
            .map(|m| format!("{m}.example/v2/x"))
            .collect();
        expected.push("quay.io/v2/x".to_owned());
        assert_eq!(places(&routes, &format!("quay.io/x{DIGEST}")), expected);
    }
}

#[test]
fn hosts_are_insecure_only_where_configured() {
    let routes = Routes::direct()
        .with_insecure("a.example")
        .with_plain("127.0.0.1:5000");
    assert_eq!(places(&routes, "a.example/x"), ["a.example/v2/x insecure"]);
    assert_eq!(places(&routes, "a.example:443/x"), ["a.example:443/v2/x"]);
    assert_eq!(
        places(&routes, "127.0.0.1:5000/x"),
        ["127.0.0.1:5000/v2/x plain"]
    );
    assert_eq!(places(&routes, "127.0.0.1:5001/x"), ["127.0.0.1:5001/v2/x"]);
    assert_eq!(places(&routes, "localhost/x"), ["localhost/v2/x"]);
}

proptest! {
    #[test]
    fn configurations_never_panic(text in "\\PC{0,120}", name in "[a-z*./:-]{1,30}") {
        let _ = Registries::read([("x", text.as_str())]);
        let entry = format!("[[registry]]\nprefix='{name}'\n[[registry.mirror]]\nlocation='{name}'\n");
        if let Ok(registries) = Registries::read([("x", entry.as_str())]) {
            let routes = Routes::direct().with_registries(registries);
            let _ = routes.endpoints(&"a.b.c/d:1".parse().unwrap());
        }
    }
}
