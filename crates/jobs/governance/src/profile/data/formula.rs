//! Expressions of a data profile: compiled, with their type and cost checked, and evaluated on a budget.

use api::profile::Finding;
use machinery::cel::{Environment, EvalError, Expression};
use serde_json::Value;

use crate::profile::Refusal;

/// The most that one evaluation may cost by the estimate. A single loop over a field without a schema fits, one inside
/// another does not.
const MAX_ESTIMATE: u64 = 100_000_000;
/// The budget of all expressions of one decision.
pub(super) const BUDGET: u64 = 20_000_000;

/// What the static check found, in the order of the fields.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// The profile cannot be used.
    pub(super) fn error(&mut self, path: &str, message: impl Into<String>) {
        self.add(path, message, true);
    }

    /// The profile can be used, and probably does not do what its author expects.
    pub(super) fn warning(&mut self, path: &str, message: impl Into<String>) {
        self.add(path, message, false);
    }

    fn add(&mut self, path: &str, message: impl Into<String>, error: bool) {
        let finding = Finding {
            path: path.to_owned(),
            message: message.into(),
            error,
        };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    /// Whether the profile can be used.
    pub(super) fn sound(&self) -> bool {
        self.0.iter().all(|finding| !finding.error)
    }
}

/// The expected type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// A boolean.
    Bool,
    /// A list of strings.
    Texts,
    /// Any value.
    Any,
}

/// The values of variables.
#[derive(Debug, Clone, Default)]
pub(super) struct Values(Vec<(String, Value)>);

impl Values {
    /// Adds a variable, in place of one of the same name.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Formula {
    path: String,
    expression: Expression,
}

impl Formula {
    /// Compiles an expression at `path` of the profile.
    pub(super) fn compile(
        found: &mut Findings,
        environment: &Environment,
        path: &str,
        source: &str,
        expected: Expected,
    ) -> Option<Self> {
        let expression = match Expression::compile(source, environment) {
            Ok(expression) => expression,
            Err(error) => {
                found.error(path, error);
                return None;
            }
        };
        let result = expression.result_name();
        let (fits, wanted) = match expected {
            Expected::Bool => (result == "bool", "bool"),
            Expected::Texts => (
                result == "list(string)" || result == "list(dyn)",
                "list(string)",
            ),
            Expected::Any => (true, "any"),
        };
        if !fits && result != "dyn" {
            found.error(
                path,
                format!("the expression is of type {result}, and has to be of type {wanted}"),
            );
            return None;
        }
        let cost = expression.cost();
        if cost > MAX_ESTIMATE {
            found.error(
                path,
                format!(
                    "the expression may cost {cost}, and at most {MAX_ESTIMATE} is allowed: give the read a schema with \
                     maxItems and maxLength, reduce maxObjects, or avoid loops within loops"
                ),
            );
            return None;
        }
        // Only literally: what else cannot become true depends on the objects of the cluster.
        if expected == Expected::Bool && ["true", "false"].contains(&source.trim()) {
            let which = if source.trim() == "true" {
                "always"
            } else {
                "never"
            };
            found.warning(path, format!("the condition {which} holds"));
        }
        Some(Self {
            path: path.to_owned(),
            expression,
        })
    }

    /// The compiled expression.
    pub(super) fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Its value.
    pub(super) fn value(&self, values: &Values, budget: &mut u64) -> Result<Value, Refusal> {
        let bound: Vec<(&str, &Value)> = values
            .0
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        self.expression
            .eval(&bound, budget)
            .map_err(|error| match error {
                EvalError::Failed(why) => self.unusable(&why),
                EvalError::BudgetExceeded => self.unusable(
                    "the budget of expressions is used up; there are more objects than expected",
                ),
            })
    }

    /// Its value as a condition.
    pub(super) fn holds(&self, values: &Values, budget: &mut u64) -> Result<bool, Refusal> {
        let value = self.value(values, budget)?;
        value.as_bool().ok_or_else(|| {
            self.unusable(&format!(
                "the value is {value}, and has to be true or false"
            ))
        })
    }

    /// Its value as a list of texts.
    pub(super) fn texts(&self, values: &Values, budget: &mut u64) -> Result<Vec<String>, Refusal> {
        let value = self.value(values, budget)?;
        serde_json::from_value(value)
            .map_err(|error| self.unusable(&format!("the value is no list of strings: {error}")))
    }

    /// The error that names this expression.
    pub(super) fn unusable(&self, why: &str) -> Refusal {
        Refusal::Unreadable(format!("{}: {why}", self.path))
    }
}

/// Whether an optional condition holds; an absent one does.
pub(super) fn applies(
    condition: Option<&Formula>,
    values: &Values,
    budget: &mut u64,
) -> Result<bool, Refusal> {
    condition.map_or(Ok(true), |formula| formula.holds(values, budget))
}
