//! Digests of blobs, as manifests write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::SerializableState as _;
use sha2::{Digest as _, Sha256, Sha512};

use crate::error::Error;

/// The algorithms that the OCI image specification registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Algorithm {
    Sha256,
    Sha512,
}

/// `sha256:` or `sha512:` and hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadDigest {
            value: text.chars().take(200).collect(),
        };
        let (algorithm, hex) = text.split_once(':').ok_or_else(bad)?;
        let (algorithm, length) = match algorithm {
            "sha256" => (Algorithm::Sha256, 64),
            "sha512" => (Algorithm::Sha512, 128),
            _ => return Err(bad()),
        };
        // Upper case would be another name for the same blob; the specification has only this.
        let digits = hex
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if hex.len() != length || !digits {
            return Err(bad());
        }
        Ok(Self {
            algorithm,
            hex: hex.to_owned(),
        })
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.algorithm {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        };
        write!(f, "{algorithm}:{}", self.hex)
    }
}

/// A digest in the making.
#[derive(Debug, Clone)]
pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl Hasher {
    /// One whose result can be compared with `expected`; SHA-256 if there is none.
    pub(crate) fn like(expected: Option<&Digest>) -> Self {
        match expected.map(|digest| digest.algorithm) {
            Some(Algorithm::Sha512) => Self::Sha512(Box::default()),
            _ => Self::Sha256(Sha256::new()),
        }
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(data),
            Self::Sha512(hash) => hash.update(data),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        match self {
            Self::Sha256(hash) => Digest {
                algorithm: Algorithm::Sha256,
                hex: hex(&hash.finalize()),
            },
            Self::Sha512(hash) => Digest {
                algorithm: Algorithm::Sha512,
                hex: hex(&hash.finalize()),
            },
        }
    }

    /// What it needs to go on later.
    pub(crate) fn state(&self) -> Vec<u8> {
        match self {
            Self::Sha256(hash) => hash.serialize().to_vec(),
            Self::Sha512(hash) => hash.serialize().to_vec(),
        }
    }

    /// Goes on from such a state; none if it is no state of this algorithm.
    pub(crate) fn resume(expected: Option<&Digest>, state: &[u8]) -> Option<Self> {
        match Self::like(expected) {
            Self::Sha256(_) => Sha256::deserialize(state.try_into().ok()?)
                .ok()
                .map(Self::Sha256),
            Self::Sha512(_) => Sha512::deserialize(state.try_into().ok()?)
                .ok()
                .map(|hash| Self::Sha512(Box::new(hash))),
        }
    }
}

/// Hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_colon("sha256")]
    #[case::short("sha256:ab")]
    #[case::upper(&format!("sha256:{}", "A".repeat(64)))]
    #[case::md5(&format!("md5:{}", "a".repeat(32)))]
    #[case::not_hex(&format!("sha256:{}", "g".repeat(64)))]
    fn what_is_no_digest(#[case] text: &str) {
        assert!(matches!(
            text.parse::<Digest>(),
            Err(Error::BadDigest { value }) if value == text
        ));
    }

    #[rstest]
    #[case::sha256("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")]
    #[case::sha512(
        "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
    )]
    fn a_hash_goes_on_from_its_state(#[case] text: &str) {
        let expected: Digest = text.parse().unwrap();
        let mut hasher = Hasher::like(Some(&expected));
        hasher.update(b"ab");
        let mut hasher = Hasher::resume(Some(&expected), &hasher.state()).unwrap();
        hasher.update(b"c");
        assert_eq!(hasher.finish(), expected);
        assert_eq!(expected.to_string(), text);
        assert!(Hasher::resume(Some(&expected), b"short").is_none());
    }
}
