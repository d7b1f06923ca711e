//! Client certificates that rustls does not parse: X.509 version 1.
//!
//! `rustls` checks that a certificate and its key belong together, and its parser knows version 3 only. The check is
//! left to the API server here, whose authentication reads versions 1 and 3 (as Go's `crypto/x509` does).

use std::fs;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::client::RustlsTlsError;
use kube::config::AuthInfo;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, Error};
use secrecy::ExposeSecret;

use super::ClientError;

/// Whether rustls refused the certificate itself, not the key.
pub(super) fn is_unsupported(error: &RustlsTlsError) -> bool {
    matches!(
        error,
        RustlsTlsError::InvalidPrivateKey(Error::InvalidCertificate(_))
    )
}

/// The client certificate and key of a user, as they are.
pub(super) fn resolver(
    user: &AuthInfo,
    tls: &ClientConfig,
) -> Result<Arc<dyn ResolvesClientCert>, ClientError> {
    let unusable = |why: String| ClientError::Identity(why);
    let certificate = pem(
        user.client_certificate_data.as_deref(),
        user.client_certificate.as_deref(),
        "client-certificate",
    )?;
    let key = pem(
        user.client_key_data
            .as_ref()
            .map(ExposeSecret::expose_secret),
        user.client_key.as_deref(),
        "client-key",
    )?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let chain = chain.map_err(|error| unusable(format!("client-certificate: {error}")))?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| unusable(format!("client-key: {error}")))?;
    let key = tls.crypto_provider().key_provider.load_private_key(key);
    let key = key.map_err(|error| unusable(format!("client-key: {error}")))?;
    Ok(Arc::new(SingleCertAndKey::from(CertifiedKey::new(
        chain, key,
    ))))
}

/// The content of a field, or of the file that another field names.
fn pem(data: Option<&str>, path: Option<&str>, field: &str) -> Result<Vec<u8>, ClientError> {
    match (data.filter(|data| !data.is_empty()), path) {
        (Some(data), _) => STANDARD
            .decode(data.trim())
            .map_err(|error| ClientError::Identity(format!("{field}-data: {error}"))),
        (None, Some(path)) => fs::read(path)
            .map_err(|error| ClientError::Identity(format!("reading {field} {path}: {error}"))),
        (None, None) => Err(ClientError::Identity(format!("{field} is missing"))),
    }
}
