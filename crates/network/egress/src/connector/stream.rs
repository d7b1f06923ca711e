//! A connection, as HTTP clients use it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection to a host, or to a proxy on the way.
pub struct EgressStream {
    io: TokioIo<Transport>,
    /// Whether the peer is a proxy that expects requests with the whole URL.
    forwards: bool,
}

/// Boxed: one more allocation per connection, and no second copy of everything that is generic over it.
type Transport = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl EgressStream {
    pub(super) fn direct(tcp: TokioIo<TcpStream>) -> Self {
        Self {
            io: TokioIo::new(Box::new(tcp.into_inner())),
            forwards: false,
        }
    }

    pub(super) fn tls(tls: TokioIo<TlsStream<TcpStream>>) -> Self {
        Self {
            io: TokioIo::new(Box::new(tls.into_inner())),
            forwards: false,
        }
    }

    pub(super) fn forwarding(mut self) -> Self {
        self.forwards = true;
        self
    }

    pub(super) fn io(&mut self) -> &mut Transport {
        self.io.inner_mut()
    }
}

impl Connection for EgressStream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.forwards)
    }
}

impl Read for EgressStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for EgressStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }
}
