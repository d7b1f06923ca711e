//! What a CPU is to virtual machines: as a generation that has a name, or said in full.

mod generations;
mod models;

use serde::{Deserialize, Serialize};

pub use generations::{GENERATIONS, Generation};
pub(crate) use models::is_known;

/// What KubeVirt's node labeller would find out about the CPU of a node.
///
/// Either `generation`, and nothing else, or the rest, with `vendor` and `model`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cpu {
    /// A generation of CPUs, of which everything else is known: one of [`GENERATIONS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Vendor: `Intel`, `AMD`, `IBM`, ...
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// The host model: what libvirt calls this CPU.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Models a virtual machine can have here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Models that are known here but not usable; migration still has labels for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_models: Vec<String>,
    /// Features of the CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Features the host model needs beyond its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_features: Vec<String>,
    /// Machine types virtual machines can have here.
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

    /// The CPU in full; nothing if its generation does not exist.
    pub fn in_full(&self) -> Option<Self> {
        match &self.generation {
            None => Some(self.clone()),
            Some(name) => Generation::named(name).map(Generation::describe),
        }
    }

    /// Whether a guest with this model runs here: it is usable, or the host's own.
    pub(crate) fn runs(&self, model: &str) -> bool {
        self.model == model || self.models.iter().any(|usable| usable == model)
    }

    /// What of a model this CPU does not have.
    pub(crate) fn lacks(&self, model: &str) -> Vec<&'static str> {
        let needs = models::features(model).into_iter();
        needs
            .filter(|feature| !self.features.iter().any(|has| has == feature))
            .collect()
    }

    /// The CPU in the words of an annotation on a node: the name of a generation, or all of it as JSON.
    pub(crate) fn to_annotation(&self) -> String {
        match &self.generation {
            Some(name) => name.clone(),
            // A struct of texts and numbers is always JSON.
            None => serde_json::to_string(self).unwrap_or_default(),
        }
    }

    /// What an annotation says, in full.
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
