//! Values in base64, which are removed depending on their content.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::{Captures, Regex};

use super::{Found, MAX_NESTING, REDACTED, Rule, text};

/// Shorter matches are not documents. `user:pw` in base64 follows `auth` or `Basic`, which have
/// rules of their own.
const SHORTEST: usize = 20;

/// One line of base64, or several that were wrapped (`\n` may be escaped where a document is quoted in another).
static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let wrapped = r"(?:[A-Za-z0-9+/]{40,}(?:\r?\n[ \t]*|\\n))+[A-Za-z0-9+/]*={0,2}";
    let word = r"[A-Za-z0-9+/_-]{20,}={0,2}";
    Regex::new(&format!("{wrapped}|{word}")).ok()
});

/// Removes base64 that holds a secret.
pub(super) fn clean(input: &str, nesting: usize, found: &mut Found) -> Option<String> {
    let words = WORDS.as_ref()?;
    let mut changed = false;
    let clean = words.replace_all(input, |captures: &Captures<'_>| {
        let word = &captures[0];
        if holds_secret(word, nesting) {
            changed = true;
            found.add(Rule::Encoded);
            REDACTED.to_owned()
        } else {
            word.to_owned()
        }
    });
    changed.then(|| clean.into_owned())
}

/// Whether base64 holds something that another rule removes. The text before it may be part of the match where a path or a
/// word with a dash runs into it, and so may the lines around it: every part is tried by itself, too.
fn holds_secret(word: &str, nesting: usize) -> bool {
    let lines = word.replace("\\n", "\n");
    let joined: String = lines.chars().filter(|c| !c.is_whitespace()).collect();
    std::iter::once(joined.as_str())
        .chain(lines.lines().map(str::trim))
        .any(|plain| {
            let parts = plain.match_indices(['/', '-', '_']);
            // Eight starts at most, since each one decodes the rest: a long path without a secret
            // would otherwise cost the square of its length.
            let parts = parts.map(|(at, _)| at + 1).take(8);
            std::iter::once(0).chain(parts).any(|start| {
                let part = &plain[start..];
                part.len() >= SHORTEST
                    && decode(part).is_some_and(|bytes| is_secret(&bytes, nesting))
            })
        })
}

fn is_secret(bytes: &[u8], nesting: usize) -> bool {
    // gzip, xz, zstd and zip, in which helm and rancher store objects. The content is not
    // decompressed.
    let compressed: [&[u8]; 4] = [b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"];
    if compressed.iter().any(|magic| bytes.starts_with(magic)) {
        return true;
    }
    if is_der_key(bytes) || bytes.starts_with(b"openssh-key-v1\0") {
        return true;
    }
    let Ok(inner) = std::str::from_utf8(bytes) else {
        return is_utf16_secret(bytes, nesting);
    };
    let control = |c: char| c.is_control() && !c.is_ascii_whitespace();
    if inner.chars().any(control) {
        return is_utf16_secret(bytes, nesting);
    }
    contains_secret(inner, nesting)
}

/// Windows answer files and PowerShell's encoded commands are UTF-16.
fn is_utf16_secret(bytes: &[u8], nesting: usize) -> bool {
    if !bytes.len().is_multiple_of(2) {
        return false;
    }
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|it| u16::from_le_bytes([it[0], it[1]]))
        .collect();
    String::from_utf16(&units).is_ok_and(|inner| {
        let inner = inner.trim_start_matches('\u{feff}');
        let plain = inner.chars().filter(char::is_ascii).count();
        plain * 2 > inner.chars().count() && contains_secret(inner, nesting)
    })
}

fn contains_secret(inner: &str, nesting: usize) -> bool {
    if nesting >= MAX_NESTING {
        return true;
    }
    let mut inside = Found::default();
    let _ = text::clean(inner, nesting + 1, &mut inside);
    !inside.0.is_empty()
}

/// A private key in DER begins with a sequence whose first element is the version, 0 or 1; a certificate begins with
/// another sequence (RFC 5958, RFC 8017, RFC 5915).
fn is_der_key(bytes: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = bytes else {
        return false;
    };
    let skip = match length {
        0..=0x7f => 0,
        0x81..=0x84 => usize::from(length - 0x80),
        _ => return false,
    };
    rest.get(skip..)
        .is_some_and(|it| it.starts_with(&[2, 1, 0]) || it.starts_with(&[2, 1, 1]))
}

fn decode(word: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let url_safe = word.contains(['-', '_']);
    let alphabet = if url_safe {
        &alphabet::URL_SAFE
    } else {
        &alphabet::STANDARD
    };
    let engine = GeneralPurpose::new(alphabet, config);
    // A match may be cut off in the middle of a group of four.
    let whole = word.trim_end_matches('=');
    let whole = if whole.len() % 4 == 1 {
        whole.get(..whole.len() - 1)?
    } else {
        whole
    };
    engine.decode(whole).ok()
}
