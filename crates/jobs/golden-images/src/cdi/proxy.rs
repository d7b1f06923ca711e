//! The proxy of imports, as CDI's configuration has it.

use serde::Deserialize;
use serde_json::Value;

/// Namespaces that CDI is installed in: by OpenShift Virtualization, and upstream. The CA certificates of the proxy are in
/// a ConfigMap there.
pub const NAMESPACES: [&str; 2] = ["openshift-cnv", "cdi"];

/// `spec.importProxy` of the CDIConfig.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ImportProxy {
    /// The proxy of `http` URLs. It may have a password.
    #[serde(rename = "HTTPProxy")]
    pub http: Option<String>,
    /// The proxy of `https` URLs. It may have a password.
    #[serde(rename = "HTTPSProxy")]
    pub https: Option<String>,
    /// The exceptions.
    #[serde(rename = "noProxy")]
    pub no_proxy: Option<String>,
    /// The ConfigMap with CA certificates.
    #[serde(rename = "trustedCAProxy")]
    pub trusted_ca: Option<String>,
}

impl ImportProxy {
    /// The proxy of a CDIConfig. One without settings is a proxy, too: as in CDI, imports then use none, whatever proxy the
    /// cluster has. `None` if the cluster's applies.
    pub fn of(config: &Value) -> Option<Self> {
        let set = config.pointer("/spec/importProxy")?;
        Self::deserialize(set).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ImportProxy;

    #[test]
    fn empty_proxy_replaces_that_of_the_cluster() {
        assert!(ImportProxy::of(&json!({ "spec": {} })).is_none());
        let none = ImportProxy::of(&json!({ "spec": { "importProxy": {} } }));
        assert!(none.is_some_and(|it| it == ImportProxy::default()));
        let set = json!({ "spec": { "importProxy": {
            "HTTPProxy": "http://a", "HTTPSProxy": "http://b", "noProxy": ".svc", "trustedCAProxy": "ca",
        } } });
        let set = ImportProxy::of(&set);
        assert!(set.is_some_and(|it| {
            it.https.as_deref() == Some("http://b") && it.trusted_ca.as_deref() == Some("ca")
        }));
    }
}
