//! Blobs as streams: resumed when interrupted, verified at their end.

#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::FutureExt as _;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use http::header::{CONTENT_RANGE, RANGE};
use http::{HeaderValue, Method, StatusCode};
use platform::{Digest, Hasher, Reference};
use tokio::time::{Instant, sleep};

use super::request::RegistryRequest;
use super::{Candidate, Inner};
use crate::error::{Cause, Error, Operation};
use crate::transport::Answer;

/// Receiving this much resets the count of interruptions.
// An image of 10 GiB over an unstable network may break off hundreds of times; what matters
// is whether each connection advances. A server that sends a few bytes and closes never
// reaches this and fails after `Retry::resumes`.
pub(super) const PROGRESS: u64 = 1 << 20;

/// A blob as a stream of chunks. An error ends the stream.
///
/// A blob read from its beginning ends with an error if the digest does not match: callers must not use
/// the chunks before the stream has ended successfully.
pub struct BlobStream {
    pieces: BoxStream<'static, Result<Bytes, Error>>,
}

impl BlobStream {
    pub(crate) fn new(pieces: BoxStream<'static, Result<Bytes, Error>>) -> Self {
        Self { pieces }
    }
}

impl Stream for BlobStream {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pieces.poll_next_unpin(context)
    }
}

impl fmt::Debug for BlobStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlobStream")
    }
}

