//! CPUs as virtual machines see them: a named generation, or all properties spelled out.

mod generations;
mod models;

use serde::{Deserialize, Serialize};

pub use generations::{GENERATIONS, Generation};
pub(crate) use models::is_known;

/// CPU properties as KubeVirt's node labeller would detect them.
///
/// Either `generation` alone, or the other fields, with `vendor` and `model`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cpu {
    /// A known CPU generation that implies all other fields: one of [`GENERATIONS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Vendor: `Intel`, `AMD`, `IBM`, ...
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// The host model in libvirt's naming.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// CPU models usable by virtual machines on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Models known to libvirt but not usable here; migrations still have labels for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_models: Vec<String>,
    /// Features of the CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Features of the host model beyond its named model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_features: Vec<String>,
    /// Machine types available to virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine_types: Vec<String>,
    /// Frequency of the time stamp counter, in hertz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tsc_frequency: Option<u64>,
    /// Whether the time stamp counter can be scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tsc_scalable: Option<bool>,
}

impl Cpu {
    /// A CPU of a generation.
    pub fn of_generation(name: &str) -> Self {
        Self {
            generation: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// The CPU with all fields; `None` for an unknown generation.
    pub fn in_full(&self) -> Option<Self> {
        match &self.generation {
            None => Some(self.clone()),
            Some(name) => Generation::named(name).map(Generation::describe),
        }
    }

    /// Whether a guest with this model runs here: the model is usable, or the host's own.
    pub(crate) fn runs(&self, model: &str) -> bool {
        self.model == model || self.models.iter().any(|usable| usable == model)
    }

    /// Features of a model that this CPU lacks.
    pub(crate) fn lacks(&self, model: &str) -> Vec<&'static str> {
        let needs = models::features(model).into_iter();
        needs
            .filter(|feature| !self.features.iter().any(|has| has == feature))
            .collect()
    }

    /// The value of the CPU annotation on a node: the name of a generation, or all fields as JSON.
    pub(crate) fn to_annotation(&self) -> String {
        match &self.generation {
            Some(name) => name.clone(),
            // A struct of strings and numbers always serializes.
            None => serde_json::to_string(self).unwrap_or_default(),
        }
    }

    /// Parses the annotation, with all fields filled in.
    pub(crate) fn of_annotation(text: &str) -> Option<Self> {
        if text.starts_with('{') {
            let cpu: Self = serde_json::from_str(text).ok()?;
            return cpu.in_full();
        }
        Self::of_generation(text).in_full()
    }
}

#[cfg(test)]
mod tests;
