//! Releases stored in the cluster as ConfigMaps.

use api::openshift::payloads;
use k8s_openapi::api::core::v1::ConfigMap;

use super::Files;

/// Whether a ConfigMap is labelled as a release.
pub fn is_stored(map: &ConfigMap) -> bool {
    let labels = map.metadata.labels.as_ref();
    let label = labels.and_then(|it| it.get(payloads::LABEL));
    label.is_some_and(|it| it == payloads::LABELLED)
}

/// The image of the release in a ConfigMap.
pub fn image_of(map: &ConfigMap) -> Option<&str> {
    let annotations = map.metadata.annotations.as_ref()?;
    annotations.get(payloads::IMAGE).map(String::as_str)
}

/// The files of the release in a ConfigMap.
pub fn files_of(map: &ConfigMap) -> Files {
    map.data.clone().unwrap_or_default()
}
