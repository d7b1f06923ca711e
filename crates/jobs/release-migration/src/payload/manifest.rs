//! Manifests: objects in files.

use api::openshift::{ClusterOperator, GROUP};
use machinery::json::{decode_yaml, go_quote};
use serde_json::Value;

/// Why a manifest is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is neither YAML nor JSON.
    #[error("parsing {file}: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// The parse error.
        why: String,
    },
    /// It is not an object.
    #[error("parsing {file}: document {number} is no object with apiVersion and kind")]
    NoObject {
        /// The file.
        file: String,
        /// The number of the document, starting at 1.
        number: usize,
    },
}

/// An object of a release.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// Its file.
    pub file: String,
    /// The object.
    pub object: Value,
}

/// Whether a file contains manifests, by its extension.
pub fn is_manifest(file: &str) -> bool {
    [".yaml", ".yml", ".json"]
        .iter()
        .any(|ending| file.ends_with(ending))
}

impl Manifest {
    /// The objects of a file; YAML may contain several documents.
    pub fn read(file: &str, text: &str) -> Result<Vec<Self>, ManifestError> {
        let mut all = Vec::new();
        for (place, document) in documents(text).into_iter().enumerate() {
            let decoded =
                decode_yaml(document.as_bytes()).map_err(|error| ManifestError::Syntax {
                    file: file.to_owned(),
                    why: error.message().to_owned(),
                })?;
            // A file may end with a separator, and begin with comments only.
            if decoded.value.is_null() {
                continue;
            }
            let is_text = |field: &str| {
                decoded.value[field]
                    .as_str()
                    .is_some_and(|it| !it.is_empty())
            };
            if !is_text("kind") || !is_text("apiVersion") {
                return Err(ManifestError::NoObject {
                    file: file.to_owned(),
                    number: place + 1,
                });
            }
            all.push(Self {
                file: file.to_owned(),
                object: decoded.value,
            });
        }
        Ok(all)
    }

    fn text(&self, pointer: &str) -> &str {
        self.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// The group; empty for the core group.
    pub fn group(&self) -> &str {
        let version = self.text("/apiVersion");
        version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The namespace; empty if cluster-scoped.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object
            .pointer("/metadata/annotations")?
            .get(key)?
            .as_str()
    }

    /// The ClusterOperator, if it is one. An invalid status counts as absent: the operator then declares no versions,
    /// and is rejected for that.
    pub fn cluster_operator(&self) -> Option<ClusterOperator> {
        if self.kind() != "ClusterOperator" || self.group() != GROUP {
            return None;
        }
        let part = |field: &str| self.object.get(field).cloned().unwrap_or_default();
        Some(ClusterOperator {
            metadata: serde_json::from_value(part("metadata")).unwrap_or_default(),
            spec: serde_json::from_value(part("spec")).unwrap_or_default(),
            status: serde_json::from_value(part("status")).unwrap_or_default(),
        })
    }

    /// The name in messages: `deployment "namespace/name"`.
    pub fn called(&self) -> String {
        let kind = self.kind().to_lowercase();
        let name = match (self.name(), self.namespace()) {
            ("", _) => self.file.clone(),
            (name, "") => name.to_owned(),
            (name, namespace) => format!("{namespace}/{name}"),
        };
        format!("{kind} {}", go_quote(&name))
    }
}

/// The documents of a YAML stream: the parts between lines that begin with `---`, as Kubernetes splits them.
fn documents(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.push(text.get(start..at).unwrap_or_default());
            // The text after the dashes is a comment, or a document in one line.
            start = at + 3;
        }
        at += line.len();
    }
    documents.push(text.get(start..).unwrap_or_default());
    documents
}
