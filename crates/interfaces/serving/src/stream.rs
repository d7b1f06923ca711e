//! The byte stream of a client, with a limit on how slowly it may send the head of a request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::connections::Connection;

/// A stream of bytes, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A stream that fails when the head of a request takes too long from its first byte on.
///
/// hyper's `header_read_timeout` runs from the end of the former response, and so also bounds how
/// long a connection may be kept for the next request; it cannot be short. The head of the first
/// request is bounded by the caller.
pub(crate) struct Watched {
    inner: Box<dyn Stream>,
    connection: Arc<Connection>,
    head_timeout: Duration,
    /// Runs while a head is incomplete.
    head: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    pub(crate) fn new(
        inner: Box<dyn Stream>,
        connection: Arc<Connection>,
        head_timeout: Duration,
    ) -> Self {
        Self {
            inner,
            connection,
            head_timeout,
            head: None,
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, buffer);
        if !this.connection.awaits_next_head() {
            this.head = None;
            return polled;
        }
        let came = buffer.filled().len() > before;
        if came && this.head.is_none() {
            this.head = Some(Box::pin(tokio::time::sleep(this.head_timeout)));
        }
        if let Some(timeout) = &mut this.head
            // Bytes that have arrived are delivered even after the timeout: the head may be
            // complete with them.
            && polled.is_pending()
            && timeout.as_mut().poll(cx).is_ready()
        {
            let why = "timed out reading the head of a request";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
