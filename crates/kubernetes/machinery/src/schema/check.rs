//! Whether a schema may be in a CRD at all.
//!
//! Three layers, as upstream has them: the invariants that make a schema structural
//! (`apiserver/schema`), its defaults (`apiserver/schema/defaulting`), and the rules about single
//! keywords (`apis/apiextensions/validation`).

mod defaults;
mod go_text;
mod keywords;
mod structural;

use serde_json::Value;

use super::compiled::CompiledSchema;
use super::formats;
use super::node::Node;
use super::types::{Schema, SchemaType};
use crate::field::{ErrorKind, ErrorList, FieldError, Path};

pub(super) use go_text::versions as versions_text;
pub(crate) use keywords::check_rule_form;

/// Checks that other parts make for this one.
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    /// The rules (`x-kubernetes-validations`) in a schema and below; the path is that of the schema.
    /// Called only for schemas without other errors.
    pub rules: &'a dyn Fn(&Schema, &Path) -> Vec<FieldError>,
    /// The rules of a node on its default value; the path is that of the default. Called only for
    /// defaults without other errors.
    pub default_rules: &'a dyn Fn(&Schema, &Value, &Path) -> Vec<FieldError>,
    /// `ValidateObjectMeta` with names that are path segments: the metadata, whether it is of a
    /// namespaced object, and its path.
    pub object_meta: &'a dyn Fn(&Value, bool, &Path) -> Vec<FieldError>,
}

/// All errors in the `openAPIV3Schema` of a CRD version.
///
/// `path` is that of the surrounding `schema`. `status` tells whether the status subresource is
/// enabled, which restricts the keywords at the root, as the status is validated on its own.
pub fn check_structural(
    json: &Value,
    status: bool,
    path: &Path,
    checks: &Checks<'_>,
) -> Vec<FieldError> {
    let at = path.child("openAPIV3Schema");
    let (schema, node) = match (Schema::parse(json), Node::of(json)) {
        (Ok(schema), Some(node)) => (schema, node),
        (Err(error), _) => return vec![FieldError::invalid(&at, "", error)],
        (Ok(_), None) => return Vec::new(),
    };
    let mut errors = Vec::new();
    if status {
        errors.extend(status_root(node, path));
    }
    if node.flag("nullable") {
        let field = path.child("openAPIV3Schema.nullable");
        errors.forbidden(&field, "nullable cannot be true at the root");
    }
    let unsupported = structural::unsupported(node);
    let mut sound = false;
    // Upstream converts to the structural form only if that is possible, and reports the
    // conversion error last, if nothing else was wrong.
    if unsupported.is_none() {
        let mut found = structural::check(node, &at);
        if found.is_empty() {
            // Patterns have compiled in the check above.
            found = match CompiledSchema::new(schema.clone()) {
                Ok(compiled) => defaults::check(&compiled, &at, checks),
                Err(error) => vec![FieldError::invalid(&at, "", error)],
            };
            sound = found.is_empty();
        }
        errors.extend(found);
    }
    let found = keywords::check(node, &schema, &at);
    let clean = found.is_empty();
    errors.extend(found);
    // Rules are compiled against the types of the schema; with errors in those, every
    // rule would report a consequence of them.
    if sound && clean {
        errors.extend((checks.rules)(&schema, &at));
    }
    if errors.is_empty()
        && let Some(error) = unsupported
    {
        errors.invalid(&at, "", error);
    }
    errors
}

/// With a status subresource, keywords that would be lost for the status must not be at the root.
fn status_root(node: Node<'_>, path: &Path) -> Option<FieldError> {
    const ALLOWED: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum \
        ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required \
        Items Properties ExternalDocs Example XPreserveUnknownFields XValidations";
    for (name, key) in go_text::keywords() {
        if !go_text::is_set(node, key) {
            continue;
        }
        if name == "Type" {
            let found = node.text("type");
            if found == "object" {
                continue;
            }
            let detail = "only \"object\" is allowed as the type at the root of the schema if the \
                          status subresource is enabled";
            return Some(FieldError::invalid(
                &path.child("openAPIV3Schema.type"),
                found,
                detail,
            ));
        }
        if !ALLOWED.split(' ').any(|allowed| allowed == name) {
            let value = go_text::schema(node);
            // The value is printed as Go prints the struct, which no JSON value can do.
            let detail = format!(
                "{value}: only [{ALLOWED}] fields are allowed at the root of the schema if the status \
                 subresource is enabled"
            );
            let at = path.child("openAPIV3Schema");
            return Some(FieldError::without_value(ErrorKind::Invalid, &at, detail));
        }
    }
    None
}

/// The formats in a schema that mean nothing to the server, in the order of the warnings about them.
pub fn unrecognized_formats(json: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(node), Ok(_)) = (Node::of(json), Schema::parse(json)) {
        node.walk(&mut |node| {
            let (format, type_name) = (node.text("format"), node.text("type"));
            let known_type = SchemaType::from_name(type_name);
            let recognized = (type_name.is_empty() || known_type.is_some())
                && formats::recognized(format, known_type);
            if !format.is_empty() && !recognized {
                found.push(format.to_owned());
            }
        });
    }
    found
}
