//! The golden image settings of a HyperConverged, independent of its version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{
    BootImages, HyperConvergedStatus, MULTI_ARCH, MULTI_ARCH_PROPOSED, MultiArchSwitch, v1, v1beta1,
};
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
            // HCO treats the names of its gates as equal regardless of case, and
            // rejects two that differ in nothing else.
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
            field: sources.multi_arch.enable_multi_arch_boot_image_import,
            proposed_field: sources
                .multi_arch
                .enable_multi_arch_common_boot_image_import,
            gates: gates.collect(),
            placement: placements.and_then(|placements| placements.workload),
            status: object.status.unwrap_or_default(),
            ..Self::new(object.metadata, sources.boot_images)
        }
    }
}

impl From<v1beta1::HyperConverged> for Images {
    fn from(object: v1beta1::HyperConverged) -> Self {
        let spec = object.spec;
        let MultiArchSwitch {
            enable_multi_arch_boot_image_import: current,
            enable_multi_arch_common_boot_image_import: proposed,
        } = spec.feature_gates.multi_arch;
        let gates = [(GateName::Current, current), (GateName::Proposed, proposed)];
        let gates = gates.into_iter();
        Self {
            version: Version::V1Beta1,
            gates: gates
                .filter_map(|(name, on)| Some(Gate { name, on: on? }))
                .collect(),
            placement: spec.workloads.node_placement,
            status: object.status.unwrap_or_default(),
            ..Self::new(object.metadata, spec.boot_images)
        }
    }
}

impl Images {
    /// What both versions have in common.
    fn new(metadata: ObjectMeta, boot_images: BootImages) -> Self {
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid,
            generation: metadata.generation,
            common_boot_images: boot_images.enable_common_boot_image_import.unwrap_or(true),
            templates: boot_images.data_import_cron_templates,
            common_boot_image_namespace: filled(boot_images.common_boot_image_namespace),
            common_templates_namespace: filled(boot_images.common_templates_namespace)
                .unwrap_or_else(|| TEMPLATES_NAMESPACE.to_owned()),
            ..Self::default()
        }
    }
}

/// A non-empty text.
fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
