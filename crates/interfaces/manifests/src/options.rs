//! What can be chosen of an installation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;

use governance::Registry;
use governance::profile::UnknownProfile;
use machinery::names::{is_dns1123_label, is_dns1123_subdomain};
use serde_json::{Value, json};

use crate::entry::{Fill, When};
use crate::{IMAGE, Job, NAMESPACE};

/// What can be chosen of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and none excludes another"
)]
pub struct Options {
    /// The namespace of everything that is in one.
    pub namespace: String,
    /// The image of the operator and of the admission checks.
    pub image: String,
    /// How many operators there are; one works, the others wait.
    pub replicas: u32,
    /// What they do.
    pub jobs: BTreeSet<Job>,
    /// Profiles of governance that not everybody wants.
    pub profiles: BTreeSet<String>,
    /// Whether the operator may keep the ClusterVersion.
    pub release_owner: bool,
    /// Whether the operator may read releases that are kept as ConfigMaps; their namespace has to be there.
    pub release_payloads: bool,
    /// Which pull secrets placement may read.
    pub pull_secrets: PullSecrets,
    /// Whether the operator serves the console.
    pub console: bool,
    /// Names that browsers reach the console by, over TLS that somebody else ends.
    pub console_hosts: Vec<String>,
    /// Whether the operator of Prometheus is told of metrics and alerts; its kinds have to be there.
    pub monitoring: bool,
    /// Common names of the client certificates that API servers present to webhooks; those that the cluster publishes
    /// if there are none.
    pub client_names: Vec<String>,
    /// Whether admission checks refuse callers without such a certificate.
    pub require_client_cert: bool,
    /// The networks that API servers come from, such as `10.0.0.0/28`; everywhere if there are none.
    pub api_server_cidrs: Vec<String>,
}

/// Which pull secrets placement may read. Policies that ask for more say so in a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullSecrets {
    /// Those that pods and their service accounts name: `get` on all Secrets.
    Pods,
    /// Those that policies name, by namespace.
    Named(BTreeMap<String, BTreeSet<String>>),
    /// None.
    None,
}

impl FromStr for PullSecrets {
    type Err = String;

    /// `pods`, `none`, or names with commas in between: `NAMESPACE/NAME`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pods" => return Ok(Self::Pods),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for word in text.split(',') {
            let (namespace, name) = word
                .split_once('/')
                .filter(|(namespace, name)| {
                    is_dns1123_label(namespace).is_empty() && is_dns1123_subdomain(name).is_empty()
                })
                .ok_or_else(|| format!("{word:?} is neither pods, none, nor NAMESPACE/NAME"))?;
            let names = named.entry(namespace.to_owned()).or_default();
            names.insert(name.to_owned());
        }
        Ok(Self::Named(named))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            replicas: 2,
            jobs: Job::STANDARD.iter().copied().collect(),
            profiles: BTreeSet::new(),
            release_owner: false,
            release_payloads: false,
            pull_secrets: PullSecrets::Pods,
            console: false,
            console_hosts: Vec::new(),
            monitoring: false,
            client_names: Vec::new(),
            require_client_cert: false,
            api_server_cidrs: Vec::new(),
        }
    }
}

/// Why there are no manifests.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A profile that there is not.
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
    /// A name that no namespace can have.
    #[error("{name:?} cannot be the name of a namespace: {why}")]
    Namespace {
        /// What was asked for.
        name: String,
        /// Why not.
        why: String,
    },
    /// Something that is no image.
    #[error("{0:?} cannot be an image: a reference without spaces is expected")]
    Image(String),
    /// Nothing would run.
    #[error("no controllers are named: nothing would run")]
    NoJobs,
    /// Nothing would run.
    #[error("0 replicas are no installation: 1 or more are expected")]
    NoReplicas,
    /// Something that is no network.
    #[error(
        "{0:?} is no network; an address and a prefix length are expected, such as 10.0.0.0/28"
    )]
    Cidr(String),
    /// Names of a console that is not there.
    #[error("the console has names, but is not switched on")]
    NoConsole,
    /// Something cannot be written down.
    #[error("writing an object as JSON")]
    Json(#[from] serde_json::Error),
    /// Something cannot be written down.
    #[error("writing an object as YAML")]
    Yaml(#[from] serde_saphyr::SerializeError),
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= longest)
}

impl Options {
    /// Whether they make sense.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if let Some(why) = is_dns1123_label(&self.namespace).into_iter().next() {
            let name = self.namespace.clone();
            return Err(Error::Namespace { name, why });
        }
        if self.image.is_empty() || self.image.contains(char::is_whitespace) {
            return Err(Error::Image(self.image.clone()));
        }
        if self.jobs.is_empty() {
            return Err(Error::NoJobs);
        }
        if self.replicas == 0 {
            return Err(Error::NoReplicas);
        }
        if !self.console && !self.console_hosts.is_empty() {
            return Err(Error::NoConsole);
        }
        if let Some(cidr) = self.api_server_cidrs.iter().find(|it| !is_cidr(it)) {
            return Err(Error::Cidr(cidr.clone()));
        }
        let profiles: Vec<&String> = self.profiles.iter().collect();
        Registry::standard(&profiles)?;
        Ok(())
    }

    /// Whether something is there.
    pub(crate) fn has(&self, when: &When) -> bool {
        match when {
            When::Always => true,
            When::Any(jobs) => jobs.iter().any(|job| self.jobs.contains(job)),
            When::Profile(name) => {
                self.jobs.contains(&Job::Governance) && self.profiles.contains(*name)
            }
            When::Profiles => self.jobs.contains(&Job::Governance) && !self.profiles.is_empty(),
            When::ReleaseOwner => self.jobs.contains(&Job::Release) && self.release_owner,
            When::ReleasePayloads => self.jobs.contains(&Job::Release) && self.release_payloads,
            When::PullSecrets => {
                self.jobs.contains(&Job::Placement) && self.pull_secrets == PullSecrets::Pods
            }
            When::Console => self.console,
            When::ConsoleHosts => self.console && !self.console_hosts.is_empty(),
            When::Replicated => self.replicas > 1,
            When::ClientNames => !self.client_names.is_empty(),
            When::RequireClientCert => self.require_client_cert,
        }
    }
}

impl Fill for Options {
    fn namespace(&self) -> String {
        self.namespace.clone()
    }

    fn image(&self) -> String {
        self.image.clone()
    }

    fn replicas(&self) -> Value {
        self.replicas.into()
    }

    fn jobs(&self) -> String {
        let names: Vec<&str> = self.jobs.iter().map(|job| job.name()).collect();
        names.join(",")
    }

    fn profiles(&self) -> String {
        let names: Vec<&str> = self.profiles.iter().map(String::as_str).collect();
        names.join(",")
    }

    fn console_hosts(&self) -> String {
        self.console_hosts.join(",")
    }

    fn named_secrets(&self) -> BTreeMap<String, BTreeSet<String>> {
        match &self.pull_secrets {
            PullSecrets::Named(named) => named.clone(),
            PullSecrets::Pods | PullSecrets::None => BTreeMap::new(),
        }
    }

    fn client_names(&self) -> String {
        self.client_names.join(",")
    }

    fn api_servers(&self) -> Value {
        let cidrs = self.api_server_cidrs.iter();
        cidrs
            .map(|cidr| json!({ "ipBlock": { "cidr": cidr } }))
            .collect()
    }

    fn argument(&self, when: When, text: String) -> Option<String> {
        self.has(&when).then_some(text)
    }
}
