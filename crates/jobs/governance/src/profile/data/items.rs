//! The items of a data profile.

use api::advisor::Impact;
use api::profile::{HealthState, ImpactLevel, ItemSpec};
use kube_core::DynamicObject;
use machinery::cel::{Environment, VarType};
use serde_json::{Map, Value, json};

use super::formula::{Expected, Findings, Formula, Values, applies};
use super::names::Names;
use super::reads::reference;
use super::template::Template;
use crate::health::Health;
use crate::intent::Intent;
use crate::profile::{KindUse, Refusal, impact};
use crate::snapshot::{Snapshot, whole};
use crate::values;

/// An item.
#[derive(Debug)]
pub(super) struct ItemRule {
    pub(super) name: &'static str,
    path: String,
    /// The index of the kind.
    pub(super) kind: usize,
    when: Option<Formula>,
    target: (Template, Option<Template>),
    object: Template,
    managed: Vec<Template>,
    impact: Vec<(Option<Formula>, ImpactLevel)>,
    message: Option<Template>,
    depends_on: Vec<(&'static str, Option<Formula>)>,
    health: Vec<(Option<Formula>, HealthState, Template)>,
}

/// An expression was refused; a finding says why.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused;

/// Compiles an optional condition.
pub(super) fn condition(
    found: &mut Findings,
    environment: &Environment,
    path: &str,
    source: Option<&String>,
) -> Result<Option<Formula>, Refused> {
    let Some(source) = source else {
        return Ok(None);
    };
    let at = format!("{path}.when");
    let formula = Formula::compile(found, environment, &at, source, Expected::Bool);
    formula.ok_or(Refused).map(Some)
}

impl ItemRule {
    /// Compiles an item. `earlier` are the names of those before it.
    pub(super) fn compile(
        found: &mut Findings,
        environment: &Environment,
        path: &str,
        spec: &ItemSpec,
        kind: usize,
        earlier: &[&str],
        names: &mut Names,
    ) -> Option<Self> {
        let seen = environment
            .clone()
            .with("live", &VarType::Dyn)
            .with("inForce", &VarType::Bool);
        let when = condition(found, environment, path, spec.when.as_ref());
        let target = &spec.target;
        let at = |field: &str| format!("{path}.{field}");
        let name = Template::text(found, environment, &at("target.name"), &target.name);
        let namespace = target.namespace.as_ref().map(|namespace| {
            Template::text(found, environment, &at("target.namespace"), namespace)
        });
        check_object(found, &at("object"), &spec.object);
        let object = Template::compile(found, environment, &at("object"), &spec.object);
        let mut managed = Vec::new();
        for (index, field) in spec.managed.iter().enumerate() {
            let at = format!("{path}.managed[{index}]");
            let template = Template::text(found, environment, &at, field);
            if let (Some(Template::Literal(Value::String(field))), Some(object)) =
                (&template, &object)
                && !object.may_set(field)
            {
                found.error(&at, format!("the object of the item never sets {field}"));
            }
            managed.extend(template);
        }
        let mut impact = Vec::new();
        for (index, rule) in spec.impact.iter().enumerate() {
            let at = format!("{path}.impact[{index}]");
            if rule.when.is_none() && index + 1 < spec.impact.len() {
                found.warning(
                    &at,
                    "the rules behind this one never apply: it has no condition",
                );
            }
            let when = condition(found, &seen, &at, rule.when.as_ref());
            impact.extend(when.map(|when| (when, rule.level)));
        }
        let message = spec
            .message
            .as_ref()
            .map(|message| Template::text(found, &seen, &at("message"), message));
        let mut depends_on = Vec::new();
        for (index, dependency) in spec.depends_on.iter().enumerate() {
            let at = format!("{path}.dependsOn[{index}]");
            if !earlier.contains(&dependency.item.as_str()) {
                let message = format!(
                    "there is no item {:?} before this one; items are applied in their order",
                    dependency.item
                );
                found.error(&format!("{at}.item"), message);
            }
            let when = condition(found, environment, &at, dependency.when.as_ref());
            if let (Some(name), Ok(when)) = (names.keep(&dependency.item), when) {
                depends_on.push((name, when));
            }
        }
        let alone = Environment::new().with("live", &VarType::Dyn);
        let mut health = Vec::new();
        for (index, rule) in spec.health.iter().enumerate() {
            let at = format!("{path}.health[{index}]");
            let when = condition(found, &alone, &at, rule.when.as_ref());
            let message = Template::text(found, &alone, &format!("{at}.message"), &rule.message);
            if let (Ok(when), Some(message)) = (when, message) {
                health.push((when, rule.state, message));
            }
        }
        Some(Self {
            name: names.keep(&spec.name)?,
            path: path.to_owned(),
            kind,
            when: when.ok()?,
            target: (name?, namespace.map_or(Some(None), |it| it.map(Some))?),
            object: object?,
            managed,
            impact,
            message: message.map_or(Some(None), |it| it.map(Some))?,
            depends_on,
            health,
        })
    }

