//! Rules of a schema at work (`apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go`).

mod ratchet;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use self::ratchet::{Equality, Ratchet};
use super::compile::{Child, OLD_SELF, Rule, SELF, child_decl, compile_rule, type_text};
use super::decl::Decl;
use super::meter::{Fail, Meter, PER_CALL};
use super::program::Program;
use super::value::{Val, view};
use crate::field::{ErrorKind, ErrorList, FieldError, Path};
use crate::schema::{OldItems, Schema};

/// Budget of all rules on one object (`celconfig.RuntimeCELCostBudget`).
const OBJECT_BUDGET: u64 = 10_000_000;
/// Longest message an expression may make.
// `MaxEvaluatedMessageExpressionSizeBytes`: the message goes into a response
// header or a Status, once for each violation.
const MAX_MESSAGE: usize = 5 * 1024;
const EXHAUSTED: &str = "validation failed due to running out of cost budget, no further \
                         validation rules will be run";

/// The compiled rules of a schema. Rules that do not compile fail whatever they are applied to.
#[derive(Debug)]
pub struct CompiledRules {
    root: Option<Node>,
    schema: Arc<Schema>,
}

/// The violations found in an object.
#[derive(Debug, Default)]
pub struct RuleFindings {
    /// What forbids it.
    pub errors: Vec<FieldError>,
    /// What would forbid it had it not been so before.
    pub warnings: Vec<String>,
}

/// Rules at and below a schema node; `None` where there are none.
#[derive(Debug)]
struct Node {
    rules: Vec<Rule>,
    decl: Option<Arc<Decl>>,
    properties: BTreeMap<String, Self>,
    additional: Option<Box<Self>>,
    items: Option<Box<Self>>,
    all_of: Vec<Self>,
}

impl Node {
    /// `rules` holds the rules, `schema` the types of the values: those differ within `allOf`.
    fn compile(rules: &Schema, schema: &Schema, decl: Option<Arc<Decl>>) -> Option<Self> {
        let parent = decl.as_deref();
        let mut properties = BTreeMap::new();
        for (name, sub) in &rules.properties {
            let Some(node) = schema.properties.get(name) else {
                continue;
            };
            let decl = child_decl(parent, Child::Property(name), node);
            if decl.is_some()
                && let Some(found) = Self::compile(sub, node, decl)
            {
                properties.insert(name.clone(), found);
            }
        }
        let child = |rules: Option<&Schema>, node: Option<&Schema>, which: Child<'_>| {
            let (rules, node) = (rules?, node?);
            Self::compile(rules, node, child_decl(parent, which, node)).map(Box::new)
        };
        let items = child(
            rules.items.as_deref(),
            schema.items.as_deref(),
            Child::Items,
        );
        let additional = child(
            rules.additional_properties.as_deref(),
            schema.additional_properties.as_deref(),
            Child::Values,
        );
        let all_of: Vec<Self> = rules
            .all_of
            .iter()
            .filter_map(|s| Self::compile(s, schema, decl.clone()))
            .collect();
        let empty = rules.validations.is_empty()
            && properties.is_empty()
            && items.is_none()
            && additional.is_none()
            && all_of.is_empty();
        if empty {
            return None;
        }
        let compiled = match &decl {
            Some(decl) => rules
                .validations
                .iter()
                .map(|rule| compile_rule(rule, schema, decl))
                .collect(),
            None => Vec::new(),
        };
        let decl = decl.filter(|_| !rules.validations.is_empty());
        // A node that rules cannot see but that has some is an error wherever it occurs.
        let rules = if decl.is_none() && !rules.validations.is_empty() {
            rules.validations.iter().map(unseen).collect()
        } else {
            compiled
        };
        Some(Self {
            rules,
            decl,
            properties,
            additional,
            items,
            all_of,
        })
    }
}

/// A rule on something that has no type.
fn unseen(rule: &crate::schema::ValidationRule) -> Rule {
    Rule {
        source: rule.clone(),
        program: Some(Err(
            "failed to convert to declType for CEL validation rules".to_owned(),
        )),
        message: None,
        uses_old: false,
        field_path: None,
    }
}

impl CompiledRules {
    /// Compiles all rules of the schema of a custom resource.
    #[must_use]
    pub fn compile(schema: &Schema) -> Self {
        let decl = has_rules(schema)
            .then(|| Decl::of(schema, true, "selfType").map(Arc::new))
            .flatten();
        Self {
            root: Node::compile(schema, schema, decl),
            schema: Arc::new(schema.clone()),
        }
    }

