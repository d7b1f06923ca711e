//! Verification of client certificates.
//!
//! TLS proves that a client has the key of its certificate; the server verifies the chain
//! afterwards, for every request. So CAs can change under open and resumed sessions, and a client
//! whose certificate is of another CA is an unauthenticated client, not a failed handshake: an API
//! server that presents one everywhere must not be cut off by a server that knows another CA.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::certificates::Error;

/// How long a verification is cached: a signature check per request would cost more than most
/// requests, and an expired certificate is noticed soon enough.
const VERIFICATION_LIFETIME: Duration = Duration::from_mins(1);
/// Certificates in the cache. API servers have one or two each.
const MAX_CACHED: usize = 64;

/// CAs of client certificates, and the accepted common names.
pub struct ClientAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
    verified: Mutex<HashMap<Vec<u8>, (String, Instant)>>,
}

/// Why a client is not authenticated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It presented no certificate.
    #[error("no client certificate was presented")]
    Missing,
    /// The certificate is of another CA, expired, or not for clients.
    #[error("the client certificate cannot be verified: {0}")]
    Unverified(String),
    /// The certificate is valid, but of another client.
    #[error(
        "the common name {name:?} of the client certificate is not accepted; accepted are: {accepted}"
    )]
    Name {
        /// The common name.
        name: String,
        /// The accepted names.
        accepted: String,
    },
}

impl fmt::Debug for ClientAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthorities")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl ClientAuthorities {
    /// CAs in PEM. Only certificates with one of these common names are accepted; all are if there
    /// are none, as for `requestheader-allowed-names` of kube-apiserver.
    pub fn new(pem: &str, names: Vec<String>) -> Result<Self, Error> {
        let wrong = |why: String| Error::Tls {
            what: "client authority".to_owned(),
            why,
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            let added = roots.add(certificate);
            added.map_err(|error| wrong(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(wrong("the PEM data holds no certificate".to_owned()));
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build();
        Ok(Self {
            verifier: verifier.map_err(|error| wrong(error.to_string()))?,
            names,
            verified: Mutex::default(),
        })
    }

    /// The common name of a client that presented this chain, its own certificate first, if it
    /// verifies.
    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<String, Rejection> {
        let (own, others) = chain.split_first().ok_or(Rejection::Missing)?;
        // By the whole certificate, not by its name: another certificate of the same name has to be
        // verified.
        let remembered = self.verified.lock().get(&own[..]).cloned();
        if let Some((name, at)) = remembered
            && at.elapsed() < VERIFICATION_LIFETIME
        {
            return Ok(name);
        }
        let unverified = |why: &dyn fmt::Display| Rejection::Unverified(why.to_string());
        let verified = self
            .verifier
            .verify_client_cert(own, others, UnixTime::now());
        verified.map_err(|error| unverified(&error))?;
        let name = common_name(own).map_err(|why| unverified(&why))?;
        if !self.names.is_empty() && !self.names.contains(&name) {
            let accepted = self.names.join(", ");
            return Err(Rejection::Name { name, accepted });
        }
        let mut verified = self.verified.lock();
        if verified.len() >= MAX_CACHED {
            // Rather than evicting by age: real callers are a handful, and more entries mean that a
            // client sends random certificates, each of which would push out a real one.
            verified.clear();
        }
        verified.insert(own.to_vec(), (name.clone(), Instant::now()));
        Ok(name)
    }
}

fn common_name(certificate: &CertificateDer<'_>) -> Result<String, String> {
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let name = certificate.subject().iter_common_name().next();
    let name = name.and_then(|name| name.as_str().ok());
    // Common names may be absent where the CA alone identifies the client.
    Ok(name.unwrap_or_default().to_owned())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Accepts any certificate whose key the client has, and no certificate at all.
#[derive(Debug)]
pub(crate) struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyCertificate {
    pub(crate) fn new() -> Self {
        Self {
            algorithms: provider().signature_verification_algorithms,
        }
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// No hints: clients present what they have, and CAs may change while sessions are open.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
