//! Certificates that the API server trusts: files that somebody else renews, or made here.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serving::certificates::{Files, Pair, Renewal, SelfMade, Tls};
use tokio::sync::watch;

use crate::authority::Authorities;
use crate::error::Error;

/// What certificates of checks are called.
pub(crate) const CALLED: &str = "medley-webhook";
/// How long certificates of shared authorities live.
const LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// What is left of its life when a certificate is renewed.
const REST: SignedDuration = SignedDuration::from_hours(10 * 24);

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub enum Certificates {
    /// Files; read again when they change.
    Files(Files),
    /// Made here.
    SelfMade(SelfMade),
    /// Made here, and signed by authorities that all replicas share; renewed in time.
    Shared {
        /// The authorities.
        authorities: Box<Authorities>,
        /// How often to look whether anything has to be renewed.
        every: Duration,
    },
}

/// Whom the API server has to trust, in PEM; it may change. Clones see the same.
#[derive(Debug, Clone)]
pub struct Trust(watch::Receiver<String>);

impl Trust {
    /// An authority that stays.
    pub fn fixed(authority: impl Into<String>) -> Self {
        Self(watch::channel(authority.into()).1)
    }

    /// Whom to trust now.
    pub(crate) fn current(&mut self) -> String {
        self.0.borrow_and_update().clone()
    }

    /// Whom to trust now, without taking note of it.
    pub(crate) fn peek(&self) -> String {
        self.0.borrow().clone()
    }

    /// Ready when somebody else is to be trusted; never if that cannot be.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A certificate in use.
pub(crate) struct Loaded {
    pub(crate) tls: Tls,
    /// Renews it for as long as it is polled; ends at once if nobody does.
    pub(crate) renewing: BoxFuture<'static, ()>,
    /// Whom to trust, if it was made here.
    pub(crate) trust: Option<Trust>,
}

impl Certificates {
    /// One that is made here for these names and addresses, and never renewed.
    pub fn self_made(names: &[String]) -> Result<Self, Error> {
        Ok(Self::SelfMade(SelfMade::new(CALLED, names)?))
    }

    /// Proves that the certificate can be used.
    pub(crate) fn load(self) -> Result<Loaded, Error> {
        match self {
            Self::Files(files) => {
                let tls = Tls::asking_clients(files.pair())?;
                Ok(Loaded {
                    renewing: tls.clone().follow(files).boxed(),
                    tls,
                    trust: None,
                })
            }
            Self::SelfMade(own) => Ok(Loaded {
                tls: Tls::asking_clients(own.pair())?,
                renewing: futures::future::ready(()).boxed(),
                trust: Some(Trust::fixed(own.authority())),
            }),
            Self::Shared { authorities, every } => {
                let issued = Issued::new(&authorities, Timestamp::now())?;
                let tls = Tls::asking_clients(&issued.pair)?;
                let (trust, trusted) = watch::channel(authorities.bundle());
                let shared = Shared {
                    authorities,
                    every,
                    issued,
                    trust,
                };
                Ok(Loaded {
                    renewing: tls.clone().follow(shared).boxed(),
                    tls,
                    trust: Some(Trust(trusted)),
                })
            }
        }
    }
}

/// A certificate of an authority that replicas share.
struct Issued {
    pair: Pair,
    signer: String,
    expires: Timestamp,
}

impl Issued {
    fn new(authorities: &Authorities, now: Timestamp) -> Result<Self, Error> {
        let authority = authorities.signer(now).ok_or(Error::NoAuthority)?;
        let expires = now.saturating_add(LIFE).unwrap_or(Timestamp::MAX);
        let expires = expires.min(authority.expires);
        Ok(Self {
            pair: authority.issue(CALLED, authorities.names(), now, expires)?,
            signer: authority.certificate.clone(),
            expires,
        })
    }

    fn is_due(&self, authorities: &Authorities, now: Timestamp) -> bool {
        let signer = authorities.signer(now).map(|it| it.certificate.as_str());
        signer != Some(&self.signer) || self.expires.duration_since(now) < REST
    }
}

/// Renews certificates of shared authorities, and tells whom to trust.
struct Shared {
    authorities: Box<Authorities>,
    every: Duration,
    issued: Issued,
    trust: watch::Sender<String>,
}

impl Renewal for Shared {
    type Error = Error;

    fn every(&self) -> Duration {
        self.every
    }

    async fn next(&mut self) -> Result<Option<Pair>, Error> {
        let now = Timestamp::now();
        self.authorities.look(now).await?;
        let bundle = self.authorities.bundle();
        self.trust.send_if_modified(|told| {
            let changed = *told != bundle;
            *told = bundle;
            changed
        });
        if !self.issued.is_due(&self.authorities, now) {
            return Ok(None);
        }
        self.issued = Issued::new(&self.authorities, now)?;
        Ok(Some(self.issued.pair.clone()))
    }
}
