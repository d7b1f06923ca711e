//! Objects of a cluster become one network.

use std::collections::BTreeMap;

use egress::ProxySettings;
use oci::{Network, Registries, Routes};
use serde_json::{Value, json};

use super::ClusterNetwork;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn digest_mirrors(source: &str, mirror: &str) -> Value {
    json!({ "spec": { "imageDigestMirrors": [{ "source": source, "mirrors": [mirror] }] } })
}

fn hosts(network: &Network, image: &str) -> Vec<String> {
    let endpoints = network.routes.endpoints(&image.parse().unwrap()).unwrap();
    endpoints.into_iter().map(|it| it.host).collect()
}

fn proxy(network: &Network, url: &str) -> Option<String> {
    let proxy = network.proxies.proxy_for(&url.parse().unwrap());
    proxy.map(ToString::to_string)
}

#[test]
fn mirrors_of_all_kinds_apply() {
    let mut cluster = ClusterNetwork::default();
    cluster.add_mirrors("IDMS a", &digest_mirrors("quay.io/a", "mirror-a.example/a"));
    let tags = json!({ "spec": { "imageTagMirrors": [
        { "source": "quay.io/b", "mirrors": ["mirror-b.example/b"] },
    ] } });
    cluster.add_mirrors("ITMS b", &tags);
    let old = json!({ "spec": { "repositoryDigestMirrors": [
        { "source": "quay.io/c", "mirrors": ["mirror-c.example/c"] },
    ] } });
    cluster.add_mirrors("ICSP c", &old);
    let (network, problems) = cluster.over(&Network::default());
    assert_eq!(problems, Vec::<String>::new());
    let by_digest = |name: &str| hosts(&network, &format!("quay.io/{name}/x@{DIGEST}"));
    let by_tag = |name: &str| hosts(&network, &format!("quay.io/{name}/x:1"));
    assert_eq!(by_digest("a"), ["mirror-a.example", "quay.io"]);
    assert_eq!(by_tag("a"), ["quay.io"]);
    assert_eq!(by_digest("b"), ["quay.io"]);
    assert_eq!(by_tag("b"), ["mirror-b.example", "quay.io"]);
    assert_eq!(by_digest("c"), ["mirror-c.example", "quay.io"]);
    assert_eq!(by_digest("d"), ["quay.io"]);
}

#[test]
fn wrong_object_leaves_the_others() {
    let mut cluster = ClusterNetwork::default();
    cluster.add_mirrors(
        "IDMS good",
        &digest_mirrors("quay.io/a", "mirror.example/a"),
    );
    cluster.add_mirrors(
        "IDMS shape",
        &json!({ "spec": { "imageDigestMirrors": 7 } }),
    );
    cluster.add_mirrors("IDMS star", &digest_mirrors("quay.*/b", "mirror.example/b"));
    cluster.set_image(&json!({ "spec": { "registrySources": 7 } }));
    let secret = json!({ "status": { "httpsProxy": { "hunter2": 1 } } });
    cluster.set_proxy(&secret);
    let (network, problems) = cluster.over(&Network::default());
    assert_eq!(
        hosts(&network, &format!("quay.io/a@{DIGEST}")),
        ["mirror.example", "quay.io"]
    );
    let about: Vec<&str> = problems
        .iter()
        .filter_map(|it| it.split(':').next())
        .collect();
    assert_eq!(
        about,
        ["IDMS shape", "IDMS star", "Image cluster", "Proxy cluster"]
    );
    assert!(!problems.concat().contains("hunter2"), "{problems:?}");
}

