//! Encryption with several keys: one encrypts, all decrypt.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::secret;

/// Age at which a key encrypts: every replica has read it by then.
pub(crate) const PROPAGATION_TIME: SignedDuration = SignedDuration::from_mins(1);
/// Length of a key.
const KEY_BYTES: usize = 32;
/// Length of the name of a key in what it encrypts.
const NAME_BYTES: usize = 4;
/// Length of a nonce. Random ones are safe for 2^32 texts; a key encrypts for a day.
const NONCE_BYTES: usize = 12;

/// What a text is encrypted for. One cookie cannot be presented as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A session.
    Session,
    /// A sign-in at an identity provider that has begun.
    SignIn,
    /// A message for the next page.
    Notice,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Session => b"medley-console/1/session",
            Self::SignIn => b"medley-console/1/sign-in",
            Self::Notice => b"medley-console/1/notice",
        }
    }
}

/// A key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    /// When it was created.
    pub(crate) made: Timestamp,
    /// 32 bytes, in base64.
    secret: String,
}

/// Keys must not appear in logs.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

impl Key {
    /// A new key.
    pub(crate) fn random(made: Timestamp) -> Self {
        Self {
            made,
            secret: STANDARD.encode(secret::bytes::<KEY_BYTES>()),
        }
    }

    /// The key of a base64 text.
    pub(crate) fn parse(text: &str, made: Timestamp) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        (bytes.len() == KEY_BYTES).then(|| Self {
            made,
            secret: STANDARD.encode(bytes),
        })
    }

    /// Whether it is a key, and not something else that was written in its place.
    pub(crate) fn is_usable(&self) -> bool {
        Self::parse(&self.secret, self.made).is_some()
    }
}

/// A key, prepared.
struct Prepared {
    made: Timestamp,
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

/// The keys, oldest first.
pub(crate) struct KeyRing {
    keys: Vec<Key>,
    prepared: Vec<Prepared>,
}

impl PartialEq for KeyRing {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys
    }
}

impl KeyRing {
    /// A ring; keys that cannot be used are left out.
    pub(crate) fn new(keys: Vec<Key>) -> Self {
        let prepared = keys.iter().filter_map(|key| {
            let bytes = STANDARD.decode(&key.secret).ok()?;
            let unbound = UnboundKey::new(&AES_256_GCM, &bytes).ok()?;
            // Derived from the key, so that it identifies the key wherever that is stored.
            let name = Sha256::digest(&bytes).first_chunk().copied()?;
            Some(Prepared {
                made: key.made,
                name,
                key: LessSafeKey::new(unbound),
            })
        });
        Self {
            prepared: prepared.collect(),
            keys,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.prepared.is_empty()
    }

    /// Encrypts a text: the newest key that every replica has read, or else the oldest.
    pub(crate) fn seal(&self, purpose: Purpose, plain: &[u8], now: Timestamp) -> Option<String> {
        let is_propagated = |key: &&Prepared| now.duration_since(key.made) >= PROPAGATION_TIME;
        let propagated = self.prepared.iter().rfind(is_propagated);
        let key = propagated.or_else(|| self.prepared.first())?;
        let nonce = secret::bytes::<NONCE_BYTES>();
        let mut sealed = plain.to_vec();
        key.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(purpose.label()),
                &mut sealed,
            )
            .ok()?;
        let whole = [&key.name[..], &nonce, &sealed].concat();
        Some(URL_SAFE_NO_PAD.encode(whole))
    }

    /// Decrypts a text; `None` if it was not written by one of the keys for this purpose.
    pub(crate) fn open(&self, purpose: Purpose, sealed: &str) -> Option<Vec<u8>> {
        let whole = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (name, rest) = whole.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let named = self.prepared.iter().filter(|key| key.name == *name);
        for key in named {
            let mut text = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            if let Ok(plain) = key
                .key
                .open_in_place(nonce, Aad::from(purpose.label()), &mut text)
            {
                return Some(plain.to_vec());
            }
        }
        None
    }
}
