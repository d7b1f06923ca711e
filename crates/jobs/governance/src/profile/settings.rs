//! Options completed with defaults. Defaults, ranges and rules are those of the VirtPlatformConfig CRD, so that they
//! are defined in one place.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use machinery::cel::CompiledRules;
use machinery::field::{Path, aggregate};
use machinery::schema::{CompiledSchema, default};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Refusal;

/// The schema of a member of the options.
struct Member {
    schema: CompiledSchema,
    rules: CompiledRules,
}

static MEMBERS: LazyLock<BTreeMap<String, Member>> = LazyLock::new(|| {
    let definition = json!(api::advisor::definition());
    let options =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/options/properties";
    let members = definition.pointer(options).and_then(Value::as_object);
    let read = |(name, schema): (&String, &Value)| {
        let schema = CompiledSchema::parse(schema).ok()?;
        let rules = CompiledRules::compile(schema.schema());
        Some((name.clone(), Member { schema, rules }))
    };
    members.into_iter().flatten().filter_map(read).collect()
});

/// The given options with defaults, if they are valid. `member` is the field of the union that they are in.
pub(super) fn complete<T: DeserializeOwned>(
    member: &str,
    given: Option<&impl Serialize>,
) -> Result<T, Refusal> {
    let refused = |why: String| Refusal::Options(format!("options.{member}: {why}"));
    let mut value = given.map_or_else(|| json!({}), |given| json!(given));
    if let Some(known) = MEMBERS.get(member) {
        // Defaults before rules, as the API server does it: a rule sees the same values as at admission. Needed
        // although the API server has done it: `options` as a whole may be absent, and then nothing is defaulted there.
        default(&mut value, known.schema.schema());
        let path = Path::new("options").child(member);
        let mut errors = known.schema.validate(&value, &path);
        if errors.is_empty() {
            errors = known.rules.validate(&path, &value, None).errors;
        }
        if !errors.is_empty() {
            return Err(Refusal::Options(aggregate(&errors)));
        }
    }
    serde_json::from_value(value).map_err(|error| refused(error.to_string()))
}

/// The given options with changes, if the result is valid. `changes` are fields of the member by name.
pub(super) fn amend<T: Serialize + DeserializeOwned>(
    member: &str,
    given: Option<&T>,
    changes: Map<String, Value>,
) -> Result<T, String> {
    let mut value = given.map_or_else(|| json!({}), |given| json!(given));
    if let Value::Object(fields) = &mut value {
        fields.extend(changes);
    }
    let amended: T = serde_json::from_value(value).map_err(|error| error.to_string())?;
    complete::<Value>(member, Some(&amended)).map_err(|refusal| refusal.to_string())?;
    Ok(amended)
}
