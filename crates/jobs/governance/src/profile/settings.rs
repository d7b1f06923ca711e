//! Options with everything that nobody gave: defaults, ranges and rules are those of the definition
//! of VirtPlatformConfig, so that there is one place where they are written down.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use machinery::cel::CompiledRules;
use machinery::field::{Path, aggregate};
use machinery::schema::{CompiledSchema, default};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Refusal;

/// What a member of the options must be like.
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

/// The settings that the given options come to, if they are valid. `member` is the field of the
/// union that they are in.
pub(super) fn complete<T: DeserializeOwned>(
    member: &str,
    given: Option<&impl Serialize>,
) -> Result<T, Refusal> {
    let refused = |why: String| Refusal::Options(format!("options.{member}: {why}"));
    let mut value = given.map_or_else(|| json!({}), |given| json!(given));
    if let Some(known) = MEMBERS.get(member) {
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

/// The given options with some of them changed, if that is valid. `changes` are fields of the member
/// by name.
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
