//! Which certificates of a webhook are trusted: as Go's `crypto/x509` does, which is laxer than webpki in one respect.
//!
//! Go trusts a certificate that is itself among the roots (`Certificate.Verify` in `crypto/x509/verify.go`), regardless
//! of its issuer and of whether it is an authority. envtest puts the certificate of its webhooks into `caBundle`, and
//! `openssl req -x509` marks a self-signed certificate as an authority.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{ASN1Time, FromDer as _, X509Certificate};

/// Verifies the certificate of a webhook against the certificates of its `caBundle`.
#[derive(Debug)]
pub(super) struct BundleVerifier {
    /// The certificates of the bundle.
    bundle: Vec<CertificateDer<'static>>,
    /// Verifies certificates that one of the bundle signed.
    chains: Arc<WebPkiServerVerifier>,
}

impl BundleVerifier {
    /// A verifier for the certificates of a bundle, which are also the roots of chains.
    pub(super) fn new(bundle: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in &bundle {
            let added = roots.add(certificate.clone());
            added.map_err(|error| error.to_string())?;
        }
        let chains = WebPkiServerVerifier::builder(Arc::new(roots)).build();
        Ok(Self {
            bundle,
            chains: chains.map_err(|error| error.to_string())?,
        })
    }
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.bundle.iter().any(|trusted| trusted == end_entity) {
            return self.chains.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        // In Go's order: the first violation is the error.
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let (_, certificate) = X509Certificate::from_der(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        verify_validity(&certificate, now).map_err(Error::InvalidCertificate)?;
        verify_server_name(&parsed, server_name)?;
        verify_usage(&certificate).map_err(Error::InvalidCertificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

fn verify_validity(
    certificate: &X509Certificate<'_>,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let unix_time = |time: ASN1Time| {
        // All times before 1970 are equally in the past.
        let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    };
    let validity = certificate.validity();
    let (not_before, not_after) = (
        unix_time(validity.not_before),
        unix_time(validity.not_after),
    );
    if now < not_before {
        return Err(CertificateError::NotValidYetContext {
            time: now,
            not_before,
        });
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext {
            time: now,
            not_after,
        });
    }
    Ok(())
}

/// Whether the certificate is for servers: it says so, or does not limit its use.
fn verify_usage(certificate: &X509Certificate<'_>) -> Result<(), CertificateError> {
    let usage = certificate
        .extended_key_usage()
        .map_err(|_| CertificateError::BadEncoding)?;
    match usage {
        Some(usage) if !usage.value.any && !usage.value.server_auth => {
            Err(CertificateError::InvalidPurpose)
        }
        _ => Ok(()),
    }
}
