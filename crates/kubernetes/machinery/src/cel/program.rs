//! A compiled expression.

use super::ast::Expr;
use super::check::{Checked, check};
use super::eval::Evaluator;
use super::issue::display_all;
use super::meter::{Fail, Meter};
use super::parser::parse;
use super::types::Type;
use super::value::Val;

/// A parsed and checked expression.
#[derive(Debug)]
pub(crate) struct Program {
    /// The tree, with names settled.
    pub(crate) expr: Expr,
    /// What the check found out.
    pub(crate) checked: Checked,
}

impl Program {
    /// Parses and checks `source`; the error is the text of all issues.
    pub(crate) fn compile(source: &str, variables: &[(String, Type)]) -> Result<Self, String> {
        let text = |issues: Vec<super::issue::Issue>| display_all(source, &issues);
        let mut parsed = parse(source).map_err(text)?;
        let checked = check(source, &mut parsed.expr, parsed.nodes, variables).map_err(text)?;
        Ok(Self {
            expr: parsed.expr,
            checked,
        })
    }

    /// Whether a variable is referred to.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.checked.references.contains(variable)
    }

    /// Evaluates with the given values; the meter is returned with the remaining budget.
    pub(crate) fn eval<'a>(
        &'a self,
        variables: Vec<(&'a str, Val<'a>)>,
        meter: Meter,
    ) -> (Result<Val<'a>, Fail>, Meter) {
        let mut evaluator = Evaluator::new(variables, meter);
        let result = evaluator.eval(&self.expr);
        (result, evaluator.meter)
    }
}
