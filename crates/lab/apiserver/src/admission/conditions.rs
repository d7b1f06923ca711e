//! `matchConditions`: expressions that have to be true for a webhook to be called.

use machinery::cel::{Environment, Expression, VarType};
use serde_json::Value;

use crate::builtin::value::Read;

/// Cost budget of all conditions of one webhook (`RuntimeCELCostBudgetMatchConditions`).
const BUDGET: u64 = 2_500_000;

/// A compiled condition. One that does not compile fails whenever it is evaluated.
pub(super) struct Condition {
    source: String,
    program: Result<Expression, String>,
}

/// Variables of the expressions of webhooks and policies; types are resolved at evaluation.
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

impl Condition {
    pub(super) fn read(condition: &Value, environment: &Environment) -> Self {
        let source = condition.text("expression").to_owned();
        Self {
            program: Expression::compile(&source, environment),
            source,
        }
    }
}

/// Whether all conditions are true. A single false one suffices for no; otherwise errors count.
pub(super) fn hold(conditions: &[Condition], values: &[(&str, &Value)]) -> Result<bool, String> {
    let mut budget = BUDGET;
    let mut failures = Vec::new();
    for condition in conditions {
        let outcome = match &condition.program {
            Ok(program) => program
                .eval(values, &mut budget)
                .map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match outcome {
            // Even after an error of an earlier condition, as in
            // `admission/plugin/webhook/matchconditions/matcher.go`: the webhook would not be
            // called whatever that one returned.
            Ok(Value::Bool(false)) => return Ok(false),
            Ok(Value::Bool(true)) => {}
            Ok(_) => failures.push(format!(
                "cel expression '{}' did not evaluate to bool",
                condition.source
            )),
            Err(why) => failures.push(format!(
                "expression '{}' resulted in error: {why}",
                condition.source
            )),
        }
    }
    match failures.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}
