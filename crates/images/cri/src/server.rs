//! The gRPC server: dispatch of calls, and graceful shutdown.

use std::convert::Infallible;
use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use http::{Request, Response};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::transport::Server;
use tower::Service as Tower;

use crate::api::{self, image_service as calls};
use crate::rpc::{MAX_MESSAGE_BYTES, RawRequest, Serving};
use crate::service::Service;
use crate::socket::{Socket, SocketError};

/// How long pulls in progress may continue after shutdown begins.
// A pull that does not end in time is not lost: its downloads stay in `ingest/`, and kubelet's retry resumes them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A bound service.
#[derive(Debug)]
pub struct Listening {
    service: Service,
    socket: Socket,
    listener: tokio::net::UnixListener,
}

impl Listening {
    /// Binds a socket that only its owner may open. Must be called within a tokio runtime.
    pub fn bind(service: Service, path: &Path) -> Result<Self, SocketError> {
        let (socket, listener) = Socket::bind(path)?;
        Ok(Self {
            service,
            socket,
            listener,
        })
    }

    /// Serves until `stop` completes, then drains calls in progress for a limited time.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error> {
        let incoming = stream::unfold(self.listener, |listener| async {
            Some((listener.accept().await.map(|(stream, _)| stream), listener))
        });
        let (stopping, mut stopped) = tokio::sync::watch::channel(());
        let serving = Server::builder().serve_with_incoming_shutdown(
            Dispatcher(self.service),
            incoming.boxed(),
            async move {
                stop.await;
                // No new connections; the drain timeout starts now.
                // Removed first: kubelet reconnects to the path, and a new process can
                // bind it while this one still drains.
                drop(self.socket);
                drop(stopping);
            },
        );
        tokio::select! {
            ended = serving => ended,
            () = async {
                // Nothing is ever sent; the channel closes.
                let _ = stopped.changed().await;
                tokio::time::sleep(DRAIN_TIMEOUT).await;
            } => {
                tracing::warn!("shutdown timed out; aborting requests in progress");
                Ok(())
            }
        }
    }
}

/// Dispatches requests to calls.
#[derive(Debug, Clone)]
struct Dispatcher(Service);

impl Tower<Request<Body>> for Dispatcher {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move { Ok(answer(service, request).await) })
    }
}

async fn answer(service: Service, request: Request<Body>) -> Response<Body> {
    let limit = limit(&request);
    let answering = dispatch(service, request);
    match limit {
        None => answering.await,
        Some(limit) => tokio::time::timeout(limit, answering)
            .await
            .unwrap_or_else(|_| {
                let text = "it was not done before its deadline";
                Status::deadline_exceeded(text).into_http()
            }),
    }
}

async fn dispatch(service: Service, request: Request<Body>) -> Response<Body> {
    match request.uri().path() {
        calls::LIST_IMAGES => unary(request, move |message| service.clone().list(message)).await,
        calls::IMAGE_STATUS => unary(request, move |message| service.clone().status(message)).await,
        calls::PULL_IMAGE => unary(request, move |message| service.clone().pull(message)).await,
        calls::REMOVE_IMAGE => unary(request, move |message| service.clone().remove(message)).await,
        calls::IMAGE_FS_INFO => {
            unary(request, move |message| service.clone().fs_info(message)).await
        }
        calls::STREAM_IMAGES => {
            let streaming = tower::service_fn(move |message: tonic::Request<RawRequest<_>>| {
                let images = service.clone().stream(message.into_inner());
                async move { images.await.map(tonic::Response::new) }
            });
            let mut grpc = Grpc::new(Serving::<api::ListImagesRequest>::default());
            grpc.server_streaming(streaming, request).await
        }
        path => match service.backend() {
            // Runtimes serve more than images, and clients may use one socket for everything.
            Some(backend) => backend.pass(request).await,
            None if path == api::VERSION => {
                unary(request, |_: RawRequest<api::Nothing>| async {
                    Ok(Service::version())
                })
                .await
            }
            None => {
                let text = format!("{path} is not served here: this is an image service");
                Status::unimplemented(text).into_http()
            }
        },
    }
}

/// A unary call.
async fn unary<T, F, Answer>(request: Request<Body>, call: F) -> Response<Body>
where
    T: Message + Default + Send + 'static,
    F: Fn(RawRequest<T>) -> Answer,
    Answer: Future<Output = Result<Bytes, Status>>,
{
    let service = tower::service_fn(|message: tonic::Request<RawRequest<T>>| {
        let answer = call(message.into_inner());
        async move { answer.await.map(tonic::Response::new) }
    });
    let grpc = Grpc::new(Serving::<T>::default());
    grpc.max_decoding_message_size(MAX_MESSAGE_BYTES)
        .unary(service, request)
        .await
}

/// The client's deadline (`grpc-timeout`), minus a margin: the transport has a timer of its own, which
/// would report the call as cancelled by the client.
fn limit(request: &Request<Body>) -> Option<Duration> {
    let text = request.headers().get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    let limit = match unit {
        "H" => Duration::from_secs(number.checked_mul(3600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    // critest requires `DeadlineExceeded` for a pull with a short deadline; without the margin, tonic's timer wins
    // and the client sees `Cancelled`.
    Some(limit.saturating_sub(Duration::from_millis(1)))
}
