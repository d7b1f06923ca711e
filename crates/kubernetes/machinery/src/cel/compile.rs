//! Rules of one schema node, compiled.

use std::sync::Arc;

use super::decl::Decl;
use super::program::Program;
use super::types::Type;
use crate::schema::{Schema, SchemaType, ValidationRule, valid_field_path};

/// The value a rule is about.
pub(crate) const SELF: &str = "self";
/// Its earlier value.
pub(crate) const OLD_SELF: &str = "oldSelf";

/// A rule and what became of it.
#[derive(Debug)]
pub(crate) struct Rule {
    /// As declared.
    pub(crate) source: ValidationRule,
    /// The expression; `None` for an empty rule.
    pub(crate) program: Option<Result<Program, String>>,
    /// The message expression; `None` if there is none or the rule itself is broken.
    pub(crate) message: Option<Result<Program, String>>,
    /// Whether the old value is referred to.
    pub(crate) uses_old: bool,
    /// Where errors are reported, relative to the node.
    pub(crate) field_path: Option<String>,
}

/// Compiles a rule of `schema`, whose values are typed by `decl`.
pub(crate) fn compile_rule(rule: &ValidationRule, schema: &Schema, decl: &Decl) -> Rule {
    let mut compiled = Rule {
        source: rule.clone(),
        program: None,
        message: None,
        uses_old: false,
        field_path: None,
    };
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let own = Type::of(decl);
    let old = if rule.optional_old_self == Some(true) {
        Type::optional(own.clone())
    } else {
        own.clone()
    };
    // `oldSelf` is declared for every rule: whether a rule is a transition rule
    // follows from its use, not from a flag.
    let variables = [(SELF.to_owned(), own), (OLD_SELF.to_owned(), old)];
    let program = match Program::compile(&rule.rule, &variables) {
        Err(issues) => Err(format!("compilation failed: {issues}")),
        Ok(program) if !matches!(program.checked.result, Type::Bool) => {
            Err("cel expression must evaluate to a bool".to_owned())
        }
        Ok(program) => Ok(program),
    };
    if let Ok(program) = &program {
        compiled.uses_old = program.uses(OLD_SELF);
        // Only for a rule that compiles, as upstream does: one error for each rule is enough to correct it.
        if !rule.message_expression.is_empty() {
            let message = match Program::compile(&rule.message_expression, &variables) {
                Err(issues) => Err(format!("messageExpression compilation failed: {issues}")),
                Ok(program) if !matches!(program.checked.result, Type::String) => {
                    Err("messageExpression must evaluate to a string".to_owned())
                }
                Ok(program) => Ok(program),
            };
            compiled.message = Some(message);
        }
        if !rule.field_path.is_empty()
            && let Ok((path, _)) = valid_field_path(&rule.field_path, schema)
        {
            compiled.field_path = Some(path.as_str().to_owned());
        }
    }
    compiled.program = Some(program);
    compiled
}

/// The view of a child, taken from its parent where that shows it.
pub(crate) fn child_decl(
    parent: Option<&Decl>,
    child: Child<'_>,
    schema: &Schema,
) -> Option<Arc<Decl>> {
    use super::decl::Shape;
    let found = match (parent.map(|p| &p.shape), child) {
        (Some(Shape::List(list)), Child::Items) => Some(Arc::clone(&list.items)),
        (Some(Shape::Map(values)), Child::Values) => Some(Arc::clone(values)),
        (Some(Shape::Object(object)), Child::Property(name)) => object
            .escaped
            .get(name)
            .and_then(|escaped| object.fields.get(escaped))
            .map(|field| Arc::clone(&field.decl)),
        _ => None,
    };
    // A parent that does not show the child, because of
    // `x-kubernetes-preserve-unknown-fields` for example, still may have rules below it.
    found.or_else(|| Decl::of(schema, schema.embedded_resource, "selfType").map(Arc::new))
}

/// Which child of a schema node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Child<'n> {
    /// Items of a list.
    Items,
    /// Values of a map.
    Values,
    /// A property.
    Property(&'n str),
}

/// `type` as written, empty if it is not.
pub(crate) fn type_text(schema: &Schema) -> &'static str {
    match schema.schema_type {
        Some(SchemaType::Object) => "object",
        Some(SchemaType::Array) => "array",
        Some(SchemaType::String) => "string",
        Some(SchemaType::Integer) => "integer",
        Some(SchemaType::Number) => "number",
        Some(SchemaType::Boolean) => "boolean",
        None => "",
    }
}
