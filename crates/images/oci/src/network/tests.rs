//! A network survives the way to another process.

use egress::ProxySettings;

use super::Network;
use crate::mirrors::{Registries, Routes};
use crate::trust::Tls;

const CONF: &str = r#"
[[registry]]
prefix = "quay.io/containerdisks"
blocked = true
[[registry.mirror]]
location = "mirror.example:5000/disks"
pull-from-mirror = "digest-only"
"#;

#[test]
fn portable_network_has_the_same_mirrors_and_certificates() {
    let registries = Registries::read([("test", CONF)]).unwrap();
    let routes = Routes::direct()
        .with_registries(registries)
        .with_allowed(vec!["quay.io".to_owned(), "lab.example:5000".to_owned()])
        .with_insecure("lab.example:5000");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let certificate = certificate.self_signed(&key).unwrap().pem();
    let authority = Tls::authorities(certificate.as_bytes()).unwrap();
    let network = Network {
        routes,
        authorities: authority.clone(),
        tls: [("mirror.example:5000".to_owned(), authority)].into(),
        ..Network::default()
    };
    let text = network.portable().unwrap();
    let read = Network::of_portable(&text, ProxySettings::default()).unwrap();
    assert_eq!(read.routes.registries(), network.routes.registries());
    assert_eq!(read.authorities, network.authorities);
    assert_eq!(read.tls, network.tls);
    let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let image = format!("quay.io/containerdisks/fedora@{digest}")
        .parse()
        .unwrap();
    let found = read.routes.endpoints(&image).unwrap();
    let found: Vec<&str> = found.iter().map(|it| it.host.as_str()).collect();
    assert_eq!(found, ["mirror.example:5000"]);
    let image = "docker.io/library/busybox:1".parse().unwrap();
    assert!(read.routes.endpoints(&image).is_err());
    let image = "lab.example:5000/a:1".parse().unwrap();
    let endpoints = |network: &Network| format!("{:?}", network.routes.endpoints(&image));
    assert_eq!(endpoints(&read), endpoints(&network));
}

#[test]
fn empty_network_is_not_passed_on() {
    assert_eq!(Network::default().portable(), None);
    let wrong = Network::of_portable("7", ProxySettings::default()).unwrap_err();
    assert!(wrong.to_string().contains("the network"), "{wrong}");
}
