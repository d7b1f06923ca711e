//! Adopts manually set fields into the options of a data profile.

use api::advisor::{Drift, ProfileOptions};
use api::profile::Adoption;
use machinery::cel::{Environment, VarType};
use serde_json::{Map, Value};

use super::DataProfile;
use super::formula::{BUDGET, Findings, Formula, applies};
use super::items::{ItemRule, condition};
use super::options::Options;
use super::template::Template;
use crate::profile::adoption::{self, Edit};

/// The options that request a manually set value.
#[derive(Debug)]
pub(super) struct AdoptionRule {
    paths: Vec<String>,
    removed: bool,
    when: Option<Formula>,
    message: Option<String>,
    options: Template,
}

impl AdoptionRule {
    /// Compiles a rule.
    pub(super) fn compile(
        found: &mut Findings,
        environment: &Environment,
        path: &str,
        spec: &Adoption,
        options: &Options,
        items: &[ItemRule],
    ) -> Option<Self> {
        let seen = environment.clone().with("live", &VarType::Dyn);
        for (index, field) in spec.paths.iter().enumerate() {
            if !items.iter().any(|item| item.manages(field)) {
                let at = format!("{path}.paths[{index}]");
                found.error(&at, format!("no item manages {field}, so it never drifts"));
            }
        }
        for name in spec.options.as_object().into_iter().flat_map(Map::keys) {
            if !options.has(name) {
                let at = format!("{path}.options.{name}");
                found.error(&at, format!("the profile has no option {name}"));
            }
        }
        let when = condition(found, &seen, path, spec.when.as_ref());
        let template = Template::compile(found, &seen, &format!("{path}.options"), &spec.options);
        Some(Self {
            paths: spec.paths.clone(),
            removed: spec.removed.unwrap_or_default(),
            when: when.ok()?,
            message: spec.message.clone(),
            options: template?,
        })
    }

    /// All expressions of the rule.
    pub(super) fn formulas<'a>(&'a self, all: &mut Vec<&'a Formula>) {
        all.extend(&self.when);
        self.options.formulas(all);
    }
}

/// The options that request the manually set values; the error states why there are none.
pub(super) fn adopt(
    profile: &DataProfile,
    options: &ProfileOptions,
    drift: &Drift,
) -> Result<ProfileOptions, String> {
    adoption::adopt(drift, |edits| {
        let mut changes = Map::new();
        for edit in edits {
            changes.extend(changes_for(profile, options, edit)?);
        }
        let amended = profile.options.amend(options, changes)?;
        let text = |refusal: crate::profile::Refusal| refusal.to_string();
        profile.options.complete(&amended).map_err(text)?;
        Ok(amended)
    })
}

fn changes_for(
    profile: &DataProfile,
    options: &ProfileOptions,
    edit: &Edit<'_>,
) -> Result<Map<String, Value>, String> {
    let of_path = |rule: &&AdoptionRule| rule.paths.contains(&edit.path);
    let mut rules = profile.adoptions.iter().filter(of_path).peekable();
    if rules.peek().is_none() {
        return Err(edit.without_option(profile.about.name));
    }
    let Some(rule) = rules.find(|rule| rule.removed == edit.live.is_none()) else {
        edit.value()?;
        return Err(edit.without_option(profile.about.name));
    };
    let mut values = profile.given(profile.options.defaulted(options));
    values.set("live", edit.live.cloned().unwrap_or_default());
    let mut budget = BUDGET;
    let text = |refusal: crate::profile::Refusal| refusal.to_string();
    if !applies(rule.when.as_ref(), &values, &mut budget).map_err(text)? {
        let why = rule.message.clone();
        return Err(why.unwrap_or_else(|| edit.without_option(profile.about.name)));
    }
    match rule.options.value(&values, &mut budget).map_err(text)? {
        Value::Object(changes) => Ok(changes),
        other => Err(format!(
            "the options of the rule are {other}, and no object"
        )),
    }
}
