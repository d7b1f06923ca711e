//! Digests: the name of content by its hash (`sha256:9f86d0...`).
//!
//! Algorithms are those that the image specification registers and registries use: sha256 and sha512.
//! The hash is in lower case, as `go-digest` demands, so that equal content has one name.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::digest::common::hazmat::SerializableState as _;
use sha2::{Digest as _, Sha256, Sha512};

use crate::excerpt::excerpt;

/// How content is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// SHA-256, the usual one.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// The name, as it stands before the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Digits of a hash, in hexadecimal.
    pub fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Sha256, Self::Sha512]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// There is no colon, or nothing before it.
    #[error(
        "reading digest {text}: expected algorithm:hash, as in \"sha256:\" and 64 hexadecimal digits"
    )]
    Form {
        /// What was read, shortened.
        text: String,
    },
    /// The algorithm is not one of ours.
    #[error("reading digest {text}: algorithm {algorithm} is not supported; sha256 and sha512 are")]
    Algorithm {
        /// What was read, shortened.
        text: String,
        /// The algorithm that it names.
        algorithm: String,
    },
    /// The hash is too long or too short.
    #[error("reading digest {text}: a {algorithm} hash has {expected} digits, not {found}", expected = .algorithm.digits())]
    Length {
        /// What was read, shortened.
        text: String,
        /// The algorithm that it names.
        algorithm: Algorithm,
        /// How many bytes follow the colon.
        found: usize,
    },
    /// The hash is not in lower-case hexadecimal.
    #[error("reading digest {text}: only the digits 0-9 and a-f may follow the colon")]
    Digits {
        /// What was read, shortened.
        text: String,
    },
}

/// Content is not what its digest says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("comparing digests: expected {expected}, but the content is {actual}")]
pub struct Mismatch {
    /// What was asked for.
    pub expected: Digest,
    /// What came.
    pub actual: Digest,
}

/// The name of some content: an algorithm and the hash that it gives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    hash: String,
}

impl Digest {
    /// The digest of content.
    pub fn of(algorithm: Algorithm, content: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(content);
        hasher.finish()
    }

    /// The sha256 digest of content.
    pub fn sha256(content: &[u8]) -> Self {
        Self::of(Algorithm::Sha256, content)
    }

    /// How the content was hashed.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The hash in lower-case hexadecimal, without the algorithm.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The first digits of the hash, for names: all of them if there are fewer.
    pub fn short(&self, digits: usize) -> &str {
        self.hash.get(..digits).unwrap_or(&self.hash)
    }

    /// Where a layout keeps the content: `blobs/sha256/9f86d0...`. It cannot lead anywhere else.
    pub fn blob_path(&self) -> String {
        format!("blobs/{}/{}", self.algorithm, self.hash)
    }

    /// Says whether content is what this digest names, hashing it in the same way.
    pub fn verify(&self, content: &[u8]) -> Result<(), Mismatch> {
        self.expect(Self::of(self.algorithm, content))
    }

    /// Says whether a digest that was computed is this one. Digests of different algorithms are never
    /// the same: hash what comes with the algorithm of what is expected.
    pub fn expect(&self, actual: Self) -> Result<(), Mismatch> {
        if *self == actual {
            return Ok(());
        }
        Err(Mismatch {
            expected: self.clone(),
            actual,
        })
    }

    /// A hasher whose result can be compared with this digest.
    pub fn hasher(&self) -> Hasher {
        Hasher::new(self.algorithm)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let form = || DigestError::Form {
            text: excerpt(text),
        };
        let (name, hash) = text.split_once(':').ok_or_else(form)?;
        // The grammar of go-digest: words of letters and digits, joined by one of `+._-`.
        let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
        if !name.split(['+', '.', '_', '-']).all(word) {
            return Err(form());
        }
        let algorithm = Algorithm::named(name).ok_or_else(|| DigestError::Algorithm {
            text: excerpt(text),
            algorithm: excerpt(name),
        })?;
        if hash.len() != algorithm.digits() {
            return Err(DigestError::Length {
                text: excerpt(text),
                algorithm,
                found: hash.len(),
            });
        }
        if !hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(DigestError::Digits {
                text: excerpt(text),
            });
        }
        Ok(Self {
            algorithm,
            hash: hash.to_owned(),
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hash)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Hashes content that comes in pieces.
#[derive(Debug, Clone)]
pub struct Hasher(State);

#[derive(Debug, Clone)]
enum State {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    /// A hasher that has seen nothing.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Sha512::new()),
        })
    }

    /// Takes the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(piece),
            State::Sha512(state) => state.update(piece),
        }
    }

    /// What it needs to go on later.
    pub fn state(&self) -> Vec<u8> {
        match &self.0 {
            State::Sha256(state) => state.serialize().to_vec(),
            State::Sha512(state) => state.serialize().to_vec(),
        }
    }

    /// Goes on from such a state; none if it is no state of this algorithm.
    pub fn resume(algorithm: Algorithm, state: &[u8]) -> Option<Self> {
        let state = match algorithm {
            Algorithm::Sha256 => Sha256::deserialize(state.try_into().ok()?).map(State::Sha256),
            Algorithm::Sha512 => Sha512::deserialize(state.try_into().ok()?).map(State::Sha512),
        };
        state.ok().map(Self)
    }

    /// The digest of everything that was taken.
    pub fn finish(self) -> Digest {
        match self.0 {
            State::Sha256(state) => named(Algorithm::Sha256, &state.finalize()),
            State::Sha512(state) => named(Algorithm::Sha512, &state.finalize()),
        }
    }
}

fn named(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    let mut hash = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        for nibble in [byte >> 4, byte & 0xf] {
            // A nibble is below 16, and so is always a digit.
            hash.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    Digest { algorithm, hash }
}
