//! Redaction: what `medley gather` and `medley snapshot` leave out of everything they write.
//!
//! Both commands pass every object, event, log and message through this module before it reaches a file, so that a value
//! that is removed from one is removed from the other. There is no switch to turn it off. The rules err on the side of
//! removing too much: a value can be asked for later, but not taken back.
//!
//! | rule | what is removed |
//! |---|---|
//! | [`Rule::SecretData`] | `data` and `stringData` of a Secret, with the key names in its managed fields |
//! | [`Rule::ConfigMapValue`] | every value of a ConfigMap that Medley does not read itself; names and sizes of its keys stay |
//! | [`Rule::FileContents`] | files and units in a MachineConfig that Medley did not write |
//! | [`Rule::EnvironmentValue`] | `value` of every `env` entry; `valueFrom` stays |
//! | [`Rule::CommandLine`] | values of `--password`, `-p`, `-u user:password` and their like, as two words or one |
//! | [`Rule::Header`] | values of probes' `httpHeaders`, CDI's `extraHeaders`, `Authorization` and `Cookie` lines, `Bearer` and `Basic` |
//! | [`Rule::UserData`] | cloud-init user data and network data of virtual machines |
//! | [`Rule::AppliedConfiguration`] | annotations in which a client keeps the whole object once more |
//! | [`Rule::NamedField`] | string fields, list entries and `key: value` texts whose name says that they are secret ([`names`]) |
//! | [`Rule::PrivateKey`] | private keys, in PEM, as bare DER, or of PuTTY and age |
//! | [`Rule::Token`] | JSON web tokens, tokens and keys of known issuers, password hashes |
//! | [`Rule::Url`] | user information and secret query parameters of URLs |
//! | [`Rule::Xml`] | content of XML elements with a secret name, as in a sysprep answer file |
//! | [`Rule::Encoded`] | base64 in which one of these is found, and compressed data |
//!
//! Not removed: names of objects and keys, public certificates (`caBundle`), image digests, references to Secrets. Secrets
//! without any mark, such as a password in the middle of a log line, cannot be recognised.

mod encoded;
mod names;
mod objects;
mod scan;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use objects::is_credential;

/// What is written in place of a value.
pub(crate) const REDACTED: &str = "<redacted>";

/// How deep texts within texts (JSON in base64 in JSON) are followed; what is deeper is removed as a whole.
const MAX_NESTING: usize = 6;

/// Why a value was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Rule {
    SecretData,
    ConfigMapValue,
    FileContents,
    EnvironmentValue,
    CommandLine,
    Header,
    UserData,
    AppliedConfiguration,
    NamedField,
    PrivateKey,
    Token,
    Url,
    Xml,
    Encoded,
}

impl Rule {
    /// The plural noun that a person reads after a count.
    fn noun(self) -> &'static str {
        match self {
            Self::SecretData => "maps of Secret data",
            Self::ConfigMapValue => "ConfigMap values",
            Self::FileContents => "file contents",
            Self::EnvironmentValue => "environment values",
            Self::CommandLine => "command-line values",
            Self::Header => "header values",
            Self::UserData => "user data documents",
            Self::AppliedConfiguration => "last-applied configurations",
            Self::NamedField => "values with a secret name",
            Self::PrivateKey => "private keys",
            Self::Token => "tokens and hashes",
            Self::Url => "URL credentials",
            Self::Xml => "XML elements",
            Self::Encoded => "encoded values",
        }
    }
}

/// How many values were removed, by kind of object and rule. Logs, status and error messages count under a name of their own.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Removed {
    counts: BTreeMap<(String, Rule), usize>,
}

/// One line of the account that bundles and snapshots carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removal {
    /// The kind of the objects, or `log`, `status`, `message`.
    pub(crate) kind: String,
    pub(crate) rule: Rule,
    pub(crate) count: usize,
}

impl Removed {
    /// Number of removed values.
    pub(crate) fn total(&self) -> usize {
        self.counts.values().sum()
    }

    /// The account, by kind and rule.
    pub(crate) fn list(&self) -> Vec<Removal> {
        let counts = self.counts.iter();
        counts
            .map(|((kind, rule), &count)| Removal {
                kind: kind.clone(),
                rule: *rule,
                count,
            })
            .collect()
    }

    fn add(&mut self, kind: &str, found: &Found) {
        for (rule, count) in &found.0 {
            *self.counts.entry((kind.to_owned(), *rule)).or_default() += count;
        }
    }
}

impl fmt::Display for Removed {
    /// A line for each kind: `redacted: Pod: 3 environment values, 1 URL credentials`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((kind, rule), count) in &self.counts {
            let line = kinds.entry(kind).or_default();
            line.push(format!("{count} {}", rule.noun()));
        }
        for (kind, found) in kinds {
            writeln!(f, "redacted: {kind}: {}", found.join(", "))?;
        }
        Ok(())
    }
}

/// What the rules found in one object or text.
#[derive(Debug, Default)]
struct Found(BTreeMap<Rule, usize>);

impl Found {
    fn add(&mut self, rule: Rule) {
        *self.0.entry(rule).or_default() += 1;
    }
}

/// Removes secrets from an object of the API, or from any other JSON value, which counts under `otherwise`.
pub(crate) fn object(object: &mut Value, otherwise: &str, removed: &mut Removed) {
    let mut found = Found::default();
    let kind = object["kind"].as_str().unwrap_or(otherwise).to_owned();
    objects::clean(object, 0, &mut found);
    removed.add(&kind, &found);
}

/// Removes secrets from a text, which counts under this name.
pub(crate) fn text(name: &str, text: &str, removed: &mut Removed) -> String {
    let mut found = Found::default();
    let clean = text::clean(text, 0, &mut found);
    removed.add(name, &found);
    clean.into_owned()
}
