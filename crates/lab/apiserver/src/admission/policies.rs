//! `ValidatingAdmissionPolicy`: CEL rules evaluated by the server, where they are bound.
//!
//! ```text
//! policy matches -> binding matches -> for each parameter: conditions -> variables -> validations
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;

use machinery::cel::{Environment, EvalError, Expression, VarType};
use machinery::gvk::split_api_version;
use machinery::status::Status;
use serde_json::{Map, Value};

use super::attributes::Attributes;
use super::conditions::{self, Condition, variables};
use super::matching::{self, Selection};
use super::review;
use super::versions::Versioned;
use crate::builtin::value::Read;

mod params;

/// Cost budget of the validations of one policy per parameter (`RuntimeCELCostBudget`).
const BUDGET: u64 = 10_000_000;
/// Maximum length of a message expression's result.
// The limit of messages of CRD rules, `MaxEvaluatedMessageExpressionSizeBytes`. A longer message is
// replaced by the fixed one, not cut.
const MESSAGE_LIMIT: usize = 5 * 1024;

/// A policy with its bindings.
pub(crate) struct Policy {
    name: String,
    selection: Selection,
    ignore_failure: bool,
    /// `apiVersion` and kind of parameters.
    param_kind: Option<(String, String)>,
    conditions: Vec<Condition>,
    variables: Vec<(String, Compiled)>,
    validations: Vec<Validation>,
    bindings: Vec<Binding>,
}

struct Compiled {
    source: String,
    program: Result<Expression, String>,
}

struct Validation {
    rule: Compiled,
    message: String,
    message_rule: Option<Compiled>,
    reason: String,
}

/// The scope of a policy, and its actions.
pub(super) struct Binding {
    name: String,
    selection: Option<Selection>,
    param_ref: Value,
    actions: Vec<String>,
}

impl Compiled {
    fn new(source: &str, environment: &Environment) -> Self {
        Self {
            program: Expression::compile(source, environment),
            source: source.to_owned(),
        }
    }

    fn eval(&self, values: &[(&str, &Value)], budget: &mut u64) -> Result<Value, String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        program.eval(values, budget).map_err(|error| match error {
            EvalError::BudgetExceeded => {
                "validation failed due to running out of cost budget, no further validation rules \
                 will be run"
                    .to_owned()
            }
            EvalError::Failed(why) => why,
        })
    }
}

impl Policy {
    /// Reads a policy and its bindings.
    pub(super) fn read(policy: &Value, bindings: &[&Value]) -> Result<Self, String> {
        let spec = policy.at("spec");
        let environment = variables(spec.has("paramKind"));
        let composed = environment.clone().with("variables", &VarType::Dyn);
        let validation = |validation: &Value| Validation {
            rule: Compiled::new(validation.text("expression"), &composed),
            message: validation.text("message").to_owned(),
            message_rule: validation
                .maybe_text("messageExpression")
                .map(|source| Compiled::new(source, &composed)),
            reason: validation.text("reason").to_owned(),
        };
        let binding = |binding: &&Value| -> Result<Binding, String> {
            let spec = binding.at("spec");
            Ok(Binding {
                name: binding.name().to_owned(),
                selection: match spec.at("matchResources") {
                    Value::Null => None,
                    resources => Some(Selection::of_binding(resources)?),
                },
                param_ref: spec.at("paramRef").clone(),
                actions: spec
                    .texts("validationActions")
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
            })
        };
        Ok(Self {
            name: policy.name().to_owned(),
            selection: Selection::of_policy(spec.at("matchConstraints"))?,
            ignore_failure: spec.text("failurePolicy") == "Ignore",
            param_kind: spec.has("paramKind").then(|| {
                let kind = spec.at("paramKind");
                (
                    kind.text("apiVersion").to_owned(),
                    kind.text("kind").to_owned(),
                )
            }),
            conditions: spec
                .items("matchConditions")
                .iter()
                .map(|condition| Condition::read(condition, &environment))
                .collect(),
            variables: spec
                .items("variables")
                .iter()
                .map(|variable| {
                    let rule = Compiled::new(variable.text("expression"), &composed);
                    (variable.text("name").to_owned(), rule)
                })
                .collect(),
            validations: spec.items("validations").iter().map(validation).collect(),
            bindings: bindings.iter().map(binding).collect::<Result<_, _>>()?,
        })
    }
}

/// A failed validation.
#[derive(Debug, PartialEq)]
struct Objection {
    message: String,
    reason: String,
}

impl Objection {
    /// The failure to evaluate a policy.
    fn failure(message: String) -> Self {
        Self {
            message,
            reason: String::new(),
        }
    }
}

