//! The static check of a profile: types, costs, names, permissions, and what is never used.

use std::collections::BTreeSet;

use api::profile::{Finding, KindSpec, PlatformProfileSpec};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use machinery::cel::{Environment, VarType, is_identifier};
use serde_json::{Map, Value, json};

use super::adopt::AdoptionRule;
use super::formula::{Expected, Findings, Formula, Values};
use super::items::{ItemRule, condition};
use super::names::Names;
use super::options::{Options, VALUES};
use super::reads::{Read, fields_variable, have_machine_configs};
use super::template::Template;
use super::{DataProfile, InputRule, WarningRule, WarningText};
use crate::profile::{Access, KindUse, Prerequisite, ProfileInfo};
use crate::snapshot::GroupKind;

/// Variables that every profile has; no other may have such a name.
const RESERVED: [&str; 10] = [
    "options", "versions", "fields", "texts", "base64", "inputs", "applied", "live", "raw",
    "inForce",
];

/// The result of the static check.
#[derive(Debug)]
pub struct Compiled {
    /// The profile, if no finding is an error.
    pub profile: Option<DataProfile>,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// Where a profile comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The program; the options are in this member of their union.
    BuiltIn(&'static str),
    /// A PlatformProfile.
    Object,
}

/// Checks a profile, and compiles it.
pub fn compile(name: &str, spec: &PlatformProfileSpec, names: &mut Names) -> Compiled {
    compile_from(Origin::Object, name, spec, names)
}

pub(super) fn compile_from(
    origin: Origin,
    name: &str,
    spec: &PlatformProfileSpec,
    names: &mut Names,
) -> Compiled {
    let mut found = Findings::default();
    if origin == Origin::Object && (!name.contains('.') || name.len() > 63) {
        found.error(
            "metadata.name",
            "a dot is needed, as in tuning.example.com, and at most 63 characters are allowed: names without a dot are those of built-in profiles",
        );
    }
    let profile = build(&mut found, origin, name, spec, names);
    if profile.is_none() && found.sound() {
        found.error(
            "spec",
            "the names of all profiles take too much memory; restart the operator, or remove profiles",
        );
    }
    let profile = profile.filter(|_| found.sound());
    if let Some(profile) = &profile {
        unused(&mut found, profile, spec);
    }
    Compiled {
        profile,
        findings: found.0,
    }
}

fn build(
    found: &mut Findings,
    origin: Origin,
    name: &str,
    spec: &PlatformProfileSpec,
    names: &mut Names,
) -> Option<DataProfile> {
    let member = match origin {
        Origin::BuiltIn(member) => member,
        Origin::Object => VALUES,
    };
    let kinds = kinds(found, origin, spec, names);
    unique(found, "spec.items", spec.items.iter().map(|it| &it.name));
    variables(found, spec);
    let options = Options::compile(found, member, spec.options.as_ref());
    let (kinds, options) = (kinds?, options?);
    let text = || VarType::Map(Box::new(VarType::String));
    let given = Environment::new()
        .with("options", &options.variable())
        .with("texts", &text())
        .with("base64", &text());
    let prerequisites = prerequisites(found, &given, spec, &kinds, names);
    let index = |of: &str| kinds.iter().position(|(name, _)| name == of);
    let unknown = |of: &str| format!("{of:?} is none of spec.kinds");

    let mut environment = given
        .clone()
        .with("versions", &text())
        .with("fields", &fields_variable());
    let mut reads: Vec<Read> = Vec::new();
    for (number, read) in spec.reads.iter().enumerate() {
        let path = format!("spec.reads[{number}]");
        let Some(kind) = index(&read.of) else {
            found.error(&format!("{path}.of"), unknown(&read.of));
            continue;
        };
        let of = (kind, &kinds[kind].1);
        if let Some((read, variable)) = Read::compile(found, &given, &path, read, of) {
            if read.needs_machine_configs() && !have_machine_configs(&kinds) {
                let at = format!("{path}.taking");
                found.error(&at, "MachineConfigs have to be among spec.kinds for it");
            }
            environment = environment.with(&read.name, &variable);
            reads.push(read);
        }
    }
    let mut variables = Vec::new();
    for (number, variable) in spec.variables.iter().enumerate() {
        let path = format!("spec.variables[{number}].expression");
        let source = &variable.expression;
        let formula = Formula::compile(found, &environment, &path, source, Expected::Any);
        environment = match &formula {
            Some(formula) => environment.with_result(&variable.name, formula.expression()),
            // Reported above; what refers to it is not at fault.
            None => environment.with(&variable.name, &VarType::Dyn),
        };
        variables.extend(formula.map(|formula| (variable.name.clone(), formula)));
    }
    let mut refusals = Vec::new();
    for (number, refusal) in spec.refusals.iter().enumerate() {
        let path = format!("spec.refusals[{number}]");
        let when = condition(found, &environment, &path, Some(&refusal.when));
        let at = format!("{path}.message");
        let message = Template::text(found, &environment, &at, &refusal.message);
        refusals.extend(when.ok().flatten().zip(message));
    }
    let inputs = inputs(found, &environment, spec, &reads);
    let environment = environment.with("inputs", &VarType::Map(Box::new(VarType::Dyn)));
    let mut items = Vec::new();
    for (number, item) in spec.items.iter().enumerate() {
        let path = format!("spec.items[{number}]");
        let Some(kind) = index(&item.target.of) else {
            found.error(&format!("{path}.target.of"), unknown(&item.target.of));
            continue;
        };
        let earlier: Vec<&str> = spec.items[..number]
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        let item = ItemRule::compile(found, &environment, &path, item, kind, &earlier, names);
        items.extend(item);
    }
    let seen = environment.with("applied", &VarType::Map(Box::new(VarType::Bool)));
    let warnings = warnings(found, &seen, spec);
    let mut adoptions = Vec::new();
    for (number, adoption) in spec.adopt.iter().enumerate() {
        let path = format!("spec.adopt[{number}]");
        let rule = AdoptionRule::compile(found, &given, &path, adoption, &options, &items);
        adoptions.extend(rule);
    }
    let keep =
        |names: &mut Names, text: &Option<String>| names.keep(text.as_deref().unwrap_or_default());
    Some(DataProfile {
        about: ProfileInfo {
            name: names.keep(name)?,
            description: names.keep(&spec.description)?,
            category: keep(names, &spec.category)?,
            impact_summary: keep(names, &spec.impact_summary)?,
            impact: spec.impact,
            documentation_url: keep(names, &spec.documentation_url)?,
            advertised: spec.advertised.unwrap_or(true),
        },
        hash: (origin == Origin::Object).then(|| crate::hash::content_hash(spec)),
        uses: kinds.iter().map(|(_, uses)| *uses).collect(),
        kinds,
        prerequisites: prerequisites?,
        options,
        constants: constants(spec),
        reads,
        variables,
        refusals,
        inputs,
        items,
        warnings,
        adoptions,
    })
}

/// The kinds, with the access that the items need.
fn kinds(
    found: &mut Findings,
    origin: Origin,
    spec: &PlatformProfileSpec,
    names: &mut Names,
) -> Option<Vec<(String, KindUse)>> {
    unique(found, "spec.kinds", spec.kinds.iter().map(|it| &it.name));
    let mut kinds: Vec<(String, KindUse)> = Vec::new();
    for (number, kind) in spec.kinds.iter().enumerate() {
        let path = format!("spec.kinds[{number}]");
        if let Some(why) = forbidden(kind) {
            found.error(&path, why);
        }
        if kind.only.is_some() && origin == Origin::Object {
            found.error(&format!("{path}.only"), "only built-in profiles can set it");
        }
        if kind.versions.is_empty() {
            found.error(
                &format!("{path}.versions"),
                "at least one version is needed",
            );
        }
        let written = spec.items.iter().any(|item| item.target.of == kind.name);
        let access = match (written, kind.deletable.unwrap_or(true)) {
            (false, _) => Access::Read,
            (true, false) => Access::Apply,
            (true, true) => Access::ApplyAndDelete,
        };
        let uses = KindUse {
            of: GroupKind {
                group: names.keep(&kind.group)?,
                kind: names.keep(&kind.kind)?,
            },
            versions: names.keep_all(&kind.versions)?,
            plural: names.keep(&kind.resource)?,
            access,
            named: match &kind.only {
                Some(only) => Some(names.keep(only)?),
                None => None,
            },
        };
        if kinds.iter().any(|(_, other)| other.of == uses.of) {
            found.error(&path, format!("{} is among the kinds twice", kind.kind));
        }
        kinds.push((kind.name.clone(), uses));
    }
    Some(kinds)
}

/// Why a profile cannot use a kind.
fn forbidden(kind: &KindSpec) -> Option<&'static str> {
    match (
        kind.group.as_str(),
        kind.kind.as_str(),
        kind.resource.as_str(),
    ) {
        ("", "Secret", _) | ("", _, "secrets") => {
            Some("profiles cannot use Secrets: plans and their history show values")
        }
        ("medley.dev" | "advisor.kubevirt.io", ..) => {
            Some("profiles cannot use the kinds of Medley: they decide what is approved")
        }
        _ => None,
    }
}

