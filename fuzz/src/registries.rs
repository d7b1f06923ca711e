//! Registry configuration of administrators and users: credentials and mirrors.

use std::collections::BTreeMap;
use std::path::Path;

use oci::mirrors::{MirrorSet, RegistrySources, registries_of};
use oci::{CredentialId, Endpoint, Hosts, Keyring, MirrorError, Origin, Registries, Routes};
use platform::Reference;

/// Repositories to look up; the seeds have entries for them.
const IMAGES: [(&str, &str); 4] = [
    ("docker.io", "library/fedora"),
    ("quay.io", "containerdisks/fedora"),
    ("registry.example.com:5000", "a/b/c"),
    ("127.0.0.1:5000", "x"),
];

/// Credentials of the [`IMAGES`], in order of preference.
fn credential_ids(keyring: &Keyring) -> Vec<Vec<CredentialId>> {
    IMAGES
        .iter()
        .map(|(host, repository)| {
            let all = keyring.find(host, repository);
            all.into_iter().map(oci::Credential::id).collect()
        })
        .collect()
}

/// A pull secret of either type: adding it twice has no effect, and both types are equivalent.
pub fn credentials(data: &[u8]) {
    for origin in [Origin::File, Origin::Secret] {
        let mut keyring = Keyring::anonymous();
        if keyring.add_docker_config(data, origin).is_ok() {
            let once = credential_ids(&keyring);
            keyring
                .add_docker_config(data, origin)
                .expect("it was accepted before");
            assert_eq!(
                once,
                credential_ids(&keyring),
                "adding it twice has an effect"
            );
        }
        let mut legacy = Keyring::anonymous();
        if legacy.add_legacy_config(data, origin).is_ok() {
            let wrapped = [b"{\"auths\":", data, b"}"].concat();
            let mut keyring = Keyring::anonymous();
            keyring
                .add_docker_config(&wrapped, origin)
                .expect("the new form holds the old one");
            assert_eq!(
                credential_ids(&keyring),
                credential_ids(&legacy),
                "the types differ"
            );
        }
    }
    // CDI's Secrets: a user name and a key, here on two lines.
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let secret: BTreeMap<String, &[u8]> = ["accessKeyId", "secretKey"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), lines.next()?)))
        .collect();
    let mut keyring = Keyring::anonymous();
    if keyring.add_secret("Opaque", &secret, "quay.io") == Ok(true) {
        let counts = credential_ids(&keyring)
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>();
        assert_eq!(counts, [0, 1, 0, 0], "it is for one registry");
    }
}

/// Any of the three mirror configurations: every resulting endpoint has a valid host and a path that
/// cannot escape it.
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
                assert!(!endpoints.is_empty(), "no endpoint, and no error");
                endpoints.iter().for_each(assert_valid_endpoint);
            }
        }
    }
}

fn assert_valid_endpoint(endpoint: &Endpoint) {
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
