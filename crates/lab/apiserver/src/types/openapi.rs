//! OpenAPI v3 documents of the built-in groups, read by `kubectl explain`, client-side validation
//! and generators.
//!
//! Documents are built on request and not cached here; the caller caches the bytes.

mod descriptions;
mod paths;
mod schemas;

use machinery::gvk::GroupVersionKind;
use serde_json::{Map, Value, json};

use self::schemas::Models;
use super::table::{TypeId, table};

pub(crate) use paths::openapi_paths;

/// Prefix of references to models.
const SCHEMAS: &str = "#/components/schemas/";

/// A resource or subresource of a group and version, as discovery lists it.
#[derive(Debug, Clone)]
pub(crate) struct DocumentResource<'a> {
    /// Plural, with the subresource behind a slash: `pods`, `pods/status`.
    pub(crate) name: &'a str,
    /// Whether it is namespaced.
    pub(crate) namespaced: bool,
    /// Kind of the body.
    pub(crate) kind: GroupVersionKind,
    /// Verbs as in discovery.
    pub(crate) verbs: &'a [&'a str],
    /// Model of the body when it is not that of a built-in kind.
    pub(crate) model: Option<String>,
}

impl DocumentResource<'_> {
    /// The model of the body.
    fn model(&self) -> Option<String> {
        self.model.clone().or_else(|| {
            let kind = &self.kind;
            table()
                .kind(&kind.group, &kind.version, &kind.kind)
                .map(|id| table().model_name(id))
        })
    }
}

/// The document of a built-in group and version.
pub(crate) fn openapi_document(
    group: &str,
    version: &str,
    resources: &[DocumentResource<'_>],
) -> Value {
    let table = table();
    let mut roots: Vec<TypeId> = Vec::new();
    for resource in resources {
        let kind = &resource.kind;
        let list = format!("{}List", kind.kind);
        roots.extend(table.kind(&kind.group, &kind.version, &kind.kind));
        roots.extend(table.kind(&kind.group, &kind.version, &list));
    }
    let mut models = Models::new(group, version, descriptions::describe(group, version));
    for root in roots {
        models.add(root);
    }
    models.add_common();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": openapi_paths(group, version, resources),
        "components": {
            "schemas": models.finish(),
            "securitySchemes": {"BearerToken": {
                "type": "apiKey",
                "description": "Bearer Token authentication",
                "name": "authorization",
                "in": "header",
            }},
        },
    })
}

/// Models every document of custom resources refers to: metadata, options and `Status`.
pub(crate) fn openapi_common_models(group: &str, version: &str) -> Map<String, Value> {
    // Any group with one small kind includes the descriptions of metadata.
    let mut models = Models::new(group, version, descriptions::describe("node.k8s.io", "v1"));
    models.add_common();
    models.finish()
}

#[cfg(test)]
mod tests;