fn prerequisites(
    found: &mut Findings,
    given: &Environment,
    spec: &PlatformProfileSpec,
    kinds: &[(String, KindUse)],
    names: &mut Names,
) -> Option<Vec<(Prerequisite, Option<Formula>)>> {
    let mut all = Vec::new();
    for (number, (kind, (_, uses))) in spec.kinds.iter().zip(kinds).enumerate() {
        let path = format!("spec.kinds[{number}]");
        let custom = uses.of.group.contains('.') && !uses.of.group.ends_with(".k8s.io");
        let Some(required) = &kind.required else {
            if custom && uses.access != Access::Read {
                let message = "the kind may not be installed: `required` makes it a prerequisite, with a remedy";
                found.warning(&path, message);
            }
            continue;
        };
        let at = format!("{path}.required");
        let when = condition(found, given, &at, required.when.as_ref());
        let version = match &required.version {
            Some(version) => names.keep(version)?,
            None => uses.versions.last().copied().unwrap_or_default(),
        };
        let prerequisite = Prerequisite {
            of: uses.of,
            version,
            remedy: names.keep(&required.remedy)?,
        };
        all.extend(when.map(|when| (prerequisite, when)));
    }
    Some(all)
}

fn inputs(
    found: &mut Findings,
    environment: &Environment,
    spec: &PlatformProfileSpec,
    reads: &[Read],
) -> Vec<InputRule> {
    unique(found, "spec.inputs", spec.inputs.iter().map(|it| &it.name));
    let seen = environment.clone().with("raw", &VarType::Dyn);
    let mut all = Vec::new();
    for (number, input) in spec.inputs.iter().enumerate() {
        let path = format!("spec.inputs[{number}]");
        if !reads
            .iter()
            .any(|it| it.name == input.read && it.is_single())
        {
            let at = format!("{path}.read");
            found.error(&at, format!("{:?} is no read of one object", input.read));
        }
        let when = condition(found, environment, &path, input.when.as_ref());
        let at = format!("{path}.path");
        let field = Template::text(found, environment, &at, &input.path);
        let at = format!("{path}.derived");
        let derived = Formula::compile(found, &seen, &at, &input.derived, Expected::Any);
        if let (Ok(when), Some(field), Some(derived)) = (when, field, derived) {
            all.push(InputRule {
                name: input.name.clone(),
                path,
                when,
                read: input.read.clone(),
                field,
                derived,
            });
        }
    }
    all
}

