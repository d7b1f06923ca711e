//! Recorded responses of kube-apiserver v1.36: CRDs it accepts and rejects, objects, updates that
//! ratchet.
//!
//! Some CRDs were answered with 409: they are valid, but their name was taken.
//!
//! Go iterates maps in random order, so lists of errors are compared sorted.

use serde_json::{Value, json};

use super::{NO_CHECKS, compiled, decode, errors};
use crate::field::FieldError;
use crate::schema::crd::{crd_warnings, default_crd, prepare_create, validate_crd};
use crate::schema::openapi::crd_openapi;

const CORPUS: &str = include_str!("corpus.jsonl");

fn entries(kind: &str) -> Vec<Value> {
    let found: Vec<Value> = CORPUS
        .lines()
        .map(|line| serde_json::from_str(line).expect("the corpus is JSON"))
        .filter(|entry: &Value| entry["kind"] == kind)
        .collect();
    assert!(!found.is_empty(), "the corpus has {kind} entries");
    found
}

fn sorted(mut causes: Vec<(String, String, String)>) -> Vec<(String, String, String)> {
    causes.sort();
    causes
}

fn wanted(entry: &Value) -> Vec<(String, String, String)> {
    let text = |cause: &Value, i: usize| cause[i].as_str().unwrap_or_default().to_owned();
    let causes = entry["causes"].as_array().cloned().unwrap_or_default();
    sorted(
        causes
            .iter()
            .map(|c| (text(c, 1), text(c, 2), text(c, 0)))
            // What makes owner references valid is checked by a function that is passed in.
            .filter(|(field, ..)| !field.contains(".ownerReferences."))
            .collect(),
    )
}

fn found(errors: &[FieldError]) -> Vec<(String, String, String)> {
    sorted(
        errors
            .iter()
            .map(FieldError::cause)
            .map(|cause| (cause.field, cause.message, cause.reason))
            .collect(),
    )
}

fn warnings(entry: &Value) -> Vec<String> {
    let mut texts: Vec<String> = entry["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|w| {
            w.as_str()?
                .strip_prefix("299 - \"")?
                .strip_suffix('"')
                .map(str::to_owned)
        })
        .map(|text| text.replace("\\\"", "\""))
        .collect();
    texts.sort();
    texts.dedup();
    texts
}

/// Go writes whole floats without a fraction; in memory they stay floats.
fn go_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number
                .as_f64()
                .filter(|f| number.is_f64() && f.fract() == 0.0);
            if let Some(int) = whole.and_then(|f| format!("{f}").parse::<i64>().ok()) {
                *value = int.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(go_numbers),
        Value::Object(map) => map.values_mut().for_each(go_numbers),
        _ => {}
    }
}

/// Collects differences so that one run shows them all.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        case: &Value,
        what: &str,
        want: &T,
        got: &T,
    ) {
        if want != got {
            self.0.push(format!(
                "{case} {what}\n  genuine: {want:#?}\n  here:    {got:#?}"
            ));
        }
    }

    fn check(self) {
        assert!(
            self.0.is_empty(),
            "{} differences:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

#[test]
fn custom_resource_definitions() {
    let mut differences = Differences::default();
    for entry in entries("crd") {
        let case = &entry["case"];
        let mut crd = entry["crd"].clone();
        default_crd(&mut crd);
        prepare_create(&mut crd);
        let got = validate_crd(&crd, &NO_CHECKS);
        differences.compare(case, "errors", &wanted(&entry), &found(&got));
        if entry["code"] == 201 {
            let mut got = crd_warnings(&crd, None);
            got.sort();
            got.dedup();
            differences.compare(case, "warnings", &warnings(&entry), &got);
            let got = (&crd["spec"]["names"], &crd["spec"]["conversion"]);
            let want = (&entry["spec"]["names"], &entry["spec"]["conversion"]);
            differences.compare(case, "defaults", &want, &got);
        }
    }
    differences.check();
}

#[test]
fn custom_resources() {
    let rich = compiled(&entries("schema")[0]["schema"]);
    let mut differences = Differences::default();
    for entry in entries("object") {
        let case = &entry["case"];
        let own = entry.get("schema").map(compiled);
        let rich = own.as_ref().unwrap_or(&rich);
        let mut object = entry["object"].clone();
        let decoded = decode(&mut object, rich.schema());
        let accepted = entry["code"] == 201;
        if entry["code"] == 400 {
            differences.compare(case, "decodes", &false, &decoded.is_ok());
            continue;
        }
        let Ok(unknown) = decoded else {
            differences.compare(
                case,
                "decodes",
                &None,
                &decoded.err().map(|e| e.to_string()),
            );
            continue;
        };
        let mut unknown: Vec<String> = unknown
            .iter()
            .map(|path| format!("unknown field \"{path}\""))
            .collect();
        unknown.sort();
        differences.compare(case, "warnings", &warnings(&entry), &unknown);
        let got = errors(&object, None, rich);
        differences.compare(case, "errors", &wanted(&entry), &found(&got));
        if accepted {
            object
                .as_object_mut()
                .expect("an object")
                .remove("metadata");
            go_numbers(&mut object);
            differences.compare(case, "object", &entry["result"], &object);
        }
    }
    differences.check();
}

#[test]
fn updates_tolerate_unchanged_violations() {
    let rich = compiled(&entries("schema")[0]["schema"]);
    let mut differences = Differences::default();
    for entry in entries("update") {
        let own = entry.get("schema").map(compiled);
        let rich = own.as_ref().unwrap_or(&rich);
        let mut object = entry["object"].clone();
        let decoded = decode(&mut object, rich.schema());
        if entry["code"] == 400 {
            differences.compare(&entry["case"], "decodes", &false, &decoded.is_ok());
            continue;
        }
        let mut old = entry["old"].clone();
        decode(&mut old, rich.schema()).expect("old objects decode");
        let got = errors(&object, Some(&old), rich);
        differences.compare(&entry["case"], "errors", &wanted(&entry), &found(&got));
    }
    differences.check();
}

/// Descriptions are our own; everything else is published as the genuine server does it.
#[test]
fn published_models() {
    fn without_own_texts(model: &mut Value) {
        match model {
            Value::Object(map) => {
                for name in ["apiVersion", "kind", "metadata", "items"] {
                    if let Some(Value::Object(property)) = map.get_mut(name) {
                        property.remove("description");
                    }
                }
                map.values_mut().for_each(without_own_texts);
            }
            Value::Array(items) => items.iter_mut().for_each(without_own_texts),
            _ => {}
        }
    }
    let mut want = entries("openapi")[0]["models"].clone();
    let mut crd = json!({"spec": {
        "group": "check.example.com",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": entries("schema")[0]["schema"]}}],
    }});
    default_crd(&mut crd);
    let mut got = Value::Object(crd_openapi(&crd, "v1"));
    without_own_texts(&mut want);
    without_own_texts(&mut got);
    assert_eq!(want, got);
}