    /// Whether there is anything to check.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.root.is_some()
    }

    /// Applies the rules to an object that replaces `old`, if that is given.
    #[must_use]
    pub fn validate(&self, path: &Path, new: &Value, old: Option<&Value>) -> RuleFindings {
        let mut run = Run {
            budget: Some(OBJECT_BUDGET),
            findings: RuleFindings::default(),
            equality: Equality::default(),
        };
        if let Some(root) = &self.root {
            let ratchet = Ratchet::root(new, old, &self.schema);
            run.node(root, &self.schema, path, new, old, ratchet);
        }
        run.findings
    }
}

/// Whether there is a rule at or below a node.
fn has_rules(schema: &Schema) -> bool {
    !schema.validations.is_empty()
        || schema.properties.values().any(has_rules)
        || schema.items.as_deref().is_some_and(has_rules)
        || schema
            .additional_properties
            .as_deref()
            .is_some_and(has_rules)
        || schema.all_of.iter().any(has_rules)
}

/// One validation under way; the budget is `None` once it is used up.
struct Run {
    budget: Option<u64>,
    findings: RuleFindings,
    equality: Equality,
}

impl Run {
    fn node<'v>(
        &mut self,
        node: &Node,
        schema: &'v Schema,
        path: &Path,
        new: &'v Value,
        old: Option<&'v Value>,
        ratchet: Ratchet<'v>,
    ) {
        if new.is_null() {
            // Only rules on the parent of a null can refer to it.
            return;
        }
        let old = old.filter(|o| !o.is_null());
        self.rules(node, schema, path, new, old, &ratchet);
        for sub in &node.all_of {
            if self.budget.is_none() {
                return;
            }
            self.node(sub, schema, path, new, old, ratchet.without_current());
        }
        match new {
            Value::Array(items) => {
                let (Some(sub), Some(item_schema)) = (&node.items, schema.items.as_deref()) else {
                    return;
                };
                let before = old.and_then(|old| OldItems::new(schema, old));
                for (at, item) in items.iter().enumerate() {
                    if self.budget.is_none() {
                        return;
                    }
                    let found = before.as_ref().and_then(|before| before.find(item));
                    let ratchet = ratchet.item(item, found, item_schema);
                    self.node(sub, item_schema, &path.index(at), item, found, ratchet);
                }
            }
            Value::Object(map) => {
                let before = old.and_then(Value::as_object);
                for (name, value) in map {
                    if self.budget.is_none() {
                        return;
                    }
                    let found = before.and_then(|b| b.get(name));
                    let below = ratchet.key(name, value, found);
                    if let (Some(sub), Some(sub_schema)) =
                        (node.properties.get(name), schema.properties.get(name))
                    {
                        self.node(sub, sub_schema, &path.child(name), value, found, below);
                    } else if let (Some(sub), Some(values)) =
                        (&node.additional, schema.additional_properties.as_deref())
                    {
                        self.node(sub, values, &path.key(name), value, found, below);
                    }
                }
            }
            _ => {}
        }
    }

    fn rules<'v>(
        &mut self,
        node: &Node,
        schema: &'v Schema,
        path: &Path,
        new: &'v Value,
        old: Option<&'v Value>,
        ratchet: &Ratchet<'v>,
    ) {
        if node.rules.is_empty() {
            return;
        }
        let kind = type_text(schema);
        // Exactly used up is not yet an error; the next node with rules reports it, as upstream does.
        if self.budget == Some(0) {
            self.findings.errors.invalid(path, kind, EXHAUSTED);
            self.budget = None;
        }
        for rule in &node.rules {
            let Some(budget) = self.budget else { return };
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(problem)) => {
                    let detail = format!("rule compile error: {problem}");
                    self.findings.errors.invalid(path, kind, detail);
                    continue;
                }
            };
            let optional = rule.source.optional_old_self == Some(true);
            if rule.uses_old && old.is_none() && !optional {
                // Transitions need something to compare with.
                continue;
            }
            let Some(decl) = node.decl.as_deref() else {
                continue;
            };
            let values = Values {
                decl,
                new,
                old,
                optional,
            };
            let (outcome, cost) = evaluate(program, &values);
            if cost > budget {
                self.findings.errors.invalid(path, kind, EXHAUSTED);
                self.budget = None;
                return;
            }
            self.budget = Some(budget - cost);
            match outcome {
                Ok(Val::Bool(true)) => {}
                Ok(_) => {
                    let error = self.failure(rule, &values, schema, path, new);
                    self.add(rule, error, ratchet);
                }
                Err(fail) => self.broken(rule, &fail, path, kind),
            }
        }
    }

    fn add(&mut self, rule: &Rule, error: FieldError, ratchet: &Ratchet<'_>) {
        // A transition rule is about the change itself, so an unchanged value cannot excuse it.
        if !rule.uses_old && ratchet.unchanged(&mut self.equality) {
            self.findings.warnings.push(error.to_string());
        } else {
            self.findings.errors.push(error);
        }
    }

    /// A rule that gave no answer.
    fn broken(&mut self, rule: &Rule, fail: &Fail, path: &Path, kind: &str) {
        let text = rule_text(rule);
        let detail = match fail {
            Fail::Limit => {
                self.budget = None;
                format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation \
                     rules will be run due to call cost exceeds limit for rule: {text}"
                )
            }
            Fail::Error(message) if message.starts_with("no such overload") => format!(
                "'{message}': call arguments did not match a supported operator, function or \
                 macro signature for rule: {text}"
            ),
            Fail::Error(message) => format!("{message} evaluating rule: {text}"),
        };
        self.findings.errors.invalid(path, kind, detail);
    }

    /// The error of a rule that does not hold.
    fn failure(
        &mut self,
        rule: &Rule,
        values: &Values<'_>,
        schema: &Schema,
        path: &Path,
        new: &Value,
    ) -> FieldError {
        let kind = type_text(schema);
        let path = match &rule.field_path {
            Some(below) => path.child(below),
            None => path.clone(),
        };
        let detail = match self.message(rule, values) {
            Ok(Some(message)) => message,
            Ok(None) => match rule.source.message.trim() {
                "" if rule.source.message.is_empty() => {
                    format!("failed rule: {}", rule.source.rule.trim())
                }
                message => message.to_owned(),
            },
            Err(problem) => {
                self.budget = None;
                return FieldError::invalid(&path, kind, problem);
            }
        };
        // Objects and lists are left out of the message: it would repeat what may be the whole object.
        let shown = (!matches!(kind, "object" | "array")).then(|| new.clone());
        let (kind, value, detail) = match rule.source.reason.as_str() {
            "FieldValueForbidden" => (ErrorKind::Forbidden, None, detail),
            "FieldValueRequired" => (ErrorKind::Required, None, detail),
            "FieldValueDuplicate" => (ErrorKind::Duplicate, shown, String::new()),
            _ => (ErrorKind::Invalid, shown, detail),
        };
        FieldError {
            kind,
            field: path,
            value,
            detail,
        }
    }

    /// The message an expression makes; `None` if there is no usable one.
    fn message(&mut self, rule: &Rule, values: &Values<'_>) -> Result<Option<String>, String> {
        let (Some(Ok(program)), Some(budget)) = (&rule.message, self.budget) else {
            return Ok(None);
        };
        let (outcome, cost) = evaluate(program, values);
        if cost > budget {
            return Err(
                "messageExpression evaluation failed due to running out of cost budget, \
                        no further validation rules will be run"
                    .to_owned(),
            );
        }
        match outcome {
            Err(Fail::Limit) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for \
                 messageExpression: {}",
                crate::json::go_quote(&rule.source.message_expression)
            )),
            Ok(Val::Str(text)) => {
                self.budget = Some(budget - cost);
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            _ => {
                self.budget = Some(budget - cost);
                Ok(None)
            }
        }
    }
}

