//! Reads `config.json`, `.dockercfg` and the Secrets that contain them.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;

use super::Credential;
use crate::secret::Secret;

/// Upper bound of a configuration: Secrets have at most 1 MiB.
const MAX_CONFIG_BYTES: usize = 1 << 20;

/// The origin of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A Secret: read as the kubelet does, which supports usernames and passwords only.
    Secret,
    /// A user's file: read as Docker does, with `identitytoken` and `registrytoken`.
    File,
}

/// Why credentials cannot be read. Messages do not include their contents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// It is too large.
    #[error("reading credentials from {from}: {found} bytes, the maximum is {MAX_CONFIG_BYTES}")]
    TooLarge {
        /// The key or file.
        from: &'static str,
        /// How large it is.
        found: usize,
    },
    /// It is not JSON of the right shape.
    #[error("reading credentials from {from}: expected {expected} (line {line}, column {column})")]
    Malformed {
        /// The key or file.
        from: &'static str,
        /// What was expected.
        expected: &'static str,
        /// Where it ceases to be that.
        line: usize,
        /// Where it ceases to be that.
        column: usize,
    },
    /// A credential helper is named that is not the name of a program.
    #[error(
        "reading credentials from config.json: the credential helper {helper:?} of {registry:?} must be the NAME of a \
         program docker-credential-NAME: letters, digits, '-', '_' and '.'"
    )]
    Helper {
        /// The entry.
        registry: String,
        /// The value.
        helper: String,
    },
    /// The field `auth` cannot be read.
    #[error(
        "reading credentials from {from}: auth of {registry:?} must be base64 of username:password"
    )]
    Auth {
        /// The key or file.
        from: &'static str,
        /// The entry.
        registry: String,
    },
}

#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    auths: Option<BTreeMap<String, Entry>>,
    #[serde(default, rename = "credHelpers")]
    helpers: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

/// A registry whose credential is kept by a program `docker-credential-NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperEntry {
    /// The key of the entry, which the program expects unchanged.
    pub registry: String,
    /// `NAME`. Not a path: the program is searched on the PATH, as by Docker.
    pub helper: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    identitytoken: Option<String>,
    #[serde(default)]
    registrytoken: Option<String>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entry(***)")
    }
}

/// The entries of a `config.json` (`{"auths": {...}}`).
pub(super) fn docker_config(
    bytes: &[u8],
    origin: Origin,
) -> Result<Vec<(String, Credential)>, CredentialError> {
    let from = ".dockerconfigjson";
    let whole: Whole = read(bytes, from, "an object with \"auths\"")?;
    entries(whole.auths.unwrap_or_default(), from, origin)
}

/// The registries of a `config.json` whose credentials programs keep: those of `credHelpers`, and with `credsStore` all others
/// that `docker login` has recorded in `auths`.
pub fn helper_entries(bytes: &[u8]) -> Result<Vec<HelperEntry>, CredentialError> {
    let from = "config.json";
    let whole: Whole = read(bytes, from, "an object with \"auths\"")?;
    let mut helpers = whole.helpers.unwrap_or_default();
    if let Some(store) = whole.store.filter(|store| !store.is_empty()) {
        for registry in whole.auths.unwrap_or_default().into_keys() {
            helpers.entry(registry).or_insert_with(|| store.clone());
        }
    }
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    helpers
        .into_iter()
        .map(|(registry, helper)| {
            if is_name(&helper) {
                return Ok(HelperEntry { registry, helper });
            }
            Err(CredentialError::Helper {
                registry: crate::error::clean(&registry, &[]),
                helper: crate::error::clean(&helper, &[]),
            })
        })
        .collect()
}

/// The entries of a `.dockercfg`: the same without `auths` around it.
pub(super) fn legacy_config(
    bytes: &[u8],
    origin: Origin,
) -> Result<Vec<(String, Credential)>, CredentialError> {
    let from = ".dockercfg";
    let auths = read(bytes, from, "an object of registries and credentials")?;
    entries(auths, from, origin)
}

fn read<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    from: &'static str,
    expected: &'static str,
) -> Result<T, CredentialError> {
    if bytes.len() > MAX_CONFIG_BYTES {
        return Err(CredentialError::TooLarge {
            from,
            found: bytes.len(),
        });
    }
    // serde would also accept a list.
    if bytes.trim_ascii_start().first().is_some_and(|b| *b != b'{') {
        return Err(CredentialError::Malformed {
            from,
            expected,
            line: 1,
            column: 1,
        });
    }
    // serde's message may quote the input, which is secret: report only the position.
    serde_json::from_slice(bytes).map_err(|error| CredentialError::Malformed {
        from,
        expected,
        line: error.line(),
        column: error.column(),
    })
}

fn entries(
    auths: BTreeMap<String, Entry>,
    from: &'static str,
    origin: Origin,
) -> Result<Vec<(String, Credential)>, CredentialError> {
    let mut found = Vec::new();
    for (registry, entry) in auths {
        match credential(entry, origin) {
            Ok(Some(credential)) => found.push((registry, credential)),
            Ok(None) => {}
            Err(()) => {
                let registry = crate::error::clean(&registry, &[]);
                return Err(CredentialError::Auth { from, registry });
            }
        }
    }
    Ok(found)
}

fn credential(entry: Entry, origin: Origin) -> Result<Option<Credential>, ()> {
    let mut username = entry.username.unwrap_or_default();
    let mut password = Secret::new(entry.password.unwrap_or_default());
    if let Some(auth) = entry.auth.filter(|auth| !auth.is_empty()) {
        // `auth` wins over `username` and `password`, as in kubelet (`pkg/credentialprovider/config.go`): tools write
        // both and update only one.
        (username, password) = decode(&auth).ok_or(())?;
    }
    // kubelet ignores tokens in Secrets. Honouring them would let Medley inspect an image that no node can pull.
    if origin == Origin::File {
        if let Some(token) = entry.registrytoken.filter(|token| !token.is_empty()) {
            return Ok(Some(Credential::Bearer(Secret::new(token))));
        }
        if let Some(token) = entry.identitytoken.filter(|token| !token.is_empty()) {
            let token = Secret::new(token);
            return Ok(Some(Credential::Identity { username, token }));
        }
    }
    // An entry without username and password counts as missing.
    if username.is_empty() && password.is_empty() {
        return Ok(None);
    }
    Ok(Some(Credential::Password { username, password }))
}

/// `base64(username:password)`, with or without padding; line breaks are skipped, as in Go.
fn decode(auth: &str) -> Option<(String, Secret)> {
    let auth: String = auth.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let auth = auth.trim();
    let engine: &GeneralPurpose = if auth.ends_with('=') {
        &STANDARD
    } else {
        &STANDARD_NO_PAD
    };
    let pair = String::from_utf8(engine.decode(auth).ok()?).ok()?;
    let (username, password) = pair.split_once(':')?;
    // Docker pads the password with null bytes.
    let password = password.trim_end_matches('\0');
    Some((username.to_owned(), Secret::new(password)))
}
