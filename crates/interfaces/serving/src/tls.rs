//! TLS settings from certificates in PEM.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;

/// Why there are no TLS settings.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct TlsError {
    /// The invalid part: `certificate`, `key` or `protocol versions`.
    pub what: &'static str,
    /// The cause.
    pub why: String,
}

/// The settings of a server with this certificate chain and key. `clients` verifies client
/// certificates. HTTP/2 and HTTP/1.1 are offered.
pub fn tls_settings(
    certificate: &[u8],
    key: &[u8],
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, TlsError> {
    let wrong = |what, error: &dyn std::fmt::Display| TlsError {
        what,
        why: error.to_string(),
    };
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong("certificate", &error))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong("key", &error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut settings = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("protocol versions", &error))?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(|error| wrong("certificate", &error))?;
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(settings)
}
