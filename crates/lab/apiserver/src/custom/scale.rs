//! Validation of the scale subresource's fields on every write of the object.

#[cfg(test)]
mod tests;

use machinery::field::{FieldError, Path};
use machinery::patch::go_print;
use serde_json::Value;

use crate::kind::{Part, ScalePaths};

/// Checks the values at the paths of a scale subresource (`ValidateScaleSpec`,
/// `ValidateScaleStatus`). They may be absent, but must not have another type.
pub(super) fn check(paths: &ScalePaths, object: &Value, part: Part<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if part != Part::Status {
        errors.extend(check_replicas(&paths.spec_replicas, object));
    }
    errors.extend(check_replicas(&paths.status_replicas, object));
    if let Some(selector) = &paths.label_selector {
        errors.extend(check_selector(selector, object));
    }
    errors
}

fn check_replicas(path: &str, object: &Value) -> Option<FieldError> {
    let at = Path::new(path);
    let wrong = match nested(path, object) {
        Ok(None) => return None,
        Err(why) => return Some(FieldError::invalid(&at, 0, why)),
        Ok(Some(found)) => match found.as_i64() {
            None => return Some(FieldError::invalid(&at, 0, mismatch(path, found, "int64"))),
            Some(count) if count < 0 => (count, "should be a non-negative integer".to_owned()),
            Some(count) if count > i64::from(i32::MAX) => (
                count,
                format!("should be less than or equal to {}", i32::MAX),
            ),
            Some(_) => return None,
        },
    };
    Some(FieldError::invalid(&at, wrong.0, wrong.1))
}

fn check_selector(path: &str, object: &Value) -> Option<FieldError> {
    let why = match nested(path, object) {
        Ok(None | Some(Value::String(_))) => return None,
        Ok(Some(found)) => mismatch(path, found, "string"),
        Err(why) => why,
    };
    Some(FieldError::invalid(&Path::new(path), "", why))
}

/// The value at a path of plain fields; an error when a value on the path is no object.
fn nested<'a>(path: &str, object: &'a Value) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut so_far = String::new();
    for field in path.trim_start_matches('.').split('.') {
        so_far.push('.');
        so_far.push_str(field);
        match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(field) {
                Some(inner) => value = inner,
                None => return Ok(None),
            },
            other => return Err(mismatch(&so_far, other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn mismatch(path: &str, found: &Value, expected: &str) -> String {
    let go_type = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!(
        "{path} accessor error: {} is of the type {go_type}, expected {expected}",
        go_print(found)
    )
}
