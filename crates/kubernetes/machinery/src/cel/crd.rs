//! Rules when a CRD is written
//! (`apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`).

use std::sync::Arc;

use super::compile::{Child, Rule, child_decl, compile_rule};
use super::decl::Decl;
use super::estimate::{TotalCost, cost_error, estimate};
use crate::field::{ErrorList, FieldError, Path};
use crate::json;
use crate::schema::{ListType, Schema, SchemaType, ValidationRule, check_rule_form};

/// Largest estimate for one expression.
// `StaticEstimatedCostLimit` of the same file upstream, ten times what one evaluation may cost at run time.
const EXPRESSION_LIMIT: u64 = 10_000_000;

/// Everything wrong with the rules of a schema, which is found at `path`.
#[must_use]
pub fn check_rules(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut found = Found::default();
    let context = Context {
        decl: None,
        root: true,
        in_scope: false,
        cardinality: Some(1),
        uncorrelatable: None,
        compiles: true,
    };
    check_node(schema, path, &context, &mut found);
    let mut errors = found.schema;
    errors.append(&mut found.cel);
    errors.extend(found.total.errors(path));
    errors
}

/// Errors in the two groups upstream reports them in.
#[derive(Default)]
struct Found {
    schema: Vec<FieldError>,
    cel: Vec<FieldError>,
    total: TotalCost,
}

/// The context of a node from the nodes above it.
#[derive(Clone)]
struct Context {
    decl: Option<Arc<Decl>>,
    root: bool,
    in_scope: bool,
    /// How often the node can occur, `None` if nothing bounds it.
    cardinality: Option<u64>,
    /// The enclosing list whose items have no correlated old value.
    uncorrelatable: Option<Path>,
    /// Rules below `not`, `anyOf` and so on are not compiled.
    compiles: bool,
}

fn check_node(schema: &Schema, path: &Path, context: &Context, found: &mut Found) {
    let in_scope = context.in_scope || !schema.validations.is_empty();
    let decl = match &context.decl {
        Some(decl) => Some(Arc::clone(decl)),
        // Built only where a rule needs it: the declaration of a large schema without rules would be wasted.
        None if in_scope && context.root => Decl::of(schema, true, "selfType").map(Arc::new),
        None if in_scope => Decl::of(schema, schema.embedded_resource, "selfType").map(Arc::new),
        None => None,
    };
    let before = found.schema.len();
    let below = |child: Child<'_>, sub: &Schema| Context {
        decl: in_scope
            .then(|| child_decl(decl.as_deref(), child, sub))
            .flatten(),
        root: false,
        in_scope,
        cardinality: context
            .cardinality
            .zip(max_elements(schema))
            .map(|(a, b)| a.saturating_mul(b)),
        uncorrelatable: context.uncorrelatable.clone(),
        compiles: context.compiles,
    };
    if let Some(values) = schema.additional_properties.as_deref() {
        let context = below(Child::Values, values);
        check_node(values, &path.child("additionalProperties"), &context, found);
    }
    for (name, sub) in &schema.properties {
        let context = below(Child::Property(name), sub);
        check_node(sub, &path.child("properties").key(name), &context, found);
    }
    check_nested(schema, path, context, found);
    if let Some(items) = schema.items.as_deref() {
        let mut context = below(Child::Items, items);
        // The outermost such list is named in the error. Items of a set are their own
        // identity: a changed one has no old value.
        if schema.list_type != Some(ListType::Map) && context.uncorrelatable.is_none() {
            context.uncorrelatable = Some(path.clone());
        }
        check_node(items, &path.child("items"), &context, found);
    }
    let rules_path = path.child("x-kubernetes-validations");
    for (at, rule) in schema.validations.iter().enumerate() {
        let reason = Some(rule.reason.as_str()).filter(|reason| !reason.is_empty());
        let at = rules_path.index(at);
        check_rule_form(rule, reason, Some(schema), &at, &mut found.schema);
    }
    // Errors of form here or below would only lead to confusing ones.
    if schema.validations.is_empty() || found.schema.len() > before || !context.compiles {
        return;
    }
    let Some(decl) = decl else {
        let detail = "internal error: failed to construct type information for \
                      x-kubernetes-validations rules: unable to convert structural schema to CEL \
                      declarations";
        found.cel.push(FieldError::internal(&rules_path, detail));
        return;
    };
    for (at, rule) in schema.validations.iter().enumerate() {
        let compiled = compile_rule(rule, schema, &decl);
        check_compiled(&compiled, &decl, &rules_path.index(at), context, found);
    }
}