fn warnings(
    found: &mut Findings,
    environment: &Environment,
    spec: &PlatformProfileSpec,
) -> Vec<WarningRule> {
    let mut all = Vec::new();
    for (number, warning) in spec.warnings.iter().enumerate() {
        let path = format!("spec.warnings[{number}]");
        let when = condition(found, environment, &path, warning.when.as_ref());
        let text = match (&warning.message, &warning.messages) {
            (Some(message), None) => {
                let at = format!("{path}.message");
                Template::text(found, environment, &at, message).map(WarningText::One)
            }
            (None, Some(messages)) => {
                let at = format!("{path}.messages");
                Formula::compile(found, environment, &at, messages, Expected::Texts)
                    .map(WarningText::Several)
            }
            _ => {
                found.error(&path, "either message or messages is needed");
                None
            }
        };
        if let (Ok(when), Some(text)) = (when, text) {
            all.push(WarningRule { path, when, text });
        }
    }
    all
}

/// Texts, plain and encoded.
fn constants(spec: &PlatformProfileSpec) -> Values {
    let mut values = Values::default();
    values.set("texts", json!(spec.texts));
    let encoded = |(name, text): (&String, &String)| {
        (name.clone(), Value::from(BASE64_STANDARD.encode(text)))
    };
    let encoded: Map<String, Value> = spec.texts.iter().map(encoded).collect();
    values.set("base64", Value::Object(encoded));
    values
}

