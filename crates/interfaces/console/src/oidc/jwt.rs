//! ID tokens: signature, issuer, audience, times and nonce.
//!
//! The algorithm of a token only selects among RS256 and ES256, and each is used with keys of its own
//! type: a token without a signature, or one whose "signature" is an HMAC with a public key, has no
//! algorithm here.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::secret;

/// Tolerance for clocks that differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);
/// Length limit of ID tokens.
const MAX_TOKEN_LENGTH: usize = 16 * 1024;
/// Keys that are read of a provider.
const MAX_KEYS: usize = 100;

/// Why an ID token is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// It is not a token.
    #[error("it is not a signed JSON Web Token")]
    Form,
    /// Its algorithm is not accepted.
    #[error("its algorithm is {0:?}; RS256 and ES256 are accepted")]
    Algorithm(String),
    /// No key of the provider has its name.
    #[error("no key of the provider is called {0:?}")]
    UnknownKey(String),
    /// The signature is wrong.
    #[error("its signature does not match any key of the provider")]
    Signature,
    /// A claim is wrong.
    #[error("its claim {claim} is {found}; expected {expected}")]
    Claim {
        /// The name of the claim.
        claim: &'static str,
        /// Its value.
        found: String,
        /// What is accepted.
        expected: String,
    },
}

/// A public key of the provider.
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point of P-256.
    P256(Vec<u8>),
}

/// The public keys of a provider.
#[derive(Default)]
pub(crate) struct KeySet(Vec<(Option<String>, PublicKey)>);

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// The keys of a JWKS document that can verify tokens; others are left out.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Jwks = serde_json::from_slice(json)?;
        let keys = document.keys.into_iter().take(MAX_KEYS);
        let keys = keys.filter_map(|key| serde_json::from_value(key).ok());
        Ok(Self(keys.filter_map(public_key).collect()))
    }
}

fn public_key(jwk: Jwk) -> Option<(Option<String>, PublicKey)> {
    // A key for encryption must not verify signatures.
    if jwk.usage.is_some_and(|usage| usage != "sig") {
        return None;
    }
    let number = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
    let alg = jwk.alg.as_deref();
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) if alg.is_none_or(|alg| alg == "RS256") => {
            // Leading zeros are not part of the encoding that is verified with.
            let trimmed = |bytes: Vec<u8>| {
                let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                bytes.into_iter().skip(zeros).collect()
            };
            PublicKey::Rsa {
                modulus: trimmed(number(jwk.n)?),
                exponent: trimmed(number(jwk.e)?),
            }
        }
        ("EC", Some("P-256")) if alg.is_none_or(|alg| alg == "ES256") => {
            let (x, y) = (number(jwk.x)?, number(jwk.y)?);
            if x.len() != 32 || y.len() != 32 {
                return None;
            }
            PublicKey::P256([&[4_u8][..], &x, &y].concat())
        }
        _ => return None,
    };
    Some((jwk.kid, key))
}

impl PublicKey {
    /// Whether the key has signed the message. `None`: the algorithm is not one of this key.
    fn has_signed(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> Option<bool> {
        match (algorithm, self) {
            ("RS256", Self::Rsa { modulus, exponent }) => {
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                let verified = key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature);
                Some(verified.is_ok())
            }
            ("ES256", Self::P256(point)) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                Some(key.verify(message, signature).is_ok())
            }
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that have to be understood; none is.
    crit: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct Payload {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    // Some providers write fractions.
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    nonce: Option<String>,
}

/// What a token has to claim.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// The issuer.
    pub(crate) issuer: &'a str,
    /// The client that it was issued to.
    pub(crate) client: &'a str,
    /// The nonce of the sign-in; renewed tokens need none.
    pub(crate) nonce: Option<&'a str>,
}

/// A verified token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    /// The user at the provider.
    pub(crate) subject: String,
    /// When it expires.
    pub(crate) expires: Timestamp,
}

