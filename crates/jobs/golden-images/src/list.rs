//! Lists of architectures, as people write them into annotations.
//!
//! Upstream compares the pieces between the commas as they are: `amd64, arm64` loses one, `AMD64`
//! is nothing. Here blanks, case and repetitions do not matter, and what is no architecture of a
//! virtual machine is set aside and told.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

/// The architectures that a virtual machine can have.
pub const KNOWN: [&str; 3] = ["amd64", "arm64", "s390x"];

/// More entries than this are not read: nobody means them.
const MOST: usize = 64;

/// A list of architectures that was written by somebody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Architectures that a virtual machine can have, in the order in which they were written.
    pub known: Vec<String>,
    /// What else was written.
    pub unknown: Vec<String>,
    /// Whether something was written twice, in other letters, with blanks or without text: upstream
    /// would have read it differently.
    pub untidy: bool,
}

impl Listed {
    /// Reads a list.
    pub fn parse(text: &str) -> Self {
        let mut listed = Self::default();
        let mut seen = BTreeSet::new();
        for (index, piece) in text.split(',').enumerate() {
            if index == MOST {
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

    /// Those that a cluster has, in the order in which they were written.
    pub fn present<'a>(&'a self, cluster: &BTreeSet<&str>) -> Vec<&'a str> {
        let known = self.known.iter().map(String::as_str);
        known.filter(|name| cluster.contains(name)).collect()
    }
}

/// An architecture, in the words of Go.
pub fn normal(text: &str) -> String {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "x86_64" | "x86-64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        _ => text,
    }
}

/// An architecture, in the words of `uname -m`.
pub fn machine(architecture: &str) -> &str {
    match architecture {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
}

/// Whether a virtual machine can have this architecture.
pub fn is_known(architecture: &str) -> bool {
    KNOWN.contains(&architecture)
}
