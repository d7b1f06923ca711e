//! The TLS settings of a server whose certificate is renewed.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tracing::{info, warn};

use crate::certificates::clients::AnyCertificate;
use crate::certificates::{Error, Pair};

/// A source of renewed certificates.
pub trait Renewal: Send {
    /// Why a renewal fails.
    type Error: Display + Send;

    /// Poll interval.
    fn every(&self) -> Duration;

    /// The certificate to use from now on, if it changed.
    fn next(&mut self) -> impl Future<Output = Result<Option<Pair>, Self::Error>> + Send;
}

/// The current TLS settings; clones share them.
#[derive(Clone)]
pub struct Tls {
    current: Arc<ArcSwap<ServerConfig>>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Settings with a valid certificate.
    pub fn new(pair: &Pair) -> Result<Self, Error> {
        Self::with_clients(pair, WebPkiClientVerifier::no_client_auth())
    }

    /// The same, for a server that requests client certificates and verifies them itself, with
    /// [`ClientAuthorities`](crate::certificates::ClientAuthorities). A client without one, or with
    /// one of another CA, can still connect.
    pub fn with_client_certificates(pair: &Pair) -> Result<Self, Error> {
        Self::with_clients(pair, Arc::new(AnyCertificate::new()))
    }

    fn with_clients(pair: &Pair, clients: Arc<dyn ClientCertVerifier>) -> Result<Self, Error> {
        let settings = settings(pair, Arc::clone(&clients))?;
        let current = Arc::new(ArcSwap::from_pointee(settings));
        Ok(Self { current, clients })
    }

    /// Settings for new connections of a listener, which follow renewals.
    pub fn of_listener(&self) -> crate::Tls {
        let current = Arc::clone(&self.current);
        Box::new(move || current.load_full())
    }

    /// Renews for as long as it is polled. Invalid content is skipped: the former certificate may
    /// still be valid, and half of a new pair is common while it is being written.
    pub async fn follow(self, mut renewal: impl Renewal) {
        loop {
            tokio::time::sleep(renewal.every()).await;
            match renewal.next().await {
                Ok(None) => {}
                Ok(Some(pair)) => match settings(&pair, Arc::clone(&self.clients)) {
                    Ok(settings) => {
                        info!("using a new certificate");
                        self.current.store(Arc::new(settings));
                    }
                    Err(error) => warn!(%error, "the new certificate cannot be used"),
                },
                Err(error) => warn!(%error, "the certificate cannot be renewed; trying again"),
            }
        }
    }
}

fn settings(pair: &Pair, clients: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig, Error> {
    crate::tls_settings(&pair.certificate, &pair.key, clients).map_err(|error| Error::Tls {
        what: error.what.to_owned(),
        why: error.why,
    })
}
