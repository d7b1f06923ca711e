//! Behaviour of the engine: facts about cel-go and the Kubernetes libraries, in tables.

mod estimates;
mod functions;
mod hostile;
mod language;
mod laws;
mod messages;
mod runtime_cost;
mod schema_rules;
mod syntax;
mod validation;

use serde_json::{Value, json};

use super::{Environment, EvalError, Expression, VarType};
use crate::schema::{ListType, Schema, SchemaType, ValidationRule};

/// Evaluates without variables.
fn eval(source: &str) -> Result<Value, String> {
    eval_with(source, &json!(null))
}

/// Evaluates with one dynamic variable `x`.
fn eval_with(source: &str, x: &Value) -> Result<Value, String> {
    let environment = Environment::new().with("x", &VarType::Dyn);
    let expression = Expression::compile(source, &environment)?;
    let mut budget = 1_000_000;
    expression
        .eval(&[("x", x)], &mut budget)
        .map_err(|e| match e {
            EvalError::Failed(message) => message,
            EvalError::BudgetExceeded => "budget".to_owned(),
        })
}

/// Asserts that every expression is true.
fn all_true(table: &[&str]) {
    for source in table {
        assert_eq!(eval(source), Ok(json!(true)), "{source}");
    }
}

/// Asserts that every expression fails with the given text.
fn all_fail(table: &[(&str, &str)]) {
    for (source, message) in table {
        match eval(source) {
            Ok(value) => panic!("{source} gave {value}"),
            Err(found) => assert!(found.contains(message), "{source}: {found}"),
        }
    }
}

fn typed(schema_type: SchemaType) -> Schema {
    Schema {
        schema_type: Some(schema_type),
        ..Schema::default()
    }
}

fn string() -> Schema {
    typed(SchemaType::String)
}

fn integer() -> Schema {
    typed(SchemaType::Integer)
}

fn object<const N: usize>(properties: [(&str, Schema); N]) -> Schema {
    Schema {
        properties: properties
            .map(|(name, schema)| (name.to_owned(), schema))
            .into(),
        ..typed(SchemaType::Object)
    }
}

fn list(items: Schema) -> Schema {
    Schema {
        items: Some(Box::new(items)),
        ..typed(SchemaType::Array)
    }
}

fn keyed(items: Schema, keys: &[&str]) -> Schema {
    Schema {
        list_type: Some(ListType::Map),
        list_map_keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        ..list(items)
    }
}

fn set(items: Schema) -> Schema {
    Schema {
        list_type: Some(ListType::Set),
        ..list(items)
    }
}

fn map(values: Schema) -> Schema {
    Schema {
        additional_properties: Some(Box::new(values)),
        ..typed(SchemaType::Object)
    }
}

/// Adds rules.
fn ruled<const N: usize>(schema: Schema, rules: [&str; N]) -> Schema {
    let validations = rules.map(|rule| ValidationRule {
        rule: rule.to_owned(),
        ..ValidationRule::default()
    });
    Schema {
        validations: validations.into(),
        ..schema
    }
}
