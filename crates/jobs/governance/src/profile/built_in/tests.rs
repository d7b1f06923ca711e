//! The profiles of the program.

mod higher_density;
mod load_aware;
mod node_health;

use serde_json::{Value, json};

use super::*;

/// A profile by name.
fn data(name: &str) -> Arc<dyn Profile> {
    let found = ALL.iter().find(|(_, profile)| profile.about().name == name);
    Arc::clone(&found.unwrap_or_else(|| panic!("{name} does not compile")).1)
}

#[test]
fn built_in_profiles_compile_without_findings() {
    let mut names = Names::default();
    let compiled = TEXTS.map(|(_, text, member)| built_in(text, member, &mut names).unwrap());
    let findings: Vec<_> = compiled.iter().flat_map(|it| &it.findings).collect();
    assert_eq!(findings, [] as [&api::profile::Finding; 0]);
    assert!(compiled.iter().all(|it| it.profile.is_some()));
}

/// The CRD has the options of the built-in profiles, so that the API server checks them.
#[test]
fn options_are_those_of_the_crd() {
    let definition = json!(api::advisor::definition());
    let options =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/options/properties";
    let members = definition.pointer(options).unwrap();
    for (_, text, member) in TEXTS {
        let mut profile: Value = serde_saphyr::from_str(text).unwrap();
        let mut own = profile["spec"]["options"].take();
        machinery::json::settle_numbers(&mut own);
        let mut crd = members.get(member).cloned().unwrap_or_default();
        machinery::json::settle_numbers(&mut crd);
        let (own_texts, crd_texts) = (take_descriptions(&mut own), take_descriptions(&mut crd));
        assert_eq!(own, crd, "{member}");
        // The CRD adds the default and the range for `kubectl explain`.
        assert_eq!(own_texts.len(), crd_texts.len(), "{member}");
        for (own, crd) in own_texts.iter().zip(&crd_texts) {
            assert!(crd.starts_with(own.as_str()), "{own:?}, {crd:?}");
        }
    }
}

/// Removes all descriptions of a schema, in the order of its fields.
fn take_descriptions(schema: &mut Value) -> Vec<String> {
    let mut found = Vec::new();
    let Some(fields) = schema.as_object_mut() else {
        return found;
    };
    if let Some(Value::String(text)) = fields.remove("description") {
        found.push(text);
    }
    found.extend(fields.values_mut().flat_map(take_descriptions));
    found
}
