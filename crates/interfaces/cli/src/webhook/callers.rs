//! How `medley webhook` recognises the API server.

use std::path::PathBuf;
use std::str::FromStr;

use ::webhook::{ClientCa, ClientVerification};
use clap::Args;

/// The CAs of trusted client certificates.
#[derive(Debug, Clone, Args)]
pub(super) struct CallerArguments {
    /// CAs of the client certificate that the API server presents to webhooks, in PEM; reloaded
    /// when the file changes. Other callers are answered without using pull secrets, or results
    /// obtained with them.
    #[arg(
        long,
        value_name = "PATH",
        env = "MEDLEY_CLIENT_CA",
        group = "client_authority"
    )]
    client_ca: Option<PathBuf>,

    /// Read these CAs from a ConfigMap with the keys of
    /// kube-system/extension-apiserver-authentication: requestheader-client-ca-file with
    /// requestheader-allowed-names, and client-ca-file where --client-name is given.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        env = "MEDLEY_CLIENT_CA_CONFIGMAP",
        group = "client_authority"
    )]
    client_ca_configmap: Option<ObjectName>,

    /// Common names of the API servers' client certificates, separated by commas.
    /// [default: those that the ConfigMap allows; with --client-ca, all]
    #[arg(
        long,
        value_name = "NAMES",
        env = "MEDLEY_CLIENT_NAME",
        value_delimiter = ',',
        requires = "client_authority"
    )]
    client_name: Vec<String>,

    /// Reject reviews of callers without such a certificate (401 and 403). Only where the API
    /// server presents one to webhooks: otherwise all reviews fail.
    #[arg(
        long,
        env = "MEDLEY_REQUIRE_CLIENT_CERT",
        requires = "client_authority"
    )]
    require_client_cert: bool,
}

impl CallerArguments {
    pub(super) fn verification(&self) -> ClientVerification {
        let authority = match (&self.client_ca, &self.client_ca_configmap) {
            (Some(path), _) => ClientCa::File(path.clone()),
            (None, Some(ObjectName { namespace, name })) => ClientCa::ConfigMap {
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

#[derive(Debug, Clone, PartialEq, Eq)]
struct ObjectName {
    namespace: String,
    name: String,
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err(
                "expected NAMESPACE/NAME, such as kube-system/extension-apiserver-authentication"
                    .to_owned(),
            ),
        }
    }
}
