//! Digests: content addressed by its hash (`sha256:9f86d0...`).
//!
//! The algorithms are those registered in the image specification: sha256 and sha512. The hash is in
//! lower case, as `go-digest` requires, so that equal content has one digest.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use sha2::digest::common::hazmat::SerializableState as _;
use sha2::{Digest as _, Sha256, Sha512};

use crate::excerpt::excerpt;
use crate::text::serde_as_text;

/// The hash algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// SHA-256, the common one.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// The name before the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// The number of hexadecimal digits of a hash.
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

/// Why a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The colon or the algorithm is missing.
    #[error(
        "reading digest {text}: expected algorithm:hash, as in \"sha256:\" and 64 hexadecimal digits"
    )]
    Form {
        /// The text, shortened.
        text: String,
    },
    /// The algorithm is not supported.
    #[error("reading digest {text}: algorithm {algorithm} is not supported; sha256 and sha512 are")]
    Algorithm {
        /// The text, shortened.
        text: String,
        /// The algorithm given.
        algorithm: String,
    },
    /// The hash has the wrong length.
    #[error("reading digest {text}: a {algorithm} hash has {expected} digits, not {found}", expected = .algorithm.digits())]
    Length {
        /// The text, shortened.
        text: String,
        /// The algorithm given.
        algorithm: Algorithm,
        /// The number of bytes after the colon.
        found: usize,
    },
    /// The hash is not lower-case hexadecimal.
    #[error("reading digest {text}: only the digits 0-9 and a-f may follow the colon")]
    Digits {
        /// The text, shortened.
        text: String,
    },
}

/// Content does not match its digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("comparing digests: expected {expected}, but the content is {actual}")]
pub struct Mismatch {
    /// The expected digest.
    pub expected: Digest,
    /// The digest of the content.
    pub actual: Digest,
}

/// A digest: an algorithm and a hash.
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

    /// The hash algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The hash in lower-case hexadecimal, without the algorithm.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The first digits of the hash, at most all.
    pub fn short(&self, digits: usize) -> &str {
        self.hash.get(..digits).unwrap_or(&self.hash)
    }

    /// The path of the content in an OCI layout: `blobs/sha256/9f86d0...`. It cannot escape the folder.
    pub fn blob_path(&self) -> String {
        format!("blobs/{}/{}", self.algorithm, self.hash)
    }

    /// Checks content against this digest.
    pub fn verify(&self, content: &[u8]) -> Result<(), Mismatch> {
        self.expect(Self::of(self.algorithm, content))
    }

    /// Checks a computed digest against this one. Digests of different algorithms never match: hash
    /// with the algorithm of the expected digest.
    pub fn expect(&self, actual: Self) -> Result<(), Mismatch> {
        if *self == actual {
            return Ok(());
        }
        Err(Mismatch {
            expected: self.clone(),
            actual,
        })
    }

    /// A hasher of the same algorithm.
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

serde_as_text!(Digest);

/// Hashes content incrementally.
#[derive(Debug, Clone)]
pub struct Hasher(State);

#[derive(Debug, Clone)]
enum State {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    /// A hasher without input.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Sha512::new()),
        })
    }

    /// Adds the next chunk.
    pub fn update(&mut self, piece: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(piece),
            State::Sha512(state) => state.update(piece),
        }
    }

    /// The state to resume from later.
    pub fn state(&self) -> Vec<u8> {
        match &self.0 {
            State::Sha256(state) => state.serialize().to_vec(),
            State::Sha512(state) => state.serialize().to_vec(),
        }
    }

    /// Resumes from a state; `None` if it is not a state of this algorithm.
    pub fn resume(algorithm: Algorithm, state: &[u8]) -> Option<Self> {
        let state = match algorithm {
            Algorithm::Sha256 => Sha256::deserialize(state.try_into().ok()?).map(State::Sha256),
            Algorithm::Sha512 => Sha512::deserialize(state.try_into().ok()?).map(State::Sha512),
        };
        state.ok().map(Self)
    }

    /// The digest of all input.
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
