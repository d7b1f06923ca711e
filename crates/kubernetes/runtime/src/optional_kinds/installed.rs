//! A kind as its CustomResourceDefinition describes it.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;

use super::Served;
use crate::is_established;

/// A kind with an established CRD.
#[derive(Debug, Clone, PartialEq)]
pub struct Installed {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The plural name, as in URLs.
    pub plural: String,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// The served versions, in the order of the CRD.
    pub served: Vec<String>,
    /// The storage version.
    pub storage: Option<String>,
    /// The CRD, with its schemas.
    pub definition: Arc<CustomResourceDefinition>,
}

impl Installed {
    /// The kind of an established CRD; `None` for one that is not established.
    pub(super) fn new(definition: &Arc<CustomResourceDefinition>) -> Option<Self> {
        if !is_established(definition) {
            return None;
        }
        let spec = &definition.spec;
        Some(Self {
            group: spec.group.clone(),
            kind: accepted_kind(definition).to_owned(),
            plural: spec.names.plural.clone(),
            namespaced: spec.scope == "Namespaced",
            served: (spec.versions.iter())
                .filter(|version| version.served)
                .map(|version| version.name.clone())
                .collect(),
            storage: (spec.versions.iter())
                .find(|version| version.storage)
                .map(|version| version.name.clone()),
            definition: Arc::clone(definition),
        })
    }

    /// Whether a version is served.
    pub fn serves(&self, version: &str) -> bool {
        self.served.iter().any(|served| served == version)
    }

    /// The kind in one of its versions.
    pub fn in_version(&self, version: &str) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.group, version, &self.kind)
    }

    /// How the kind is served in a version; `None` if it is not.
    pub(super) fn in_served(&self, version: &str) -> Option<Served> {
        let kind = self.in_version(version);
        self.serves(version).then(|| Served {
            resource: ApiResource::from_gvk_with_plural(&kind, &self.plural),
            namespaced: self.namespaced,
            definition: Some(Arc::clone(&self.definition)),
        })
    }
}

/// The kind from `status.acceptedNames`: a CRD may request names that another one has.
fn accepted_kind(definition: &CustomResourceDefinition) -> &str {
    let status = definition.status.as_ref();
    status
        .and_then(|status| status.accepted_names.as_ref())
        .map(|names| names.kind.as_str())
        .filter(|kind| !kind.is_empty())
        .unwrap_or(&definition.spec.names.kind)
}

/// The index terms of a CRD.
pub(super) fn terms(definition: &CustomResourceDefinition) -> Vec<String> {
    vec![term(&definition.spec.group, accepted_kind(definition))]
}

/// The index term of a kind.
pub(super) fn term(group: &str, kind: &str) -> String {
    format!("{group}/{kind}")
}
