//! Reads a profile from a file, with the checks of an API server.

use std::sync::LazyLock;

use api::profile::{Finding, PlatformProfile};
use machinery::cel::CompiledRules;
use machinery::field::Path;
use machinery::schema::{CompiledSchema, prune};
use serde_json::{Value, json};

use super::compile::{Compiled, Origin, compile_from};
use super::names::Names;

struct Kind {
    schema: CompiledSchema,
    rules: CompiledRules,
}

static KIND: LazyLock<Option<Kind>> = LazyLock::new(|| {
    let definition = json!(api::profile::definition());
    let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema")?;
    let schema = CompiledSchema::parse(schema).ok()?;
    let rules = CompiledRules::compile(schema.schema());
    Some(Kind { schema, rules })
});

/// Reads the text of a PlatformProfile, in YAML or JSON; otherwise, what an API server would refuse.
pub fn read(text: &str) -> Result<PlatformProfile, Vec<Finding>> {
    let refused = |path: &str, message: String| Finding {
        path: path.to_owned(),
        message,
        error: true,
    };
    let value: Value = serde_saphyr::from_str(text)
        .map_err(|error| vec![refused("", format!("no YAML: {error}"))])?;
    let expected = [
        (
            "apiVersion",
            format!("{}/{}", api::profile::GROUP, api::profile::VERSION),
        ),
        ("kind", "PlatformProfile".to_owned()),
    ];
    for (field, expected) in expected {
        if value.get(field) != Some(&json!(expected)) {
            let message = format!("{expected} is needed");
            return Err(vec![refused(field, message)]);
        }
    }
    let mut findings = Vec::new();
    if let Some(kind) = &*KIND {
        let schema = kind.schema.schema();
        let unknown = prune(&mut value.clone(), schema, true);
        findings.extend(
            unknown
                .iter()
                .map(|path| refused(path, "there is no such field".to_owned())),
        );
        let mut errors = kind.schema.validate(&value, &Path::root());
        if errors.is_empty() {
            errors = kind.rules.validate(&Path::root(), &value, None).errors;
        }
        findings.extend(errors.iter().map(|error| refused("", error.to_string())));
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    serde_json::from_value(value).map_err(|error| vec![refused("", error.to_string())])
}

/// Compiles a profile of the program. Tests prove that none of them has findings.
pub(in crate::profile) fn built_in(
    text: &str,
    member: &'static str,
    names: &mut Names,
) -> Option<Compiled> {
    let profile: PlatformProfile = serde_saphyr::from_str(text).ok()?;
    let name = profile.metadata.name.unwrap_or_default();
    Some(compile_from(
        Origin::BuiltIn(member),
        &name,
        &profile.spec,
        names,
    ))
}
