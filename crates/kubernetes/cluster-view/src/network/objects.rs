//! The objects of a cluster, merged into one network.

use std::collections::BTreeMap;

use egress::ProxySettings;
use oci::Network;
use oci::mirrors::{MirrorSet, RegistrySources, registries_of};
use serde::Deserialize;
use serde_json::Value;

/// The network that the objects of a cluster describe. An object that cannot be decoded is left out and reported.
#[derive(Debug, Default)]
pub struct ClusterNetwork {
    sets: Vec<MirrorSet>,
    image: ImageSpec,
    proxy: Proxy,
    authorities: Option<String>,
    registry_authorities: BTreeMap<String, String>,
    problems: Vec<String>,
}

/// `spec` of `image.config.openshift.io/cluster`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ImageSpec {
    registry_sources: RegistrySources,
    #[serde(rename = "additionalTrustedCA")]
    additional_trusted_ca: ConfigMapName,
}

/// `proxy.config.openshift.io/cluster`. The status is what the cluster network operator has verified and completed: its
/// `noProxy` contains the networks of the cluster.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Proxy {
    spec: ProxySpec,
    status: ProxyStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProxySpec {
    #[serde(rename = "trustedCA")]
    trusted_ca: ConfigMapName,
}

/// Not `Debug`: the URLs may have passwords.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ProxyStatus {
    #[serde(rename = "httpProxy")]
    http: String,
    #[serde(rename = "httpsProxy")]
    https: String,
    #[serde(rename = "noProxy")]
    exclusions: String,
}

impl std::fmt::Debug for ProxyStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxyStatus").finish_non_exhaustive()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigMapName {
    name: String,
}

impl ConfigMapName {
    fn get(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }
}

impl ClusterNetwork {
    /// Adds the mirrors of an ImageDigestMirrorSet, ImageTagMirrorSet or ImageContentSourcePolicy.
    pub fn add_mirrors(&mut self, what: &str, object: &Value) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let set = MirrorSet::deserialize(spec);
        let usable = set.map_err(|error| error.to_string()).and_then(|set| {
            // Alone, so that a wrong one does not disable the others.
            let alone = registries_of(std::slice::from_ref(&set), &RegistrySources::default());
            alone.map(|_| set).map_err(|error| error.to_string())
        });
        match usable {
            Ok(set) => self.sets.push(set),
            Err(why) => self.problem(format!("{what}: {why}")),
        }
    }

    /// Sets `image.config.openshift.io/cluster`.
    pub fn set_image(&mut self, object: &Value) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        match Option::<ImageSpec>::deserialize(spec) {
            Ok(spec) => self.image = spec.unwrap_or_default(),
            Err(error) => self.problem(format!("Image cluster: {error}")),
        }
    }

    /// Sets `proxy.config.openshift.io/cluster`.
    pub fn set_proxy(&mut self, object: &Value) {
        match Proxy::deserialize(object) {
            Ok(proxy) => self.proxy = proxy,
            // Without the error, which may quote the value.
            Err(_) => self.problem("Proxy cluster: expected strings in its status".to_owned()),
        }
    }

    /// The ConfigMap with the CA certificates of the proxy.
    pub fn trusted_ca(&self) -> Option<&str> {
        self.proxy.spec.trusted_ca.get()
    }

    /// The ConfigMap with the CA certificates of registries.
    pub fn additional_ca(&self) -> Option<&str> {
        self.image.additional_trusted_ca.get()
    }

    /// Sets the CA certificates that are trusted for every host.
    pub fn set_authorities(&mut self, pem: Option<String>) {
        self.authorities = pem;
    }

    /// Sets the CA certificates of registries: a key is a host, with `..` before the port.
    pub fn set_registry_authorities(&mut self, data: BTreeMap<String, String>) {
        self.registry_authorities = data;
    }

    /// Reports that a part could not be read.
    pub fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// The network of the cluster below that of the process, which takes precedence, and what had to be left out.
    pub fn over(self, own: &Network) -> (Network, Vec<String>) {
        let mut problems = self.problems;
        let mut network = own.clone();
        let sets = self.sets;
        let sources = self.image.registry_sources;
        let registries = registries_of(&sets, &sources).unwrap_or_else(|error| {
            problems.push(format!("registrySources of Image cluster: {error}"));
            registries_of(&sets, &RegistrySources::default()).unwrap_or_default()
        });
        network.routes = network.routes.below(registries, sources.allowed_registries);
        if own.proxies.is_empty() {
            let proxy = self.proxy.status;
            match ProxySettings::new(&proxy.http, &proxy.https, &proxy.exclusions) {
                Ok(proxies) => network.proxies = proxies,
                Err(error) => problems.push(format!("Proxy cluster: {error}")),
            }
        }
        if let Some(pem) = self.authorities {
            let added = network.authorities.add_authorities(pem.as_bytes());
            if let Err(why) = added {
                problems.push(format!("trustedCA of Proxy cluster: {why}"));
            }
        }
        for (host, pem) in self.registry_authorities {
            // A colon is not valid in the key of a ConfigMap.
            let host = host.replacen("..", ":", 1);
            let tls = network.tls.entry(host.clone()).or_default();
            if let Err(why) = tls.add_authorities(pem.as_bytes()) {
                problems.push(format!(
                    "additionalTrustedCA of Image cluster, {host}: {why}"
                ));
            }
        }
        (network, problems)
    }
}
