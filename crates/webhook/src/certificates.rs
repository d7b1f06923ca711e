//! Certificates that the API server trusts: files that somebody else renews, or made here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use listener::stopped;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::error::Error;

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub enum Certificates {
    /// Files in PEM; read again when they change.
    Files {
        /// The certificate, and those it depends on.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
        /// How often to look whether they have changed.
        every: Duration,
    },
    /// Made here.
    SelfMade(SelfMade),
}

/// A certificate made here, with an authority that signs nothing else. The keys are never written
/// down: another process has others.
#[derive(Debug, Clone)]
pub struct SelfMade {
    authority: String,
    pair: Pair,
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair")
    }
}

impl SelfMade {
    /// A certificate for these names and addresses.
    pub fn new(names: &[String]) -> Result<Self, Error> {
        make(names).map_err(|source| Error::Make {
            names: names.join(", "),
            source,
        })
    }

    /// The certificate of the authority, in PEM: what the API server has to trust.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

fn make(names: &[String]) -> Result<SelfMade, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority
        .distinguished_name
        .push(DnType::CommonName, "medley-webhook-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?.pem();
    let mut params = CertificateParams::new(names.to_vec())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "medley-webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok(SelfMade {
        authority: authority_certificate,
        pair: Pair {
            certificate: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        },
    })
}

/// The TLS settings of the moment; clones share them.
#[derive(Clone)]
pub(crate) struct Tls {
    certificates: Certificates,
    pair: Pair,
    current: Arc<ArcSwap<ServerConfig>>,
}

impl Tls {
    /// Reads the certificate and proves that it can be used.
    pub(crate) fn load(certificates: Certificates) -> Result<Self, Error> {
        let pair = match &certificates {
            Certificates::Files {
                certificate, key, ..
            } => read(certificate, key)?,
            Certificates::SelfMade(own) => own.pair.clone(),
        };
        let current = Arc::new(ArcSwap::from_pointee(settings(&pair)?));
        Ok(Self {
            certificates,
            pair,
            current,
        })
    }

    /// What a new connection gets.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Follows the files. What cannot be used is passed over: the former certificate may still be
    /// good, and half of a new pair is nothing unusual while it is being written.
    pub(crate) async fn follow(mut self, mut stopping: watch::Receiver<bool>) {
        let Certificates::Files {
            certificate,
            key,
            every,
        } = self.certificates
        else {
            return;
        };
        loop {
            tokio::select! {
                () = stopped(&mut stopping) => return,
                () = tokio::time::sleep(every) => {}
            }
            let pair = match read(&certificate, &key) {
                Ok(pair) if pair == self.pair => continue,
                Ok(pair) => pair,
                Err(error) => {
                    warn!(%error, "the certificate cannot be read again");
                    continue;
                }
            };
            match settings(&pair) {
                Ok(settings) => {
                    info!(certificate = %certificate.display(), "using a new certificate");
                    self.current.store(Arc::new(settings));
                }
                Err(error) => warn!(%error, "the new certificate cannot be used"),
            }
            self.pair = pair;
        }
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Pair, Error> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })
    };
    Ok(Pair {
        certificate: read(certificate)?,
        key: read(key)?,
    })
}

fn settings(pair: &Pair) -> Result<ServerConfig, Error> {
    let anybody = WebPkiClientVerifier::no_client_auth();
    listener::tls_settings(&pair.certificate, &pair.key, anybody).map_err(|error| Error::Tls {
        what: error.what.to_owned(),
        why: error.why,
    })
}
