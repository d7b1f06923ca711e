//! Where an image is read from: mirrors in order, then the registry it names.
//!
//! Three configurations are supported: `registries.conf` of containers/image, `hosts.toml` of
//! containerd, and the mirror objects of OpenShift. All become [`Routes`], which turn a reference into
//! a list of [`Endpoint`]s.

mod hosts;
mod openshift;
mod registries;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use platform::Reference;

use crate::error::Cause;
use crate::trust::Tls;

pub use hosts::Hosts;
pub use openshift::{MirrorSet, RegistrySources, Scope, SourcePolicy, registries_of};
pub use registries::{Mirror, PullFrom, Registries, Registry};

/// Why a configuration of mirrors cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reading {what}: {why}")]
pub struct MirrorError {
    /// The file or object.
    pub what: String,
    /// What is wrong with it, and what would be accepted.
    pub why: String,
}

impl MirrorError {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: crate::error::clean(&why.into(), &[]),
        }
    }
}

/// The transport security of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    /// TLS with certificate verification.
    Verified,
    /// TLS without certificate verification.
    Unverified,
    /// TLS without certificate verification, or plain HTTP if the host has no TLS.
    Insecure,
    /// Plain HTTP.
    Plain,
}

/// One endpoint to read an image from.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The host to connect to: `host[:port]`.
    pub host: String,
    /// The path prefix before the repository, usually `/v2`.
    pub base: String,
    /// The repository at this endpoint.
    pub repository: String,
    /// Its transport security.
    pub security: Security,
    /// The host under which its credentials are configured: `docker.io` for Docker Hub.
    pub known_as: String,
    /// The registry the image names, for mirrors that serve several (`?ns=`).
    pub namespace: Option<String>,
    /// Additional request headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// CA and client certificates for this endpoint alone.
    pub tls: Option<Arc<Tls>>,
    /// Whether it is a mirror: further endpoints remain to be tried.
    pub is_mirror: bool,
}

/// The configuration of endpoints and mirrors.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    registries: Registries,
    hosts: Hosts,
    insecure: BTreeSet<String>,
    plain: BTreeSet<String>,
    /// The only images that may be read; all, if empty.
    allowed: Vec<String>,
}

impl Routes {
    /// Without mirrors: every image comes from the registry it names, over TLS.
    pub fn direct() -> Self {
        Self::default()
    }

    /// Adds the entries of `registries.conf` or of OpenShift's objects. They take precedence over
    /// `hosts.toml`.
    #[must_use]
    pub fn with_registries(mut self, registries: Registries) -> Self {
        self.registries = registries;
        self
    }

    /// Restricts images to hosts and paths; an empty list allows all. Decided by the name of the image, whatever mirror it
    /// is read from: `allowedRegistries` of OpenShift, which becomes the signature policy of nodes.
    #[must_use]
    pub fn with_allowed(mut self, scopes: Vec<String>) -> Self {
        self.allowed = scopes;
        self
    }

    /// The configuration of a cluster, below this one: an entry here replaces one of the cluster with the same prefix.
    #[must_use]
    pub fn below(mut self, cluster: Registries, allowed: Vec<String>) -> Self {
        self.registries = cluster.overridden_by(self.registries);
        if self.allowed.is_empty() {
            self.allowed = allowed;
        }
        self
    }

    /// The hosts and paths of the only images that may be read; all, if empty.
    pub fn allowed(&self) -> &[String] {
        &self.allowed
    }

    /// The entries of `registries.conf` or of OpenShift's objects.
    pub fn registries(&self) -> &Registries {
        &self.registries
    }

    /// The hosts that are marked as insecure.
    pub fn insecure(&self) -> impl Iterator<Item = &str> {
        self.insecure.iter().map(String::as_str)
    }

    /// Adds containerd's `hosts.toml` files.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// Marks a host (`host[:port]`) as insecure: its certificate is not verified, and it may lack TLS.
    /// CDI's `insecureRegistries`.
    #[must_use]
    pub fn with_insecure(mut self, host: impl Into<String>) -> Self {
        self.insecure.insert(host.into());
        self
    }

    /// Marks a host (`host[:port]`) as plain HTTP.
    #[must_use]
    pub fn with_plain(mut self, host: impl Into<String>) -> Self {
        self.plain.insert(host.into());
        self
    }

    /// The endpoints of an image, in order. Never empty: if all are blocked, that is an error.
    pub fn endpoints(&self, reference: &Reference) -> Result<Vec<Endpoint>, Cause> {
        let by_digest = reference.digest().is_some();
        let host = reference.host();
        let repository = reference.repository().as_str();
        let is_allowed = |scope: &String| openshift::is_within(scope, &reference.name());
        if !self.allowed.is_empty() && !self.allowed.iter().any(is_allowed) {
            return Err(Cause::Blocked(format!(
                "{:?} is none of the allowed registries",
                reference.name()
            )));
        }
        let mut found = match self.registries.find(&reference.name()) {
            Some(registry) => self
                .registries
                .sources(registry, &reference.name(), by_digest)?,
            None => self
                .hosts
                .sources(host.as_str(), repository, by_digest)
                .unwrap_or_else(|| vec![direct(host.as_str(), repository)]),
        };
        for endpoint in &mut found {
            endpoint.security = self.security(&endpoint.known_as, endpoint.security);
        }
        Ok(found)
    }

    /// Whether the certificate of a host is verified.
    pub(crate) fn verifies(&self, host: &str) -> bool {
        self.security(host, Security::Verified) == Security::Verified
    }

    fn security(&self, host: &str, configured: Security) -> Security {
        // `plain` was given by the administrator of this process and wins; `insecure`
        // only weakens what nothing else has decided.
        if self.plain.contains(host) {
            Security::Plain
        } else if configured == Security::Verified && self.insecure.contains(host) {
            Security::Insecure
        } else {
            configured
        }
    }
}

/// The endpoint of a host without any configuration.
fn direct(host: &str, repository: &str) -> Endpoint {
    let endpoint = match host {
        // containerd has the same special case (`core/remotes/docker/registry.go`):
        // docker.io itself serves no registry API.
        "docker.io" | "index.docker.io" => "registry-1.docker.io",
        host => host,
    };
    Endpoint {
        host: endpoint.to_owned(),
        base: "/v2".to_owned(),
        repository: repository.to_owned(),
        security: Security::Verified,
        known_as: host.to_owned(),
        namespace: None,
        headers: Vec::new(),
        tls: None,
        is_mirror: false,
    }
}
