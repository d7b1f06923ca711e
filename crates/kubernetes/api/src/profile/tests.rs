//! The CRD of PlatformProfile.

use serde_json::{Value, json};

use super::*;
use crate::definition::checks;

/// An object with every field of the CRD.
fn full() -> Value {
    let rules = json!([{
        "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "nonResourceURLs": ["/metrics"],
        "verbs": ["get"],
    }]);
    json!({
        "apiVersion": "medley.dev/v1alpha1",
        "kind": "PlatformProfile",
        "metadata": { "name": "tuning.example.com" },
        "spec": {
            "description": "Tunes",
            "category": "tuning",
            "impact": "Low",
            "impactSummary": "None",
            "documentationUrl": "https://example.com",
            "advertised": true,
            "options": { "type": "object" },
            "kinds": [{
                "name": "maps", "group": "example.com", "kind": "Map", "resource": "maps", "versions": ["v1"], "only": "one",
                "deletable": true, "required": { "remedy": "Install it", "version": "v1", "when": "true" },
            }],
            "reads": [{
                "name": "map", "of": "maps", "object": { "name": "one", "namespace": "default", "anyNamespace": true },
                "maxObjects": 10, "schema": { "type": "object" }, "taking": { "role": "worker" }, "fields": ["spec.a"],
            }],
            "texts": { "script": "true" },
            "variables": [{ "name": "two", "expression": "1 + 1" }],
            "refusals": [{ "when": "false", "message": "no" }],
            "inputs": [{ "name": "a", "when": "true", "read": "map", "path": "spec.a", "derived": "raw" }],
            "items": [{
                "name": "change-map", "when": "true", "target": { "of": "maps", "name": "one", "namespace": "default" },
                "object": { "spec": {} }, "managed": ["spec"], "impact": [{ "when": "inForce", "level": "Low" }],
                "message": "changed", "dependsOn": [{ "item": "other", "when": "true" }],
                "health": [{ "when": "true", "state": "Healthy", "message": "fine" }],
            }],
            "warnings": [{ "when": "true", "message": "careful", "messages": "['careful']" }],
            "adopt": [{ "paths": ["spec.a"], "removed": false, "when": "true", "message": "no", "options": { "a": 1 } }],
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "hash": "sha256:0",
            "findings": [{ "path": "spec", "message": "unused", "error": false }],
            "requiredRules": rules,
            "missingRules": rules,
        },
    })
}

#[test]
fn types_and_definition_have_the_same_fields() {
    checks::has_the_fields_of_its_type::<PlatformProfile>(&definition(), &full());
}

#[test]
fn definition_is_accepted_by_the_server() {
    checks::is_accepted(&definition());
}
