//! Profiles as data: a PlatformProfile, compiled once, is a [`Profile`] like those in Rust.
//!
//! ```text
//! PlatformProfile --compile--> findings (type, cost, reachability), DataProfile
//! options --schema--> options --reads--> variables --> inputs, items, warnings
//! ```
//!
//! Nothing of a profile is evaluated before all of it is checked. An evaluation only computes: it reads the snapshot
//! and has a budget. The permissions that a profile needs follow from its kinds ([`DataProfile::rules`]).

mod adopt;
mod compile;
mod formula;
mod items;
mod names;
pub mod objects;
mod options;
pub mod read;
mod reads;
pub mod status;
mod template;
#[cfg(test)]
mod tests;
mod unready;

use std::collections::BTreeSet;

use api::advisor::{Drift, Input, ProfileOptions};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube_core::DynamicObject;
use serde_json::{Map, Value, json};

pub use compile::{Compiled, compile};
pub use names::Names;
pub use options::check_values;
pub use unready::unready;

use super::{KindUse, Prerequisite, Profile, ProfileInfo, Refusal};
use crate::health::Health;
use crate::intent::Intents;
use crate::snapshot::Snapshot;
use adopt::AdoptionRule;
use formula::{BUDGET, Formula, Values, applies};
use items::ItemRule;
use options::Options;
use reads::Read;
use template::Template;

/// A profile that was checked, and can be evaluated.
#[derive(Debug)]
pub struct DataProfile {
    about: ProfileInfo,
    /// The hash of its content; none for a built-in profile, whose content is that of the program.
    hash: Option<String>,
    uses: Vec<KindUse>,
    /// The kinds by their names in the profile, in the order of `uses`.
    kinds: Vec<(String, KindUse)>,
    prerequisites: Vec<(Prerequisite, Option<Formula>)>,
    options: Options,
    constants: Values,
    reads: Vec<Read>,
    variables: Vec<(String, Formula)>,
    refusals: Vec<(Formula, Template)>,
    inputs: Vec<InputRule>,
    items: Vec<ItemRule>,
    warnings: Vec<WarningRule>,
    adoptions: Vec<AdoptionRule>,
}

/// A value of another object that the plan depends on.
#[derive(Debug)]
struct InputRule {
    name: String,
    path: String,
    when: Option<Formula>,
    read: String,
    field: Template,
    derived: Formula,
}

/// What may fail although everything is applied.
#[derive(Debug)]
struct WarningRule {
    path: String,
    when: Option<Formula>,
    text: WarningText,
}

#[derive(Debug)]
enum WarningText {
    One(Template),
    Several(Formula),
}

impl DataProfile {
    /// The RBAC rules that the operator needs for the profile.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let this: &dyn Profile = self;
        crate::roles::target_rules([this])
    }

    /// The variables before anything of the cluster is known.
    fn given(&self, options: Value) -> Values {
        let mut values = self.constants.clone();
        values.set("options", options);
        values
    }

    /// Refuses options for which the profile has no use.
    fn refuse(&self, values: &Values, budget: &mut u64) -> Result<(), Refusal> {
        for (when, message) in &self.refusals {
            if when.holds(values, budget)? {
                let message = message.rendered("spec.refusals", values, budget)?;
                return Err(Refusal::Options(message));
            }
        }
        Ok(())
    }
}

impl Profile for DataProfile {
    fn about(&self) -> &ProfileInfo {
        &self.about
    }

    fn uses(&self) -> &[KindUse] {
        &self.uses
    }

    fn prerequisites(&self, options: &ProfileOptions) -> Vec<Prerequisite> {
        // Invalid options are reported by `intents`; what cannot be decided with them is not required.
        let values = self.given(self.options.defaulted(options));
        let mut budget = BUDGET;
        let needed = self
            .prerequisites
            .iter()
            .filter(|(_, when)| applies(when.as_ref(), &values, &mut budget).unwrap_or_default());
        needed.map(|(prerequisite, _)| *prerequisite).collect()
    }

    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal> {
        let mut values = self.given(self.options.complete(options)?);
        let mut budget = BUDGET;
        let located = reads::gather(&self.reads, &self.kinds, snapshot, &mut values, &mut budget)?;
        for (name, formula) in &self.variables {
            let value = formula.value(&values, &mut budget)?;
            values.set(name, value);
        }
        self.refuse(&values, &mut budget)?;
        let mut wanted = Intents::default();
        let mut derived_values = Map::new();
        for rule in &self.inputs {
            if !applies(rule.when.as_ref(), &values, &mut budget)? {
                continue;
            }
            let Some(source) = located.get(&rule.read) else {
                continue;
            };
            let path = rule.field.rendered(&rule.path, &values, &mut budget)?;
            let raw = crate::values::at(&source.object, &path)
                .map_err(|error| Refusal::Unreadable(format!("{}: {error}", rule.path)))?;
            let raw = raw.filter(|raw| !raw.is_null()).cloned();
            let mut seen = values.clone();
            seen.set("raw", raw.clone().unwrap_or_default());
            let derived = rule.derived.value(&seen, &mut budget)?;
            derived_values.insert(rule.name.clone(), derived.clone());
            wanted.inputs.push(Input {
                name: rule.name.clone(),
                object: source.target.clone(),
                path,
                raw,
                derived,
            });
        }
        values.set("inputs", Value::Object(derived_values));
        let mut applied = Map::new();
        for item in &self.items {
            let Some((_, uses)) = self.kinds.get(item.kind) else {
                continue;
            };
            let intent = item.intent(
                uses,
                self.about.impact,
                snapshot,
                &wanted.items,
                &values,
                &mut budget,
            )?;
            if let Some((intent, in_force)) = intent {
                applied.insert(intent.name.to_owned(), json!(in_force));
                wanted.items.push(intent);
            }
        }
        distinct_targets(&wanted)?;
        values.set("applied", Value::Object(applied));
        for rule in &self.warnings {
            if !applies(rule.when.as_ref(), &values, &mut budget)? {
                continue;
            }
            match &rule.text {
                WarningText::One(template) => {
                    let text = template.rendered(&rule.path, &values, &mut budget)?;
                    wanted.warnings.push(text);
                }
                WarningText::Several(formula) => {
                    wanted.warnings.extend(formula.texts(&values, &mut budget)?);
                }
            }
        }
        Ok(wanted)
    }

    fn adopt(&self, options: &ProfileOptions, drift: &Drift) -> Result<ProfileOptions, String> {
        adopt::adopt(self, options, drift)
    }

    fn revision(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    fn health(&self, item: &str, live: &DynamicObject) -> Option<Health> {
        let rule = self.items.iter().find(|rule| rule.name == item)?;
        let mut budget = BUDGET;
        rule.health(live, &mut budget)
    }
}

/// Two items with the same target would take the fields of each other.
fn distinct_targets(wanted: &Intents) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for item in &wanted.items {
        if !seen.insert(&item.target) {
            return Err(Refusal::Unreadable(format!(
                "item '{}' has the target {} of an item before it",
                item.name, item.target
            )));
        }
    }
    Ok(())
}
