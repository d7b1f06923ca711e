//! Certificates that are issued here, and the CAs that sign them.

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

/// Lifetime of certificates that are not renewed: longer than any process.
const UNRENEWED_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// Allowance for clock skew.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(24);

/// A CA certificate with its key, in PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// The certificate.
    pub certificate: String,
    key: String,
    /// Creation time.
    pub made: Timestamp,
    /// Expiry.
    pub expires: Timestamp,
}

/// Keys must not appear in logs.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("made", &self.made)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// A new CA with this common name.
    pub fn make(called: &str, now: Timestamp, expires: Timestamp) -> Result<Self, Error> {
        let made = || {
            let mut params = CertificateParams::new(Vec::new())?;
            params.distinguished_name.push(DnType::CommonName, called);
            // Zero intermediates: a leaf that is issued by mistake with CA rights is still
            // rejected.
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

    /// A client certificate with this common name.
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

/// A certificate issued by a single-use CA. The keys are never written to disk: another process has
/// others.
#[derive(Debug, Clone)]
pub struct SelfSigned {
    authority: String,
    pair: Pair,
}

impl SelfSigned {
    /// A certificate for these names and addresses, with a CA of this common name.
    pub fn new(called: &str, names: &[String]) -> Result<Self, Error> {
        let now = Timestamp::now();
        let expires = now
            .saturating_add(UNRENEWED_LIFETIME)
            .unwrap_or(Timestamp::MAX);
        let authority = Authority::make(&format!("{called}-ca"), now, expires)?;
        Ok(Self {
            pair: authority.issue(called, names, now, expires)?,
            authority: authority.certificate,
        })
    }

    /// The CA certificate, in PEM, for clients to trust.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The certificate and its key.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }
}

/// The validity period of a certificate, in whole days.
fn validity(from: Timestamp, until: Timestamp) -> (OffsetDateTime, OffsetDateTime) {
    let day = |time: Timestamp| {
        let date = time.to_zoned(TimeZone::UTC).date();
        // Months and days are small and positive.
        let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
        date_time_ymd(date.year().into(), month, day)
    };
    let from = from.saturating_sub(CLOCK_SKEW).unwrap_or(Timestamp::MIN);
    (day(from), day(until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::Tls;

    #[test]
    fn issued_certificates_are_valid_and_hide_their_keys() -> anyhow::Result<()> {
        let own = SelfSigned::new("medley-test", &["localhost".to_owned()])?;
        Tls::new(own.pair())?;
        assert_eq!(format!("{:?}", own.pair()), "Pair { .. }");
        let authority = Authority::make("medley-test-ca", Timestamp::UNIX_EPOCH, Timestamp::MAX)?;
        assert!(!format!("{authority:?}").contains("KEY"));
        Ok(())
    }
}
