//! Expressions over declared variables, for admission.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as JsonMap, Value};

use super::decl::{Decl, ListDecl, MAX_REQUEST, Shape};
use super::estimate::{Root, estimate_in, result_sizes};
use super::meter::{Fail, Meter, PER_CALL};
use super::program::Program;
use super::time::{format_seconds, format_timestamp};
use super::types::Type;
use super::value::{Val, view};
use crate::schema::{ListType, Schema};

/// What kind of value a variable has.
#[derive(Debug, Clone)]
pub enum VarType {
    /// Whatever it turns out to be; fields are not checked.
    Dyn,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `double`
    Double,
    /// `string`
    String,
    /// A list.
    List(Box<Self>),
    /// A list of at most so many items, for cost estimates.
    ListUpTo(Box<Self>, u64),
    /// A map with string keys.
    Map(Box<Self>),
    /// An object of a schema; `true` adds what every resource has.
    Object(Box<Schema>, bool),
}

/// The variables an expression may refer to.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(String, Arc<Decl>)>,
}

impl Environment {
    /// No variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable with the value of an expression over the variables so far.
    #[must_use]
    pub fn with_result(mut self, name: &str, expression: &Expression) -> Self {
        let root = Root::Variables(&expression.variables);
        let (size, items) = result_sizes(&expression.program, root);
        let decl = result_decl(&expression.program.checked.result, size, items);
        self.variables.push((name.to_owned(), Arc::new(decl)));
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, var_type: &VarType) -> Self {
        self.variables
            .push((name.to_owned(), Arc::new(declare(var_type, name))));
        self
    }
}

fn declare(var_type: &VarType, name: &str) -> Decl {
    let nullable = |decl: Decl| Decl {
        nullable: true,
        ..decl
    };
    nullable(match var_type {
        VarType::Dyn => Decl::dynamic(),
        VarType::Bool => Decl::simple(Shape::Bool, 4, 1),
        VarType::Int => Decl::simple(Shape::Int, 1, 1),
        VarType::Double => Decl::simple(Shape::Double, 1, 1),
        VarType::String => Decl::simple(Shape::String, 2, MAX_REQUEST),
        VarType::ListUpTo(items, most) => Decl {
            max_elements: *most,
            ..declare(&VarType::List(items.clone()), name)
        },
        VarType::List(items) => {
            let list = ListDecl {
                items: Arc::new(declare(items, name)),
                list_type: ListType::Atomic,
                keys: Arc::new([]),
            };
            Decl::simple(Shape::List(list), 2, MAX_REQUEST)
        }
        VarType::Map(values) => {
            Decl::simple(Shape::Map(Arc::new(declare(values, name))), 2, MAX_REQUEST)
        }
        VarType::Object(schema, root) => {
            Decl::of(schema, *root, name).unwrap_or_else(Decl::dynamic)
        }
    })
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression failed.
    #[error("{0}")]
    Failed(String),
    /// The budget is used up.
    #[error("operation cancelled: actual cost limit exceeded")]
    BudgetExceeded,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    variables: Vec<(String, Arc<Decl>)>,
}

impl Expression {
    /// Compiles `source`; the error is what the API reports.
    pub fn compile(source: &str, environment: &Environment) -> Result<Self, String> {
        let variables: Vec<(String, Type)> = environment
            .variables
            .iter()
            .map(|(name, decl)| (name.clone(), Type::of(decl)))
            .collect();
        let program = Program::compile(source, &variables)
            .map_err(|issues| format!("compilation failed: {issues}"))?;
        Ok(Self {
            program,
            variables: environment.variables.clone(),
        })
    }

    /// The name of the type it evaluates to, as messages show it.
    #[must_use]
    pub fn result_name(&self) -> String {
        self.program.checked.result.to_string()
    }

    /// The most that an evaluation can cost. What has no schema is taken to fill a whole request.
    #[must_use]
    pub fn cost(&self) -> u64 {
        estimate_in(&self.program, Root::Variables(&self.variables))
    }