    /// The change, if it is requested, and whether the target has the desired fields already.
    pub(super) fn intent(
        &self,
        uses: &KindUse,
        default_impact: Impact,
        snapshot: &Snapshot,
        earlier: &[Intent],
        values: &Values,
        budget: &mut u64,
    ) -> Result<Option<(Intent, bool)>, Refusal> {
        if !applies(self.when.as_ref(), values, budget)? {
            return Ok(None);
        }
        let at = |field: &str| format!("{}.{field}", self.path);
        let (name, namespace) = &self.target;
        let name = name.rendered(&at("target.name"), values, budget)?;
        let namespace = match namespace {
            Some(namespace) => Some(namespace.rendered(&at("target.namespace"), values, budget)?),
            None => None,
        };
        let target = reference(uses, snapshot, name, namespace);
        let mut desired = self.object.value(values, budget)?;
        let Value::Object(fields) = &mut desired else {
            return Err(Refusal::Unreadable(format!(
                "{} is no object",
                at("object")
            )));
        };
        fields.insert("apiVersion".to_owned(), json!(target.api_version));
        fields.insert("kind".to_owned(), json!(target.kind));
        let metadata = fields
            .entry("metadata")
            .or_insert_with(|| Value::Object(Map::new()));
        metadata["name"] = json!(target.name);
        if let Some(namespace) = &target.namespace {
            metadata["namespace"] = json!(namespace);
        }
        let mut managed = Vec::new();
        for template in &self.managed {
            let path = template.rendered(&at("managed"), values, budget)?;
            if values::at(&desired, &path).is_ok_and(|it| it.is_some()) {
                managed.push(path);
            }
        }
        if managed.is_empty() {
            // No managed path stands for the whole spec, which the profile did not ask for.
            return Err(Refusal::Unreadable(format!(
                "{}: the object has none of the managed fields",
                at("managed")
            )));
        }
        let live = snapshot.target(&target).map(|live| whole(live));
        let in_force = live
            .as_ref()
            .is_some_and(|live| impact::in_force(live, &desired));
        let mut seen = values.clone();
        seen.set("live", live.unwrap_or_else(|| json!({})));
        seen.set("inForce", json!(in_force));
        let severity = if in_force {
            Impact::Low
        } else {
            let mut level = None;
            for (when, candidate) in &self.impact {
                if applies(when.as_ref(), &seen, budget)? {
                    level = Some(*candidate);
                    break;
                }
            }
            match level {
                None => default_impact,
                Some(ImpactLevel::Low) => Impact::Low,
                Some(ImpactLevel::Medium) => Impact::Medium,
                Some(ImpactLevel::High) => Impact::High,
                Some(ImpactLevel::MachineConfig) => {
                    impact::of_machine_config(&target, &desired, snapshot)
                }
            }
        };
        let message = match &self.message {
            Some(message) => message.rendered(&at("message"), &seen, budget)?,
            None => format!("{} '{}' will be configured", target.kind, target.name),
        };
        let mut depends_on = Vec::new();
        for (item, when) in &self.depends_on {
            if earlier.iter().any(|it| it.name == *item) && applies(when.as_ref(), values, budget)?
            {
                depends_on.push(*item);
            }
        }
        let intent = Intent {
            name: self.name,
            target,
            desired,
            managed,
            impact: severity,
            message,
            depends_on,
        };
        Ok(Some((intent, in_force)))
    }

    /// The health of the target, if the item has rules for it.
    pub(super) fn health(&self, live: &DynamicObject, budget: &mut u64) -> Option<Health> {
        if self.health.is_empty() {
            return None;
        }
        let mut values = Values::default();
        values.set("live", whole(live));
        let path = format!("{}.health", self.path);
        let mut check = || {
            for (when, state, message) in &self.health {
                if applies(when.as_ref(), &values, budget)? {
                    let message = message.rendered(&path, &values, budget)?;
                    return Ok(match state {
                        HealthState::Healthy => Health::Healthy(message),
                        HealthState::Failed => Health::Failed(message),
                        HealthState::Waiting => Health::waiting(message),
                    });
                }
            }
            Ok(Health::Healthy("Applied successfully".to_owned()))
        };
        // An expression fails while the operator of the kind has not written what it reads.
        let health = check();
        Some(health.unwrap_or_else(|refusal: Refusal| Health::waiting(refusal.to_string())))
    }

    /// All expressions of the item.
    pub(super) fn formulas<'a>(&'a self, all: &mut Vec<&'a Formula>) {
        let (name, namespace) = &self.target;
        let templates = [name, &self.object].into_iter().chain(namespace);
        for template in templates.chain(&self.managed).chain(&self.message) {
            template.formulas(all);
        }
        all.extend(&self.when);
        all.extend(self.impact.iter().filter_map(|(when, _)| when.as_ref()));
        all.extend(self.depends_on.iter().filter_map(|(_, when)| when.as_ref()));
    }

    /// Whether a path is that of a managed field, of its parent or of something in it.
    pub(super) fn manages(&self, path: &str) -> bool {
        self.managed.iter().any(|managed| match managed {
            Template::Literal(Value::String(managed)) => {
                let below = |a: &str, b: &str| {
                    a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('.'))
                };
                below(path, managed) || below(managed, path)
            }
            // What the expression results in is not known.
            _ => true,
        })
    }
}

/// The identity of the target is no part of the template.
fn check_object(found: &mut Findings, path: &str, object: &Value) {
    let Some(fields) = object.as_object() else {
        found.error(path, "an object is needed");
        return;
    };
    for field in ["apiVersion", "kind", "status"] {
        if fields.contains_key(field) {
            let why = if field == "status" {
                "belongs to the operator of the kind"
            } else {
                "is that of the target"
            };
            found.error(&format!("{path}.{field}"), format!("{field} {why}"));
        }
    }
    let metadata = fields.get("metadata").and_then(Value::as_object);
    for field in metadata.into_iter().flat_map(Map::keys) {
        if !["labels", "annotations"].contains(&field.as_str()) {
            let message = "only labels and annotations can be set; name and namespace are those of the target";
            found.error(&format!("{path}.metadata.{field}"), message);
        }
    }
}