fn unique<'a>(found: &mut Findings, path: &str, names: impl Iterator<Item = &'a String>) {
    let mut seen = BTreeSet::new();
    for (number, name) in names.enumerate() {
        if !seen.insert(name) {
            let at = format!("{path}[{number}].name");
            found.error(&at, format!("{name:?} is the name of another one"));
        }
    }
}

/// Names of variables can be used in expressions, and mean one thing.
fn variables(found: &mut Findings, spec: &PlatformProfileSpec) {
    let reads = spec.reads.iter().map(|it| &it.name).enumerate();
    let reads = reads.map(|(number, name)| (format!("spec.reads[{number}].name"), name));
    let variables = spec.variables.iter().map(|it| &it.name).enumerate();
    let variables =
        variables.map(|(number, name)| (format!("spec.variables[{number}].name"), name));
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    for (path, name) in reads.chain(variables) {
        if !is_identifier(name) {
            found.error(&path, format!("{name:?} cannot be the name of a variable"));
        } else if RESERVED.contains(&name.as_str()) {
            found.error(&path, format!("every profile has a variable {name}"));
        } else if !seen.insert(name) {
            found.error(&path, format!("{name:?} is the name of another variable"));
        }
    }
}

/// Reports what no expression refers to.
fn unused(found: &mut Findings, profile: &DataProfile, spec: &PlatformProfileSpec) {
    let mut formulas: Vec<&Formula> = Vec::new();
    formulas.extend(profile.variables.iter().map(|(_, formula)| formula));
    for (when, message) in &profile.refusals {
        formulas.push(when);
        message.formulas(&mut formulas);
    }
    for rule in &profile.inputs {
        formulas.extend(&rule.when);
        formulas.push(&rule.derived);
        rule.field.formulas(&mut formulas);
    }
    for item in &profile.items {
        item.formulas(&mut formulas);
    }
    for rule in &profile.warnings {
        formulas.extend(&rule.when);
        match &rule.text {
            WarningText::One(template) => template.formulas(&mut formulas),
            WarningText::Several(formula) => formulas.push(formula),
        }
    }
    for template in profile.reads.iter().flat_map(Read::templates) {
        template.formulas(&mut formulas);
    }
    for rule in &profile.adoptions {
        rule.formulas(&mut formulas);
    }
    formulas.extend(
        profile
            .prerequisites
            .iter()
            .filter_map(|(_, when)| when.as_ref()),
    );
    let used = |name: &str| formulas.iter().any(|it| it.expression().uses(name));
    for (number, variable) in spec.variables.iter().enumerate() {
        if !used(&variable.name) {
            let path = format!("spec.variables[{number}]");
            found.warning(
                &path,
                format!("nothing uses the variable {}", variable.name),
            );
        }
    }
    for (number, read) in profile.reads.iter().enumerate() {
        let input = profile.inputs.iter().any(|it| it.read == read.name);
        let fields = read.has_fields() && used("fields");
        if !input && !fields && !used(&read.name) {
            let path = format!("spec.reads[{number}]");
            found.warning(&path, format!("nothing uses {}", read.name));
        }
    }
    for (name, path) in [("options", "spec.options"), ("texts", "spec.texts")] {
        let given = match name {
            "options" => spec.options.is_some(),
            _ => !spec.texts.is_empty(),
        };
        if given && !used(name) && (name != "texts" || !used("base64")) {
            found.warning(path, format!("nothing uses {name}"));
        }
    }
}
