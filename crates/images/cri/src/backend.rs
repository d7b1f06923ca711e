//! The image service of the node's runtime, for requests not served here.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::Stream;
use http::uri::PathAndQuery;
use http::{Request, Response};
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::ServiceExt as _;

use crate::rpc::{MAX_MESSAGE_BYTES, Passing};
use crate::socket;

/// Another CRI service on a socket. Connects on demand, and again after the service restarts.
#[derive(Debug, Clone)]
pub struct Backend {
    channel: Channel,
    path: PathBuf,
}

impl Backend {
    /// The service on a socket: `unix:///run/containerd/containerd.sock` or a path. Must be called
    /// within a tokio runtime.
    pub fn new(address: &str) -> Result<Self, socket::SocketError> {
        let path = socket::path_of(address)?;
        let connect = path.clone();
        let connector = tower::service_fn(move |_: http::Uri| {
            let path = connect.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(path).await?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        });
        // The authority is not used on a Unix socket.
        let endpoint = Endpoint::from_static("http://localhost");
        Ok(Self {
            // Lazy, because at boot this service and containerd start in any order; kubelet's first call then waits
            // for containerd and not this process.
            channel: endpoint.connect_with_connector_lazy(connector),
            path,
        })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn ready(&self) -> Result<tonic::client::Grpc<Channel>, Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        client
            .ready()
            .await
            .map_err(|error| self.unreachable(&error))?;
        Ok(client)
    }

    /// The service cannot be reached.
    fn unreachable(&self, error: &dyn std::error::Error) -> Status {
        let (path, why) = (self.path.display(), oci::error_chain(error));
        Status::unavailable(format!("asking the service at {path}: {why}"))
    }

    /// The status of the service, or that it could not be reached.
    fn status_of(&self, status: Status) -> Status {
        match std::error::Error::source(&status) {
            // A status sent by the service has no local cause.
            None => status,
            Some(cause) => self.unreachable(cause),
        }
    }

    /// Forwards a unary call, and returns the response unchanged.
    pub(crate) async fn ask(&self, path: &'static str, request: Bytes) -> Result<Bytes, Status> {
        let mut client = self.ready().await?;
        let path = PathAndQuery::from_static(path);
        let answer = client.unary(tonic::Request::new(request), path, Passing);
        let answer = answer.await.map_err(|status| self.status_of(status))?;
        Ok(answer.into_inner())
    }

    /// Forwards a server-streaming call; `None` if the service does not implement it.
    pub(crate) async fn stream(
        &self,
        path: &'static str,
        request: Bytes,
    ) -> Result<Option<impl Stream<Item = Result<Bytes, Status>> + use<>>, Status> {
        let mut client = self.ready().await?;
        let path = PathAndQuery::from_static(path);
        let answer = client.server_streaming(tonic::Request::new(request), path, Passing);
        match answer.await {
            Ok(answer) => Ok(Some(answer.into_inner())),
            // `StreamImages` is new (KEP-5825); a runtime without it answers `Unimplemented`, and kubelet itself
            // falls back to `ListImages` in the same way.
            Err(status) if status.code() == Code::Unimplemented => Ok(None),
            Err(status) => Err(self.status_of(status)),
        }
    }

    /// Forwards a whole HTTP request.
    pub(crate) async fn pass(&self, request: Request<Body>) -> Response<Body> {
        let answer = self.channel.clone().oneshot(request).await;
        answer.unwrap_or_else(|error| self.unreachable(&error).into_http())
    }
}
