//! Names of field managers.

use crate::field::{FieldError, Path};
use crate::json::is_print;
use crate::meta::{FIELD_MANAGER_MAX, validate_manager};

/// The manager of a request that names none: its User-Agent up to the first slash, without
/// characters that cannot be printed, cut to the length that names may have.
pub fn manager_from_user_agent(user_agent: &str) -> String {
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for character in product.chars().filter(|character| is_print(*character)) {
        // Cut at a character, not at a byte: half a character would be invalid UTF-8, which the API cannot carry.
        if name.len() + character.len_utf8() > FIELD_MANAGER_MAX {
            break;
        }
        name.push(character);
    }
    name
}

/// The errors of a `fieldManager` option.
pub fn validate_field_manager(manager: &str) -> Vec<FieldError> {
    validate_manager(manager, &Path::new("fieldManager"))
}