/// Verifies an ID token.
pub(crate) fn verify(
    token: &str,
    keys: &KeySet,
    expected: Expected<'_>,
    now: Timestamp,
) -> Result<Verified, TokenError> {
    if token.len() > MAX_TOKEN_LENGTH {
        return Err(TokenError::Form);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Form)?;
    let (head, payload) = message.split_once('.').ok_or(TokenError::Form)?;
    if payload.contains('.') {
        return Err(TokenError::Form);
    }
    let decoded = |part| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Form);
    let head: Header = serde_json::from_slice(&decoded(head)?).map_err(|_| TokenError::Form)?;
    if !matches!(head.alg.as_str(), "RS256" | "ES256") {
        return Err(TokenError::Algorithm(short(&head.alg)));
    }
    if head.crit.is_some() {
        return Err(TokenError::Form);
    }
    let signature = decoded(signature)?;
    verify_signature(&head, keys, message.as_bytes(), &signature)?;
    // Nothing of the content is used before the signature is verified.
    let payload: Payload =
        serde_json::from_slice(&decoded(payload)?).map_err(|_| TokenError::Form)?;
    check(payload, expected, now)
}

fn verify_signature(
    head: &Header,
    keys: &KeySet,
    message: &[u8],
    signature: &[u8],
) -> Result<(), TokenError> {
    let named = keys.0.iter().filter(|(name, _)| {
        // A key without a name, or a token that names none, leaves the choice to the signature.
        let (Some(wanted), Some(name)) = (&head.kid, name) else {
            return true;
        };
        wanted == name
    });
    let mut is_known = false;
    for (_, key) in named {
        match key.has_signed(&head.alg, message, signature) {
            Some(true) => return Ok(()),
            Some(false) => is_known = true,
            None => {}
        }
    }
    match &head.kid {
        Some(name) if !is_known => Err(TokenError::UnknownKey(short(name))),
        _ => Err(TokenError::Signature),
    }
}

fn check(payload: Payload, expected: Expected<'_>, now: Timestamp) -> Result<Verified, TokenError> {
    let wrong = |claim, found: &str, expected: &str| TokenError::Claim {
        claim,
        found: format!("{:?}", short(found)),
        expected: format!("{expected:?}"),
    };
    if payload.iss != expected.issuer {
        return Err(wrong("iss", &payload.iss, expected.issuer));
    }
    let audiences = match payload.aud {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    };
    if !audiences.iter().any(|it| it == expected.client) {
        return Err(wrong("aud", &audiences.join(" "), expected.client));
    }
    // With several audiences, or whenever it is there, it names the client the token was issued to.
    let azp = payload.azp.as_deref();
    if azp.is_some_and(|azp| azp != expected.client) || (audiences.len() > 1 && azp.is_none()) {
        return Err(wrong("azp", azp.unwrap_or_default(), expected.client));
    }
    let late = |time: f64, claim, expected: &str| TokenError::Claim {
        claim,
        found: time.to_string(),
        expected: format!("a time {expected} {}", now.as_second()),
    };
    let time = |seconds: f64| {
        let duration = SignedDuration::try_from_secs_f64(seconds).ok()?;
        Timestamp::from_duration(duration).ok()
    };
    // Compared with the time of this process, which cannot overflow.
    let is_future = |seconds: f64| time(seconds).is_none_or(|it| it > now + CLOCK_SKEW);
    let expires = time(payload.exp).filter(|it| *it > now - CLOCK_SKEW);
    let expires = expires.ok_or_else(|| late(payload.exp, "exp", "after"))?;
    if let Some(from) = payload.nbf.filter(|from| is_future(*from)) {
        return Err(late(from, "nbf", "before"));
    }
    if let Some(issued) = payload.iat.filter(|issued| is_future(*issued)) {
        return Err(late(issued, "iat", "before"));
    }
    if let Some(nonce) = expected.nonce
        && !payload
            .nonce
            .as_deref()
            .is_some_and(|found| secret::same(found, nonce))
    {
        return Err(TokenError::Claim {
            claim: "nonce",
            found: "another one, or missing".to_owned(),
            expected: "that of this sign-in".to_owned(),
        });
    }
    Ok(Verified {
        subject: payload.sub,
        expires,
    })
}

/// The beginning of a text, for messages.
fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
