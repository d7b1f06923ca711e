//! Options of an installation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;

use governance::Registry;
use governance::profile::UnknownProfile;
use machinery::names::{is_dns1123_label, is_dns1123_subdomain};
use serde_json::json;

use crate::entry::{Fill, When};
use crate::{IMAGE, Job, NAMESPACE};

/// Options of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and none excludes another"
)]
pub struct Options {
    /// The namespace of the installation.
    pub namespace: String,
    /// The image of the operator and of the admission webhooks.
    pub image: String,
    /// Number of operator replicas; one leads, the others stand by.
    pub replicas: u32,
    /// The jobs that they run.
    pub jobs: BTreeSet<Job>,
    /// Optional governance profiles.
    pub profiles: BTreeSet<String>,
    /// Whether the operator may manage the ClusterVersion.
    pub release_owner: bool,
    /// Whether the operator may read releases that are kept as ConfigMaps; their namespace has to
    /// exist.
    pub release_payloads: bool,
    /// Whether controllers and webhooks may read the CA certificates in openshift-config; the namespace has to exist.
    pub openshift_config: bool,
    /// Whether the cluster is OpenShift: adds its kinds, and what its own components expect of an operator.
    pub openshift: bool,
    /// Which pull secrets placement may read.
    pub pull_secrets: PullSecrets,
    /// Whether the operator serves the console.
    pub console: bool,
    /// Host names of the console, behind TLS.
    pub console_hosts: Vec<String>,
    /// Whether the console serves TLS, with the certificate in [`CONSOLE_TLS`](crate::CONSOLE_TLS).
    pub console_tls: bool,
    /// The OpenID Connect provider of the console's users.
    pub console_oidc: Option<ConsoleOidc>,
    /// Whether to add ServiceMonitors and alerts; the CRDs of the Prometheus Operator have to be
    /// installed.
    pub monitoring: bool,
    /// Common names of the client certificates that API servers present to webhooks; if empty,
    /// those that the cluster publishes.
    pub client_names: Vec<String>,
    /// Whether admission webhooks reject callers without such a certificate.
    pub require_client_cert: bool,
    /// Environment variables of the operator and the webhooks, such as `HTTPS_PROXY`. They are kept in a Secret, because the
    /// URL of a proxy may contain a password.
    pub environment: BTreeMap<String, String>,
    /// The networks of the API servers, such as `10.0.0.0/28`; if empty, every address.
    pub api_server_cidrs: Vec<String>,
}

/// An OpenID Connect provider. The Secret [`CONSOLE_OIDC`](crate::CONSOLE_OIDC) has the client secret
/// of the console there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleOidc {
    /// Its URL.
    pub issuer: String,
    /// The client ID of the console there.
    pub client_id: String,
    /// Whether the Secret has the CA certificates of the provider.
    pub has_ca: bool,
}

/// Which pull secrets placement may read. A condition reports policies that need more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullSecrets {
    /// Those that pods and their service accounts name: `get` on all Secrets.
    Pods,
    /// Those named in policies, by namespace.
    Named(BTreeMap<String, BTreeSet<String>>),
    /// None.
    None,
}

impl FromStr for PullSecrets {
    type Err = String;

    /// `pods`, `none`, or a list separated by commas: `NAMESPACE/NAME`.
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
            // One leads and one has warm caches; a third would add load on the API server without
            // shortening a failover.
            replicas: 2,
            jobs: Job::STANDARD.iter().copied().collect(),
            profiles: BTreeSet::new(),
            release_owner: false,
            release_payloads: false,
            openshift_config: false,
            openshift: false,
            // Applies only where placement runs, which is not a default job: `get` on all Secrets
            // is granted by enabling it.
            pull_secrets: PullSecrets::Pods,
            console: false,
            console_hosts: Vec::new(),
            console_tls: false,
            console_oidc: None,
            monitoring: false,
            client_names: Vec::new(),
            require_client_cert: false,
            environment: BTreeMap::new(),
            api_server_cidrs: Vec::new(),
        }
    }
}

