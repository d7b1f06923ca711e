//! The messages of the CRI (`runtime.v1`) that an image service exchanges, with the field names and
//! numbers of the public API. Other fields are forwarded undecoded.

use std::collections::HashMap;

use prost::Message;

/// The paths of the calls of the image service.
pub mod image_service {
    /// Lists images.
    pub const LIST_IMAGES: &str = "/runtime.v1.ImageService/ListImages";
    /// Lists images, in several messages.
    pub const STREAM_IMAGES: &str = "/runtime.v1.ImageService/StreamImages";
    /// Returns the status of one image.
    pub const IMAGE_STATUS: &str = "/runtime.v1.ImageService/ImageStatus";
    /// Pulls an image.
    pub const PULL_IMAGE: &str = "/runtime.v1.ImageService/PullImage";
    /// Removes an image.
    pub const REMOVE_IMAGE: &str = "/runtime.v1.ImageService/RemoveImage";
    /// Returns the disk usage of images.
    pub const IMAGE_FS_INFO: &str = "/runtime.v1.ImageService/ImageFsInfo";
}

/// The call of the runtime service that clients begin with.
pub const VERSION: &str = "/runtime.v1.RuntimeService/Version";

/// Identifies an image.
#[derive(Clone, PartialEq, Message)]
pub struct ImageSpec {
    /// A reference or an id.
    #[prost(string, tag = "1")]
    pub image: String,
    /// The kubelet sets all annotations of the pod.
    #[prost(map = "string, string", tag = "2")]
    pub annotations: HashMap<String, String>,
    /// The image name as the user wrote it.
    #[prost(string, tag = "18")]
    pub user_specified_image: String,
    /// The handler of the RuntimeClass; empty for the default one.
    #[prost(string, tag = "19")]
    pub runtime_handler: String,
    /// The digest of an image mounted as a volume.
    #[prost(string, tag = "20")]
    pub image_ref: String,
}

/// An optional number.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Int64Value {
    /// The value.
    #[prost(int64, tag = "1")]
    pub value: i64,
}

/// An optional number.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct UInt64Value {
    /// The value.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// An image.
#[derive(Clone, PartialEq, Message)]
pub struct Image {
    /// The unique image id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its names with tags.
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
    /// Its names with digests.
    #[prost(string, repeated, tag = "3")]
    pub repo_digests: Vec<String>,
    /// The size in bytes, compressed.
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// The user id it runs as, if the user is a number.
    #[prost(message, optional, tag = "5")]
    pub uid: Option<Int64Value>,
    /// The user name it runs as, if the user is a name.
    #[prost(string, tag = "6")]
    pub username: String,
    /// The spec it was pulled with.
    #[prost(message, optional, tag = "7")]
    pub spec: Option<ImageSpec>,
    /// Whether the kubelet should not garbage-collect it.
    #[prost(bool, tag = "8")]
    pub pinned: bool,
}

/// Selects images.
#[derive(Clone, PartialEq, Message)]
pub struct ImageFilter {
    /// The image to list.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// The request of `ListImages` and `StreamImages`.
#[derive(Clone, PartialEq, Message)]
pub struct ListImagesRequest {
    /// All images if absent.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ImageFilter>,
}

/// The response of `ListImages` and `StreamImages`.
#[derive(Clone, PartialEq, Message)]
pub struct ListImagesResponse {
    /// The images.
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<Image>,
}

/// The request of `ImageStatus`.
#[derive(Clone, PartialEq, Message)]
pub struct ImageStatusRequest {
    /// The image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
    /// Whether `info` is requested.
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}

/// The response of `ImageStatus`.
#[derive(Clone, PartialEq, Message)]
pub struct ImageStatusResponse {
    /// The image, if it exists.
    #[prost(message, optional, tag = "1")]
    pub image: Option<Image>,
    /// Additional information as JSON.
    #[prost(map = "string, string", tag = "2")]
    pub info: HashMap<String, String>,
}

/// Credentials for a registry.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct AuthConfig {
    /// The username.
    #[prost(string, tag = "1")]
    pub username: String,
    /// The password.
    #[prost(string, tag = "2")]
    pub password: String,
    /// `username:password` in base64.
    #[prost(string, tag = "3")]
    pub auth: String,
    /// The registry they are for.
    #[prost(string, tag = "4")]
    pub server_address: String,
    /// A refresh token, exchanged by token servers.
    #[prost(string, tag = "5")]
    pub identity_token: String,
    /// An access token, accepted by registries directly.
    #[prost(string, tag = "6")]
    pub registry_token: String,
}

/// Redacted: it must not appear in logs.
impl std::fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthConfig(***)")
    }
}

/// The request of `PullImage`. The sandbox configuration is not needed.
#[derive(Clone, PartialEq, Message)]
pub struct PullImageRequest {
    /// The image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
    /// The credentials.
    #[prost(message, optional, tag = "2")]
    pub auth: Option<AuthConfig>,
}

/// The response of `PullImage`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PullImageResponse {
    /// The id of the image.
    #[prost(string, tag = "1")]
    pub image_ref: String,
}

/// The request of `RemoveImage`.
#[derive(Clone, PartialEq, Message)]
pub struct RemoveImageRequest {
    /// The image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// An empty message.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Nothing {}

/// Identifies a file system.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FilesystemIdentifier {
    /// Its mount point.
    #[prost(string, tag = "1")]
    pub mountpoint: String,
}

/// The usage of a file system.
#[derive(Clone, PartialEq, Message)]
pub struct FilesystemUsage {
    /// The time of the measurement, in nanoseconds since 1970.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// The file system.
    #[prost(message, optional, tag = "2")]
    pub fs_id: Option<FilesystemIdentifier>,
    /// Bytes used by images.
    #[prost(message, optional, tag = "3")]
    pub used_bytes: Option<UInt64Value>,
    /// Inodes used by images.
    #[prost(message, optional, tag = "4")]
    pub inodes_used: Option<UInt64Value>,
}

/// The response of `ImageFsInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct ImageFsInfoResponse {
    /// The file systems of images.
    #[prost(message, repeated, tag = "1")]
    pub image_filesystems: Vec<FilesystemUsage>,
    /// The file systems of containers.
    #[prost(message, repeated, tag = "2")]
    pub container_filesystems: Vec<FilesystemUsage>,
}

/// The response of `Version`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VersionResponse {
    /// The version of the kubelet's runtime API.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The name of the runtime.
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    /// The version of this API.
    #[prost(string, tag = "4")]
    pub runtime_api_version: String,
}
