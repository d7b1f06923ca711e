//! The messages of the CRI (`runtime.v1`) that an image service exchanges: names and numbers are those
//! of the public interface. What is not here is passed on unread.

use std::collections::HashMap;

use prost::Message;

/// The paths of the calls of the image service.
pub mod image_service {
    /// Lists images.
    pub const LIST_IMAGES: &str = "/runtime.v1.ImageService/ListImages";
    /// Lists images, in several messages.
    pub const STREAM_IMAGES: &str = "/runtime.v1.ImageService/StreamImages";
    /// Tells of one image.
    pub const IMAGE_STATUS: &str = "/runtime.v1.ImageService/ImageStatus";
    /// Gets an image.
    pub const PULL_IMAGE: &str = "/runtime.v1.ImageService/PullImage";
    /// Removes an image.
    pub const REMOVE_IMAGE: &str = "/runtime.v1.ImageService/RemoveImage";
    /// Tells how full the disk is.
    pub const IMAGE_FS_INFO: &str = "/runtime.v1.ImageService/ImageFsInfo";
}

/// The one call of the runtime service that clients begin with.
pub const VERSION: &str = "/runtime.v1.RuntimeService/Version";

/// Which image is meant.
#[derive(Clone, PartialEq, Message)]
pub struct ImageSpec {
    /// A reference or an id.
    #[prost(string, tag = "1")]
    pub image: String,
    /// A kubelet puts all annotations of the pod here.
    #[prost(map = "string, string", tag = "2")]
    pub annotations: HashMap<String, String>,
    /// What the user wrote.
    #[prost(string, tag = "18")]
    pub user_specified_image: String,
    /// The handler of the RuntimeClass; nothing is the default one.
    #[prost(string, tag = "19")]
    pub runtime_handler: String,
    /// The digest of an image that is mounted as a volume.
    #[prost(string, tag = "20")]
    pub image_ref: String,
}

/// A number that may be absent.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Int64Value {
    /// The number.
    #[prost(int64, tag = "1")]
    pub value: i64,
}

/// A number that may be absent.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct UInt64Value {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// An image.
#[derive(Clone, PartialEq, Message)]
pub struct Image {
    /// What tells it from all others.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its names with tags.
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
    /// Its names with digests.
    #[prost(string, repeated, tag = "3")]
    pub repo_digests: Vec<String>,
    /// Bytes, as they are downloaded.
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// Who it runs as, if that is a number.
    #[prost(message, optional, tag = "5")]
    pub uid: Option<Int64Value>,
    /// Who it runs as, if that is a name.
    #[prost(string, tag = "6")]
    pub username: String,
    /// For what it was pulled.
    #[prost(message, optional, tag = "7")]
    pub spec: Option<ImageSpec>,
    /// Whether it had better stay.
    #[prost(bool, tag = "8")]
    pub pinned: bool,
}

/// Which images are wanted.
#[derive(Clone, PartialEq, Message)]
pub struct ImageFilter {
    /// This one.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// Of `ListImages` and `StreamImages`.
#[derive(Clone, PartialEq, Message)]
pub struct ListImagesRequest {
    /// All, if there is none.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ImageFilter>,
}

/// Of `ListImages` and `StreamImages`.
#[derive(Clone, PartialEq, Message)]
pub struct ListImagesResponse {
    /// The images.
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<Image>,
}

/// Of `ImageStatus`.
#[derive(Clone, PartialEq, Message)]
pub struct ImageStatusRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
    /// Whether more is to be told.
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}

/// Of `ImageStatus`.
#[derive(Clone, PartialEq, Message)]
pub struct ImageStatusResponse {
    /// The image, if it is there.
    #[prost(message, optional, tag = "1")]
    pub image: Option<Image>,
    /// More about it, as JSON.
    #[prost(map = "string, string", tag = "2")]
    pub info: HashMap<String, String>,
}

/// Credentials for a registry.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct AuthConfig {
    /// The name.
    #[prost(string, tag = "1")]
    pub username: String,
    /// The password.
    #[prost(string, tag = "2")]
    pub password: String,
    /// Both, in base 64.
    #[prost(string, tag = "3")]
    pub auth: String,
    /// The registry that they are for.
    #[prost(string, tag = "4")]
    pub server_address: String,
    /// What token servers change for a token.
    #[prost(string, tag = "5")]
    pub identity_token: String,
    /// What registries take as it is.
    #[prost(string, tag = "6")]
    pub registry_token: String,
}

/// Nothing of it may be in a log.
impl std::fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthConfig(***)")
    }
}

/// Of `PullImage`. The configuration of the sandbox says nothing that is needed.
#[derive(Clone, PartialEq, Message)]
pub struct PullImageRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
    /// As whom.
    #[prost(message, optional, tag = "2")]
    pub auth: Option<AuthConfig>,
}

/// Of `PullImage`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PullImageResponse {
    /// The id of the image.
    #[prost(string, tag = "1")]
    pub image_ref: String,
}

/// Of `RemoveImage`.
#[derive(Clone, PartialEq, Message)]
pub struct RemoveImageRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// Says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Nothing {}

/// Where a file system is mounted.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FilesystemIdentifier {
    /// A path in it.
    #[prost(string, tag = "1")]
    pub mountpoint: String,
}

/// How full a file system is.
#[derive(Clone, PartialEq, Message)]
pub struct FilesystemUsage {
    /// When this was so, in nanoseconds since 1970.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// Which.
    #[prost(message, optional, tag = "2")]
    pub fs_id: Option<FilesystemIdentifier>,
    /// Bytes that images take.
    #[prost(message, optional, tag = "3")]
    pub used_bytes: Option<UInt64Value>,
    /// Inodes that images take.
    #[prost(message, optional, tag = "4")]
    pub inodes_used: Option<UInt64Value>,
}

/// Of `ImageFsInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct ImageFsInfoResponse {
    /// Where images are.
    #[prost(message, repeated, tag = "1")]
    pub image_filesystems: Vec<FilesystemUsage>,
    /// Where containers are.
    #[prost(message, repeated, tag = "2")]
    pub container_filesystems: Vec<FilesystemUsage>,
}

/// Of `Version`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VersionResponse {
    /// Of the kubelet's interface.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Who answers.
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    /// The version of this interface.
    #[prost(string, tag = "4")]
    pub runtime_api_version: String,
}
