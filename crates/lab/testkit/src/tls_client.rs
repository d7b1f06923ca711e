//! A TLS client on the level of bytes, with or without a client certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connects to servers of one certificate authority, with one identity.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
}

impl TlsClient {
    /// A client that trusts this authority, and presents this certificate and key on request; all
    /// in PEM.
    pub fn new(authority: &str, identity: Option<(&str, &str)>) -> anyhow::Result<Self> {
        crate::install_crypto();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let chain = chain.collect::<Result<Vec<_>, _>>()?;
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
                config.with_client_auth_cert(chain, key)?
            }
        };
        Ok(Self {
            connector: Arc::new(config).into(),
        })
    }

    /// Connects; the server's certificate has to be valid for its IP address.
    pub async fn connect(&self, address: SocketAddr) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::from(address.ip());
        let connected = self.connector.connect(name, stream).await;
        connected.context("shaking hands")
    }

    /// Sends an HTTP/1.1 request on a new connection, and returns status and body.
    pub async fn send(
        &self,
        address: SocketAddr,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> anyhow::Result<(u16, String)> {
        let mut stream = self.connect(address).await?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        let mut answer = Vec::new();
        // A server may close the connection without a TLS close_notify.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .with_context(|| format!("no answer to {method} {path}: {answer:?}"))?;
        let code = head.split(' ').nth(1).context("a status")?.parse()?;
        Ok((code, body.to_owned()))
    }
}