/// The stream of a blob from an offset. No request is sent before it is polled.
pub(super) fn open(
    inner: Arc<Inner>,
    candidates: Vec<Candidate>,
    reference: Reference,
    size: u64,
    offset: u64,
) -> BlobStream {
    // The reference is pinned; without a digest there would be nothing to request.
    // A stream that starts in the middle cannot be hashed; `store.rs` hashes the
    // part on disk first and verifies the whole.
    let hasher = reference
        .digest()
        .filter(|_| offset == 0)
        .map(Digest::hasher);
    let reading = Reading {
        inner,
        candidates,
        candidate: 0,
        reference,
        size,
        position: offset,
        body: None,
        hasher,
        failures: 0,
        forgiven_at: offset,
        failed: Vec::new(),
    };
    let pieces = stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        match reading.next().await {
            Ok(Some(piece)) => Some((Ok(piece), Some(reading))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    BlobStream::new(pieces.boxed())
}

struct Reading {
    inner: Arc<Inner>,
    candidates: Vec<Candidate>,
    /// The index of the candidate in use.
    candidate: usize,
    reference: Reference,
    size: u64,
    position: u64,
    body: Option<Answer>,
    /// The hash of the data so far, if it was read from the beginning.
    hasher: Option<Hasher>,
    failures: u32,
    forgiven_at: u64,
    failed: Vec<(String, Cause)>,
}

impl Reading {
    /// The next chunk; `None` at the end, if the content is verified.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.position > self.size {
            let cause = Cause::Invalid(format!(
                "requested data after byte {} of {}",
                self.position, self.size
            ));
            return Err(self.error(cause));
        }
        loop {
            let Some(body) = &mut self.body else {
                if self.position == self.size && (self.size > 0 || self.hasher.is_none()) {
                    return self.end();
                }
                self.open().await?;
                continue;
            };
            match body.piece().await {
                Ok(Some(piece)) => {
                    let after = self.position.saturating_add(piece.len() as u64);
                    // Checked before the chunk is returned: a registry that sends more than the manifest states must
                    // not fill the disk of a node until the digest fails at the end.
                    if after > self.size {
                        let cause = Cause::TooLarge {
                            limit: self.size,
                            found: None,
                        };
                        return Err(self.error(cause));
                    }
                    self.position = after;
                    if let Some(hasher) = &mut self.hasher {
                        hasher.update(&piece);
                    }
                    if after - self.forgiven_at >= PROGRESS {
                        self.forgiven_at = after;
                        self.failures = 0;
                    }
                    return Ok(Some(piece));
                }
                Ok(None) if self.position == self.size => return self.end(),
                Ok(None) => {
                    let cause = Cause::Truncated {
                        expected: self.size,
                        found: self.position,
                    };
                    self.back_off(cause).await?;
                }
                Err(cause) => self.back_off(cause).await?,
            }
        }
    }

    fn end(&mut self) -> Result<Option<Bytes>, Error> {
        let (Some(hasher), Some(digest)) = (self.hasher.take(), self.reference.digest()) else {
            return Ok(None);
        };
        match digest.expect(hasher.finish()) {
            Ok(()) => Ok(None),
            Err(mismatch) => {
                let cause = Cause::from(mismatch);
                // Remember the failure, so that the next reader begins with another endpoint if there
                // is one.
                if let Some(candidate) = self.candidates.get(self.candidate) {
                    let wanted = candidate.wants(Operation::Blob, &digest.to_string());
                    let until = Instant::now() + self.inner.settings.negative_ttl;
                    // Other readers retry at once, and without this they would download
                    // gigabytes from the same broken mirror again.
                    self.inner.misses.insert(wanted, (cause.clone(), until));
                }
                Err(self.error(cause))
            }
        }
    }

    /// Handles an interruption: waits and resumes, unless that has happened too often.
    async fn back_off(&mut self, cause: Cause) -> Result<(), Error> {
        self.body = None;
        self.failures += 1;
        if !cause.is_transient() {
            return Err(self.error(cause));
        }
        if self.failures > self.inner.settings.retry.resumes {
            return self.give_up(cause);
        }
        let wait = self.inner.settings.retry.wait(self.failures);
        tracing::debug!(blob = %self.reference, at = self.position, %cause, ?wait, "resuming");
        sleep(wait).await;
        Ok(())
    }

    /// Switches to the next candidate, or fails if there is none.
    fn give_up(&mut self, cause: Cause) -> Result<(), Error> {
        let Some(candidate) = self.candidates.get(self.candidate) else {
            return Err(self.error(cause));
        };
        let about_access = matches!(cause, Cause::NotFound { .. } | Cause::Unauthorized { .. });
        let place = Arc::clone(&candidate.key.place);
        let next = (self.candidate + 1..self.candidates.len()).find(|at| {
            about_access
                || self
                    .candidates
                    .get(*at)
                    .is_some_and(|candidate| candidate.key.place != place)
        });
        let Some(next) = next else {
            return Err(self.error(cause));
        };
        self.failed.push((candidate.place.host.clone(), cause));
        // The position and the hash continue at the new endpoint: the digest identifies
        // the content, whichever host sends the rest.
        self.candidate = next;
        self.failures = 0;
        Ok(())
    }

    fn error(&mut self, cause: Cause) -> Error {
        let mut failed = std::mem::take(&mut self.failed);
        let host = self
            .candidates
            .get(self.candidate)
            .map_or("", |candidate| candidate.place.host.as_str());
        failed.push((host.to_owned(), cause));
        Error::of(Operation::Blob, self.reference.to_string(), failed)
    }

    /// Opens the blob at the position.
    async fn open(&mut self) -> Result<(), Error> {
        let Some(candidate) = self.candidates.get(self.candidate).cloned() else {
            return Err(self.error(Cause::Blocked("no endpoint is allowed".to_owned())));
        };
        let name = self.reference.manifest();
        // An endpoint whose content was wrong recently is skipped if there is another one.
        let wanted = candidate.wants(Operation::Blob, &name);
        if let Some(cause @ Cause::DigestMismatch { .. }) =
            self.inner.recent_failure(&wanted, super::Freshness::Usual)
            && self
                .candidates
                .iter()
                .skip(self.candidate)
                .any(|other| other.key.place != candidate.key.place)
        {
            return self.give_up(cause);
        }
        let mut headers = Vec::new();
        if self.position > 0 {
            // Digits and a dash are always a valid header value.
            if let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", self.position)) {
                headers.push((RANGE, range));
            }
        }
        let request = RegistryRequest {
            operation: Operation::Blob,
            method: Method::GET,
            path: format!("blobs/{name}"),
            headers,
        };
        let inner = Arc::clone(&self.inner);
        let answer = inner
            .retry_at_endpoint(&candidate.place, || {
                inner.send(&candidate, &request).boxed()
            })
            .await;
        let opened = match answer {
            Ok(answer) => self.placed(answer).await,
            Err(cause) => Err(cause),
        };
        match opened {
            Ok(body) => {
                self.body = Some(body);
                Ok(())
            }
            Err(cause) => self.give_up(cause),
        }
    }

    /// The body at the position: a server may answer a range request with the whole blob.
    async fn placed(&self, mut answer: Answer) -> Result<Answer, Cause> {
        if answer.parts.status == StatusCode::PARTIAL_CONTENT {
            let range = answer.header(CONTENT_RANGE).unwrap_or_default();
            let (start, total) = read_range(range).ok_or_else(|| {
                Cause::Invalid("a partial response without Content-Range".to_owned())
            })?;
            if start != self.position || total.is_some_and(|total| total != self.size) {
                return Err(Cause::Invalid(format!(
                    "asked for bytes {}- of {}, answered with {:?}",
                    self.position,
                    self.size,
                    crate::error::clean(range, &[])
                )));
            }
            return Ok(answer);
        }
        if let Some(found) = answer.length.filter(|length| *length > self.size) {
            return Err(Cause::TooLarge {
                limit: self.size,
                found: Some(found),
            });
        }
        skip(&mut answer, self.position, self.size).await?;
        Ok(answer)
    }
}

/// Skips the beginning of a body that a server sent in full instead of the requested range.
pub(super) async fn skip(answer: &mut Answer, position: u64, size: u64) -> Result<(), Cause> {
    let mut skip = position;
    while skip > 0 {
        let Some(piece) = answer.piece().await? else {
            return Err(Cause::Truncated {
                expected: size,
                found: position - skip,
            });
        };
        let length = piece.len() as u64;
        if length > skip {
            // Skipping ends within a chunk: the rest of it is returned next.
            let rest = usize::try_from(skip).map(|at| piece.slice(at.min(piece.len())..));
            answer.put_back(rest.unwrap_or_default());
            break;
        }
        skip -= length;
    }
    Ok(())
}

/// `bytes 10-19/100`: the start, and the total size if stated.
pub(super) fn read_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.trim().split_once('/')?;
    let (start, _) = range.split_once('-')?;
    let total = match total {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    Some((start.parse().ok()?, total))
}
