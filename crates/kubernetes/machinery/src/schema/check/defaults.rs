//! Whether defaults are what their schema asks for (`defaulting.ValidateDefaults`).

use serde_json::{Value, json};

use super::super::compiled::CompiledSchema;
use super::super::embedded::{check_embedded, coerce};
use super::super::prune::prune;
use super::super::types::Schema;
use super::Checks;
use crate::field::{ErrorList, FieldError, Path, aggregate};

/// One step from the resource a node belongs to towards the node.
#[derive(Clone)]
enum SchemaSegment {
    Field(String),
    Item,
}

struct Walk<'a> {
    compiled: &'a CompiledSchema,
    checks: &'a Checks<'a>,
    errors: Vec<FieldError>,
}

/// The resource around a node.
#[derive(Clone, Copy)]
struct Resource<'a> {
    schema: &'a Schema,
    /// Whether it is the whole object, which has metadata even if the schema does not declare it.
    whole: bool,
}

/// All errors of all defaults in the schema.
pub(super) fn check(
    compiled: &CompiledSchema,
    path: &Path,
    checks: &Checks<'_>,
) -> Vec<FieldError> {
    let mut walk = Walk {
        compiled,
        checks,
        errors: Vec::new(),
    };
    let root = Resource {
        schema: compiled.schema(),
        whole: true,
    };
    walk.node(compiled.schema(), path, root, &mut Vec::new(), false);
    walk.errors
}

impl Walk<'_> {
    fn node(
        &mut self,
        schema: &Schema,
        path: &Path,
        resource: Resource<'_>,
        steps: &mut Vec<SchemaSegment>,
        in_meta: bool,
    ) {
        let is_resource = schema.embedded_resource || (resource.whole && steps.is_empty());
        // An embedded resource starts afresh.
        let (resource, steps, in_meta) = if schema.embedded_resource {
            (
                Resource {
                    schema,
                    whole: false,
                },
                &mut Vec::new(),
                false,
            )
        } else {
            (resource, steps, in_meta)
        };
        if let Some(default) = &schema.default {
            let at = path.child("default");
            let found = if in_meta {
                self.in_meta(schema, default, &at, resource, steps)
            } else {
                self.plain(schema, default, &at, is_resource)
            };
            self.errors.extend(found);
        }
        if let Some(items) = schema.items.as_deref() {
            steps.push(SchemaSegment::Item);
            self.node(items, &path.child("items"), resource, steps, in_meta);
            steps.pop();
        }
        for (name, property) in &schema.properties {
            let meta = is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let at = path.child("properties").key(name);
            steps.push(SchemaSegment::Field(name.clone()));
            self.node(property, &at, resource, steps, in_meta || meta);
            steps.pop();
        }
    }

    /// A default in the metadata of a resource has to make valid metadata.
    fn in_meta(
        &self,
        schema: &Schema,
        default: &Value,
        path: &Path,
        resource: Resource<'_>,
        steps: &[SchemaSegment],
    ) -> Vec<FieldError> {
        let mut object = steps
            .iter()
            .rev()
            .fold(default.clone(), |inner, step| match step {
                SchemaSegment::Field(name) => json!({ name: inner }),
                SchemaSegment::Item => json!([inner]),
            });
        if let Some(map) = object.as_object_mut() {
            // The check needs a resource with type metadata; upstream uses these very
            // values, and they show in its errors.
            map.entry("kind").or_insert_with(|| "Validation".into());
            map.entry("apiVersion")
                .or_insert_with(|| "validation/v1".into());
        }
        let bad = |why: String| {
            let detail = format!("must result in valid metadata: {why}");
            vec![FieldError::invalid(path, default.clone(), detail)]
        };
        let root = Path::root();
        if let Err(error) = coerce(&mut object, resource.schema, &root, true, false) {
            return bad(error.to_string());
        }
        let errors = check_embedded(
            &object,
            resource.schema,
            &root,
            true,
            self.checks.object_meta,
        );
        if !errors.is_empty() {
            return bad(aggregate(&errors));
        }
        self.against_schema(schema, default, path)
    }

    fn plain(
        &self,
        schema: &Schema,
        default: &Value,
        path: &Path,
        is_resource: bool,
    ) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut pruned = default.clone();
        prune(&mut pruned, schema, is_resource);
        // A default with unknown fields would be pruned from every object it is put into, so the object would differ
        // from what the CRD promises.
        if pruned != *default {
            let detail = "must not have unknown fields";
            errors.invalid(path, default.clone(), detail);
        }
        let mut coerced = default.clone();
        if let Err(error) = coerce(&mut coerced, schema, path, is_resource, false) {
            errors.push(error);
            return errors;
        }
        let found = check_embedded(&coerced, schema, path, is_resource, self.checks.object_meta);
        if found.is_empty() {
            errors.extend(self.against_schema(schema, &coerced, path));
        } else {
            errors.extend(found);
        }
        errors
    }

    fn against_schema(&self, schema: &Schema, value: &Value, path: &Path) -> Vec<FieldError> {
        let errors = self.compiled.validate_default(schema, value, path);
        if errors.is_empty() {
            return (self.checks.default_rules)(schema, value, path);
        }
        errors
    }
}
