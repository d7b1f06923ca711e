//! Options of PlatformProfiles: their schema is in the profile, so the API server cannot check them.

use api::advisor::ProfileOptions;
use api::profile::PlatformProfile;
use serde_json::Value;

use crate::profile::data::check_values;

/// The profile whose schema a request has to meet, if the request sets options of a PlatformProfile. Those that it leaves
/// as they are stay accepted: a profile may have changed since, and then the plan reports them.
pub fn profile_to_ask<'a>(old: Option<&Value>, new: &'a Value) -> Option<&'a str> {
    let values = new.pointer("/spec/options/values")?;
    let before = old.and_then(|old| old.pointer("/spec/options/values"));
    let profile = new.pointer("/spec/profile")?.as_str()?;
    (before != Some(values)).then_some(profile)
}

/// Why a profile does not accept the options of a request.
pub fn check_options(profile: &PlatformProfile, new: &Value) -> Result<(), String> {
    let options = new.pointer("/spec/options").cloned().unwrap_or_default();
    let options: ProfileOptions = serde_json::from_value(options)
        .map_err(|error| format!("spec.options: {error}; an object is needed"))?;
    // A profile with errors accepts anything: no plan is made with it, and its status says why.
    check_values(&profile.spec, &options).map_err(|refusal| refusal.to_string())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn profile() -> PlatformProfile {
        serde_json::from_value(json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": "PlatformProfile",
            "metadata": { "name": "tuning.example.com" },
            "spec": {
                "description": "Tunes", "impact": "Low", "items": [],
                "options": {
                    "type": "object",
                    "properties": { "size": { "type": "integer", "minimum": 1, "default": 3 }, "most": { "type": "integer" } },
                    "x-kubernetes-validations": [{ "rule": "!has(self.most) || self.size <= self.most", "message": "size is at most most" }],
                },
            },
        }))
        .unwrap()
    }

    fn config(values: &Value) -> Value {
        json!({ "spec": { "profile": "tuning.example.com", "options": { "values": values } } })
    }

    #[rstest]
    #[case(json!({}), None)]
    #[case(json!({ "size": 5 }), None)]
    #[case(json!({ "size": 0 }), Some("options.values.size"))]
    #[case(json!({ "size": "5" }), Some("must be of type integer"))]
    #[case(json!({ "sise": 5 }), Some("unknown options sise; the profile has most, size"))]
    #[case(json!({ "most": 2 }), Some("size is at most most"))]
    fn options_have_to_meet_the_schema(#[case] values: Value, #[case] refused: Option<&str>) {
        let checked = check_options(&profile(), &config(&values));
        match refused {
            None => assert_eq!(checked, Ok(())),
            Some(why) => {
                let message = checked.unwrap_err();
                assert!(message.contains(why), "{message}");
            }
        }
    }

    #[test]
    fn unchanged_options_are_not_checked_again() {
        let (old, new) = (config(&json!({ "size": 0 })), config(&json!({ "size": 1 })));
        assert_eq!(profile_to_ask(Some(&old), &old), None);
        assert_eq!(profile_to_ask(Some(&old), &new), Some("tuning.example.com"));
        assert_eq!(profile_to_ask(None, &new), Some("tuning.example.com"));
        assert_eq!(
            profile_to_ask(None, &json!({ "spec": { "profile": "a.b" } })),
            None
        );
    }
}
