//! Objects of an installation, and their conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::Job;

/// Part of an installation that an object belongs to, in the order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The namespace.
    Namespace,
    /// CustomResourceDefinitions.
    Crds,
    /// Service accounts, roles and bindings.
    Rbac,
    /// The controllers.
    Operator,
    /// The admission webhooks.
    Webhook,
    /// Network policies.
    Network,
    /// ServiceMonitors and alerts for the Prometheus Operator.
    Monitoring,
}

impl Part {
    /// All parts.
    pub const ALL: &[Self] = &[
        Self::Namespace,
        Self::Crds,
        Self::Rbac,
        Self::Operator,
        Self::Webhook,
        Self::Network,
        Self::Monitoring,
    ];

    /// Its name on the command line.
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
        by_name(Self::ALL, Self::name, text, "part")
    }
}

/// The value of a name; the error lists all names.
pub(crate) fn by_name<T: Copy>(
    all: &[T],
    name: fn(T) -> &'static str,
    text: &str,
    what: &str,
) -> Result<T, String> {
    let known = all.iter().copied().find(|it| name(*it) == text);
    known.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|it| name(*it)).collect();
        format!("unknown {what}; expected one of: {}", names.join(", "))
    })
}

/// An object of an installation.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// The part it belongs to.
    pub part: Part,
    /// The object, as JSON.
    pub value: Value,
}

/// Condition for an entry, or for an argument of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// When one of these jobs runs.
    Any(&'static [Job]),
    /// When this profile is enabled.
    Profile(&'static str),
    /// When any profile is enabled.
    Profiles,
    ReleaseOwner,
    /// When releases are kept as ConfigMaps.
    ReleasePayloads,
    /// When the CA certificates of OpenShift's proxy and registries are read.
    OpenshiftConfig,
    /// When placement reads the pull secrets of pods.
    PullSecrets,
    Console,
    /// When the console has host names.
    ConsoleHosts,
    /// When the console serves plain HTTP.
    ConsolePlain,
    /// When the console has a certificate.
    ConsoleTls,
    /// When users of the console sign in at an OpenID Connect provider.
    ConsoleOidc,
    /// When that provider has a certificate of a private CA.
    ConsoleOidcCa,
    /// When the console reads files of Secrets.
    ConsoleFiles,
    /// When there are several replicas.
    Replicated,
    /// When common names of API servers are given.
    ClientNames,
    /// When admission webhooks accept only API servers.
    RequireClientCert,
    /// When environment variables are given.
    Environment,
    /// On OpenShift.
    Openshift,
    /// Elsewhere.
    NotOpenshift,
    /// On OpenShift, where importer pods are created.
    OpenshiftImports,
    /// On OpenShift, where its Prometheus scrapes the metrics.
    OpenshiftMonitoring,
    /// On OpenShift, where the console has host names.
    OpenshiftConsole,
}

/// Objects with the same condition.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) part: Part,
    pub(crate) when: When,
    /// The file of `deploy` that contains them.
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

/// The key of a field under a condition; `None` if the condition does not hold.
pub(crate) type FieldKey = dyn Fn(When, &str) -> Option<String>;

/// Values for the objects: those of the options, or marks that become template expressions.
pub(crate) struct Fill {
    pub(crate) namespace: String,
    pub(crate) image: String,
    pub(crate) replicas: Value,
    /// Comma-separated names, as the following ones.
    pub(crate) jobs: String,
    pub(crate) profiles: String,
    pub(crate) console_hosts: String,
    pub(crate) console_issuer: String,
    pub(crate) console_client: String,
    pub(crate) client_names: String,
    /// The first host name of the console.
    pub(crate) console_host: String,
    /// Networks of the API servers, as peers of a NetworkPolicy; empty if unknown.
    pub(crate) api_servers: Value,
    /// Environment variables of the operator and the webhooks, by name.
    pub(crate) environment: Value,
    /// Pull secrets named in policies, by namespace. A template has none: it cannot repeat objects.
    pub(crate) named_secrets: BTreeMap<String, BTreeSet<String>>,
    /// A conditional argument of a program.
    pub(crate) argument: Box<dyn Fn(When, String) -> Option<String>>,
    /// The key of a conditional field.
    pub(crate) key: Box<FieldKey>,
}

impl Fill {
    /// Sets a field of an object under a condition.
    pub(crate) fn set(&self, object: &mut Value, when: When, key: &str, value: Value) {
        if let Some(key) = (self.key)(when, key) {
            object[key] = value;
        }
    }

    /// An item of a list under a condition. In a template it is one line, as an argument is; JSON is YAML.
    pub(crate) fn item(&self, when: When, value: &Value) -> Option<Value> {
        // Two closing braces would end an action of the template.
        let line = value.to_string().replace('}', "} ");
        let line = (self.argument)(when, line.trim_end().to_owned())?;
        Some(serde_json::from_str(&line).unwrap_or_else(|_| line.into()))
    }
}
