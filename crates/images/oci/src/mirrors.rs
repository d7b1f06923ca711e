//! Where an image is really read from: mirrors first, in order, then the registry that it names.
//!
//! Three ways to say so are understood: `registries.conf` of containers/image, `hosts.toml` of
//! containerd, and the objects of OpenShift. They all become [`Routes`], which turn a reference into
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

/// How a host is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    /// Over TLS, and it has to prove who it is.
    Verified,
    /// Over TLS, whoever it is.
    Unverified,
    /// Over TLS, whoever it is, or without TLS if it has none.
    Insecure,
    /// Without TLS.
    Plain,
}

/// One place to read an image from.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Who is connected to: `host[:port]`.
    pub host: String,
    /// What stands before the repository in paths, `/v2` as a rule.
    pub base: String,
    /// The path of the image there.
    pub repository: String,
    /// How it is spoken to.
    pub security: Security,
    /// The name under which credentials for it are found: `docker.io` for Docker Hub.
    pub known_as: String,
    /// The registry that the image names, for mirrors that serve several (`?ns=`).
    pub namespace: Option<String>,
    /// Headers to be sent along.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Certificates for this place alone.
    pub tls: Option<Arc<Tls>>,
    /// Whether it is a mirror: something else is left to try.
    pub is_mirror: bool,
}

/// All that is configured about where images come from.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    registries: Registries,
    hosts: Hosts,
    insecure: BTreeSet<String>,
    plain: BTreeSet<String>,
}

impl Routes {
    /// Without mirrors: every image comes from the registry that it names, over TLS.
    pub fn direct() -> Self {
        Self::default()
    }

    /// With what `registries.conf` or the objects of a cluster say. It comes before `hosts.toml`.
    #[must_use]
    pub fn with_registries(mut self, registries: Registries) -> Self {
        self.registries = registries;
        self
    }

    /// With what containerd's `hosts.toml` files say.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// With a host (`host[:port]`) that does not have to prove who it is, and may have no TLS: CDI's
    /// `insecureRegistries`.
    #[must_use]
    pub fn with_insecure(mut self, host: impl Into<String>) -> Self {
        self.insecure.insert(host.into());
        self
    }

    /// With a host (`host[:port]`) that has no TLS.
    #[must_use]
    pub fn with_plain(mut self, host: impl Into<String>) -> Self {
        self.plain.insert(host.into());
        self
    }

    /// Where to look for an image, in order. Never empty: if nothing may be asked, that is an error.
    pub fn endpoints(&self, reference: &Reference) -> Result<Vec<Endpoint>, Cause> {
        let by_digest = reference.digest().is_some();
        let host = reference.host();
        let repository = reference.repository().as_str();
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

    /// Whether a host has to prove who it is.
    pub(crate) fn verifies(&self, host: &str) -> bool {
        self.security(host, Security::Verified) == Security::Verified
    }

    fn security(&self, host: &str, configured: Security) -> Security {
        if self.plain.contains(host) {
            Security::Plain
        } else if configured == Security::Verified && self.insecure.contains(host) {
            Security::Insecure
        } else {
            configured
        }
    }
}

/// A host as references name it, without any configuration.
fn direct(host: &str, repository: &str) -> Endpoint {
    let endpoint = match host {
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
