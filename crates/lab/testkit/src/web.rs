//! A file as a well-behaved web server has it: with a tag and a date, in parts, and empty answers for
//! those who have it already.

use bytes::Bytes;

use crate::hostile::{Asked, Misdeed};

/// A file that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebFile {
    /// What is in it.
    pub bytes: Bytes,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub modified: Option<String>,
}

impl WebFile {
    /// A file with a tag, and a date that is always the same.
    pub fn new(bytes: impl Into<Bytes>, etag: &str) -> Self {
        Self {
            bytes: bytes.into(),
            etag: Some(format!("\"{etag}\"")),
            modified: Some("Mon, 16 Nov 2026 08:00:00 GMT".to_owned()),
        }
    }

    /// Whether a condition names this version.
    fn is(&self, named: &str) -> bool {
        [&self.etag, &self.modified]
            .into_iter()
            .flatten()
            .any(|own| own == named)
    }

    /// The answer to a question (RFC 9110).
    pub fn answer(&self, asked: &Asked) -> Misdeed {
        let known = asked
            .header("if-none-match")
            .or_else(|| asked.header("if-modified-since"));
        let answer = if known.is_some_and(|known| self.is(known)) {
            Misdeed::answer(304, "")
        } else {
            let wanted = asked.header("range").map(|range| {
                let (start, end) = range.trim_start_matches("bytes=").split_once('-')?;
                let last = self.bytes.len().checked_sub(1)?;
                let start: usize = start.parse().ok()?;
                let end = end.parse().unwrap_or(last).min(last);
                (start <= end).then_some((start, end))
            });
            let same = asked.header("if-range").is_none_or(|named| self.is(named));
            match wanted {
                Some(None) => Misdeed::answer(416, ""),
                Some(Some((start, end))) if same => {
                    let range = format!("bytes {start}-{end}/{}", self.bytes.len());
                    let part = self.bytes.slice(start..=end);
                    Misdeed::answer(206, part).with("Content-Range", &range)
                }
                _ => Misdeed::answer(200, self.bytes.clone()),
            }
        };
        self.stamped(answer)
    }

    /// An answer of one's own with the tag and the date.
    #[must_use]
    pub fn stamped(&self, mut answer: Misdeed) -> Misdeed {
        if let Some(etag) = &self.etag {
            answer = answer.with("ETag", etag);
        }
        if let Some(modified) = &self.modified {
            answer = answer.with("Last-Modified", modified);
        }
        answer
    }
}