/// What `self` and `oldSelf` are.
struct Values<'v> {
    decl: &'v Decl,
    new: &'v Value,
    old: Option<&'v Value>,
    optional: bool,
}

/// Runs a program and returns its cost.
fn evaluate<'v>(program: &'v Program, values: &Values<'v>) -> (Result<Val<'v>, Fail>, u64) {
    let mut bound = Vec::with_capacity(2);
    match view(values.new, values.decl) {
        Ok(value) => bound.push((SELF, value)),
        Err(fail) => return (Err(fail), 1),
    }
    if program.uses(OLD_SELF) {
        match values.old.map(|old| view(old, values.decl)).transpose() {
            Ok(None) if values.optional => bound.push((OLD_SELF, Val::Optional(None))),
            Ok(None) => {}
            Ok(Some(value)) if values.optional => bound.push((OLD_SELF, Val::some(value))),
            Ok(Some(value)) => bound.push((OLD_SELF, value)),
            Err(fail) => return (Err(fail), 1),
        }
    }
    let (result, meter) = program.eval(bound, Meter::new(PER_CALL));
    (result, meter.cost)
}

/// The rule in an error about it: its message, or itself.
fn rule_text(rule: &Rule) -> &str {
    if rule.source.message.is_empty() {
        rule.source.rule.trim()
    } else {
        rule.source.message.trim()
    }
}
