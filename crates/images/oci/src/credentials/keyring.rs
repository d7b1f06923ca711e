//! The kubelet's keyring: which credentials are for which repository, and in which order.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use url::Url;

use super::config::{docker_config, legacy_config};
use super::{Credential, CredentialError, Origin, pattern};

/// Under this key are the credentials of Docker Hub.
const HUB: &str = "index.docker.io";

/// No keyring has more entries: it is searched for every request.
const MOST_ENTRIES: usize = 10_000;

/// Credentials by registry and path.
///
/// Keys are hosts with globs in their labels, perhaps a port, perhaps a beginning of the path. All that
/// match are tried, longer and less general ones first, so that an old and a new password can be
/// present at the same time.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    /// Sorted in reverse: that puts longer paths before shorter ones and letters before stars.
    entries: BTreeMap<Reverse<String>, Vec<Credential>>,
    count: usize,
}

impl Keyring {
    /// Without any credential: everything is asked for anonymously.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// One credential for one registry (`host[:port]`), whatever the path.
    pub fn for_host(host: &str, credential: Credential) -> Self {
        let mut keyring = Self::default();
        keyring.add(host, credential);
        keyring
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a credential under a key, as configurations name it. What is no address is left out, as
    /// the kubelet does; `false` says so.
    pub fn add(&mut self, key: &str, credential: Credential) -> bool {
        let Some(key) = normal(key) else {
            return false;
        };
        if self.count >= MOST_ENTRIES {
            return false;
        }
        let all = self.entries.entry(Reverse(key)).or_default();
        if !all.contains(&credential) {
            all.push(credential);
            self.count += 1;
        }
        true
    }

    /// Adds all of another one. Under the same key, what is here already is tried first.
    pub fn add_keyring(&mut self, other: &Self) {
        for (Reverse(key), credentials) in &other.entries {
            for credential in credentials {
                self.add(key, credential.clone());
            }
        }
    }

    /// Adds what is in a `config.json`.
    pub fn add_docker_config(
        &mut self,
        bytes: &[u8],
        origin: Origin,
    ) -> Result<(), CredentialError> {
        self.add_all(docker_config(bytes, origin)?);
        Ok(())
    }

    /// Adds what is in a `.dockercfg`.
    pub fn add_legacy_config(
        &mut self,
        bytes: &[u8],
        origin: Origin,
    ) -> Result<(), CredentialError> {
        self.add_all(legacy_config(bytes, origin)?);
        Ok(())
    }

    /// Adds what is in a secret of a cluster: a pull secret of either kind, or one of CDI
    /// (`accessKeyId`, `secretKey`), which is for `host` alone. Says whether there was anything:
    /// secrets of other kinds and empty ones are passed over, as by the kubelet.
    pub fn add_secret<B: AsRef<[u8]>>(
        &mut self,
        kind: &str,
        data: &BTreeMap<String, B>,
        host: &str,
    ) -> Result<bool, CredentialError> {
        let value = |key: &str| {
            data.get(key)
                .map(AsRef::as_ref)
                .filter(|value: &&[u8]| !value.is_empty())
        };
        let before = self.count;
        match kind {
            "kubernetes.io/dockerconfigjson" => {
                if let Some(bytes) = value(".dockerconfigjson") {
                    self.add_docker_config(bytes, Origin::Secret)?;
                }
            }
            "kubernetes.io/dockercfg" => {
                if let Some(bytes) = value(".dockercfg") {
                    self.add_legacy_config(bytes, Origin::Secret)?;
                }
            }
            _ => {
                let text = |key: &str| {
                    value(key).and_then(|bytes| std::str::from_utf8(bytes).ok().map(str::trim))
                };
                if let (Some(username), Some(password)) = (text("accessKeyId"), text("secretKey")) {
                    self.add(host, Credential::password(username, password));
                }
            }
        }
        Ok(self.count > before)
    }

    fn add_all(&mut self, entries: Vec<(String, Credential)>) {
        for (key, credential) in entries {
            if !self.add(&key, credential) {
                tracing::debug!("an entry of a pull secret does not name a registry");
            }
        }
    }

    /// All credentials for a repository, in the order in which they are to be tried. `host` is
    /// `docker.io` for Docker Hub, as in references.
    pub fn find(&self, host: &str, repository: &str) -> Vec<&Credential> {
        let path = format!("/{repository}");
        let found: Vec<&Credential> = self
            .entries
            .iter()
            .filter(|(Reverse(key), _)| fits(key, host, &path))
            .flat_map(|(_, credentials)| credentials)
            .collect();
        if found.is_empty() && is_hub(host) {
            return self
                .entries
                .get(&Reverse(HUB.to_owned()))
                .map(|credentials| credentials.iter().collect())
                .unwrap_or_default();
        }
        found
    }
}

/// Docker Hub under any of its names, or a name that cannot be a registry.
fn is_hub(host: &str) -> bool {
    matches!(host, "docker.io" | HUB) || !host.contains(['.', ':'])
}

/// A key without scheme, `/v1/` and `/v2/`, and lone slash. `None` if it is no address.
fn normal(key: &str) -> Option<String> {
    let rest = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    // Globs are no part of addresses: what is left without them has to be one.
    let plain: String = host
        .chars()
        .map(|c| {
            if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
                'x'
            } else {
                c
            }
        })
        .collect();
    let is_address = Url::parse(&format!("https://{host}/")).is_ok()
        || Url::parse(&format!("https://{plain}/")).is_ok();
    if host.is_empty() || !is_address || host.chars().any(char::is_whitespace) {
        return None;
    }
    let path = if path.starts_with("/v1/") || path.starts_with("/v2/") {
        path.get(3..).unwrap_or_default()
    } else {
        path
    };
    Some(if path == "/" {
        host.to_owned()
    } else {
        format!("{host}{path}")
    })
}

/// Whether a key is for a repository: as many labels, each matched alone; the same port; a path that
/// begins as the key's does, wherever that ends.
fn fits(key: &str, host: &str, path: &str) -> bool {
    let (key_host, key_path) = match key.find('/') {
        Some(at) => key.split_at(at),
        None => (key, ""),
    };
    let (key_name, key_port) = split_port(key_host);
    let (name, port) = split_port(host);
    key_port == port
        && path.starts_with(key_path)
        && key_name.split('.').count() == name.split('.').count()
        && key_name
            .split('.')
            .zip(name.split('.'))
            .all(|(key, label)| pattern::matches(key, label))
}

/// Name and port; brackets around an address belong to neither.
fn split_port(host: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && address.contains(':')
    {
        return (address, rest.strip_prefix(':'));
    }
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => (name, Some(port)),
        _ => (host, None),
    }
}
