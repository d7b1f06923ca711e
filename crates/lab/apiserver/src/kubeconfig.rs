//! A kubeconfig for an administrator.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::pki::{Identity, PkiError};
use crate::private;

/// The text of a kubeconfig with one cluster, user and context, all called `medley`.
pub fn kubeconfig(server: &str, authority: &str, user: &Identity) -> String {
    let encode = |pem: &str| STANDARD.encode(pem);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "medley",
        "clusters": [{
            "name": "medley",
            "cluster": {"server": server, "certificate-authority-data": encode(authority)},
        }],
        "contexts": [{"name": "medley", "context": {"cluster": "medley", "user": "medley"}}],
        "users": [{
            "name": "medley",
            "user": {
                "client-certificate-data": encode(&user.certificate),
                "client-key-data": encode(&user.key),
            },
        }],
    });
    // JSON is YAML, so it is an acceptable fallback.
    let mut text = serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Writes a kubeconfig readable only by its owner, atomically.
pub fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    private::write(path, text.as_bytes()).map_err(|source| PkiError::file(path, source))
}
