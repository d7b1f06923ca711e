//! The golden image settings of a HyperConverged, independent of its version.

use serde_json::Value;

use super::{HyperConvergedStatus, MULTI_ARCH, MULTI_ARCH_PROPOSED, v1, v1beta1};
use crate::ssp::DataImportCronTemplate;

/// The default namespace of VM templates.
const TEMPLATES_NAMESPACE: &str = "openshift";

/// The API version of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// `v1`.
    #[default]
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl Version {
    /// Both versions, the preferred one first.
    pub const ALL: [Self; 2] = [Self::V1, Self::V1Beta1];

    /// The version in `apiVersion`, after the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// The name under which the feature gate is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateName {
    /// `enableMultiArchBootImageImport`.
    Current,
    /// `enableMultiArchCommonBootImageImport`.
    Proposed,
}

impl GateName {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => MULTI_ARCH,
            Self::Proposed => MULTI_ARCH_PROPOSED,
        }
    }
}

/// A feature gate that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: GateName,
    /// Its value.
    pub on: bool,
}

/// The golden image settings of a HyperConverged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Images {
    /// The API version it was read in.
    pub version: Version,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The uid; `None` before it is stored.
    pub uid: Option<String>,
    /// The generation of the object.
    pub generation: Option<i64>,
    /// Whether built-in images are imported.
    pub common_boot_images: bool,
    /// The switch as a field.
    pub field: Option<bool>,
    /// The switch as a field under its proposed name.
    pub proposed_field: Option<bool>,
    /// The switch as a feature gate.
    pub gates: Vec<Gate>,
    /// Custom boot image templates, and overrides of built-in ones.
    pub templates: Vec<DataImportCronTemplate>,
    /// The namespace of built-in boot images.
    pub common_boot_image_namespace: Option<String>,
    /// The namespace of VM templates.
    pub common_templates_namespace: String,
    /// The placement of virtual machines: `nodeSelector`, `affinity`, `tolerations`.
    pub placement: Option<Value>,
    /// The last status.
    pub status: HyperConvergedStatus,
}

impl From<v1::HyperConverged> for Images {
    fn from(object: v1::HyperConverged) -> Self {
        let sources = object.spec.workload_sources;
        let gates = object.spec.feature_gates.iter().filter_map(|gate| {
            let name = if gate.name.eq_ignore_ascii_case(MULTI_ARCH) {
                GateName::Current
            } else if gate.name.eq_ignore_ascii_case(MULTI_ARCH_PROPOSED) {
                GateName::Proposed
            } else {
                return None;
            };
            // A gate without state is enabled.
            let on = gate.state.as_deref() != Some("Disabled");
            Some(Gate { name, on })
        });
        let placements = object.spec.deployment.node_placements;
        Self {
            version: Version::V1,
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name.unwrap_or_default(),
            uid: object.metadata.uid,
            generation: object.metadata.generation,
            common_boot_images: sources.enable_common_boot_image_import.unwrap_or(true),
            field: sources.enable_multi_arch_boot_image_import,
            proposed_field: sources.enable_multi_arch_common_boot_image_import,
            gates: gates.collect(),
            templates: sources.data_import_cron_templates,
            common_boot_image_namespace: filled(sources.common_boot_image_namespace),
            common_templates_namespace: filled(sources.common_templates_namespace)
                .unwrap_or_else(|| TEMPLATES_NAMESPACE.to_owned()),
            placement: placements.and_then(|placements| placements.workload),
            status: object.status.unwrap_or_default(),
        }
    }
}

impl From<v1beta1::HyperConverged> for Images {
    fn from(object: v1beta1::HyperConverged) -> Self {
        let spec = object.spec;
        let gates = spec.feature_gates;
        let gates = [
            (GateName::Current, gates.enable_multi_arch_boot_image_import),
            (
                GateName::Proposed,
                gates.enable_multi_arch_common_boot_image_import,
            ),
        ];
        Self {
            version: Version::V1Beta1,
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name.unwrap_or_default(),
            uid: object.metadata.uid,
            generation: object.metadata.generation,
            common_boot_images: spec.enable_common_boot_image_import.unwrap_or(true),
            field: None,
            proposed_field: None,
            gates: gates
                .into_iter()
                .filter_map(|(name, on)| Some(Gate { name, on: on? }))
                .collect(),
            templates: spec.data_import_cron_templates,
            common_boot_image_namespace: filled(spec.common_boot_image_namespace),
            common_templates_namespace: filled(spec.common_templates_namespace)
                .unwrap_or_else(|| TEMPLATES_NAMESPACE.to_owned()),
            placement: spec.workloads.node_placement,
            status: object.status.unwrap_or_default(),
        }
    }
}

/// A non-empty text.
fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
