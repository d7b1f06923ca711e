use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

use super::*;

const NOW: i64 = 1_800_000_000;
const ISSUER: &str = "https://id.example.com";

struct Signer {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
}

impl Signer {
    fn new() -> Self {
        Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
        }
    }

    fn jwks(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let public = self.rsa.public_key();
        let point = self.ec.public_key().as_ref();
        json!({ "keys": [
            { "kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256",
              "n": encode(public.modulus().big_endian_without_leading_zero()),
              "e": encode(public.exponent().big_endian_without_leading_zero()) },
            { "kty": "EC", "kid": "e", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..]) },
            { "kty": "OKP", "crv": "Ed25519", "x": "AAAA" },
            "not a key",
        ] })
    }

    fn keys(&self) -> KeySet {
        KeySet::parse(self.jwks().to_string().as_bytes()).unwrap()
    }

    fn sign(&self, head: &Value, payload: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(head), encode(payload));
        let random = SystemRandom::new();
        let signature = match head["alg"].as_str() {
            Some("RS256") => {
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                let sign = self.rsa.sign(
                    &RSA_PKCS1_SHA256,
                    &random,
                    message.as_bytes(),
                    &mut signature,
                );
                sign.unwrap();
                signature
            }
            Some("ES256") => {
                let signature = self.ec.sign(&random, message.as_bytes()).unwrap();
                signature.as_ref().to_vec()
            }
            // The classic confusion: an HMAC with the public key.
            Some("HS256") => {
                let public = self.rsa.public_key();
                let key = hmac::Key::new(hmac::HMAC_SHA256, public.as_ref());
                hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
            }
            _ => Vec::new(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "sub": "ann", "aud": "medley", "exp": NOW + 300, "iat": NOW, "nonce": "n" })
}

fn verify(token: &str, keys: &KeySet) -> Result<Verified, TokenError> {
    let expected = Expected {
        issuer: ISSUER,
        client: "medley",
        nonce: Some("n"),
    };
    let now = Timestamp::from_second(NOW).unwrap_or_default();
    super::verify(token, keys, expected, now)
}

#[test]
fn signed_tokens_are_accepted_and_forged_ones_are_not() {
    let (signer, other) = (Signer::new(), Signer::new());
    let keys = signer.keys();
    for head in [
        json!({ "alg": "RS256", "kid": "r" }),
        json!({ "alg": "ES256", "kid": "e", "typ": "JWT" }),
        json!({ "alg": "ES256" }),
    ] {
        let token = signer.sign(&head, &claims());
        assert_eq!(verify(&token, &keys).unwrap().subject, "ann", "{head}");
        let forged = other.sign(&head, &claims());
        assert_eq!(verify(&forged, &keys), Err(TokenError::Signature), "{head}");
        // The signature covers the content.
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (head, _) = message.split_once('.').unwrap();
        let admin = URL_SAFE_NO_PAD.encode(claims().to_string().replace("ann", "admin"));
        let forged = format!("{head}.{admin}.{signature}");
        assert_eq!(verify(&forged, &keys), Err(TokenError::Signature));
    }
}

#[test]
fn algorithms_are_not_confused() {
    let signer = Signer::new();
    let keys = signer.keys();
    for alg in ["none", "None", "", "HS256", "RS1", "PS256", "EdDSA"] {
        let token = signer.sign(&json!({ "alg": alg, "kid": "r" }), &claims());
        let error = verify(&token, &keys).unwrap_err();
        assert_eq!(error, TokenError::Algorithm(alg.to_owned()));
    }
    // A key verifies with its own algorithm only.
    for (alg, kid) in [("RS256", "e"), ("ES256", "r")] {
        let token = signer.sign(&json!({ "alg": alg, "kid": kid }), &claims());
        let error = verify(&token, &keys).unwrap_err();
        assert_eq!(error, TokenError::UnknownKey(kid.to_owned()));
    }
    let token = signer.sign(
        &json!({ "alg": "RS256", "kid": "r", "crit": ["b64"] }),
        &claims(),
    );
    assert_eq!(verify(&token, &keys), Err(TokenError::Form));
    // Nor with a key for encryption, or with keys of its own.
    let mut jwks = signer.jwks();
    jwks["keys"][0]["use"] = "enc".into();
    let keys = KeySet::parse(jwks.to_string().as_bytes()).unwrap();
    let head = json!({ "alg": "RS256", "kid": "r", "jwk": signer.jwks()["keys"][0] });
    let token = signer.sign(&head, &claims());
    assert_eq!(
        verify(&token, &keys),
        Err(TokenError::UnknownKey("r".to_owned()))
    );
    assert_eq!(
        verify(&token, &KeySet::default()),
        Err(TokenError::UnknownKey("r".to_owned()))
    );
}

#[test]
fn claims_are_checked() {
    let signer = Signer::new();
    let keys = signer.keys();
    for (name, value, accepted) in [
        ("iss", json!("https://id.example.com/"), false),
        ("iss", json!("https://evil.example.com"), false),
        ("aud", json!("another"), false),
        ("aud", json!(["medley"]), true),
        ("aud", json!([]), false),
        // Issued to another client, with us among the audiences.
        ("aud", json!(["medley", "another"]), false),
        ("azp", json!("another"), false),
        ("azp", json!("medley"), true),
        ("exp", json!(NOW - 59), true),
        ("exp", json!(NOW - 61), false),
        ("exp", json!(1e300), false),
        ("exp", json!(null), false),
        ("exp", json!(f64::from(2_000_000_000) + 0.5), true),
        ("nbf", json!(NOW + 30), true),
        ("nbf", json!(NOW + 90), false),
        ("iat", json!(NOW + 90), false),
        ("nonce", json!("m"), false),
        ("nonce", json!(null), false),
        ("sub", json!(null), false),
        ("email", json!("ann@example.com"), true),
    ] {
        let mut payload = claims();
        payload[name] = value;
        let token = signer.sign(&json!({ "alg": "ES256", "kid": "e" }), &payload);
        let verified = verify(&token, &keys);
        assert_eq!(verified.is_ok(), accepted, "{payload}: {verified:?}");
        if let Err(error @ TokenError::Claim { .. }) = verified {
            assert!(error.to_string().contains(name) || name == "aud", "{error}");
        }
    }
}

#[test]
fn hostile_texts_are_errors() {
    let keys = Signer::new().keys();
    let long = "a".repeat(MAX_TOKEN_LENGTH + 1);
    for token in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "e30.e30.",
        "e30.e30.e30.e30",
        "ä.ö.ü",
        &long,
    ] {
        assert_eq!(verify(token, &keys), Err(TokenError::Form), "{token:.20}");
    }
    for jwks in ["", "{}", "[]", "{\"keys\": {}}"] {
        assert!(KeySet::parse(jwks.as_bytes()).is_err(), "{jwks}");
    }
    let many = json!({ "keys": vec![json!({ "kty": "EC" }); 10_000] });
    assert!(
        KeySet::parse(many.to_string().as_bytes())
            .unwrap()
            .0
            .is_empty()
    );
}
