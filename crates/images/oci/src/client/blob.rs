//! Blobs as streams: resumed where they break off, checked at their end.

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

use super::ask::Ask;
use super::{Inner, Seat};
use crate::error::{Cause, Error, Operation};
use crate::transport::Answer;

/// So much has to come before failures that came before it are forgiven.
pub(super) const PROGRESS: u64 = 1 << 20;

/// A blob, piece by piece. After an error there is nothing more.
///
/// The last piece of a blob that is read from its beginning is followed by an error if the digest is
/// not what was asked for: nothing may be made of the pieces before the stream has ended well.
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

/// The stream of a blob from an offset on. Nothing is asked before it is polled.
pub(super) fn open(
    inner: Arc<Inner>,
    seats: Vec<Seat>,
    reference: Reference,
    size: u64,
    offset: u64,
) -> BlobStream {
    // The reference has been pinned; without a digest there would be nothing to ask for.
    let hasher = reference
        .digest()
        .filter(|_| offset == 0)
        .map(Digest::hasher);
    let reading = Reading {
        inner,
        seats,
        seat: 0,
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
    seats: Vec<Seat>,
    /// The seat that is asked now.
    seat: usize,
    reference: Reference,
    size: u64,
    position: u64,
    body: Option<Answer>,
    /// What has come so far, if it began at the beginning.
    hasher: Option<Hasher>,
    failures: u32,
    forgiven_at: u64,
    failed: Vec<(String, Cause)>,
}

impl Reading {
    /// The next piece; `None` at the end, if all is as it should be.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.position > self.size {
            let cause = Cause::Invalid(format!(
                "asked for what follows byte {} of {}",
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
                    self.stumble(cause).await?;
                }
                Err(cause) => self.stumble(cause).await?,
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
                let cause = Cause::DigestMismatch {
                    expected: mismatch.expected,
                    actual: mismatch.actual,
                };
                // The next reader begins elsewhere, if there is another place.
                if let Some(seat) = self.seats.get(self.seat) {
                    let wanted = seat.wants(Operation::Blob, &digest.to_string());
                    let until = Instant::now() + self.inner.settings.miss_life;
                    self.inner.misses.insert(wanted, (cause.clone(), until));
                }
                Err(self.error(cause))
            }
        }
    }

    /// Something broke off: waits and goes on, unless that has happened too often.
    async fn stumble(&mut self, cause: Cause) -> Result<(), Error> {
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

    /// Goes on with the next seat, or ends with an error if there is none.
    fn give_up(&mut self, cause: Cause) -> Result<(), Error> {
        let Some(seat) = self.seats.get(self.seat) else {
            return Err(self.error(cause));
        };
        let about_access = matches!(cause, Cause::NotFound { .. } | Cause::Unauthorized { .. });
        let place = Arc::clone(&seat.key.place);
        let next = (self.seat + 1..self.seats.len()).find(|at| {
            about_access
                || self
                    .seats
                    .get(*at)
                    .is_some_and(|seat| seat.key.place != place)
        });
        let Some(next) = next else {
            return Err(self.error(cause));
        };
        self.failed.push((seat.place.host.clone(), cause));
        self.seat = next;
        self.failures = 0;
        Ok(())
    }

    fn error(&mut self, cause: Cause) -> Error {
        let mut failed = std::mem::take(&mut self.failed);
        let host = self
            .seats
            .get(self.seat)
            .map_or("", |seat| seat.place.host.as_str());
        failed.push((host.to_owned(), cause));
        Error::of(Operation::Blob, self.reference.to_string(), failed)
    }

    /// Opens the blob at the position.
    async fn open(&mut self) -> Result<(), Error> {
        let Some(seat) = self.seats.get(self.seat).cloned() else {
            return Err(self.error(Cause::Blocked("there is no place to ask".to_owned())));
        };
        let name = self.reference.manifest();
        // Content that was wrong a while ago is asked for elsewhere, if there is another place.
        let wanted = seat.wants(Operation::Blob, &name);
        if let Some(cause @ Cause::DigestMismatch { .. }) =
            self.inner.missed(&wanted, super::Freshness::Usual)
            && self
                .seats
                .iter()
                .skip(self.seat)
                .any(|other| other.key.place != seat.key.place)
        {
            return self.give_up(cause);
        }
        let mut headers = Vec::new();
        if self.position > 0 {
            // Digits and a dash are a header.
            if let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", self.position)) {
                headers.push((RANGE, range));
            }
        }
        let ask = Ask {
            operation: Operation::Blob,
            method: Method::GET,
            path: format!("blobs/{name}"),
            headers,
        };
        let inner = Arc::clone(&self.inner);
        let answer = inner
            .persist(&seat.place, || inner.ask(&seat, &ask).boxed())
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

    /// The body at the position: servers may answer with the whole instead of a range.
    async fn placed(&self, mut answer: Answer) -> Result<Answer, Cause> {
        if answer.parts.status == StatusCode::PARTIAL_CONTENT {
            let range = answer.header(CONTENT_RANGE).unwrap_or_default();
            let (start, total) = read_range(range).ok_or_else(|| {
                Cause::Invalid("a part of a blob that does not say which".to_owned())
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

/// Lets the beginning of a body go by, for who asked for the rest and gets the whole.
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
            // Whole pieces cannot be given back: what is left of this one comes first.
            let rest = usize::try_from(skip).map(|at| piece.slice(at.min(piece.len())..));
            answer.put_back(rest.unwrap_or_default());
            break;
        }
        skip -= length;
    }
    Ok(())
}

/// `bytes 10-19/100`: where it starts, and how much there is in all, if that is said.
pub(super) fn read_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.trim().split_once('/')?;
    let (start, _) = range.split_once('-')?;
    let total = match total {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    Some((start.parse().ok()?, total))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("bytes 10-19/100", Some((10, Some(100))))]
    #[case("bytes 0-0/*", Some((0, None)))]
    #[case("bytes */100", None)]
    #[case("10-19/100", None)]
    #[case("bytes 10-19", None)]
    #[case("bytes -5-19/100", None)]
    #[case("", None)]
    fn ranges_are_read(#[case] text: &str, #[case] expected: Option<(u64, Option<u64>)>) {
        assert_eq!(read_range(text), expected);
    }
}