    /// Whether it refers to a variable.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.program.uses(variable)
    }

    /// Evaluates with the given values and takes the cost from `budget`.
    pub fn eval(&self, values: &[(&str, &Value)], budget: &mut u64) -> Result<Value, EvalError> {
        let mut bound = Vec::with_capacity(values.len());
        for (name, decl) in &self.variables {
            let Some((_, value)) = values.iter().find(|(n, _)| n == name) else {
                // A variable without a value stays unbound: an expression that refers to it fails with "no such
                // attribute", as `oldObject` does on CREATE.
                continue;
            };
            let seen = view(value, decl).map_err(|fail| error(&fail))?;
            bound.push((name.as_str(), seen));
        }
        let meter = Meter::new(PER_CALL.min(*budget));
        let (result, mut meter) = self.program.eval(bound, meter);
        *budget = budget.saturating_sub(meter.cost);
        let result = result.and_then(|value| to_json(&value, &mut meter));
        result.map_err(|fail| error(&fail))
    }
}

/// The view of a result of this type.
fn result_decl(of: &Type, size: u64, items: u64) -> Decl {
    let decl = match of {
        Type::Bool => Decl::simple(Shape::Bool, 4, 1),
        Type::Int => Decl::simple(Shape::Int, 1, 1),
        Type::Double => Decl::simple(Shape::Double, 1, 1),
        Type::String => Decl::simple(Shape::String, 2, size),
        Type::List(item) => {
            let list = ListDecl {
                items: Arc::new(result_decl(item, items, MAX_REQUEST)),
                list_type: ListType::Atomic,
                keys: Arc::new([]),
            };
            Decl::simple(Shape::List(list), 2, size)
        }
        Type::Map(entry) if matches!(entry.0, Type::String) => {
            let values = Arc::new(result_decl(&entry.1, items, MAX_REQUEST));
            Decl::simple(Shape::Map(values), 2, size)
        }
        Type::Object(object) => Decl::simple(Shape::Object(Arc::clone(object)), 2, 0),
        _ => Decl::dynamic(),
    };
    Decl {
        nullable: true,
        ..decl
    }
}

fn error(fail: &Fail) -> EvalError {
    match fail {
        Fail::Error(message) => EvalError::Failed(message.clone()),
        Fail::Limit => EvalError::BudgetExceeded,
    }
}

/// A result as JSON; what JSON has no form for becomes its text.
fn to_json(value: &Val<'_>, meter: &mut Meter) -> Result<Value, Fail> {
    meter.burn(1)?;
    Ok(match value {
        Val::Null | Val::Optional(None) => Value::Null,
        Val::Bool(b) => (*b).into(),
        Val::Int(i) => (*i).into(),
        Val::Uint(u) => (*u).into(),
        Val::Double(d) => (*d).into(),
        Val::Str(text) => Value::String(text.to_string()),
        Val::Bytes(bytes) => Value::String(STANDARD.encode(bytes)),
        Val::Timestamp(t) => Value::String(format_timestamp(*t)),
        Val::Duration(d) => Value::String(format_seconds(*d)),
        Val::Optional(Some(inner)) => to_json(inner, meter)?,
        Val::List(list) => {
            let items: Result<Vec<Value>, Fail> =
                list.iter().map(|item| to_json(&item?, meter)).collect();
            Value::Array(items?)
        }
        Val::Map(map) => {
            let mut object = JsonMap::new();
            for key in map.keys() {
                if let Some(value) = map.find(&key)? {
                    object.insert(map.property(&key), to_json(&value, meter)?);
                }
            }
            Value::Object(object)
        }
        Val::Type(name) => Value::String(name.to_string()),
        Val::Url(url) => Value::String(url.source.clone()),
        Val::Ip(ip) => Value::String(ip.to_string()),
        Val::Cidr(cidr) => Value::String(cidr.to_string()),
        Val::Semver(version) => Value::String(version.to_string()),
        Val::Format(format) => Value::String(format.name().to_owned()),
        Val::Quantity(amount) => match amount.to_i64() {
            Some(whole) => whole.into(),
            None => amount.to_f64().into(),
        },
    })
}