#[test]
fn process_takes_precedence() {
    let conf =
        "[[registry]]\nprefix = \"quay.io/a\"\n[[registry.mirror]]\nlocation = \"own.example/a\"";
    let registries = Registries::read([("test", conf)]).unwrap();
    let own = Network {
        routes: Routes::direct().with_registries(registries),
        proxies: ProxySettings::new("", "http://own:3128", "").unwrap(),
        ..Network::default()
    };
    let mut cluster = ClusterNetwork::default();
    cluster.add_mirrors("IDMS a", &digest_mirrors("quay.io/a", "mirror.example/a"));
    cluster.add_mirrors("IDMS b", &digest_mirrors("quay.io/b", "mirror.example/b"));
    cluster.set_proxy(&json!({ "status": { "httpsProxy": "http://cluster:3128" } }));
    let (network, _) = cluster.over(&own);
    assert_eq!(
        hosts(&network, &format!("quay.io/a@{DIGEST}")),
        ["own.example", "quay.io"]
    );
    assert_eq!(
        hosts(&network, &format!("quay.io/b@{DIGEST}")),
        ["mirror.example", "quay.io"]
    );
    assert_eq!(
        proxy(&network, "https://quay.io/").as_deref(),
        Some("http://own:3128")
    );
}

#[test]
fn proxy_of_the_cluster_applies_with_its_exceptions() {
    let mut cluster = ClusterNetwork::default();
    cluster.set_proxy(&json!({
        "spec": { "trustedCA": { "name": "user-ca-bundle" }, "httpsProxy": "http://unverified:1" },
        "status": {
            "httpProxy": "http://user:p@plain:3128", "httpsProxy": "http://secure:3128",
            "noProxy": ".cluster.local,.svc,10.0.0.0/16",
        },
    }));
    assert_eq!(cluster.trusted_ca(), Some("user-ca-bundle"));
    let (network, problems) = cluster.over(&Network::default());
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        proxy(&network, "https://quay.io/").as_deref(),
        Some("http://secure:3128")
    );
    assert_eq!(
        proxy(&network, "http://quay.io/").as_deref(),
        Some("http://plain:3128")
    );
    assert_eq!(proxy(&network, "https://registry.apps.svc:5000/"), None);
    assert_eq!(proxy(&network, "https://10.0.3.4/"), None);
}

#[test]
fn registry_sources_block_allow_and_weaken() {
    let image = |sources: Value| {
        let mut cluster = ClusterNetwork::default();
        cluster.set_image(&json!({ "spec": { "registrySources": sources } }));
        let (network, problems) = cluster.over(&Network::default());
        assert_eq!(problems, Vec::<String>::new());
        network
    };
    let refused = |network: &Network, image: &str| {
        let refused = network.routes.endpoints(&image.parse().unwrap());
        refused.err().map(|cause| cause.to_string())
    };
    let network = image(json!({ "blockedRegistries": ["docker.io"] }));
    assert!(refused(&network, "docker.io/library/busybox").is_some());
    assert_eq!(refused(&network, "quay.io/a"), None);
    let allowed = json!(["quay.io", "*.example.com", "lab.example:5000/team"]);
    let network = image(json!({ "allowedRegistries": allowed }));
    for (name, is_allowed) in [
        ("quay.io/a/b:1", true),
        ("registry.example.com/a", true),
        ("example.com/a", false),
        ("lab.example:5000/team/a", true),
        ("lab.example:5000/teams", false),
        ("docker.io/library/busybox", false),
    ] {
        let why = refused(&network, name);
        assert_eq!(why.is_none(), is_allowed, "{name}: {why:?}");
    }
    let network = image(json!({ "insecureRegistries": ["lab.example:5000"] }));
    let endpoints = network
        .routes
        .endpoints(&"lab.example:5000/a".parse().unwrap());
    assert_eq!(endpoints.unwrap()[0].security, oci::Security::Insecure);
}

#[test]
fn certificates_are_for_all_hosts_or_for_one_port() {
    let mut cluster = ClusterNetwork::default();
    let broken = "-----BEGIN CERTIFICATE-----\nMII".to_owned();
    cluster.set_image(&json!({ "spec": { "additionalTrustedCA": { "name": "registry-cas" } } }));
    assert_eq!(cluster.additional_ca(), Some("registry-cas"));
    cluster.set_registry_authorities(BTreeMap::from([("r.example..5000".to_owned(), broken)]));
    cluster.set_authorities(Some("no certificate".to_owned()));
    let (network, problems) = cluster.over(&Network::default());
    assert!(
        network.tls.contains_key("r.example:5000"),
        "{:?}",
        network.tls
    );
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("trustedCA") && problems[1].contains("r.example:5000"));
}
