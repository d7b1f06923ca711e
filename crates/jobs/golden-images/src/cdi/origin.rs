//! The source of a disk: an image in a registry or a file on a web server, and its architecture.

#[cfg(test)]
mod tests;

use api::cdi::{DataVolume, DataVolumeSource, RegistrySource, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::poll::PollQuery;
use crate::action::label;

/// The source of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The address to fetch from, with credentials.
    pub question: PollQuery,
    /// The architecture, if one is requested.
    pub architecture: Option<String>,
    /// The image reference for the container runtime, if the node pulls instead of the importer.
    pub by_node: Option<String>,
}

impl Origin {
    /// The source of a DataVolume; `None` for uploads, blank disks, clones and other kinds, which
    /// need no importer.
    pub fn of(volume: &DataVolume) -> Option<Self> {
        let source = volume.spec.source.as_ref()?;
        let namespace = volume.metadata.namespace.as_deref().unwrap_or_default();
        let requested = architecture(&volume.metadata, source);
        let registry = source.registry.as_ref();
        Some(Self {
            question: PollQuery::of(namespace, source)?,
            architecture: requested.map(str::to_owned),
            by_node: registry
                .and_then(RegistrySource::pulled_by_node)
                .map(str::to_owned),
        })
    }
}

/// The architecture that a disk has to be for, if one is requested.
///
/// An image in a registry is selected by its platform. An HTTP source has no such field, so the
/// architecture label of the object counts.
pub fn architecture<'a>(meta: &'a ObjectMeta, source: &'a DataVolumeSource) -> Option<&'a str> {
    let requested = if source.http.is_some() {
        label(meta, labels::ARCHITECTURE)
    } else {
        let registry = source.registry.as_ref()?;
        registry.platform.as_ref()?.architecture.as_deref()
    };
    requested.filter(|it| !it.is_empty())
}
