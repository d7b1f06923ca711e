//! The images of a pod, and what is known of them.

use std::fmt;
use std::sync::Arc;

use platform::{Meant, Platform};
use serde_json::Value;

/// Where in a pod an image is used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// By a container.
    Container(String),
    /// By a container that runs first.
    InitContainer(String),
    /// By a container that came later.
    EphemeralContainer(String),
    /// As a volume.
    Volume(String),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(name) => write!(f, "container {name:?}"),
            Self::InitContainer(name) => write!(f, "init container {name:?}"),
            Self::EphemeralContainer(name) => write!(f, "ephemeral container {name:?}"),
            Self::Volume(name) => write!(f, "volume {name:?}"),
        }
    }
}

/// An image that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Used {
    /// The image, as the pod writes it.
    pub image: String,
    /// Where.
    pub by: Use,
    /// Whether the node asks the registry every time (`imagePullPolicy: Always`), so that what is
    /// remembered of a tag may be out of date.
    pub always: bool,
}

/// What is known of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Knowledge {
    /// It is for these platforms.
    Platforms(Platforms),
    /// It holds nothing that runs: a bundle of manifests, an artifact.
    Anywhere,
    /// Nobody can tell.
    Uninspectable(Uninspectable),
}

/// The platforms that an image is for. Clones share them: every pod with the image is compared with them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Platforms(Arc<Told>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Told {
    written: Vec<Platform>,
    meant: Vec<Meant>,
}

impl Platforms {
    /// As the image says it.
    pub fn written(&self) -> &[Platform] {
        &self.0.written
    }

    /// As they are meant.
    pub(crate) fn meant(&self) -> &[Meant] {
        &self.0.meant
    }
}

impl FromIterator<Platform> for Platforms {
    fn from_iter<I: IntoIterator<Item = Platform>>(platforms: I) -> Self {
        let written: Vec<Platform> = platforms.into_iter().collect();
        let meant = written.iter().map(Platform::meant).collect();
        Self(Arc::new(Told { written, meant }))
    }
}

/// Why nobody can tell what an image is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uninspectable {
    /// What the registry said.
    pub message: String,
    /// Whether asking again may help: not so if there is no such image, or no right to see it.
    pub passing: bool,
}

/// The images of a pod, in the order in which they are needed.
pub fn images(spec: &Value) -> Vec<Used> {
    type Named = fn(String) -> Use;
    let lists: [(&str, Named); 3] = [
        ("initContainers", Use::InitContainer),
        ("containers", Use::Container),
        ("ephemeralContainers", Use::EphemeralContainer),
    ];
    let mut used: Vec<Used> = entries(spec, "volumes")
        .filter_map(|volume| {
            let image = volume.get("image")?;
            let reference = text(image, "reference");
            (!reference.is_empty()).then(|| Used {
                image: reference.to_owned(),
                by: Use::Volume(text(volume, "name").to_owned()),
                always: text(image, "pullPolicy") == "Always",
            })
        })
        .collect();
    for (list, by) in lists {
        used.extend(entries(spec, list).filter_map(|container| {
            let image = text(container, "image");
            // An empty image is for the API server to refuse, or for a controller to fill in.
            (!image.is_empty()).then(|| Used {
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
