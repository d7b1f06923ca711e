//! Names of managers, and the options of a request that carry them.

use serde_json::Value;

use crate::field::{FieldError, Path};

/// Bytes that the name of a manager may have.
const MAX_MANAGER: usize = 128;

/// The manager of a request that names none: its User-Agent up to the first slash, without
/// characters that cannot be printed, cut to the length that names may have.
pub fn manager_from_user_agent(user_agent: &str) -> String {
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for character in product.chars().filter(|character| is_print(*character)) {
        if name.len() + character.len_utf8() > MAX_MANAGER {
            break;
        }
        name.push(character);
    }
    name
}

/// The errors of a `fieldManager` option.
pub fn validate_field_manager(manager: &str) -> Vec<FieldError> {
    let field = Path::new("fieldManager");
    let mut errors = Vec::new();
    if manager.len() > MAX_MANAGER {
        errors.push(FieldError::too_long(&field, MAX_MANAGER));
    }
    for (position, character) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let code = u32::from(character);
        let detail = format!("invalid character U+{code:04X} (at position {position})");
        errors.push(FieldError::invalid(&field, manager, detail));
    }
    errors
}

/// The errors of the options of a PATCH, in the order the API reports them. `force` is `None` if it is
/// not given.
pub fn validate_patch_options(
    is_apply: bool,
    manager: &str,
    force: Option<bool>,
    dry_run: &[&str],
    field_validation: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if is_apply && manager.is_empty() {
        let field = Path::new("fieldManager");
        errors.push(FieldError::required(&field, "is required for apply patch"));
    }
    if !is_apply && force.is_some() {
        let detail = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden(&Path::new("force"), detail));
    }
    errors.extend(validate_write_options(manager, dry_run, field_validation));
    errors
}

/// The errors of the options of any write.
pub fn validate_write_options(
    manager: &str,
    dry_run: &[&str],
    field_validation: &str,
) -> Vec<FieldError> {
    let mut errors = validate_field_manager(manager);
    if dry_run.iter().any(|given| *given != "All") {
        let given: Vec<Value> = dry_run.iter().map(|given| Value::from(*given)).collect();
        errors.push(FieldError::not_supported(
            &Path::new("dryRun"),
            given,
            ["All"],
        ));
    }
    if !matches!(field_validation, "" | "Ignore" | "Warn" | "Strict") {
        let accepted = ["Ignore", "Strict", "Warn"];
        let field = Path::new("fieldValidation");
        errors.push(FieldError::not_supported(
            &field,
            field_validation,
            accepted,
        ));
    }
    errors
}

/// Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    // The standard library escapes exactly what cannot be printed; only the first character of a
    // text is treated differently, for combining marks.
    let text = format!("a{character}");
    text.escape_debug().eq(text.chars())
}
