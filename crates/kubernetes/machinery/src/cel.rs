//! CEL as custom resources and admission use it.
//!
//! ```text
//! source --parse--> tree --check (types of a schema)--> program --evaluate (budget)--> value
//! ```
//!
//! Any user who may write a CRD can supply expressions, and they run on arbitrary objects, so every
//! step is bounded: the tree in height, the evaluation in cost (upstream's model) and in work and
//! memory (ours). The object is read in place through a typed view of its schema.

mod ast;
mod check;
mod clauses;
mod compile;
mod crd;
mod decl;
mod equal;
mod estimate;
mod eval;
mod expression;
mod formats;
mod functions;
mod issue;
mod lexer;
mod macros;
mod meter;
mod names;
mod net;
mod parser;
mod program;
mod regexes;
mod rules;
mod signatures;
mod syntax;
mod time;
mod types;
mod urls;
mod value;
mod versions;

#[cfg(test)]
mod tests;

pub use crd::check_rules;
pub use expression::{Environment, EvalError, Expression, VarType};
pub use names::is_identifier;
pub use rules::{CompiledRules, RuleFindings};
pub(crate) use urls::Url;
