//! Expressions of webhooks and policies: whether they compile, and to what.

#[cfg(test)]
mod tests;

use machinery::cel::{Environment, Expression, VarType};
use machinery::field::{FieldError, Path};

use crate::builtin::entry::Errors;

/// The variables of every expression. Types of objects are not known at compile time.
pub(super) fn variables(params: bool) -> Environment {
    let mut environment = Environment::new();
    for name in ["object", "oldObject", "request", "namespaceObject"] {
        environment = environment.with(name, &VarType::Dyn);
    }
    if params {
        environment = environment.with("params", &VarType::Dyn);
    }
    environment
}

/// Adds the composed variables of a policy. Their types would follow from their expressions, which
/// is not checked.
pub(super) fn with_composed(environment: Environment) -> Environment {
    environment.with(COMPOSED, &VarType::Dyn)
}

const COMPOSED: &str = "variables";

/// Compiles an expression and checks its type; an empty list accepts any type.
pub(super) fn check(
    path: &Path,
    source: &str,
    environment: &Environment,
    accepted: &[&str],
) -> Errors {
    // The authorizer library is not supported, so such expressions are not checked.
    if source.contains("authorizer") {
        return Errors::new();
    }
    let wrong = match Expression::compile(source, environment) {
        Err(why) => Some(why),
        Ok(_) if accepted.is_empty() => None,
        Ok(compiled) => {
            let result = compiled.result_name();
            let known = accepted.contains(&result.as_str())
                || (result == "null" && accepted.contains(&"null_type"))
                || (result == "dyn" && compiled.uses(COMPOSED));
            match accepted {
                _ if known => None,
                [one] => Some(format!("must evaluate to {one} but got {result}")),
                several => Some(format!(
                    "must evaluate to one of [{}] but got {result}",
                    several.join(" ")
                )),
            }
        }
    };
    wrong
        .map(|why| FieldError::invalid(path, source, why))
        .into_iter()
        .collect()
}
