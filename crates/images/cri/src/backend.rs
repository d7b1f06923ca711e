//! The image service of a runtime that is there already: it is asked what is not ours to answer.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::Stream;
use http::uri::PathAndQuery;
use http::{Request, Response};
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::ServiceExt as _;

use crate::rpc::{LARGEST, Passing};
use crate::socket;

/// Another service on a socket. It is connected to when it is asked, and again when it was started anew.
#[derive(Debug, Clone)]
pub struct Backend {
    channel: Channel,
    path: PathBuf,
}

impl Backend {
    /// The service on a socket: `unix:///run/containerd/containerd.sock` or a path. Must be called
    /// where a runtime is.
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
        // What is asked for on a socket is asked of nobody else.
        let endpoint = Endpoint::from_static("http://localhost");
        Ok(Self {
            channel: endpoint.connect_with_connector_lazy(connector),
            path,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn ready(&self) -> Result<tonic::client::Grpc<Channel>, Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(LARGEST)
            .max_encoding_message_size(LARGEST);
        client.ready().await.map_err(|error| self.away(&error))?;
        Ok(client)
    }

    /// Nobody answers there.
    fn away(&self, error: &dyn std::error::Error) -> Status {
        let mut text = format!("asking the service at {}: {error}", self.path.display());
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Status::unavailable(text)
    }

    /// What the service said, or that it said nothing.
    fn told(&self, status: Status) -> Status {
        match std::error::Error::source(&status) {
            // What comes from the other side has no cause here.
            None => status,
            Some(cause) => self.away(cause),
        }
    }

    /// Asks the same, and gives the answer as it came.
    pub(crate) async fn ask(&self, path: &'static str, asked: Bytes) -> Result<Bytes, Status> {
        let mut client = self.ready().await?;
        let path = PathAndQuery::from_static(path);
        let answer = client.unary(tonic::Request::new(asked), path, Passing);
        let answer = answer.await.map_err(|status| self.told(status))?;
        Ok(answer.into_inner())
    }

    /// The same for an answer in several messages; none if it has no such call.
    pub(crate) async fn stream(
        &self,
        path: &'static str,
        asked: Bytes,
    ) -> Result<Option<impl Stream<Item = Result<Bytes, Status>> + use<>>, Status> {
        let mut client = self.ready().await?;
        let path = PathAndQuery::from_static(path);
        let answer = client.server_streaming(tonic::Request::new(asked), path, Passing);
        match answer.await {
            Ok(answer) => Ok(Some(answer.into_inner())),
            Err(status) if status.code() == Code::Unimplemented => Ok(None),
            Err(status) => Err(self.told(status)),
        }
    }

    /// Hands on a whole request, and gives the whole answer.
    pub(crate) async fn pass(&self, request: Request<Body>) -> Response<Body> {
        let answer = self.channel.clone().oneshot(request).await;
        answer.unwrap_or_else(|error| self.away(&error).into_http())
    }
}
