//! What an installation is made of: objects, and when they are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::Job;

/// What an object is for. In the order in which a cluster can take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The namespace.
    Namespace,
    /// Definitions of our kinds.
    Crds,
    /// Accounts, and who may do what.
    Rbac,
    /// The controllers.
    Operator,
    /// The admission checks.
    Webhook,
    /// Who may reach them.
    Network,
    /// What the operator of Prometheus is told.
    Monitoring,
}

impl Part {
    /// All there are.
    pub const ALL: &[Self] = &[
        Self::Namespace,
        Self::Crds,
        Self::Rbac,
        Self::Operator,
        Self::Webhook,
        Self::Network,
        Self::Monitoring,
    ];

    /// How it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Crds => "crds",
            Self::Rbac => "rbac",
            Self::Operator => "operator",
            Self::Webhook => "webhook",
            Self::Network => "network",
            Self::Monitoring => "monitoring",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|part| part.name() == text).copied();
        known.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|part| part.name()).collect();
            format!("no such part; there are: {}", names.join(", "))
        })
    }
}

/// An object of an installation.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// What it is for.
    pub part: Part,
    /// The object, as JSON.
    pub value: Value,
}

/// When an entry, or an argument of a program, is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// When one of these runs.
    Any(&'static [Job]),
    /// When this profile is switched on, or not advertised and wanted.
    Profile(&'static str),
    /// When any profile is switched on.
    Profiles,
    ReleaseOwner,
    /// When releases are kept as ConfigMaps.
    ReleasePayloads,
    /// When placement reads the pull secrets of pods.
    PullSecrets,
    Console,
    /// When browsers reach the console by names of their own.
    ConsoleHosts,
    /// When there are several operators.
    Replicated,
    /// When names of API servers are given.
    ClientNames,
    /// When admission checks answer API servers alone.
    RequireClientCert,
}

/// Objects that are there together.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) part: Part,
    pub(crate) when: When,
    /// The file of `deploy` that has them.
    pub(crate) file: String,
    pub(crate) objects: Vec<Value>,
}

impl Entry {
    pub(crate) fn new(
        part: Part,
        when: When,
        file: impl Into<String>,
        objects: Vec<Value>,
    ) -> Self {
        Self {
            part,
            when,
            file: file.into(),
            objects,
        }
    }

    pub(crate) fn into_objects(self) -> impl Iterator<Item = Object> {
        let part = self.part;
        let objects = self.objects.into_iter();
        objects.map(move |value| Object { part, value })
    }
}

/// What objects are filled with: what options say, or what stands for it in a template.
pub(crate) trait Fill {
    fn namespace(&self) -> String;
    fn image(&self) -> String;
    fn replicas(&self) -> Value;
    /// Names with commas in between.
    fn jobs(&self) -> String;
    /// Names with commas in between.
    fn profiles(&self) -> String;
    /// Names with commas in between.
    fn console_hosts(&self) -> String;
    /// Pull secrets that policies name, by namespace. A template has none: it cannot repeat objects.
    fn named_secrets(&self) -> BTreeMap<String, BTreeSet<String>> {
        BTreeMap::new()
    }
    /// Names with commas in between.
    fn client_names(&self) -> String;
    /// Whence API servers come, as peers of a NetworkPolicy; empty if that is not known.
    fn api_servers(&self) -> Value;
    /// An argument of a program that is not always there.
    fn argument(&self, when: When, text: String) -> Option<String>;
}
