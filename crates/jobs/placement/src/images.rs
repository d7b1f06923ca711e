//! The images of a pod, and what is known about them.

use std::fmt;
use std::sync::Arc;

use platform::{NormalisedPlatform, Platform};
use serde_json::Value;

/// The use of an image in a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageConsumer {
    /// By a container.
    Container(String),
    /// By an init container.
    InitContainer(String),
    /// By an ephemeral container.
    EphemeralContainer(String),
    /// By an image volume.
    Volume(String),
}

impl fmt::Display for ImageConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(name) => write!(f, "container {name:?}"),
            Self::InitContainer(name) => write!(f, "init container {name:?}"),
            Self::EphemeralContainer(name) => write!(f, "ephemeral container {name:?}"),
            Self::Volume(name) => write!(f, "volume {name:?}"),
        }
    }
}

/// An image used by a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageUse {
    /// The image reference, as in the pod.
    pub image: String,
    /// Its use in the pod.
    pub by: ImageConsumer,
    /// Whether the kubelet resolves the tag at every start (`imagePullPolicy: Always`), so that a cached result for the
    /// tag may be stale.
    pub always: bool,
}

/// What is known about the platforms of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspection {
    /// It is for these platforms.
    Platforms(Platforms),
    /// It contains nothing to run: an artifact or a bundle of manifests.
    Anywhere,
    /// The image could not be inspected.
    Uninspectable(Uninspectable),
}

/// The platforms of an image. Clones share them: every pod with the image is compared with them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Platforms(Arc<PlatformList>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct PlatformList {
    written: Vec<Platform>,
    meant: Vec<NormalisedPlatform>,
}

impl Platforms {
    /// The platforms as the image lists them.
    pub fn written(&self) -> &[Platform] {
        &self.0.written
    }

    /// The platforms normalized for comparison.
    pub(crate) fn meant(&self) -> &[NormalisedPlatform] {
        &self.0.meant
    }
}

impl FromIterator<Platform> for Platforms {
    fn from_iter<I: IntoIterator<Item = Platform>>(platforms: I) -> Self {
        let written: Vec<Platform> = platforms.into_iter().collect();
        let meant = written.iter().map(Platform::meant).collect();
        Self(Arc::new(PlatformList { written, meant }))
    }
}

/// Why an image could not be inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uninspectable {
    /// The error of the registry.
    pub message: String,
    /// Whether a retry may succeed: not if the image does not exist or access to it is denied.
    pub transient: bool,
}

/// The images of a pod, in the order in which the kubelet needs them.
pub fn images(spec: &Value) -> Vec<ImageUse> {
    type Named = fn(String) -> ImageConsumer;
    let lists: [(&str, Named); 3] = [
        ("initContainers", ImageConsumer::InitContainer),
        ("containers", ImageConsumer::Container),
        ("ephemeralContainers", ImageConsumer::EphemeralContainer),
    ];
    // Image volumes are pulled by the kubelet like containers, and have platforms too; the multiarch-tuning-operator
    // does not inspect them.
    let mut used: Vec<ImageUse> = entries(spec, "volumes")
        .filter_map(|volume| {
            let image = volume.get("image")?;
            let reference = text(image, "reference");
            (!reference.is_empty()).then(|| ImageUse {
                image: reference.to_owned(),
                by: ImageConsumer::Volume(text(volume, "name").to_owned()),
                always: text(image, "pullPolicy") == "Always",
            })
        })
        .collect();
    for (list, by) in lists {
        used.extend(entries(spec, list).filter_map(|container| {
            let image = text(container, "image");
            // An empty image is rejected by the API server, or filled in by another controller.
            (!image.is_empty()).then(|| ImageUse {
                image: image.to_owned(),
                by: by(text(container, "name").to_owned()),
                always: text(container, "imagePullPolicy") == "Always",
            })
        }));
    }
    used
}

fn entries<'a>(spec: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    spec.get(list)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
