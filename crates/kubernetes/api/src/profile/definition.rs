//! The CustomResourceDefinition of PlatformProfile.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::PlatformProfile;
use crate::definition::schema::{
    Schema, anything, atomic_list, boolean, int32, int64, map_list, name, object, one_of, text,
};
use crate::definition::{Definition, conditions};

/// The name of a variable.
const IDENTIFIER: &str = "^[a-zA-Z_][a-zA-Z0-9_]*$";
/// The name of an item: part of messages, and of `spec.approval.items`.
const ITEM: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The most characters of an expression or a template.
const LONGEST_EXPRESSION: u32 = 16_384;

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let crd = Definition {
        short_names: &["pprof"],
        description: "PlatformProfile is a profile as data: a set of changes to the configuration of other operators, computed by expressions (CEL). A VirtPlatformConfig of the same name requests it. Texts with ${...} are templates: the expression in the braces is replaced by its value.",
        columns: &[
            ("Ready", ".status.conditions[?(@.type=='Ready')].status"),
            ("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
            ("Impact", ".spec.impact"),
        ],
        name: (
            "self.metadata.name.contains('.') && size(self.metadata.name) <= 63".to_owned(),
            "the name of a PlatformProfile contains a dot, as in tuning.example.com, and has at most 63 characters; names without a dot are those of built-in profiles".to_owned(),
        ),
        spec: spec(),
        status: Some(status()),
    };
    crd.build::<PlatformProfile>()
}

fn expression(description: &str) -> Schema {
    name(LONGEST_EXPRESSION).about(description)
}

fn any_object(description: &str) -> Schema {
    anything()
        .with("type", "object")
        .atomic()
        .about(description)
}

fn identifier(description: &str) -> Schema {
    name(63).pattern(IDENTIFIER).about(description)
}

fn spec() -> Schema {
    let variable = object(json!({
        "name": identifier("The variable."),
        "expression": expression("Its value. Variables before it, reads, texts and options can be used."),
    }));
    let refusal = object(json!({
        "when": expression("True for options that cannot be used."),
        "message": expression("Why they cannot; a template."),
    }));
    let input = object(json!({
        "name": name(253).about("The name, as a key of the variable inputs."),
        "when": expression("Whether the input is used; always if absent."),
        "read": identifier("The object: a read of one object."),
        "path": expression("The dotted path of the field; a template."),
        "derived": expression("The value in the plan: an expression that sees the field as raw, which is null if it is not set. When this value changes, the plan needs a new review."),
    }));
    let warning = object(json!({
        "when": expression("When the warning applies; always if absent."),
        "message": expression("The warning; a template."),
        "messages": expression("Several warnings: an expression whose value is a list of strings."),
    }));
    let adoption = object(json!({
        "paths": atomic_list(name(1024)).max_items(16).about("The fields, as dotted paths."),
        "removed": boolean().about("Whether the rule is for a field that was removed instead of changed. Defaults to false."),
        "when": expression("The values that an option can express: an expression that sees the field as live. All if absent."),
        "message": name(1024).about("Why the others cannot be adopted."),
        "options": any_object("The options; a template that sees the field as live."),
    }));
    let spec = object(json!({
        "description": name(1024).about("The purpose, as a sentence."),
        "category": name(63).about("The category, a label value."),
        "impact": one_of(["Low", "Medium", "High"]).about("The impact before a plan determines it."),
        "impactSummary": name(1024).about("The impact, as a sentence."),
        "documentationUrl": name(1024).about("The documentation."),
        "advertised": boolean().about("Whether a VirtPlatformConfig with action Ignore is created for it. Defaults to true."),
        "options": any_object("The options: a structural schema (openAPIV3Schema) of type object, with defaults and rules. They are set in spec.options.values of the VirtPlatformConfig."),
        "kinds": map_list(&["name"], kind()).max_items(32).about("The kinds that the profile reads or writes."),
        "reads": map_list(&["name"], read()).max_items(32).about("The objects that expressions see, each as a variable."),
        "texts": json!({
            "type": "object", "maxProperties": 32,
            "additionalProperties": text().with("maxLength", 65_536),
            "description": "Texts, such as the contents of files: in expressions texts.NAME, and base64.NAME for the encoded text.",
        }),
        "variables": map_list(&["name"], variable.required(&["name", "expression"])).max_items(64)
            .about("Named values, evaluated in this order."),
        "refusals": atomic_list(refusal.required(&["when", "message"])).max_items(32)
            .about("Options that cannot be used, beyond what their schema says."),
        "inputs": map_list(&["name"], input.required(&["name", "read", "path", "derived"])).max_items(32)
            .about("Values of other objects that the plan depends on."),
        "items": map_list(&["name"], item()).max_items(128).about("The changes, in the order of execution."),
        "warnings": atomic_list(warning).max_items(64).about("What may fail although everything is applied."),
        "adopt": atomic_list(adoption.required(&["paths", "options"])).max_items(64)
            .about("The options that request a value that was set by hand, for `medley adopt`."),
    }));
    spec.required(&["description", "impact", "items"])
        .about("The profile.")
}