/// Evaluates all policies; the first denial is the response.
pub(super) fn enforce(
    attributes: &Attributes<'_>,
    policies: &[Policy],
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let mut denied = None;
    for policy in policies {
        let Some(invocation) = matching::find(&policy.selection, attributes, object, old)? else {
            continue;
        };
        let mut versioned = Versioned::new(attributes, object, old);
        versioned.convert(&invocation);
        let request = Value::Object(review::request(attributes, &invocation));
        let namespace = namespace_object(attributes);
        for binding in &policy.bindings {
            if let Some(selection) = &binding.selection
                && matching::find(selection, attributes, object, old)?.is_none()
            {
                continue;
            }
            let all = match params::collect(policy.param_kind.as_ref(), binding, attributes) {
                Ok(all) => all,
                Err(_) if policy.ignore_failure => continue,
                Err(why) => {
                    let objection = Objection::failure(why);
                    denied = denied.or(Some((policy, binding, objection)));
                    continue;
                }
            };
            for params in &all {
                let values = [
                    ("object", &versioned.object),
                    ("oldObject", &versioned.old),
                    ("request", &request),
                    ("namespaceObject", &namespace),
                    ("params", params),
                ];
                for objection in policy.objections(&values) {
                    if binding.has("Warn") {
                        attributes.context.warn(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding \
                             '{}': {}",
                            policy.name, binding.name, objection.message
                        ));
                    }
                    if binding.has("Deny") {
                        denied = denied.or(Some((policy, binding, objection)));
                    }
                }
            }
        }
    }
    match denied {
        None => Ok(()),
        Some((policy, binding, objection)) => {
            Err(denial(attributes, object, policy, binding, &objection))
        }
    }
}

impl Binding {
    fn has(&self, action: &str) -> bool {
        self.actions.iter().any(|known| known == action)
    }
}

impl Policy {
    /// Failed validations for one parameter.
    fn objections(&self, values: &[(&str, &Value)]) -> Vec<Objection> {
        let failed = |why: String| {
            if self.ignore_failure {
                Vec::new()
            } else {
                vec![Objection::failure(why)]
            }
        };
        match conditions::hold(&self.conditions, values) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return failed(why),
        }
        // One budget for variables, validations and messages together: a policy cannot buy time by
        // splitting an expression.
        let mut budget = BUDGET;
        let (composed, broken) = self.compose(values, &mut budget);
        let mut values = values.to_vec();
        values.push(("variables", &composed));
        let mut objections = Vec::new();
        for validation in &self.validations {
            match validation.rule.eval(&values, &mut budget) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => objections.push(Objection {
                    message: validation.message(&values, &mut budget),
                    reason: validation.reason.clone(),
                }),
                Err(why) => objections.extend(failed(format!(
                    "expression '{}' resulted in error: {}",
                    validation.rule.source,
                    explained(&why, &broken)
                ))),
            }
        }
        objections
    }

    /// The variables of the policy, each of which may use earlier ones, and errors of those without
    /// a value. An error only matters to expressions that use the variable.
    fn compose(
        &self,
        values: &[(&str, &Value)],
        budget: &mut u64,
    ) -> (Value, BTreeMap<String, String>) {
        let mut composed = Value::Object(Map::new());
        let mut broken = BTreeMap::new();
        for (name, rule) in &self.variables {
            let outcome = {
                let mut values = values.to_vec();
                values.push(("variables", &composed));
                rule.eval(&values, budget)
            };
            match outcome {
                Ok(value) => composed[name] = value,
                Err(why) => {
                    let why = explained(&why, &broken).into_owned();
                    broken.insert(name.clone(), why);
                }
            }
        }
        (composed, broken)
    }
}

/// Replaces the error about a missing variable by the reason why it has no value.
fn explained<'a>(why: &'a str, broken: &BTreeMap<String, String>) -> Cow<'a, str> {
    let missing = why.strip_prefix("no such key: ");
    match missing.and_then(|name| broken.get_key_value(name)) {
        Some((name, why)) => Cow::Owned(format!(
            "composited variable \"{name}\" fails to evaluate: {why}"
        )),
        None => Cow::Borrowed(why),
    }
}

impl Validation {
    /// The message of a failed validation: a message expression's result, else a fixed text, else
    /// the rule itself.
    fn message(&self, values: &[(&str, &Value)], budget: &mut u64) -> String {
        let made = self
            .message_rule
            .as_ref()
            // A message expression that fails must not hide the failed validation.
            .and_then(|rule| rule.eval(values, budget).ok());
        let made = made.as_ref().and_then(Value::as_str).map(str::trim);
        if let Some(made) = made
            && !made.is_empty()
            && made.len() <= MESSAGE_LIMIT
            && !made.contains('\n')
        {
            return made.to_owned();
        }
        match self.message.trim() {
            "" => format!("failed expression: {}", self.rule.source.trim()),
            message => message.to_owned(),
        }
    }
}

/// The namespace of a request; null for a namespace itself.
fn namespace_object(attributes: &Attributes<'_>) -> Value {
    if attributes.is_namespace() || attributes.namespace.is_empty() {
        return Value::Null;
    }
    let key = format!("/registry/namespaces/{}", attributes.namespace);
    let entry = attributes.context.state.store.get(&key);
    entry
        .and_then(|entry| entry.object().ok())
        .map(|namespace| (*namespace).clone())
        .unwrap_or_default()
}

fn denial(
    attributes: &Attributes<'_>,
    object: &Value,
    policy: &Policy,
    binding: &Binding,
    objection: &Objection,
) -> Status {
    let message = format!(
        "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {}",
        policy.name, binding.name, objection.message
    );
    let reason = match objection.reason.as_str() {
        "" => "Invalid",
        reason => reason,
    };
    let mut status = attributes
        .forbidden(object, &message)
        .with_cause("", &message, "");
    reason.clone_into(&mut status.reason);
    status.code = match reason {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    status
}

/// The group and version of an `apiVersion`.
fn parts(api_version: &str) -> (&str, &str) {
    split_api_version(api_version).unwrap_or(("", api_version))
}
