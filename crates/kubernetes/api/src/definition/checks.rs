//! Checks that hold for the CRDs of all of Medley's kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use machinery::schema::{Checks, crd};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The schema of its version.
pub(crate) fn schema(definition: &CustomResourceDefinition) -> Value {
    let definition = serde_json::to_value(definition).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The type reads and writes exactly the fields of the schema. `full` sets them all.
pub(crate) fn has_the_fields_of_its_type<K>(definition: &CustomResourceDefinition, full: &Value)
where
    K: DeserializeOwned + Serialize,
{
    let read: K = serde_json::from_value(full.clone()).unwrap();
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(written, *full, "a field is lost in the round trip");
    let mut missing = Vec::new();
    unfilled(&schema(definition), &written, "", &mut missing);
    // The API server defines metadata itself.
    missing.retain(|path| !path.starts_with(".metadata"));
    assert_eq!(missing, Vec::<String>::new());
}

/// An API server accepts the CRD.
pub(crate) fn is_accepted(definition: &CustomResourceDefinition) {
    let mut prepared = serde_json::to_value(definition).unwrap();
    crd::default_crd(&mut prepared);
    crd::prepare_create(&mut prepared);
    let checks = Checks {
        rules: &|_, _| Vec::new(),
        default_rules: &|_, _, _| Vec::new(),
        object_meta: &|_, _, _| Vec::new(),
    };
    assert_eq!(crd::validate_crd(&prepared, &checks), Vec::new());
}

/// Schema properties missing in a complete value, and the other way round.
fn unfilled(schema: &Value, value: &Value, at: &str, missing: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            let at = format!("{at}.{name}");
            match value.get(name) {
                Some(value) => unfilled(property, value, &at, missing),
                None => missing.push(at),
            }
        }
        for name in value.as_object().unwrap().keys() {
            if !properties.contains_key(name) {
                missing.push(format!("{at}.{name} is not in the schema"));
            }
        }
    }
    if let Some(items) = schema.get("items")
        && let Some(first) = value.get(0)
    {
        unfilled(items, first, &format!("{at}[]"), missing);
    }
}
