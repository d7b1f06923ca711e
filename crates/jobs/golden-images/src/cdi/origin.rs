//! Where a disk comes from: an image in a registry or a file on a web server, and for which machines.

#[cfg(test)]
mod tests;

use api::cdi::{DataVolume, DataVolumeSource, RegistrySource, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::poll::Question;
use crate::action::label;

/// Where a disk comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// What is asked for, and how.
    pub question: Question,
    /// The architecture, if one is asked for.
    pub architecture: Option<String>,
    /// The image, as container runtimes name it, if the node pulls it and not whoever imports.
    pub by_node: Option<String>,
}

impl Origin {
    /// Where the disk of a DataVolume comes from; nothing for uploads, blank disks, copies and other
    /// sources, which nobody has to be asked for.
    pub fn of(volume: &DataVolume) -> Option<Self> {
        let source = volume.spec.source.as_ref()?;
        let namespace = volume.metadata.namespace.as_deref().unwrap_or_default();
        let asked = architecture(&volume.metadata, source);
        let registry = source.registry.as_ref();
        Some(Self {
            question: Question::of(namespace, source)?,
            architecture: asked.map(str::to_owned),
            by_node: registry
                .and_then(RegistrySource::pulled_by_node)
                .map(str::to_owned),
        })
    }
}

/// The architecture that a disk has to be for, if somebody says one.
///
/// An image in a registry is chosen by its platform. A file is what it is: the source has no field for
/// it, so that the label counts that everything made for an architecture bears.
pub fn architecture<'a>(meta: &'a ObjectMeta, source: &'a DataVolumeSource) -> Option<&'a str> {
    let asked = if source.http.is_some() {
        label(meta, labels::ARCHITECTURE)
    } else {
        let registry = source.registry.as_ref()?;
        registry.platform.as_ref()?.architecture.as_deref()
    };
    asked.filter(|it| !it.is_empty())
}
