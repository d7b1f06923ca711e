//! How `medley webhook` recognises the API server.

use std::path::PathBuf;

use ::webhook::{ClientCa, ClientVerification};
use clap::Args;

use crate::read::namespaced;

/// The CAs of trusted client certificates.
#[derive(Debug, Clone, Args)]
pub(super) struct CallerArguments {
    /// CAs of the client certificate that the API server presents to webhooks, in PEM; reloaded
    /// when the file changes. Reviews of other callers use no pull secrets, and no results obtained
    /// with them.
    #[arg(long, value_name = "PATH", env = "MEDLEY_CLIENT_CA")]
    #[arg(group = "client_authority")]
    client_ca: Option<PathBuf>,

    /// ConfigMap to read these CAs from, with the keys of
    /// kube-system/extension-apiserver-authentication: requestheader-client-ca-file with
    /// requestheader-allowed-names, and client-ca-file if --client-name is set.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    #[arg(env = "MEDLEY_CLIENT_CA_CONFIGMAP", group = "client_authority")]
    client_ca_configmap: Option<(String, String)>,

    /// Comma-separated common names of the API servers' client certificates.
    /// [default: those that the ConfigMap allows; with --client-ca, all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(env = "MEDLEY_CLIENT_NAME", requires = "client_authority")]
    client_name: Vec<String>,

    /// Reject reviews of callers without such a certificate (401 and 403). Use this only if the API
    /// server presents a client certificate to webhooks; otherwise all reviews fail.
    #[arg(long, env = "MEDLEY_REQUIRE_CLIENT_CERT")]
    #[arg(requires = "client_authority")]
    require_client_cert: bool,
}

impl CallerArguments {
    pub(super) fn verification(&self) -> ClientVerification {
        let authority = match (&self.client_ca, &self.client_ca_configmap) {
            (Some(path), _) => ClientCa::File(path.clone()),
            (None, Some((namespace, name))) => ClientCa::ConfigMap {
                namespace: namespace.clone(),
                name: name.clone(),
            },
            (None, None) => ClientCa::None,
        };
        ClientVerification {
            authority,
            names: self.client_name.clone(),
            required: self.require_client_cert,
        }
    }
}