fn kind() -> Schema {
    let required = object(json!({
        "remedy": name(1024).about("What to do if the kind is not installed."),
        "version": name(63).about("The version in messages. Defaults to the last one of the kind."),
        "when": expression("Only if this expression over the options is true."),
    }));
    let kind = object(json!({
        "name": identifier("The name of the kind in this profile."),
        "group": text().with("maxLength", 253).about("The API group; empty for the core group."),
        "kind": name(63).about("The kind."),
        "resource": name(63).about("The plural resource name."),
        "versions": atomic_list(name(63)).with("minItems", 1).max_items(8).about("Usable versions, best first. The first one that is served is used; the variable versions shows which."),
        "only": name(253).about("Only objects with this name are read. Built-in profiles only."),
        "deletable": boolean().about("Whether objects that the profile created may be deleted. Defaults to true."),
        "required": required.required(&["remedy"]).about("Makes the kind a prerequisite of the profile."),
    }));
    kind.required(&["name", "kind", "resource", "versions"])
}

fn read() -> Schema {
    let named = object(json!({
        "name": name(1024).about("The name; a template over the options."),
        "namespace": name(1024).about("The namespace; a template over the options."),
        "anyNamespace": boolean().about("Whether an object of this name in another namespace is taken where there is none in this one. Defaults to false."),
    }));
    let read = object(json!({
        "name": identifier("The variable."),
        "of": identifier("The kind, by its name in this profile."),
        "object": named.required(&["name"]).about("One object; an empty object while it does not exist. All objects of the kind if absent, as a list."),
        "maxObjects": int32().range(1, 10_000).about("The most objects of a list; with more, nothing is planned. The cost of expressions is estimated with it. Defaults to 500."),
        "schema": any_object("The structural schema of the objects. Expressions are checked with it, and fields that it does not have cannot be used. Not checked if absent."),
        "taking": json!({
            "type": "object", "maxProperties": 16, "additionalProperties": text().with("maxLength", 63),
            "description": "For MachineConfigPools: only those that take MachineConfigs with these labels, each with name, machines, arguments and configs.",
        }),
        "fields": atomic_list(name(1024)).max_items(32)
            .about("Fields of the installed kind, as dotted paths: the variable fields has accepted, heeded and values of each."),
    }));
    read.required(&["name", "of"])
}

fn item() -> Schema {
    let target = object(json!({
        "of": identifier("The kind, by its name in this profile."),
        "name": name(1024).about("The name; a template."),
        "namespace": name(1024).about("The namespace; a template."),
    }));
    let impact = object(json!({
        "when": expression("When the rule applies; always if absent. Sees the object as live, and whether it has the desired fields already as inForce."),
        "level": one_of(["Low", "Medium", "High", "MachineConfig"]).about("The impact. MachineConfig: by the pools that take it and the node disruption policies of the cluster."),
    }));
    let dependency = object(json!({
        "item": name(63).about("The item."),
        "when": expression("When it is needed; always if absent."),
    }));
    let health = object(json!({
        "when": expression("When the rule applies: an expression that sees the object as live. Always if absent."),
        "state": one_of(["Healthy", "Waiting", "Failed"]).about("Whether the change has taken effect."),
        "message": expression("What is reported; a template that sees the object as live."),
    }));
    let item = object(json!({
        "name": name(63).pattern(ITEM).about("The name of the item."),
        "when": expression("Whether the item is requested; always if absent."),
        "target": target.required(&["of", "name"]).about("The object that is changed."),
        "object": any_object("The desired fields, without apiVersion, kind and name; a template. Fields whose expression is null are left out."),
        "managed": atomic_list(name(1024)).with("minItems", 1).max_items(64)
            .about("The managed fields, as dotted paths: they are compared, locked and watched for drift. Templates; those that the object does not set are left out."),
        "impact": atomic_list(impact.required(&["level"])).max_items(16)
            .about("The impact: the level of the first rule that applies. That of the profile if empty. An object that has the desired fields already has a low impact."),
        "message": expression("What the change is; a template."),
        "dependsOn": atomic_list(dependency.required(&["item"])).max_items(16)
            .about("Items before this one that have to be in force first, if they are requested."),
        "health": atomic_list(health.required(&["state", "message"])).max_items(16)
            .about("Whether the change has taken effect: the state of the first rule that applies, Healthy if none does. Without rules, the kinds that built-in profiles use have their own; others are healthy once applied."),
    }));
    item.required(&["name", "target", "object", "managed"])
}

fn status() -> Schema {
    let finding = object(json!({ "path": text(), "message": text(), "error": boolean() }));
    let rules = || {
        let rule = object(json!({
            "apiGroups": atomic_list(text()),
            "resources": atomic_list(text()),
            "resourceNames": atomic_list(text()),
            "nonResourceURLs": atomic_list(text()),
            "verbs": atomic_list(text()),
        }));
        atomic_list(rule.required(&["verbs"]))
    };
    let status = object(json!({
        "observedGeneration": int64(),
        "conditions": conditions(),
        "hash": text().about("The hash of the spec. Plans are made for one hash."),
        "findings": atomic_list(finding.required(&["path", "message", "error"]))
            .about("What the static check found. With an error, no configuration can use the profile."),
        "requiredRules": rules().about("The permissions that the operator needs for the profile. It never grants them itself."),
        "missingRules": rules().about("Those of the required permissions that the operator does not have."),
    }));
    status.about("The observed state.")
}
