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

/// Where another certificate comes from, once in a while.
pub trait Renewal: Send {
    /// Why it does not come.
    type Error: Display + Send;

    /// How often to look.
    fn every(&self) -> Duration;

    /// The certificate to use from now on, if it is another.
    fn next(&mut self) -> impl Future<Output = Result<Option<Pair>, Self::Error>> + Send;
}

/// The TLS settings of the moment; clones share them.
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
    /// Settings with a certificate that can be used.
    pub fn new(pair: &Pair) -> Result<Self, Error> {
        Self::with_clients(pair, WebPkiClientVerifier::no_client_auth())
    }

    /// The same, for a server that wants to see the certificates of its clients and verifies them itself, with
    /// [`ClientAuthorities`](crate::certificates::ClientAuthorities). A client without one, or with one of another authority, can
    /// still connect.
    pub fn asking_clients(pair: &Pair) -> Result<Self, Error> {
        Self::with_clients(pair, Arc::new(AnyCertificate::new()))
    }

    fn with_clients(pair: &Pair, clients: Arc<dyn ClientCertVerifier>) -> Result<Self, Error> {
        let settings = settings(pair, Arc::clone(&clients))?;
        let current = Arc::new(ArcSwap::from_pointee(settings));
        Ok(Self { current, clients })
    }

    /// What new connections of a listener get, now and later.
    pub fn of_listener(&self) -> crate::Tls {
        let current = Arc::clone(&self.current);
        Box::new(move || current.load_full())
    }

    /// Renews for as long as it is polled. What cannot be used is passed over: the former certificate may
    /// still be good, and half of a new pair is nothing unusual while it is being written.
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
