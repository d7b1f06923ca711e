//! Connection flags of kubectl, which take precedence over the kubeconfig
//! (`k8s.io/client-go/tools/clientcmd/overrides.go`).

use http::Uri;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::SecretString;

/// Values of kubectl's connection flags; `None` and empty leave the kubeconfig as it is.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--server`
    pub server: Option<Uri>,
    /// `--tls-server-name`
    pub tls_server_name: Option<String>,
    /// The contents of `--certificate-authority`.
    pub certificate_authority: Option<Vec<u8>>,
    /// `--insecure-skip-tls-verify`
    pub insecure_skip_tls_verify: Option<bool>,
    /// `--token`
    pub token: Option<SecretString>,
    /// `--as`
    pub impersonate: Option<String>,
    /// `--as-uid`
    pub impersonate_uid: Option<String>,
    /// `--as-group`
    pub impersonate_groups: Vec<String>,
}

/// Why flags cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// The file of `--certificate-authority` has no certificates.
    #[error("certificate authority: expected certificates in PEM: {0}")]
    Authority(String),
    /// A named entry is not in the kubeconfig.
    #[error("{kind} {name:?} does not exist in the kubeconfig; {}", there(.known))]
    Missing {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
}

fn there(known: &[String]) -> String {
    if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("there are: {}", known.join(", "))
    }
}

impl Overrides {
    /// Changes the configuration of a kubeconfig.
    pub fn apply(&self, config: &mut Config) -> Result<(), OverrideError> {
        if let Some(server) = &self.server {
            config.cluster_url = server.clone();
            // The name of the kubeconfig is that of another server.
            config.tls_server_name = None;
        }
        if let Some(name) = &self.tls_server_name {
            config.tls_server_name = Some(name.clone());
        }
        if let Some(insecure) = self.insecure_skip_tls_verify {
            config.accept_invalid_certs = insecure;
        }
        if let Some(pem) = &self.certificate_authority {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            let read = read.map_err(|error| OverrideError::Authority(error.to_string()))?;
            if read.is_empty() {
                return Err(OverrideError::Authority("it has none".to_owned()));
            }
            config.root_cert = Some(read.iter().map(|it| it.to_vec()).collect());
            config.accept_invalid_certs = false;
        }
        let user = &mut config.auth_info;
        if let Some(token) = &self.token {
            user.token = Some(token.clone());
            // All of these would be used instead, or besides.
            (user.token_file, user.exec, user.auth_provider) = (None, None, None);
            (user.username, user.password) = (None, None);
        }
        if self.impersonate.is_some() {
            user.impersonate.clone_from(&self.impersonate);
        }
        if self.impersonate_uid.is_some() {
            user.impersonate_uid.clone_from(&self.impersonate_uid);
        }
        if !self.impersonate_groups.is_empty() {
            user.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        let cluster = user.exec.as_mut().and_then(|it| it.cluster.as_mut());
        if let (Some(server), Some(cluster)) = (&self.server, cluster) {
            cluster.server = Some(server.to_string());
        }
        Ok(())
    }
}

/// An error if flags name a context, cluster or user that a kubeconfig does not have.
pub fn check_names(
    kubeconfig: &Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<(), OverrideError> {
    let contexts = kubeconfig.contexts.iter().map(|it| it.name.clone());
    let clusters = kubeconfig.clusters.iter().map(|it| it.name.clone());
    let users = kubeconfig.auth_infos.iter().map(|it| it.name.clone());
    let named: [(_, _, Vec<String>); 3] = [
        ("context", &options.context, contexts.collect()),
        ("cluster", &options.cluster, clusters.collect()),
        ("user", &options.user, users.collect()),
    ];
    for (kind, name, known) in named {
        if let Some(name) = name.clone().filter(|name| !known.contains(name)) {
            return Err(OverrideError::Missing { kind, name, known });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn config() -> Config {
        let mut config = Config::new(Uri::from_static("https://one:6443"));
        config.tls_server_name = Some("one".to_owned());
        config.auth_info.username = Some("u".to_owned());
        config.auth_info.password = Some(SecretString::from("p"));
        config
    }

    #[test]
    fn flags_take_precedence_over_the_kubeconfig() {
        let mut changed = config();
        Overrides::default().apply(&mut changed).unwrap();
        assert_eq!(changed.tls_server_name.as_deref(), Some("one"));
        assert!(changed.auth_info.username.is_some());

        let overrides = Overrides {
            server: Some(Uri::from_static("https://two:6443")),
            insecure_skip_tls_verify: Some(true),
            token: Some(SecretString::from("t")),
            impersonate: Some("alice".to_owned()),
            impersonate_uid: Some("7".to_owned()),
            impersonate_groups: vec!["dev".to_owned(), "ops".to_owned()],
            ..Overrides::default()
        };
        overrides.apply(&mut changed).unwrap();
        assert_eq!(changed.cluster_url, "https://two:6443");
        assert_eq!(changed.tls_server_name, None);
        assert!(changed.accept_invalid_certs);
        let user = changed.auth_info;
        assert_eq!(user.username, None);
        assert_eq!(user.token.unwrap().expose_secret(), "t");
        assert_eq!(user.impersonate.as_deref(), Some("alice"));
        assert_eq!(user.impersonate_uid.as_deref(), Some("7"));
        assert_eq!(user.impersonate_groups.map(|it| it.len()), Some(2));
    }

    #[test]
    fn authority_without_certificates_is_rejected() {
        let overrides = Overrides {
            certificate_authority: Some(b"nonsense".to_vec()),
            ..Overrides::default()
        };
        let error = overrides.apply(&mut config()).unwrap_err();
        assert_eq!(error, OverrideError::Authority("it has none".to_owned()));
    }

    #[test]
    fn unknown_names_are_reported_with_the_known_ones() {
        let kubeconfig: Kubeconfig = serde_json::from_value(serde_json::json!({
            "contexts": [{ "name": "lab" }], "clusters": [{ "name": "a" }, { "name": "b" }],
        }))
        .unwrap();
        let options = |cluster: &str| KubeConfigOptions {
            cluster: Some(cluster.to_owned()),
            ..KubeConfigOptions::default()
        };
        assert_eq!(check_names(&kubeconfig, &options("b")), Ok(()));
        let error = check_names(&kubeconfig, &options("c")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cluster \"c\" does not exist in the kubeconfig; there are: a, b"
        );
    }
}
