//! The kubelet's keyring: which credentials apply to a repository, and in which order.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use url::Url;

use super::config::{docker_config, legacy_config};
use super::{Credential, CredentialError, Origin, pattern};

/// The key of Docker Hub's credentials.
const HUB: &str = "index.docker.io";

/// Upper bound of entries: the keyring is searched for every request.
const MAX_ENTRIES: usize = 10_000;

/// Credentials by registry and path.
///
/// Keys are hosts with globs in their labels, an optional port and an optional path prefix. All
/// matching credentials are tried, longer and more specific keys first, so that an old and a new
/// password can coexist during a rotation.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    /// In reverse order: this puts longer paths before shorter ones and letters before stars.
    entries: BTreeMap<Reverse<String>, Vec<Credential>>,
    count: usize,
}

impl Keyring {
    /// No credentials: all requests are anonymous.
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

    /// Adds a credential under a key of a configuration. A key that is not an address is skipped, as by
    /// the kubelet; returns `false` then.
    pub fn add(&mut self, key: &str, credential: Credential) -> bool {
        let Some(key) = normal(key) else {
            return false;
        };
        if self.count >= MAX_ENTRIES {
            return false;
        }
        let all = self.entries.entry(Reverse(key)).or_default();
        if !all.contains(&credential) {
            all.push(credential);
            self.count += 1;
        }
        true
    }

    /// Adds all entries of another keyring. Under the same key, existing credentials are tried first.
    pub fn add_keyring(&mut self, other: &Self) {
        for (Reverse(key), credentials) in &other.entries {
            for credential in credentials {
                self.add(key, credential.clone());
            }
        }
    }

    /// Adds the entries of a `config.json`.
    pub fn add_docker_config(
        &mut self,
        bytes: &[u8],
        origin: Origin,
    ) -> Result<(), CredentialError> {
        self.add_all(docker_config(bytes, origin)?);
        Ok(())
    }

    /// Adds the entries of a `.dockercfg`.
    pub fn add_legacy_config(
        &mut self,
        bytes: &[u8],
        origin: Origin,
    ) -> Result<(), CredentialError> {
        self.add_all(legacy_config(bytes, origin)?);
        Ok(())
    }

    /// Adds the entries of a Secret: a pull secret of either type, or one of CDI (`accessKeyId`,
    /// `secretKey`), which applies to `host` alone. Returns whether there were any: Secrets of other
    /// types and empty ones are skipped, as by the kubelet.
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
                tracing::debug!("skipping an entry of a pull secret that does not name a registry");
            }
        }
    }

    /// All credentials for a repository, in the order to try them. `host` is `docker.io` for Docker
    /// Hub, as in references.
    pub fn find(&self, host: &str, repository: &str) -> Vec<&Credential> {
        let path = format!("/{repository}");
        let found: Vec<&Credential> = self
            .entries
            .iter()
            .filter(|(Reverse(key), _)| fits(key, host, &path))
            .flat_map(|(_, credentials)| credentials)
            .collect();
        // kubelet's last resort for images without a registry in their name
        // (`pkg/credentialprovider/keyring.go`, `defaultRegistryKey`).
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

/// A key without scheme, `/v1/` or `/v2/`, and lone slash. `None` if it is not an address.
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
    // Globs are not valid in addresses: the key has to be valid without them.
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
    // `docker login` still writes `https://index.docker.io/v1/` as the key for Docker Hub.
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

/// Whether a key applies to a repository: the same number of labels, each matched alone; the same port;
/// and a path that begins with the key's, even within a path component.
fn fits(key: &str, host: &str, path: &str) -> bool {
    let (key_host, key_path) = match key.find('/') {
        Some(at) => key.split_at(at),
        None => (key, ""),
    };
    let (key_name, key_port) = split_port(key_host);
    let (name, port) = split_port(host);
    key_port == port
        // A prefix of characters, not of components: `quay.io/team` also matches `quay.io/team-b/app`. That is
        // kubelet's rule, and a stricter one would inspect without the credential that nodes use.
        && path.starts_with(key_path)
        && key_name.split('.').count() == name.split('.').count()
        && key_name
            .split('.')
            .zip(name.split('.'))
            .all(|(key, label)| pattern::matches(key, label))
}

/// Host and port; brackets around an IPv6 address belong to neither.
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