/// Why there are no manifests.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An unknown profile.
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
    /// An invalid namespace.
    #[error("{name:?} cannot be the name of a namespace: {why}")]
    Namespace {
        /// The given name.
        name: String,
        /// The reason.
        why: String,
    },
    /// An invalid image.
    #[error("{0:?} is not an image: expected a reference without spaces")]
    Image(String),
    /// No jobs.
    #[error("no controllers are named: nothing would run")]
    NoJobs,
    /// No replicas.
    #[error("0 replicas are no installation: expected 1 or more")]
    NoReplicas,
    /// An invalid network.
    #[error("{0:?} is not a network; expected an address and a prefix length, such as 10.0.0.0/28")]
    Cidr(String),
    /// An invalid name of an environment variable.
    #[error(
        "{0:?} is not the name of an environment variable; expected letters, digits and underscores, such as HTTPS_PROXY"
    )]
    Variable(String),
    /// Host names without a console.
    #[error("the console has {0}, but is not enabled")]
    NoConsole(&'static str),
    /// A value that would become another argument.
    #[error(
        "{0:?} is neither the issuer nor the client ID of a provider: expected text without spaces"
    )]
    Oidc(String),
    /// An object cannot be serialized.
    #[error("writing an object as JSON")]
    Json(#[from] serde_json::Error),
    /// An object cannot be serialized.
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

/// Whether a shell could set it. Kubernetes accepts more, and skips names from a Secret that it does not accept without an
/// error.
fn is_variable(name: &str) -> bool {
    let mut letters = name.bytes();
    let is_word = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_';
    letters
        .next()
        .is_some_and(|first| is_word(first) && !first.is_ascii_digit())
        && letters.all(is_word)
}

impl Options {
    /// Checks that the options are consistent.
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
        if !self.console {
            let given = [
                (!self.console_hosts.is_empty(), "host names"),
                (self.console_tls, "a certificate"),
                (self.console_oidc.is_some(), "an OpenID Connect provider"),
            ];
            if let Some((_, what)) = given.into_iter().find(|(is_given, _)| *is_given) {
                return Err(Error::NoConsole(what));
            }
        }
        if let Some(oidc) = &self.console_oidc {
            let is_wrong = |text: &&String| text.is_empty() || text.contains(char::is_whitespace);
            let wrong = [&oidc.issuer, &oidc.client_id].into_iter().find(is_wrong);
            if let Some(wrong) = wrong {
                return Err(Error::Oidc(wrong.clone()));
            }
        }
        if let Some(cidr) = self.api_server_cidrs.iter().find(|it| !is_cidr(it)) {
            return Err(Error::Cidr(cidr.clone()));
        }
        if let Some(name) = self.environment.keys().find(|it| !is_variable(it)) {
            return Err(Error::Variable(name.clone()));
        }
        let profiles: Vec<&String> = self.profiles.iter().collect();
        Registry::standard(&profiles)?;
        Ok(())
    }

    /// Whether a condition holds.
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
            When::OpenshiftConfig => {
                (self.openshift_config || self.openshift) && self.has(&When::Any(Job::REGISTRIES))
            }
            When::PullSecrets => {
                self.jobs.contains(&Job::Placement) && self.pull_secrets == PullSecrets::Pods
            }
            When::Console => self.console,
            When::ConsoleHosts => self.console && !self.console_hosts.is_empty(),
            When::ConsolePlain => self.console && !self.console_tls,
            When::ConsoleTls => self.console && self.console_tls,
            When::ConsoleOidc => self.console && self.console_oidc.is_some(),
            When::ConsoleOidcCa => {
                self.console && self.console_oidc.as_ref().is_some_and(|oidc| oidc.has_ca)
            }
            When::ConsoleFiles => self.has(&When::ConsoleTls) || self.has(&When::ConsoleOidc),
            When::Replicated => self.replicas > 1,
            When::ClientNames => !self.client_names.is_empty(),
            When::RequireClientCert => self.require_client_cert,
            When::Environment => !self.environment.is_empty(),
            When::Openshift => self.openshift,
            When::NotOpenshift => !self.openshift,
            When::OpenshiftImports => self.openshift && self.jobs.contains(&Job::ImagesCdi),
            When::OpenshiftMonitoring => self.openshift && self.monitoring,
            When::OpenshiftConsole => self.openshift && self.has(&When::ConsoleHosts),
        }
    }

    /// The values for the objects.
    pub(crate) fn fill(&self) -> Fill {
        let jobs: Vec<&str> = self.jobs.iter().map(|job| job.name()).collect();
        let profiles: Vec<&str> = self.profiles.iter().map(String::as_str).collect();
        let cidrs = self.api_server_cidrs.iter();
        let (options, keys) = (self.clone(), self.clone());
        let oidc = self.console_oidc.as_ref();
        Fill {
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            replicas: self.replicas.into(),
            jobs: jobs.join(","),
            profiles: profiles.join(","),
            console_hosts: self.console_hosts.join(","),
            console_issuer: oidc.map_or_else(String::new, |it| it.issuer.clone()),
            console_client: oidc.map_or_else(String::new, |it| it.client_id.clone()),
            client_names: self.client_names.join(","),
            console_host: self.console_hosts.first().cloned().unwrap_or_default(),
            api_servers: cidrs
                .map(|cidr| json!({ "ipBlock": { "cidr": cidr } }))
                .collect(),
            environment: json!(self.environment),
            named_secrets: match &self.pull_secrets {
                PullSecrets::Named(named) => named.clone(),
                PullSecrets::Pods | PullSecrets::None => BTreeMap::new(),
            },
            argument: Box::new(move |when, text| options.has(&when).then_some(text)),
            key: Box::new(move |when, key| keys.has(&when).then(|| key.to_owned())),
        }
    }
}
