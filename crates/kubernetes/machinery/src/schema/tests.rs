//! Tables of upstream's behaviour, and laws that hold for any schema and object.

mod corpus;
mod laws;
mod tables;

use serde_json::Value;

use super::check::Checks;
use super::{CompiledSchema, Schema, check_embedded, check_lists, check_lists_update};
use super::{coerce, default, prune, prune_nulls};
use crate::field::{FieldError, Path};

/// Neither rules nor metadata are checked here.
const NO_CHECKS: Checks<'static> = Checks {
    rules: &|_, _| Vec::new(),
    default_rules: &|_, _, _| Vec::new(),
    object_meta: &|_, _, _| Vec::new(),
};

fn compiled(json: &Value) -> CompiledSchema {
    CompiledSchema::parse(json).expect("the schema is valid")
}

/// Decodes an object as a request is: returns the unknown fields.
fn decode(object: &mut Value, schema: &Schema) -> Result<Vec<String>, FieldError> {
    let mut unknown = coerce(object, schema, &Path::root(), true, false)?;
    unknown.extend(prune(object, schema, true));
    prune_nulls(object, schema);
    default(object, schema);
    Ok(unknown)
}

/// All errors of an object, against the one it replaces if there is one.
fn errors(object: &Value, old: Option<&Value>, compiled: &CompiledSchema) -> Vec<FieldError> {
    let (root, schema) = (Path::root(), compiled.schema());
    let mut errors = match old {
        None => compiled.validate(object, &root),
        Some(old) => compiled.validate_update(object, old, &root),
    };
    errors.extend(check_embedded(
        object,
        schema,
        &root,
        false,
        NO_CHECKS.object_meta,
    ));
    errors.extend(match old {
        None => check_lists(object, schema, &root),
        Some(old) => check_lists_update(object, old, schema, &root),
    });
    errors
}
