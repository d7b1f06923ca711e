//! Two releases of the same version: a single-architecture one, which is installed, and a
//! multi-architecture one as the target of a migration.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::openshift::{
    CLUSTER_VERSION, ImageStream, ImageStreamSpec, TagReference, TagSource, annotations, payloads,
};
use kube::core::ApiResource;
use platform::Digest;
use release_migration::build::{self, build};
use release_migration::payload::Files;
use runtime::Error;
use serde_json::{Value, json};

use super::catalog::{ALWAYS_SEVERAL, KUBERNETES, MACHINE_OS, OPERATORS, OperatorInfo};
use super::{COMPONENTS, RELEASES, VERSION, manifests};
use crate::operators::kinds::cluster_version;
use crate::registry::{Component, StaticImage};

/// The architectures of the multi-architecture release.
pub(crate) const SEVERAL: [&str; 4] = ["amd64", "arm64", "ppc64le", "s390x"];
/// The architecture of the single-architecture release.
const ONE: [&str; 1] = ["amd64"];
/// Update channel of the multi-architecture release.
const CHANNEL: &str = "stable-4.18";
/// Fixed ID of the simulated cluster; it is never sent anywhere.
const CLUSTER_ID: &str = "00000000-0000-4000-8000-6d65646c6579";

/// A built release.
pub(crate) struct BuiltRelease {
    /// `amd64` or `multi`.
    word: &'static str,
    /// Its pull specification.
    image: String,
    /// Its files.
    files: Files,
    /// Its image.
    own: Component,
    /// The images of its components, by name.
    components: BTreeMap<&'static str, Component>,
    registry: String,
}

/// Both releases.
pub(crate) struct Offer {
    /// The single-architecture release.
    single: BuiltRelease,
    /// The multi-architecture release.
    multi: BuiltRelease,
}

impl Offer {
    /// Builds both releases, with images in this registry.
    pub(crate) fn new(registry: &str) -> Result<Self, Error> {
        Ok(Self {
            single: BuiltRelease::new(registry, "x86_64", &ONE)?,
            multi: BuiltRelease::new(registry, "multi", &SEVERAL)?,
        })
    }

    /// The operating system image of new nodes.
    pub(crate) fn machine_image(&self) -> String {
        self.single.pull(MACHINE_OS)
    }

    /// The initial objects of a cluster: both releases, and the ClusterVersion with the first one.
    pub(crate) fn objects(&self) -> Vec<(ApiResource, Option<&'static str>, Value)> {
        let map = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let mut all: Vec<_> = [&self.single, &self.multi]
            .into_iter()
            .map(|made| (map.clone(), Some(payloads::NAMESPACE), made.config_map()))
            .collect();
        let version = json!({
            "metadata": { "name": CLUSTER_VERSION },
            "spec": {
                "clusterID": CLUSTER_ID,
                "channel": CHANNEL,
                "desiredUpdate": { "version": VERSION, "image": self.single.image },
            },
        });
        all.push((cluster_version(), None, version));
        all
    }

    /// All images of both releases, for a registry to serve.
    pub(crate) fn shelf(self) -> Vec<StaticImage> {
        let mut shelf = Vec::new();
        for made in [self.single, self.multi] {
            let tag = format!("{VERSION}-{}", made.word);
            shelf.push(StaticImage::new(RELEASES, Some(tag), made.own));
            for (name, component) in made.components {
                let tag = format!("{VERSION}-{}-{name}", made.word);
                shelf.push(StaticImage::new(COMPONENTS, Some(tag), component));
            }
        }
        shelf
    }
}

impl BuiltRelease {
    fn new(registry: &str, word: &'static str, architectures: &[&str]) -> Result<Self, Error> {
        let names: BTreeSet<&'static str> =
            OPERATORS.iter().flat_map(OperatorInfo::images).collect();
        let mut components = BTreeMap::new();
        for name in names {
            let architectures = if name == ALWAYS_SEVERAL {
                &SEVERAL[..]
            } else {
                architectures
            };
            components.insert(name, component(name, architectures)?);
        }
        let mut made = Self {
            word,
            image: String::new(),
            files: Files::new(),
            own: Component::default(),
            components,
            registry: registry.to_owned(),
        };
        let folders: Result<Vec<_>, Error> = OPERATORS.iter().map(manifests::folder).collect();
        let options = build::Options {
            version: VERSION.to_owned(),
            multi: architectures.len() > 1,
            allow_missing: false,
        };
        let built = build(&folders?, &made.images(), &options)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        made.files = built.files;
        let inside = made.files.iter();
        let inside = inside.map(|(name, text)| (format!("release-manifests/{name}"), text.clone()));
        made.own =
            Component::new(architectures, &inside.collect()).map_err(|error| broken(&error))?;
        made.image = format!("{registry}/{RELEASES}@{}", digest(&made.own)?);
        Ok(made)
    }

    /// Pull specification of a component image.
    fn pull(&self, name: &str) -> String {
        let component = self.components.get(name);
        let digest = component.and_then(|it| it.root.as_ref());
        let digest = digest.map(ToString::to_string).unwrap_or_default();
        format!("{}/{COMPONENTS}@{digest}", self.registry)
    }

    fn images(&self) -> ImageStream {
        let tags = self.components.keys().map(|name| {
            let mut known = BTreeMap::new();
            if *name == "hyperkube" {
                let (component, version) = KUBERNETES;
                let versions = format!("{component}={version}");
                known.insert(annotations::BUILD_VERSIONS.to_owned(), versions);
            }
            TagReference {
                name: (*name).to_owned(),
                annotations: known,
                from: Some(TagSource {
                    kind: "DockerImage".to_owned(),
                    name: self.pull(name),
                    ..TagSource::default()
                }),
                ..TagReference::default()
            }
        });
        ImageStream {
            api_version: ImageStream::API_VERSION.to_owned(),
            kind: ImageStream::KIND.to_owned(),
            spec: ImageStreamSpec {
                tags: tags.collect(),
                ..ImageStreamSpec::default()
            },
            ..ImageStream::default()
        }
    }

    /// The release as a ConfigMap.
    fn config_map(&self) -> Value {
        json!({
            "metadata": {
                "name": format!("release-{VERSION}-{}", self.word.replace('_', "-")),
                "labels": { payloads::LABEL: payloads::LABELLED },
                "annotations": { payloads::IMAGE: self.image },
            },
            "data": self.files,
        })
    }
}

fn digest(component: &Component) -> Result<&Digest, Error> {
    let root = component.root.as_ref();
    root.ok_or_else(|| Error::Invalid("an image of no architecture has no digest".to_owned()))
}

/// The image of a component; its digest does not depend on the registry.
fn component(name: &str, architectures: &[&str]) -> Result<Component, Error> {
    let program = format!("{name} of {VERSION}\n");
    let files = [(format!("usr/bin/{name}"), program)].into();
    Component::new(architectures, &files).map_err(|error| broken(&error))
}

fn broken(error: &std::io::Error) -> Error {
    Error::Invalid(format!("making the images of release {VERSION}: {error}"))
}

/// The architectures of a component image, by its pull specification; `None` (unrestricted) unless
/// it is that of the single-architecture release.
pub(super) fn limits(name: &str, image: &str) -> Result<Option<&'static [&'static str]>, Error> {
    let single = component(name, &ONE)?;
    let found = image.rsplit_once('@').map(|(_, digest)| digest);
    let is_single = found == Some(digest(&single)?.to_string().as_str());
    Ok(is_single.then_some(&ONE[..]))
}
