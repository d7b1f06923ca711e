//! TLS trust: CA certificates of the system, of single hosts, or none.

use std::fmt;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Characters of a line in PEM (RFC 7468).
const PEM_LINE: usize = 64;

/// Upper bound of certificates per file.
const MAX_CERTIFICATES: usize = 4096;

/// Certificates for one endpoint: additional CA certificates, and a client certificate.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    authorities: Vec<CertificateDer<'static>>,
    client: Option<Client>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Client {
    chain: Vec<CertificateDer<'static>>,
    /// PKCS#8, PKCS#1 or SEC1 in PEM: rustls keys cannot be cloned.
    key: Vec<u8>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("authorities", &self.authorities.len())
            .field("client", &self.client.is_some())
            .finish()
    }
}

impl Tls {
    /// CA certificates in PEM.
    pub fn authorities(pem: &[u8]) -> Result<Self, String> {
        let mut tls = Self::default();
        tls.add_authorities(pem)?;
        Ok(tls)
    }

    /// Whether it contains no certificates.
    pub fn is_empty(&self) -> bool {
        self.authorities.is_empty() && self.client.is_none()
    }

    /// The CA certificates in PEM.
    pub fn authorities_pem(&self) -> String {
        let mut pem = String::new();
        for authority in &self.authorities {
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            let encoded = STANDARD.encode(authority);
            for line in encoded.as_bytes().chunks(PEM_LINE) {
                // Base64 is ASCII.
                pem.push_str(&String::from_utf8_lossy(line));
                pem.push('\n');
            }
            pem.push_str("-----END CERTIFICATE-----\n");
        }
        pem
    }

    /// Adds CA certificates in PEM.
    pub fn add_authorities(&mut self, pem: &[u8]) -> Result<(), String> {
        let certificates = certificates(pem)?;
        if certificates.is_empty() {
            return Err("expected certificates in PEM, found none".to_owned());
        }
        self.authorities.extend(certificates);
        if self.authorities.len() > MAX_CERTIFICATES {
            return Err(format!("more than {MAX_CERTIFICATES} certificates"));
        }
        Ok(())
    }

    /// Sets the client certificate and its key, in PEM.
    pub fn set_client(&mut self, pem: &[u8]) -> Result<(), String> {
        let chain = certificates(pem)?;
        if chain.is_empty() || PrivateKeyDer::from_pem_slice(pem).is_err() {
            return Err("expected a certificate and its private key in PEM".to_owned());
        }
        self.client = Some(Client {
            chain,
            key: pem.to_vec(),
        });
        Ok(())
    }

    fn add(&mut self, other: &Self) {
        self.authorities.extend(other.authorities.iter().cloned());
        if other.client.is_some() {
            self.client.clone_from(&other.client);
        }
    }

    /// Merges two sets of certificates.
    #[must_use]
    pub(crate) fn and(&self, other: Option<&Self>) -> Self {
        let mut both = self.clone();
        if let Some(other) = other {
            both.add(other);
        }
        both
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem)
        .take(MAX_CERTIFICATES)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("expected certificates in PEM: {error}"))
}

/// The CA certificates trusted for every host.
#[derive(Debug, Clone)]
pub struct Roots(Arc<LazyLock<RootCertStore, Load>>);

/// How they are loaded.
type Load = Box<dyn FnOnce() -> RootCertStore + Send>;

impl Roots {
    /// Those of the system. They are loaded on first use: parsing the many files takes longer than a
    /// request to a registry that needs none.
    pub fn of_system() -> Self {
        Self::found(|| {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::debug!(%error, "cannot read a system CA certificate");
            }
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(found.certs);
            store
        })
    }

    fn found(load: impl FnOnce() -> RootCertStore + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(load))))
    }

    /// These and additional ones.
    pub fn and(&self, tls: &Tls) -> Result<Self, String> {
        let mut store = RootCertStore::clone(&self.0);
        for authority in &tls.authorities {
            add(&mut store, authority)?;
        }
        Ok(Self::found(|| store))
    }

    /// None: only certificates configured for a host are trusted.
    pub fn none() -> Self {
        Self::found(RootCertStore::empty)
    }

    /// The TLS configuration of one endpoint.
    pub(crate) fn configuration(&self, tls: &Tls, verify: bool) -> Result<ClientConfig, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let verifier: Arc<dyn ServerCertVerifier> = if verify {
            let mut store = RootCertStore::clone(&self.0);
            for authority in &tls.authorities {
                add(&mut store, authority)?;
            }
            if store.is_empty() {
                return Err("there are no CA certificates".to_owned());
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider)
                .build()
                .map_err(|error| error.to_string())?
        } else {
            Arc::new(Unverified(provider))
        };
        // rustls's own verifier is used unless the configuration disables verification.
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let Some(client) = &tls.client else {
            return Ok(builder.with_no_client_auth());
        };
        let key = PrivateKeyDer::from_pem_slice(&client.key).map_err(|error| error.to_string())?;
        builder
            .with_client_auth_cert(client.chain.clone(), key)
            .map_err(|error| error.to_string())
    }
}

fn add(store: &mut RootCertStore, authority: &CertificateDer<'static>) -> Result<(), String> {
    store
        .add(authority.clone())
        .map_err(|error| format!("a CA certificate is invalid: {error}"))
}

/// Accepts every certificate, where the configuration disables verification. The handshake signature is
/// still checked.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
