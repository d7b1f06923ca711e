//! A file on a well-behaved web server: with ETag and date, ranges and conditional requests.

use bytes::Bytes;

use crate::hostile::{Asked, ScriptedResponse};

/// A served file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebFile {
    /// Its content.
    pub bytes: Bytes,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub modified: Option<String>,
}

impl WebFile {
    /// A file with an ETag and a fixed date.
    pub fn new(bytes: impl Into<Bytes>, etag: &str) -> Self {
        Self {
            bytes: bytes.into(),
            etag: Some(format!("\"{etag}\"")),
            modified: Some("Mon, 16 Nov 2026 08:00:00 GMT".to_owned()),
        }
    }

    /// Whether a conditional header matches this version.
    fn is(&self, named: &str) -> bool {
        [&self.etag, &self.modified]
            .into_iter()
            .flatten()
            .any(|own| own == named)
    }

    /// The response to a request (RFC 9110).
    pub fn answer(&self, asked: &Asked) -> ScriptedResponse {
        let known = asked
            .header("if-none-match")
            .or_else(|| asked.header("if-modified-since"));
        let answer = if known.is_some_and(|known| self.is(known)) {
            ScriptedResponse::answer(304, "")
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
                Some(None) => ScriptedResponse::answer(416, ""),
                Some(Some((start, end))) if same => {
                    let range = format!("bytes {start}-{end}/{}", self.bytes.len());
                    let part = self.bytes.slice(start..=end);
                    ScriptedResponse::answer(206, part).with("Content-Range", &range)
                }
                _ => ScriptedResponse::answer(200, self.bytes.clone()),
            }
        };
        self.stamped(answer)
    }

    /// Adds the ETag and the date to a response.
    #[must_use]
    pub fn stamped(&self, mut answer: ScriptedResponse) -> ScriptedResponse {
        if let Some(etag) = &self.etag {
            answer = answer.with("ETag", etag);
        }
        if let Some(modified) = &self.modified {
            answer = answer.with("Last-Modified", modified);
        }
        answer
    }
}
