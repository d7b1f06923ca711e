//! What both versions of a HyperConverged say about golden images.

use serde_json::Value;

use super::{HyperConvergedStatus, MULTI_ARCH, MULTI_ARCH_PROPOSED, v1, v1beta1};
use crate::ssp::DataImportCronTemplate;

/// Where templates of virtual machines go, unless somebody says otherwise.
const TEMPLATES_NAMESPACE: &str = "openshift";

/// In which version an object was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// `v1`.
    #[default]
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl Version {
    /// Both, the better one first.
    pub const ALL: [Self; 2] = [Self::V1, Self::V1Beta1];

    /// What it is called in `apiVersion`, behind the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// Under which name a feature gate was set.
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
    /// Under which name.
    pub name: GateName,
    /// To what.
    pub on: bool,
}

/// What a HyperConverged says about golden images.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Images {
    /// In which version it was written.
    pub version: Version,
    /// Where the object is.
    pub namespace: String,
    /// What the object is called.
    pub name: String,
    /// Which object of that name it is; unknown before it is stored.
    pub uid: Option<String>,
    /// The generation of the object.
    pub generation: Option<i64>,
    /// Whether there are built-in images.
    pub common_boot_images: bool,
    /// The switch as a field.
    pub field: Option<bool>,
    /// The switch as a field, under the name that it was proposed with.
    pub proposed_field: Option<bool>,
    /// The switch as a feature gate.
    pub gates: Vec<Gate>,
    /// Images of the administrator, and changes to built-in ones.
    pub templates: Vec<DataImportCronTemplate>,
    /// Where built-in images go.
    pub common_boot_image_namespace: Option<String>,
    /// Where templates of virtual machines go.
    pub common_templates_namespace: String,
    /// Where virtual machines run: `nodeSelector`, `affinity`, `tolerations`.
    pub placement: Option<Value>,
    /// What was seen last.
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
            // Without a state a gate is on.
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

/// A text that says something.
fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
