//! Serving certificates: from files renewed by another tool, or issued here.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serving::certificates::{Files, Pair, Renewal, SelfSigned, Tls};
use tokio::sync::watch;

use crate::authority::Authorities;
use crate::error::Error;

/// Common name of issued certificates.
pub(crate) const COMMON_NAME: &str = "medley-webhook";
/// Lifetime of certificates of shared CAs.
const CERTIFICATE_LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Remaining lifetime at which a certificate is renewed.
const CERTIFICATE_RENEWAL_MARGIN: SignedDuration = SignedDuration::from_hours(10 * 24);

/// Source of the serving certificate.
#[derive(Debug, Clone)]
pub enum Certificates {
    /// Files, read again when they change.
    Files(Files),
    /// Self-signed, for one process.
    SelfSigned(SelfSigned),
    /// Issued by CAs that all replicas share, and renewed in time.
    Shared {
        /// The CAs.
        authorities: Box<Authorities>,
        /// How often to check whether a renewal is due.
        every: Duration,
    },
}

/// The CA that the API server has to trust, in PEM; it may change. Clones see the same.
#[derive(Debug, Clone)]
pub struct Trust(watch::Receiver<String>);

impl Trust {
    /// A CA that does not change.
    pub fn fixed(authority: impl Into<String>) -> Self {
        Self(watch::channel(authority.into()).1)
    }

    /// The current CA, marked as seen.
    pub(crate) fn current(&mut self) -> String {
        self.0.borrow_and_update().clone()
    }

    /// The current CA, without marking it as seen.
    pub(crate) fn peek(&self) -> String {
        self.0.borrow().clone()
    }

    /// Completes when the CA changes; never if it cannot.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A loaded certificate.
pub(crate) struct LoadedCertificate {
    pub(crate) tls: Tls,
    /// Renews the certificate while it is polled; completes at once if no renewal is needed.
    pub(crate) renewing: BoxFuture<'static, ()>,
    /// The CA to trust, if the certificate was issued here.
    pub(crate) trust: Option<Trust>,
}

impl Certificates {
    /// A self-signed certificate for these names and addresses, never renewed.
    pub fn self_made(names: &[String]) -> Result<Self, Error> {
        Ok(Self::SelfSigned(SelfSigned::new(COMMON_NAME, names)?))
    }

    /// Loads and checks the certificate.
    pub(crate) fn load(self) -> Result<LoadedCertificate, Error> {
        match self {
            Self::Files(files) => {
                let tls = Tls::with_client_certificates(files.pair())?;
                Ok(LoadedCertificate {
                    renewing: tls.clone().follow(files).boxed(),
                    tls,
                    trust: None,
                })
            }
            Self::SelfSigned(own) => Ok(LoadedCertificate {
                tls: Tls::with_client_certificates(own.pair())?,
                renewing: futures::future::ready(()).boxed(),
                trust: Some(Trust::fixed(own.authority())),
            }),
            Self::Shared { authorities, every } => {
                let issued = IssuedCertificate::new(&authorities, Timestamp::now())?;
                let tls = Tls::with_client_certificates(&issued.pair)?;
                let (trust, trusted) = watch::channel(authorities.bundle());
                let shared = Shared {
                    authorities,
                    every,
                    issued,
                    trust,
                };
                Ok(LoadedCertificate {
                    renewing: tls.clone().follow(shared).boxed(),
                    tls,
                    trust: Some(Trust(trusted)),
                })
            }
        }
    }
}

/// A certificate of a shared CA.
struct IssuedCertificate {
    pair: Pair,
    signer: String,
    expires: Timestamp,
}

impl IssuedCertificate {
    fn new(authorities: &Authorities, now: Timestamp) -> Result<Self, Error> {
        let authority = authorities.signer(now).ok_or(Error::NoAuthority)?;
        let expires = now
            .saturating_add(CERTIFICATE_LIFETIME)
            .unwrap_or(Timestamp::MAX);
        // A certificate that outlives its CA fails verification before its own end,
        // although its own date is in the future.
        let expires = expires.min(authority.expires);
        Ok(Self {
            pair: authority.issue(COMMON_NAME, authorities.names(), now, expires)?,
            signer: authority.certificate.clone(),
            expires,
        })
    }

    fn is_due(&self, authorities: &Authorities, now: Timestamp) -> bool {
        let signer = authorities.signer(now).map(|it| it.certificate.as_str());
        signer != Some(&self.signer)
            || self.expires.duration_since(now) < CERTIFICATE_RENEWAL_MARGIN
    }
}

/// Renews certificates of shared CAs, and publishes the CA to trust.
struct Shared {
    authorities: Box<Authorities>,
    every: Duration,
    issued: IssuedCertificate,
    trust: watch::Sender<String>,
}

impl Renewal for Shared {
    type Error = Error;

    fn every(&self) -> Duration {
        self.every
    }

    async fn next(&mut self) -> Result<Option<Pair>, Error> {
        let now = Timestamp::now();
        self.authorities.rotate(now).await?;
        let bundle = self.authorities.bundle();
        // The bundle is published before the new certificate is served, an hour before in practice: the order in
        // which API servers need them.
        self.trust.send_if_modified(|published| {
            let changed = *published != bundle;
            *published = bundle;
            changed
        });
        if !self.issued.is_due(&self.authorities, now) {
            return Ok(None);
        }
        self.issued = IssuedCertificate::new(&self.authorities, now)?;
        Ok(Some(self.issued.pair.clone()))
    }
}
