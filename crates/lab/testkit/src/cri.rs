//! A client of the CRI's image service, like that of a kubelet.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use cri::api::{self, image_service as calls};
use cri::rpc::Passing;
use futures::TryStreamExt as _;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::Status;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};

/// A client; clones share the connection.
#[derive(Debug, Clone)]
pub struct CriClient {
    channel: Channel,
    /// Timeout of requests.
    timeout: Option<Duration>,
}

impl CriClient {
    /// A client of the service on a socket. It connects on first use, and reconnects when needed.
    pub fn new(path: &Path) -> Self {
        let path = path.to_owned();
        let connector = tower::service_fn(move |_: http::Uri| {
            let path = path.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(path).await?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        Self {
            channel: endpoint.connect_with_connector_lazy(connector),
            timeout: None,
        }
    }

    /// The same client with a deadline for each request.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self {
            channel: self.channel.clone(),
            timeout: Some(timeout),
        }
    }

    async fn grpc(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }

    fn request(&self, message: &impl Message) -> tonic::Request<Bytes> {
        let mut request = tonic::Request::new(message.encode_to_vec().into());
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        request
    }

    /// Sends any unary request.
    pub async fn ask<T: Message + Default>(
        &self,
        path: &'static str,
        message: &impl Message,
    ) -> Result<T, Status> {
        let path = PathAndQuery::from_static(path);
        let mut grpc = self.grpc().await?;
        let answer = grpc.unary(self.request(message), path, Passing).await?;
        read(answer.into_inner())
    }

    /// `PullImage`: the id of the image.
    pub async fn pull(
        &self,
        image: api::ImageSpec,
        auth: Option<api::AuthConfig>,
    ) -> Result<String, Status> {
        let image = Some(image);
        let request = api::PullImageRequest { image, auth };
        let answer: api::PullImageResponse = self.ask(calls::PULL_IMAGE, &request).await?;
        Ok(answer.image_ref)
    }

    /// `ListImages`.
    pub async fn list(&self, image: Option<api::ImageSpec>) -> Result<Vec<api::Image>, Status> {
        let filter = image.map(|image| api::ImageFilter { image: Some(image) });
        let request = api::ListImagesRequest { filter };
        let answer: api::ListImagesResponse = self.ask(calls::LIST_IMAGES, &request).await?;
        Ok(answer.images)
    }

    /// `StreamImages`: the images of each message.
    pub async fn stream(&self) -> Result<Vec<Vec<api::Image>>, Status> {
        let path = PathAndQuery::from_static(calls::STREAM_IMAGES);
        let request = self.request(&api::ListImagesRequest::default());
        let answer = self
            .grpc()
            .await?
            .server_streaming(request, path, Passing)
            .await?;
        let messages: Vec<Bytes> = answer.into_inner().try_collect().await?;
        let images = messages.into_iter().map(|bytes| {
            let message: api::ListImagesResponse = read(bytes)?;
            Ok(message.images)
        });
        images.collect()
    }

    /// `ImageStatus` in verbose mode: the whole response.
    pub async fn inspect(&self, image: api::ImageSpec) -> Result<api::ImageStatusResponse, Status> {
        let request = api::ImageStatusRequest {
            image: Some(image),
            verbose: true,
        };
        self.ask(calls::IMAGE_STATUS, &request).await
    }

    /// `ImageStatus`: the image, if it exists.
    pub async fn status(&self, image: api::ImageSpec) -> Result<Option<api::Image>, Status> {
        let request = api::ImageStatusRequest {
            image: Some(image),
            verbose: false,
        };
        let answer: api::ImageStatusResponse = self.ask(calls::IMAGE_STATUS, &request).await?;
        if !answer.info.is_empty() {
            return Err(Status::internal("unexpected second message"));
        }
        Ok(answer.image)
    }

    /// `RemoveImage`.
    pub async fn remove(&self, image: api::ImageSpec) -> Result<(), Status> {
        let request = api::RemoveImageRequest { image: Some(image) };
        let _: api::Nothing = self.ask(calls::REMOVE_IMAGE, &request).await?;
        Ok(())
    }

    /// `ImageFsInfo`.
    pub async fn fs_info(&self) -> Result<api::ImageFsInfoResponse, Status> {
        self.ask(calls::IMAGE_FS_INFO, &api::Nothing {}).await
    }
}

fn read<T: Message + Default>(bytes: Bytes) -> Result<T, Status> {
    T::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}
