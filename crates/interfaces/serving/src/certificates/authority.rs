//! Certificates that are made here, and authorities that sign them.

use std::fmt;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::certificates::{Error, Pair};

/// How long certificates live that nobody renews: longer than any process.
const FOR_GOOD: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// Clocks go apart.
const SKEW: SignedDuration = SignedDuration::from_hours(24);

/// A certificate that others are signed with, in PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// The certificate.
    pub certificate: String,
    key: String,
    /// When it was made.
    pub made: Timestamp,
    /// Until when it is good.
    pub expires: Timestamp,
}

/// Keys are for nobody's eyes.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("made", &self.made)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one that calls itself so.
    pub fn make(called: &str, now: Timestamp, expires: Timestamp) -> Result<Self, Error> {
        let made = || {
            let mut params = CertificateParams::new(Vec::new())?;
            params.distinguished_name.push(DnType::CommonName, called);
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            (params.not_before, params.not_after) = validity(now, expires);
            let key = KeyPair::generate()?;
            Ok(Self {
                certificate: params.self_signed(&key)?.pem(),
                key: key.serialize_pem(),
                made: now,
                expires,
            })
        };
        made().map_err(|source| Error::Make {
            names: called.to_owned(),
            source,
        })
    }

    /// A certificate that a client shows to servers; the common name says who it is.
    pub fn issue_client(
        &self,
        common_name: &str,
        now: Timestamp,
        expires: Timestamp,
    ) -> Result<Pair, Error> {
        let purpose = ExtendedKeyUsagePurpose::ClientAuth;
        self.sign(common_name, &[], &purpose, now, expires)
    }

    /// A certificate for these names and addresses.
    pub fn issue(
        &self,
        called: &str,
        names: &[String],
        now: Timestamp,
        expires: Timestamp,
    ) -> Result<Pair, Error> {
        let purpose = ExtendedKeyUsagePurpose::ServerAuth;
        self.sign(called, names, &purpose, now, expires)
    }

    fn sign(
        &self,
        called: &str,
        names: &[String],
        purpose: &ExtendedKeyUsagePurpose,
        now: Timestamp,
        expires: Timestamp,
    ) -> Result<Pair, Error> {
        let issued = || {
            let mut params = CertificateParams::new(names.to_vec())?;
            params.distinguished_name.push(DnType::CommonName, called);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![purpose.clone()];
            params.use_authority_key_identifier_extension = true;
            (params.not_before, params.not_after) = validity(now, expires);
            let signer = KeyPair::from_pem(&self.key)?;
            let issuer = Issuer::from_ca_cert_pem(&self.certificate, signer)?;
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &issuer)?;
            Ok(Pair {
                certificate: certificate.pem().into_bytes(),
                key: key.serialize_pem().into_bytes(),
            })
        };
        issued().map_err(|source| Error::Make {
            names: match names {
                [] => called.to_owned(),
                names => names.join(", "),
            },
            source,
        })
    }
}

/// A certificate made here, with an authority that signs nothing else. The keys are never written
/// down: another process has others.
#[derive(Debug, Clone)]
pub struct SelfMade {
    authority: String,
    pair: Pair,
}

impl SelfMade {
    /// A certificate for these names and addresses, of a server that is called so.
    pub fn new(called: &str, names: &[String]) -> Result<Self, Error> {
        let now = Timestamp::now();
        let expires = now.saturating_add(FOR_GOOD).unwrap_or(Timestamp::MAX);
        let authority = Authority::make(&format!("{called}-ca"), now, expires)?;
        Ok(Self {
            pair: authority.issue(called, names, now, expires)?,
            authority: authority.certificate,
        })
    }

    /// The certificate of the authority, in PEM: whom clients have to trust.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The certificate and its key.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }
}

/// From when to when a certificate is good, in whole days.
fn validity(from: Timestamp, until: Timestamp) -> (OffsetDateTime, OffsetDateTime) {
    let day = |time: Timestamp| {
        let date = time.to_zoned(TimeZone::UTC).date();
        // Months and days are small and positive.
        let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
        date_time_ymd(date.year().into(), month, day)
    };
    let from = from.saturating_sub(SKEW).unwrap_or(Timestamp::MIN);
    (day(from), day(until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::Tls;

    #[test]
    fn what_is_made_here_can_be_used_and_keeps_its_keys_to_itself() -> anyhow::Result<()> {
        let own = SelfMade::new("medley-test", &["localhost".to_owned()])?;
        Tls::new(own.pair())?;
        assert_eq!(format!("{:?}", own.pair()), "Pair { .. }");
        let authority = Authority::make("medley-test-ca", Timestamp::UNIX_EPOCH, Timestamp::MAX)?;
        assert!(!format!("{authority:?}").contains("KEY"));
        Ok(())
    }
}
