//! Lists of architectures, as users write them into annotations.
//!
//! Upstream compares the pieces between commas verbatim: `amd64, arm64` loses one, `AMD64` is
//! unknown. Here blanks, case and repetitions do not matter, and unsupported names are reported
//! separately.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

/// The architectures that KubeVirt supports.
pub const KNOWN: [&str; 3] = ["amd64", "arm64", "s390x"];

/// Further entries are ignored, so that a hostile annotation costs little.
const MAX_ENTRIES: usize = 64;

/// A template lists architectures that VMs cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "DataImportCronTemplate {template:?} lists unsupported architectures {architectures:?}; they are ignored; amd64, arm64 and s390x are supported"
)]
pub struct UnsupportedArchitectures {
    /// The template.
    pub template: String,
    /// The architectures that are ignored.
    pub architectures: Vec<String>,
}

/// A parsed list of architectures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchitectureList {
    /// Supported architectures, in their original order.
    pub known: Vec<String>,
    /// The other entries.
    pub unknown: Vec<String>,
    /// Whether entries were repeated, blank, padded or in upper case: upstream would have parsed
    /// them differently.
    pub untidy: bool,
}

impl ArchitectureList {
    /// The problem of a template with this list, if it has entries that VMs do not support.
    pub fn unsupported(&self, template: &str) -> Option<UnsupportedArchitectures> {
        (!self.unknown.is_empty()).then(|| UnsupportedArchitectures {
            template: template.to_owned(),
            architectures: self.unknown.clone(),
        })
    }

    /// Parses a list.
    pub fn parse(text: &str) -> Self {
        let mut listed = Self::default();
        let mut seen = BTreeSet::new();
        for (index, piece) in text.split(',').enumerate() {
            if index == MAX_ENTRIES {
                listed.untidy = true;
                break;
            }
            let name = normal(piece);
            if name != piece || name.is_empty() || !seen.insert(name.clone()) {
                listed.untidy |= !text.is_empty();
                if name.is_empty() || listed.known.contains(&name) || listed.unknown.contains(&name)
                {
                    continue;
                }
            }
            if is_known(&name) {
                listed.known.push(name);
            } else {
                listed.unknown.push(name);
            }
        }
        listed
    }

    /// The architectures that a cluster has, in their original order.
    pub fn present<'a>(&'a self, cluster: &BTreeSet<&str>) -> Vec<&'a str> {
        let known = self.known.iter().map(String::as_str);
        known.filter(|name| cluster.contains(name)).collect()
    }
}

/// An architecture as GOARCH spells it.
pub fn normal(text: &str) -> String {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "x86_64" | "x86-64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        _ => text,
    }
}

/// An architecture as `uname -m` spells it.
pub fn machine(architecture: &str) -> &str {
    match architecture {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
}

/// Whether KubeVirt supports this architecture.
pub fn is_known(architecture: &str) -> bool {
    KNOWN.contains(&architecture)
}
