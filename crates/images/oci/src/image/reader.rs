//! Blobs for blocking code.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use futures::StreamExt as _;
use futures::executor::block_on;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::BlobStream;
use crate::error::{Cause, Error};

/// Chunks read ahead. A chunk has at most 128 KiB, so this is a megabyte.
const CHUNKS_AHEAD: usize = 8;

/// A blob as a [`Read`], to be used in a thread that may block. Errors are [`io::Error`]s with an
/// [`Error`] in them ([`Error::of_io`]); after one, [`BlobReader::reopen`] starts again.
pub struct BlobReader {
    open: Arc<Open>,
    runtime: Handle,
    position: u64,
    pieces: Option<mpsc::Receiver<Result<Option<Bytes>, Error>>>,
    task: Option<JoinHandle<()>>,
    current: Bytes,
    ended: bool,
}

/// The stream from an offset on.
type Open = dyn Fn(u64) -> Result<BlobStream, Error> + Send + Sync;

impl BlobReader {
    /// Reads a stream, which `open` opens again where needed. `runtime` performs the requests, somewhat
    /// ahead of the reader.
    pub fn new(
        offset: u64,
        runtime: Handle,
        open: impl Fn(u64) -> Result<BlobStream, Error> + Send + Sync + 'static,
    ) -> Self {
        let mut reader = Self {
            open: Arc::new(open),
            runtime,
            position: offset,
            pieces: None,
            task: None,
            current: Bytes::new(),
            ended: false,
        };
        reader.reopen(offset);
        reader
    }

    /// The offset of the next byte.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Restarts at an offset. Content read from 0 to the end is verified; content read from elsewhere
    /// has to be verified by the caller.
    pub fn reopen(&mut self, offset: u64) {
        self.stop();
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        let open = Arc::clone(&self.open);
        self.task = Some(self.runtime.spawn(async move {
            let mut stream = match open(offset) {
                Ok(stream) => stream,
                Err(error) => {
                    // The receiver may be dropped.
                    let _ = sender.send(Err(error)).await;
                    return;
                }
            };
            while let Some(piece) = stream.next().await {
                if sender.send(piece.map(Some)).await.is_err() {
                    return;
                }
            }
            // A closed channel alone does not prove the end of the stream: the runtime may have shut
            // down.
            let _ = sender.send(Ok(None)).await;
        }));
        self.pieces = Some(receiver);
        self.position = offset;
        self.ended = false;
    }

    fn stop(&mut self) {
        self.pieces = None;
        self.current = Bytes::new();
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.current.is_empty() {
            if self.ended {
                return Ok(0);
            }
            let Some(pieces) = &mut self.pieces else {
                return Err(io::Error::other("reading a blob after an earlier error"));
            };
            match block_on(pieces.recv()) {
                Some(Ok(Some(piece))) => self.current = piece,
                Some(Ok(None)) => self.ended = true,
                Some(Err(error)) => {
                    self.stop();
                    return Err(error.into());
                }
                None => {
                    self.stop();
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
        let taken = self.current.len().min(buffer.len());
        if let Some(target) = buffer.get_mut(..taken) {
            self.current.copy_to_slice(target);
        }
        self.position = self.position.saturating_add(taken as u64);
        Ok(taken)
    }
}

impl Drop for BlobReader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for BlobReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobReader")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error.cause {
            Cause::NotFound { .. } => io::ErrorKind::NotFound,
            Cause::Unauthorized { .. } | Cause::Blocked(_) | Cause::Refused(_) => {
                io::ErrorKind::PermissionDenied
            }
            Cause::DigestMismatch { .. } | Cause::Invalid(_) | Cause::TooLarge { .. } => {
                io::ErrorKind::InvalidData
            }
            Cause::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            Cause::Timeout { .. } => io::ErrorKind::TimedOut,
            Cause::Unreachable(_) => io::ErrorKind::ConnectionAborted,
            Cause::RateLimited { .. } | Cause::Server { .. } | Cause::File(_) => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}

impl Error {
    /// The [`Error`] in an [`io::Error`] of a [`BlobReader`].
    pub fn of_io(error: &io::Error) -> Option<&Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref())
    }
}
