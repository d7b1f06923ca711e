//! Certificates that the API server trusts: files that somebody else renews, or made here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use listener::stopped;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use time::OffsetDateTime;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::authority::{Authorities, Authority};
use crate::error::Error;

/// How long certificates of shared authorities live.
const LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// What is left of its life when a certificate is renewed.
const REST: SignedDuration = SignedDuration::from_hours(10 * 24);
/// How long those live that nobody renews: longer than any process.
const FOR_GOOD: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// Clocks go apart.
const SKEW: SignedDuration = SignedDuration::from_hours(24);

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

    /// Ready when somebody else is to be trusted; never if that cannot be.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
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
pub(crate) struct Pair {
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
        let now = Timestamp::now();
        let expires = now.saturating_add(FOR_GOOD).unwrap_or(Timestamp::MAX);
        let made = Authority::make(now, expires).and_then(|authority| {
            let pair = issue(&authority, names, now, expires)?;
            Ok(Self {
                authority: authority.certificate,
                pair,
            })
        });
        made.map_err(|source| Error::Make {
            names: names.join(", "),
            source,
        })
    }

    /// The certificate of the authority, in PEM: what the API server has to trust.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// A certificate for these names that an authority has signed.
fn issue(
    authority: &Authority,
    names: &[String],
    now: Timestamp,
    expires: Timestamp,
) -> Result<Pair, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "medley-webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = validity(now, expires);
    let signer = KeyPair::from_pem(&authority.key)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, signer)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Pair {
        certificate: certificate.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
    })
}

/// From when to when a certificate is good, in whole days.
pub(crate) fn validity(from: Timestamp, until: Timestamp) -> (OffsetDateTime, OffsetDateTime) {
    let day = |time: Timestamp| {
        let date = time.to_zoned(TimeZone::UTC).date();
        // Months and days are small and positive.
        let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
        date_time_ymd(date.year().into(), month, day)
    };
    let from = from.saturating_sub(SKEW).unwrap_or(Timestamp::MIN);
    (day(from), day(until))
}

/// A certificate of an authority that replicas share.
pub(crate) struct Issued {
    pair: Pair,
    signer: String,
    expires: Timestamp,
}

impl Issued {
    fn new(authorities: &Authorities, now: Timestamp) -> Result<Self, Error> {
        let authority = authorities.signer(now).ok_or_else(|| Error::Tls {
            what: "authority".to_owned(),
            why: "there is none".to_owned(),
        })?;
        let expires = now.saturating_add(LIFE).unwrap_or(Timestamp::MAX);
        let expires = expires.min(authority.expires);
        let pair = issue(authority, authorities.names(), now, expires);
        Ok(Self {
            pair: pair.map_err(|source| Error::Make {
                names: authorities.names().join(", "),
                source,
            })?,
            signer: authority.certificate.clone(),
            expires,
        })
    }

    fn is_due(&self, authorities: &Authorities, now: Timestamp) -> bool {
        let signer = authorities.signer(now).map(|it| it.certificate.as_str());
        signer != Some(&self.signer) || self.expires.duration_since(now) < REST
    }
}

/// The TLS settings of the moment; clones share them.
#[derive(Clone)]
pub(crate) struct Tls {
    current: Arc<ArcSwap<ServerConfig>>,
}

/// Renews the TLS settings.
pub(crate) enum Renewal {
    /// Nothing has to be.
    Never,
    /// Files that somebody else renews.
    Files {
        certificate: PathBuf,
        key: PathBuf,
        every: Duration,
        pair: Pair,
    },
    /// Certificates of shared authorities.
    Shared {
        authorities: Box<Authorities>,
        every: Duration,
        issued: Box<Issued>,
        trust: watch::Sender<String>,
    },
}

impl Tls {
    /// Reads the certificate and proves that it can be used. Tells also how it is renewed and, if it was
    /// made here, whom to trust.
    pub(crate) fn load(
        certificates: Certificates,
    ) -> Result<(Self, Renewal, Option<Trust>), Error> {
        let (pair, renewal, trust) = match certificates {
            Certificates::Files {
                certificate,
                key,
                every,
            } => {
                let pair = read(&certificate, &key)?;
                let renewal = Renewal::Files {
                    certificate,
                    key,
                    every,
                    pair: pair.clone(),
                };
                (pair, renewal, None)
            }
            Certificates::SelfMade(own) => {
                let trust = Trust::fixed(own.authority);
                (own.pair, Renewal::Never, Some(trust))
            }
            Certificates::Shared { authorities, every } => {
                let issued = Box::new(Issued::new(&authorities, Timestamp::now())?);
                let pair = issued.pair.clone();
                let (trust, trusted) = watch::channel(authorities.bundle());
                let renewal = Renewal::Shared {
                    authorities,
                    every,
                    issued,
                    trust,
                };
                (pair, renewal, Some(Trust(trusted)))
            }
        };
        let current = Arc::new(ArcSwap::from_pointee(settings(&pair)?));
        Ok((Self { current }, renewal, trust))
    }

    /// What a new connection gets.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Renews until it is stopped. What cannot be used is passed over: the former certificate may still be
    /// good, and half of a new pair is nothing unusual while it is being written.
    pub(crate) async fn follow(self, mut renewal: Renewal, mut stopping: watch::Receiver<bool>) {
        let every = match renewal {
            Renewal::Never => return,
            Renewal::Files { every, .. } | Renewal::Shared { every, .. } => every,
        };
        loop {
            tokio::select! {
                () = stopped(&mut stopping) => return,
                () = tokio::time::sleep(every) => {}
            }
            match renewal.next().await {
                Ok(None) => {}
                Ok(Some(pair)) => match settings(&pair) {
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

impl Renewal {
    /// The certificate to use from now on, if it is another.
    async fn next(&mut self) -> Result<Option<Pair>, Error> {
        match self {
            Self::Never => Ok(None),
            Self::Files {
                certificate,
                key,
                pair,
                ..
            } => {
                let now = read(certificate, key)?;
                let changed = now != *pair;
                pair.clone_from(&now);
                Ok(changed.then_some(now))
            }
            Self::Shared {
                authorities,
                issued,
                trust,
                ..
            } => {
                let now = Timestamp::now();
                authorities.look(now).await?;
                let bundle = authorities.bundle();
                trust.send_if_modified(|told| {
                    let changed = *told != bundle;
                    *told = bundle;
                    changed
                });
                if !issued.is_due(authorities, now) {
                    return Ok(None);
                }
                **issued = Issued::new(authorities, now)?;
                Ok(Some(issued.pair.clone()))
            }
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
