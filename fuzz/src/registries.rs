//! What administrators and users say of registries: credentials and mirrors.

use std::collections::BTreeMap;
use std::path::Path;

use oci::mirrors::{MirrorSet, RegistrySources, registries_of};
use oci::{CredentialId, Endpoint, Hosts, Keyring, MirrorError, Origin, Registries, Routes};
use platform::Reference;

/// Repositories that are asked for, and names that configurations have entries for.
const IMAGES: [(&str, &str); 4] = [
    ("docker.io", "library/fedora"),
    ("quay.io", "containerdisks/fedora"),
    ("registry.example.com:5000", "a/b/c"),
    ("127.0.0.1:5000", "x"),
];

/// Credentials that are found for the [`IMAGES`], in order.
fn found(keyring: &Keyring) -> Vec<Vec<CredentialId>> {
    IMAGES
        .iter()
        .map(|(host, repository)| {
            let all = keyring.find(host, repository);
            all.into_iter().map(oci::Credential::id).collect()
        })
        .collect()
}

/// A pull secret, of either kind: what is added twice counts once, and both kinds say the same.
pub fn credentials(data: &[u8]) {
    for origin in [Origin::File, Origin::Secret] {
        let mut keyring = Keyring::anonymous();
        if keyring.add_docker_config(data, origin).is_ok() {
            let once = found(&keyring);
            keyring
                .add_docker_config(data, origin)
                .expect("it was accepted before");
            assert_eq!(once, found(&keyring), "twice is not once");
        }
        let mut legacy = Keyring::anonymous();
        if legacy.add_legacy_config(data, origin).is_ok() {
            let wrapped = [b"{\"auths\":", data, b"}"].concat();
            let mut keyring = Keyring::anonymous();
            keyring
                .add_docker_config(&wrapped, origin)
                .expect("the new form holds the old one");
            assert_eq!(found(&keyring), found(&legacy), "the kinds differ");
        }
    }
    // CDI's: a name and a key, here on two lines.
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let secret: BTreeMap<String, &[u8]> = ["accessKeyId", "secretKey"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), lines.next()?)))
        .collect();
    let mut keyring = Keyring::anonymous();
    if keyring.add_secret("Opaque", &secret, "quay.io") == Ok(true) {
        let counts = found(&keyring).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(counts, [0, 1, 0, 0], "it is for one registry");
    }
}

/// Any of the three ways to configure mirrors: whatever they say, images are asked for at hosts, and under
/// paths that lead nowhere else.
pub fn mirrors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(registries) = Registries::read([("registries.conf", text)]) {
        check(&Routes::direct().with_registries(registries));
    }
    let mut hosts = Hosts::default();
    let none = |path: &Path| {
        Err(MirrorError {
            what: path.display().to_string(),
            why: "there are no files here".to_owned(),
        })
    };
    let folder = Path::new("/etc/containerd/certs.d/quay.io");
    for registry in ["quay.io", "_default"] {
        if hosts
            .add(registry, "hosts.toml", data, folder, &none)
            .is_ok()
        {
            check(&Routes::direct().with_hosts(hosts.clone()));
        }
    }
    if let Ok(set) = serde_json::from_str::<MirrorSet>(text) {
        let blocked = RegistrySources {
            blocked_registries: vec!["blocked.example.com".to_owned()],
            ..RegistrySources::default()
        };
        if let Ok(registries) = registries_of(&[set], &blocked) {
            check(&Routes::direct().with_registries(registries));
        }
    }
}

fn check(routes: &Routes) {
    let pin = format!("@sha256:{}", "0".repeat(64));
    for (host, repository) in IMAGES {
        for version in [":41", &pin] {
            let reference: Reference = format!("{host}/{repository}{version}")
                .parse()
                .expect("it is a reference");
            if let Ok(endpoints) = routes.endpoints(&reference) {
                assert!(!endpoints.is_empty(), "nobody is asked, and nobody is told");
                endpoints.iter().for_each(leads_to_a_host);
            }
        }
    }
}

fn leads_to_a_host(endpoint: &Endpoint) {
    let Endpoint {
        host,
        base,
        repository,
        ..
    } = endpoint;
    let special = ['/', '?', '#', '@', '\\', ' ', '\r', '\n'];
    assert!(!host.is_empty() && !host.contains(special), "{endpoint:?}");
    assert!(!base.contains(['?', '#', ' ', '\r', '\n']), "{endpoint:?}");
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    assert!(repository.split('/').all(plain), "{endpoint:?}");
}
