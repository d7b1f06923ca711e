//! The network around a client: mirrors, proxies and CA certificates. It can change while the client runs.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use egress::ProxySettings;
use serde::{Deserialize, Serialize};

use crate::mirrors::{MirrorError, Registries, Registry, Routes};
use crate::trust::Tls;

/// How registries and web servers are reached, as an administrator configures it for a process or a cluster.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Mirrors, insecure and blocked registries.
    pub routes: Routes,
    /// The proxies. A proxy resolves names, so that only literal addresses in URLs pass
    /// [`Settings::addresses`](crate::Settings::addresses) then.
    pub proxies: ProxySettings,
    /// CA certificates that are trusted for every host and for proxies, besides
    /// [`Settings::roots`](crate::Settings::roots).
    pub authorities: Tls,
    /// CA certificates of single hosts (`host[:port]`), besides [`Settings::tls`](crate::Settings::tls).
    pub tls: BTreeMap<String, Tls>,
}

impl From<Routes> for Network {
    fn from(routes: Routes) -> Self {
        Self {
            routes,
            ..Self::default()
        }
    }
}

/// The part of a network that is passed on in one variable: everything but the proxies, which have variables of their own,
/// and `hosts.toml`, which has client certificates.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Portable {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    registries: Vec<Registry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    insecure: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    authorities: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    hosts: BTreeMap<String, String>,
}

impl Network {
    /// The network without its proxies, as JSON for another process; `None` if there is nothing to say.
    pub fn portable(&self) -> Option<String> {
        let hosts = self.tls.iter();
        let portable = Portable {
            registries: self.routes.registries().entries().to_vec(),
            insecure: self.routes.insecure().map(str::to_owned).collect(),
            allowed: self.routes.allowed().to_vec(),
            authorities: self.authorities.authorities_pem(),
            hosts: hosts
                .map(|(host, tls)| (host.clone(), tls.authorities_pem()))
                .collect(),
        };
        if portable == Portable::default() {
            return None;
        }
        // Strings and lists only, which are always serializable.
        serde_json::to_string(&portable).ok()
    }

    /// The network of another process, with proxies.
    pub fn of_portable(text: &str, proxies: ProxySettings) -> Result<Self, MirrorError> {
        let wrong = |why: String| MirrorError::new("the network", why);
        let portable: Portable =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut registries = Registries::default();
        for registry in portable.registries {
            registries.add("the network", registry)?;
        }
        let authorities = |pem: &str| {
            if pem.is_empty() {
                return Ok(Tls::default());
            }
            Tls::authorities(pem.as_bytes()).map_err(wrong)
        };
        let mut tls = BTreeMap::new();
        for (host, pem) in portable.hosts {
            tls.insert(host, authorities(&pem)?);
        }
        let routes = Routes::direct()
            .with_registries(registries)
            .with_allowed(portable.allowed);
        Ok(Self {
            routes: portable.insecure.iter().fold(routes, Routes::with_insecure),
            proxies,
            authorities: authorities(&portable.authorities)?,
            tls,
        })
    }
}