/// Rules within value validations are checked for form only.
fn check_nested(schema: &Schema, path: &Path, context: &Context, found: &mut Found) {
    let context = Context {
        decl: None,
        compiles: false,
        ..context.clone()
    };
    if let Some(not) = &schema.not {
        check_node(not, &path.child("not"), &context, found);
    }
    for (name, subs) in [
        ("allOf", &schema.all_of),
        ("oneOf", &schema.one_of),
        ("anyOf", &schema.any_of),
    ] {
        for (at, sub) in subs.iter().enumerate() {
            check_node(sub, &path.child(name).index(at), &context, found);
        }
    }
}

/// How many values of the children one value of a node has.
fn max_elements(schema: &Schema) -> Option<u64> {
    match schema.schema_type {
        Some(SchemaType::Object) if schema.additional_properties.is_some() => schema.max_properties,
        Some(SchemaType::Array) => schema.max_items,
        _ => Some(1),
    }
}

fn check_compiled(rule: &Rule, decl: &Decl, path: &Path, context: &Context, found: &mut Found) {
    let rule_path = path.child("rule");
    let Some(program) = &rule.program else { return };
    match program {
        Ok(program) => {
            let times = context
                .cardinality
                // Without `maxItems` the bound is how many of these values fit into one request, which is why CRDs
                // with rules in unbounded lists are often rejected.
                .unwrap_or_else(|| decl.max_cardinality());
            let cost = estimate(program, decl).saturating_mul(times);
            if cost > EXPRESSION_LIMIT {
                let detail = cost_error("estimated rule cost", cost, EXPRESSION_LIMIT);
                found.cel.forbidden(&rule_path, detail);
            }
            found.total.observe(&rule_path, cost);
        }
        Err(problem) => found.cel.push(with_rule(&rule_path, &rule.source, problem)),
    }
    let message_path = path.child("messageExpression");
    match &rule.message {
        None => {}
        Some(Err(problem)) => found
            .cel
            .push(with_rule(&message_path, &rule.source, problem)),
        Some(Ok(program)) => {
            let cost = estimate(program, decl);
            if cost > EXPRESSION_LIMIT {
                let detail = cost_error("estimated messageExpression cost", cost, EXPRESSION_LIMIT);
                found.cel.forbidden(&message_path, detail);
            }
            found.total.observe(&message_path, cost);
        }
    }
    if rule.uses_old {
        if let Some(list) = &context.uncorrelatable {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
            );
            found
                .cel
                .invalid(&rule_path, rule.source.rule.as_str(), detail);
        }
    } else if let Some(optional) = rule.source.optional_old_self {
        let detail = "may not be set if oldSelf is not used in rule";
        found
            .cel
            .invalid(&path.child("optionalOldSelf"), optional, detail);
    }
}

/// An error that shows the whole rule, in the order of the fields upstream.
fn with_rule(path: &Path, rule: &ValidationRule, problem: &str) -> FieldError {
    let text = |value: &str| json::to_string(&value.into());
    let reason = if rule.reason.is_empty() {
        "null".to_owned()
    } else {
        text(&rule.reason)
    };
    let optional = rule
        .optional_old_self
        .map_or_else(|| "null".to_owned(), |o| o.to_string());
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\
         \"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path),
    );
    FieldError::without_value(
        crate::field::ErrorKind::Invalid,
        path,
        format!("{shown}: {problem}"),
    )
}
