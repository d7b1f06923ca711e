//! The options of a data profile: completed with defaults, and checked by the schema of the profile.

use api::advisor::ProfileOptions;
use api::profile::PlatformProfileSpec;
use machinery::cel::{CompiledRules, VarType, check_rules};
use machinery::field::{Path, aggregate};
use machinery::schema::{Checks, CompiledSchema, check_lists, check_structural, default, prune};
use serde_json::{Map, Value, json};

use super::formula::Findings;
use crate::profile::Refusal;

/// The member of the options union that holds the options of a PlatformProfile.
pub(super) const VALUES: &str = "values";

/// The options of a profile.
#[derive(Debug)]
pub(super) struct Options {
    /// The field of the options union that they are in.
    member: &'static str,
    schema: CompiledSchema,
    rules: CompiledRules,
}

impl Options {
    /// Compiles the schema of the options. Without one, there are no options.
    pub(super) fn compile(
        found: &mut Findings,
        member: &'static str,
        source: Option<&Value>,
    ) -> Option<Self> {
        let none = json!({ "type": "object" });
        let source = source.unwrap_or(&none);
        check_schema(found, "spec.options", source);
        if source.get("type") != Some(&json!("object")) {
            found.error("spec.options", "the type of the options has to be object");
        }
        if !found.sound() {
            return None;
        }
        let schema = CompiledSchema::parse(source)
            .map_err(|error| found.error("spec.options", error))
            .ok()?;
        let rules = CompiledRules::compile(schema.schema());
        Some(Self {
            member,
            schema,
            rules,
        })
    }

    /// The type of the variable `options`.
    pub(super) fn variable(&self) -> VarType {
        VarType::Object(Box::new(self.schema.schema().clone()), false)
    }

    /// Whether there is an option of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.schema.schema().properties.contains_key(name)
    }

    /// The given options with defaults; not checked.
    pub(super) fn defaulted(&self, options: &ProfileOptions) -> Value {
        let mut given = json!(options)
            .get(self.member)
            .cloned()
            .unwrap_or_else(|| json!({}));
        // Defaults before rules, as the API server does it: a rule sees the same values as at admission.
        default(&mut given, self.schema.schema());
        given
    }

    /// The given options with defaults, if they are valid.
    pub(super) fn complete(&self, options: &ProfileOptions) -> Result<Value, Refusal> {
        let value = self.defaulted(options);
        let path = Path::new("options").child(self.member);
        if self.member == VALUES {
            // The API server keeps unknown options, because it does not know the schema.
            let unknown = prune(&mut value.clone(), self.schema.schema(), false);
            if !unknown.is_empty() {
                return Err(Refusal::Options(format!(
                    "{}: unknown options {}; the profile has {}",
                    path.as_str(),
                    unknown.join(", "),
                    self.known()
                )));
            }
        }
        let mut errors = self.schema.validate(&value, &path);
        if errors.is_empty() {
            errors = check_lists(&value, self.schema.schema(), &path);
        }
        if errors.is_empty() {
            errors = self.rules.validate(&path, &value, None).errors;
        }
        if errors.is_empty() {
            Ok(value)
        } else {
            Err(Refusal::Options(aggregate(&errors)))
        }
    }

    fn known(&self) -> String {
        let names: Vec<&str> = self
            .schema
            .schema()
            .properties
            .keys()
            .map(String::as_str)
            .collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    }

    /// The given options with changes; the error states why they cannot be options.
    pub(super) fn amend(
        &self,
        options: &ProfileOptions,
        changes: Map<String, Value>,
    ) -> Result<ProfileOptions, String> {
        let mut all = json!(options);
        let member = &mut all[self.member];
        if !member.is_object() {
            *member = json!({});
        }
        if let Value::Object(fields) = member {
            fields.extend(changes);
        }
        serde_json::from_value(all).map_err(|error| error.to_string())
    }
}

/// Checks options by the schema of a profile, which need not be usable otherwise.
pub fn check_values(
    profile: &PlatformProfileSpec,
    options: &ProfileOptions,
) -> Result<(), Refusal> {
    let mut found = Findings::default();
    match Options::compile(&mut found, VALUES, profile.options.as_ref()) {
        Some(compiled) => compiled.complete(options).map(|_| ()),
        None => Ok(()),
    }
}

/// Checks that a schema is structural and its rules compile.
pub(super) fn check_schema(found: &mut Findings, path: &str, source: &Value) {
    let checks = Checks {
        rules: &|schema, path| check_rules(schema, path),
        default_rules: &|_, _, _| Vec::new(),
        object_meta: &|_, _, _| Vec::new(),
    };
    for error in check_structural(source, false, &Path::root(), &checks) {
        found.error(path, error.to_string());
    }
}
