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
        assert_eq!(own, crd, "{member}");
    }
}
