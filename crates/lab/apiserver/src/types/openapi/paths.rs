//! Paths: verbs of a resource and their query parameters.
//!
//! kubectl checks here whether a kind supports `fieldValidation` and `dryRun`.

use serde_json::{Map, Value, json};

use super::{DocumentResource, SCHEMAS};

/// The `paths` of a document; custom resources have the same.
pub(crate) fn openapi_paths(
    group: &str,
    version: &str,
    resources: &[DocumentResource<'_>],
) -> Map<String, Value> {
    let base = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let mut paths = Map::new();
    for resource in resources {
        let Some(model) = resource.model() else {
            continue;
        };
        let operations = Operations {
            resource,
            model,
            strategic: resource.model.is_none(),
        };
        let (plural, subresource) = match resource.name.split_once('/') {
            Some((plural, subresource)) => (plural, Some(subresource)),
            None => (resource.name, None),
        };
        let scope = if resource.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let collection = format!("{base}{scope}/{plural}");
        let mut add = |path: String, verbs: &[(&str, &str)], parameters: &[&str]| {
            let item = operations.path(verbs, parameters);
            if let Some(item) = item {
                paths.insert(path, item);
            }
        };
        let namespace: &[&str] = if resource.namespaced {
            &["namespace"]
        } else {
            &[]
        };
        let name: &[&str] = if resource.namespaced {
            &["name", "namespace"]
        } else {
            &["name"]
        };
        if let Some(subresource) = subresource {
            add(
                format!("{collection}/{{name}}/{subresource}"),
                &[
                    ("get", "get"),
                    ("put", "update"),
                    ("patch", "patch"),
                    ("post", "create"),
                ],
                name,
            );
            continue;
        }
        add(
            collection.clone(),
            &[
                ("get", "list"),
                ("post", "create"),
                ("delete", "deletecollection"),
            ],
            namespace,
        );
        add(
            format!("{collection}/{{name}}"),
            &[
                ("get", "get"),
                ("put", "update"),
                ("patch", "patch"),
                ("delete", "delete"),
            ],
            name,
        );
        if resource.namespaced {
            add(format!("{base}/{plural}"), &[("get", "list")], &[]);
        }
    }
    paths
}

struct Operations<'a> {
    resource: &'a DocumentResource<'a>,
    model: String,
    /// Whether strategic merge patches are supported.
    strategic: bool,
}

impl Operations<'_> {
    /// The path item of the resource's verbs; `None` when it has none of them.
    fn path(&self, verbs: &[(&str, &str)], parameters: &[&str]) -> Option<Value> {
        let mut item = Map::new();
        for (method, verb) in verbs {
            if self.resource.verbs.contains(verb) {
                item.insert((*method).to_owned(), self.operation(verb));
            }
        }
        if item.is_empty() {
            return None;
        }
        let mut all: Vec<Value> = parameters.iter().map(|name| in_path(name)).collect();
        all.push(query("pretty", "string"));
        item.insert("parameters".to_owned(), Value::Array(all));
        Some(Value::Object(item))
    }

    fn operation(&self, verb: &str) -> Value {
        let action = match verb {
            "create" => "post",
            "update" => "put",
            other => other,
        };
        let kind = &self.resource.kind;
        let answer = match verb {
            "list" => format!("{}List", self.model),
            "deletecollection" => "io.k8s.apimachinery.pkg.apis.meta.v1.Status".to_owned(),
            _ => self.model.clone(),
        };
        let content = json!({"application/json": {"schema": schema(&answer)}});
        let mut operation = json!({
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind":
                {"group": kind.group, "version": kind.version, "kind": kind.kind},
        });
        let parameters: Vec<Value> = parameters(verb)
            .iter()
            .map(|(name, kind)| query(name, kind))
            .collect();
        if !parameters.is_empty() {
            operation["parameters"] = Value::Array(parameters);
        }
        match verb {
            "create" | "update" => {
                operation["requestBody"] =
                    json!({"content": {"*/*": {"schema": schema(&self.model)}}, "required": true});
            }
            "patch" => operation["requestBody"] = self.patch_body(),
            "delete" | "deletecollection" => {
                let options = schema("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
                operation["requestBody"] = json!({"content": {"*/*": {"schema": options}}});
            }
            _ => {}
        }
        operation
    }

    fn patch_body(&self) -> Value {
        let patch = json!({"schema": schema("io.k8s.apimachinery.pkg.apis.meta.v1.Patch")});
        let mut content = Map::new();
        for media in ["apply-patch+yaml", "json-patch+json", "merge-patch+json"] {
            content.insert(format!("application/{media}"), patch.clone());
        }
        if self.strategic {
            content.insert("application/strategic-merge-patch+json".to_owned(), patch);
        }
        json!({"content": content, "required": true})
    }
}

fn schema(model: &str) -> Value {
    json!({"$ref": format!("{SCHEMAS}{model}")})
}

fn in_path(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true,
           "schema": {"type": "string", "uniqueItems": true}})
}

fn query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

/// Query parameters of a verb and their types.
fn parameters(verb: &str) -> Vec<(&'static str, &'static str)> {
    const WRITE: [(&str, &str); 3] = [
        ("dryRun", "string"),
        ("fieldManager", "string"),
        ("fieldValidation", "string"),
    ];
    const SELECT: [(&str, &str); 8] = [
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
    ];
    const DELETE: [(&str, &str); 4] = [
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ];
    match verb {
        "create" | "update" => WRITE.to_vec(),
        "patch" => [WRITE.as_slice(), &[("force", "boolean")]].concat(),
        "list" => [
            [("allowWatchBookmarks", "boolean")].as_slice(),
            &SELECT,
            &[("watch", "boolean")],
        ]
        .concat(),
        "delete" => DELETE.to_vec(),
        "deletecollection" => [SELECT.as_slice(), &DELETE].concat(),
        _ => Vec::new(),
    }
}
