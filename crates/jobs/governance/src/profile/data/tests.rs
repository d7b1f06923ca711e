//! Data profiles: what the static check finds, and what an evaluation results in.

use std::sync::Arc;

use api::advisor::{Impact, ProfileOptions};
use api::profile::PlatformProfileSpec;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::objects::snapshot;
use super::*;
use crate::profile::fixture::drift;

const NAME: &str = "tuning.example.com";

fn spec() -> Value {
    json!({
        "description": "Tunes", "impact": "Medium",
        "options": { "type": "object", "properties": {
            "size": { "type": "integer", "default": 3 },
            "names": { "type": "array", "maxItems": 8, "items": { "type": "string", "maxLength": 63 } },
        }},
        "kinds": [
            { "name": "maps", "kind": "ConfigMap", "resource": "configmaps", "versions": ["v1"] },
            { "name": "tunings", "group": "example.com", "kind": "Tuning", "resource": "tunings", "versions": ["v2", "v1"],
              "required": { "remedy": "Install tunings", "when": "options.size > 1" } },
        ],
        "reads": [
            { "name": "settings", "of": "maps", "object": { "name": "settings", "namespace": "default" } },
            { "name": "all", "of": "maps", "maxObjects": 2 },
        ],
        "variables": [
            { "name": "limit", "expression": "has(settings.data) ? int(settings.data.limit) : 7" },
        ],
        "inputs": [
            { "name": "limit", "read": "settings", "path": "data.limit", "derived": "limit + options.size" },
        ],
        "items": [
            {
                "name": "first", "when": "options.size > 0",
                "target": { "of": "maps", "name": "first", "namespace": "default" },
                "object": { "data": { "limit": "${string(inputs['limit'])}" } }, "managed": ["data.limit"],
            },
            {
                "name": "second",
                "target": { "of": "tunings", "name": "second" },
                "object": { "spec": { "size": "${options.size}", "names": "${has(options.names) ? dyn(options.names) : null}" } },
                "managed": ["spec.size", "spec.names"],
                "impact": [{ "when": "has(live.metadata)", "level": "High" }],
                "message": "size ${options.size}",
                "dependsOn": [{ "item": "first" }],
                "health": [
                    { "when": "has(live.status.broken)", "state": "Failed", "message": "broken: ${live.status.broken}" },
                    { "when": "!has(live.status.ready)", "state": "Waiting", "message": "not ready" },
                ],
            },
        ],
        "warnings": [{ "messages": "all.map(m, m.metadata.name + ' exists')" }],
        "adopt": [{ "paths": ["spec.size"], "when": "int(live) > 0", "message": "too small", "options": { "size": "${live}" } }],
    })
}

fn compiled(spec: &Value) -> Compiled {
    let spec: PlatformProfileSpec = serde_json::from_value(spec.clone()).unwrap();
    compile(NAME, &spec, &mut Names::default())
}

fn profile(spec: &Value) -> DataProfile {
    let compiled = compiled(spec);
    compiled
        .profile
        .unwrap_or_else(|| panic!("{:?}", compiled.findings))
}

fn options(values: &Value) -> ProfileOptions {
    serde_json::from_value(json!({ "values": values })).unwrap()
}

fn map(name: &str, limit: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "default" }, "data": { "limit": limit } })
}

fn intents(values: &Value, objects: Vec<Value>) -> Result<Intents, Refusal> {
    let profile = profile(&spec());
    let snapshot = snapshot(profile.uses(), objects).map_err(Refusal::Unreadable)?;
    profile.intents(&options(values), &snapshot)
}

#[test]
fn items_follow_options_and_objects() {
    let wanted = intents(&json!({ "size": 2 }), vec![map("settings", "40")]).unwrap();
    let [first, second] = &wanted.items[..] else {
        panic!("{wanted:?}")
    };
    assert_eq!(first.desired, map("first", "42"));
    assert_eq!(
        (first.impact, &*first.message),
        (Impact::Medium, "ConfigMap 'first' will be configured")
    );
    assert_eq!(
        second.desired,
        json!({ "apiVersion": "example.com/v2", "kind": "Tuning", "metadata": { "name": "second" }, "spec": { "size": 2 } })
    );
    assert_eq!(
        second.managed,
        ["spec.size"],
        "unset fields are not managed"
    );
    assert_eq!(second.depends_on, ["first"]);
    assert_eq!(second.message, "size 2");
    assert_eq!(wanted.warnings, ["settings exists"]);
    assert_eq!(wanted.inputs[0].raw, Some(json!("40")));
    assert_eq!(wanted.inputs[0].derived, json!(42));
    assert_eq!(
        wanted.inputs[0].object.to_string(),
        "ConfigMap default/settings"
    );
}

#[test]
fn absent_objects_are_empty_and_left_out_items_are_no_dependency() {
    let wanted = intents(&json!({ "size": 0, "names": ["a"] }), Vec::new()).unwrap();
    let [second] = &wanted.items[..] else {
        panic!("{wanted:?}")
    };
    assert_eq!(second.depends_on, [""; 0]);
    assert_eq!(second.desired["spec"], json!({ "size": 0, "names": ["a"] }));
    assert_eq!(wanted.inputs[0].raw, None);
    assert_eq!(wanted.inputs[0].derived, json!(7));
}

#[test]
fn change_in_force_has_a_low_impact_and_others_follow_the_rules() {
    let tuning = |size: i64| json!({ "apiVersion": "example.com/v2", "kind": "Tuning", "metadata": { "name": "second" }, "spec": { "size": size, "other": 1 } });
    for (size, expected) in [(3, Impact::Low), (4, Impact::High)] {
        let wanted = intents(&json!({}), vec![tuning(size)]).unwrap();
        assert_eq!(wanted.items[1].impact, expected, "{size}");
    }
}

#[test]
fn prerequisites_follow_the_options() {
    let profile = profile(&spec());
    let kinds = |values: Value| -> Vec<&str> {
        let all = profile.prerequisites(&options(&values));
        all.iter().map(|one| one.of.kind).collect()
    };
    assert_eq!(kinds(json!({})), ["Tuning"]);
    assert_eq!(kinds(json!({ "size": 1 })), [""; 0]);
}

#[test]
fn evaluation_errors_name_the_expression() {
    let wanted = intents(&json!({}), vec![map("settings", "many")]);
    let Err(Refusal::Unreadable(why)) = wanted else {
        panic!("{wanted:?}")
    };
    assert!(why.starts_with("spec.variables[0].expression: "), "{why}");
    let objects = ["a", "b", "c"].map(|name| map(name, "1")).to_vec();
    let Err(refusal) = intents(&json!({}), objects) else {
        panic!("more objects than the profile allows")
    };
    assert_eq!(
        refusal.to_string(),
        "spec.reads[1]: there are 3 objects of kind ConfigMap, and maxObjects is 2"
    );
}

#[test]
fn evaluation_has_a_budget() {
    let mut spec = spec();
    // As large as the estimate permits, over a list that is longer than its schema says.
    spec["reads"][1] = json!({ "name": "all", "of": "maps", "schema": { "type": "object", "properties": {
        "data": { "type": "object", "properties": { "limit": { "type": "string", "maxLength": 4 } } },
    }}, "maxObjects": 10_000 });
    spec["warnings"] = json!([{ "messages": "all.filter(m, m.data.limit.matches('(a|b)*c')).map(m, m.data.limit)" }]);
    let profile = profile(&spec);
    let objects = (0..5_000).map(|number| map(&format!("m{number}"), &"ab".repeat(500)));
    let snapshot = snapshot(profile.uses(), objects.collect()).unwrap();
    let Err(refusal) = profile.intents(&options(&json!({})), &snapshot) else {
        panic!("the budget is larger than the work")
    };
    assert!(
        refusal
            .to_string()
            .starts_with("spec.warnings[0].messages: the budget of expressions is used up"),
        "{refusal}"
    );
}

#[rstest]
#[case(json!({}), Some(Health::waiting("not ready".to_owned())))]
#[case(json!({ "ready": true }), Some(Health::Healthy("Applied successfully".to_owned())))]
#[case(json!({ "broken": "disk" }), Some(Health::Failed("broken: disk".to_owned())))]
fn health_is_that_of_the_first_rule(#[case] status: Value, #[case] expected: Option<Health>) {
    let profile = profile(&spec());
    let live = json!({ "metadata": { "name": "second" }, "status": status });
    let live = serde_json::from_value(live).unwrap();
    assert_eq!(profile.health("second", &live), expected);
    assert_eq!(profile.health("first", &live), None, "it has no rules");
}

#[test]
fn object_without_status_is_not_healthy_yet() {
    let live = serde_json::from_value(json!({ "metadata": {} })).unwrap();
    let health = profile(&spec()).health("second", &live);
    assert!(matches!(health, Some(Health::Waiting { .. })), "{health:?}");
}

#[rstest]
#[case("spec.size", json!(9), Ok(json!({ "values": { "size": 9, "names": ["a"] } })))]
#[case("spec.size", json!(-9), Err("too small"))]
#[case("spec.names", json!(["b"]), Err("no option of profile tuning.example.com sets spec.names"))]
fn edits_are_adopted_where_an_option_exists(
    #[case] path: &str,
    #[case] live: Value,
    #[case] expected: Result<Value, &str>,
) {
    let profile = profile(&spec());
    let given = options(&json!({ "names": ["a"] }));
    let adopted = profile.adopt(&given, &drift(path, json!(3), Some(live)));
    match expected {
        Ok(expected) => assert_eq!(json!(adopted.unwrap()), expected),
        Err(why) => assert!(adopted.unwrap_err().ends_with(why)),
    }
}

#[rstest]
#[case("/variables/0/expression", json!("settings.data.limit +"), "spec.variables[0].expression", "Syntax error")]
#[case("/variables/0/expression", json!("other"), "spec.variables[0].expression", "undeclared reference to 'other'")]
#[case("/variables/0/name", json!("options"), "spec.variables[0].name", "every profile has a variable options")]
#[case("/variables/0/name", json!("all"), "spec.variables[0].name", "the name of another variable")]
#[case("/variables/0/name", json!("in"), "spec.variables[0].name", "cannot be the name of a variable")]
#[case("/items/0/when", json!("options.size"), "spec.items[0].when", "is of type int, and has to be of type bool")]
#[case("/items/0/name", json!("second"), "spec.items[1].name", "is the name of another one")]
#[case("/items/0/target/of", json!("secrets"), "spec.items[0].target.of", "is none of spec.kinds")]
#[case("/items/0/object/metadata", json!({ "name": "x" }), "spec.items[0].object.metadata.name", "are those of the target")]
#[case("/items/0/object/data/limit", json!("${a"), "spec.items[0].object.data.limit", "has no end")]
#[case("/items/1/dependsOn/0/item", json!("third"), "spec.items[1].dependsOn[0].item", "there is no item \"third\" before this one")]
#[case("/items/1/managed/0", json!("spec.sise"), "spec.items[1].managed[0]", "never sets spec.sise")]
#[case("/inputs/0/read", json!("all"), "spec.inputs[0].read", "no read of one object")]
#[case("/warnings/0/messages", json!("'one'"), "spec.warnings[0].messages", "has to be of type list(string)")]
#[case("/adopt/0/options", json!({ "sise": 1 }), "spec.adopt[0].options.sise", "the profile has no option sise")]
#[case("/adopt/0/paths/0", json!("spec.other"), "spec.adopt[0].paths[0]", "no item manages spec.other")]
#[case("/kinds/0/only", json!("one"), "spec.kinds[0].only", "only built-in profiles")]
#[case("/kinds/1/group", json!("medley.dev"), "spec.kinds[1]", "cannot use the kinds of Medley")]
#[case("/kinds/0/kind", json!("Secret"), "spec.kinds[0]", "cannot use Secrets")]
#[case("/options/properties/size/type", json!("number of"), "spec.options", "")]
#[case("/reads/0/taking", json!({ "a": "b" }), "spec.reads[0]", "cannot both be set")]
fn errors_name_their_place(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] path: &str,
    #[case] message: &str,
) {
    let mut spec = spec();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    match spec.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[field.parse::<usize>().unwrap()] = value,
        other => other[field] = value,
    }
    let compiled = compiled(&spec);
    let found = compiled
        .findings
        .iter()
        .find(|it| it.error && it.path == path);
    let found = found.unwrap_or_else(|| panic!("{:?}", compiled.findings));
    assert!(found.message.contains(message), "{}", found.message);
    assert!(compiled.profile.is_none());
}

#[test]
fn sound_profile_has_no_findings_and_a_hash_of_its_content() {
    assert_eq!(compiled(&spec()).findings, []);
    let before = profile(&spec());
    let mut changed = spec();
    changed["items"][0]["message"] = json!("another text");
    let (before, after) = (before.revision(), profile(&changed));
    assert!(before.is_some_and(|hash| hash.starts_with("sha256:")));
    assert_ne!(before, after.revision());
}

#[test]
fn what_is_never_used_is_a_warning() {
    let mut spec = spec();
    spec["variables"] = json!([
        { "name": "limit", "expression": "7" },
        { "name": "unused", "expression": "8" },
    ]);
    spec["warnings"] = json!([]);
    let findings = compiled(&spec).findings;
    assert!(findings.iter().all(|it| !it.error), "{findings:?}");
    let found: Vec<_> = findings
        .iter()
        .map(|it| (&*it.path, &*it.message))
        .collect();
    assert_eq!(
        found,
        [
            ("spec.variables[1]", "nothing uses the variable unused"),
            ("spec.reads[1]", "nothing uses all"),
        ]
    );
}

#[test]
fn rules_are_those_of_the_kinds() {
    let rules: Vec<_> = profile(&spec())
        .rules()
        .into_iter()
        .map(|rule| {
            (
                rule.resources.unwrap_or_default().join(","),
                rule.verbs.join(","),
            )
        })
        .collect();
    let all = "get,list,watch,create,patch,delete".to_owned();
    assert_eq!(
        rules,
        [
            ("configmaps".to_owned(), all.clone()),
            ("tunings".to_owned(), all)
        ]
    );
}

#[test]
fn stand_in_of_an_unready_profile_plans_nothing_and_watches_its_kinds() {
    let former: Arc<dyn Profile> = Arc::new(profile(&spec()));
    let broken: PlatformProfileSpec = serde_json::from_value(spec()).unwrap();
    let mut names = Names::default();
    let unready = unready(
        NAME,
        &broken,
        Some(&*former),
        "it is broken".to_owned(),
        &mut names,
    )
    .unwrap();
    assert_eq!(unready.uses(), former.uses());
    let refusal = unready
        .intents(&ProfileOptions::default(), &Snapshot::default())
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "PlatformProfile tuning.example.com is not ready: it is broken"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An applied plan equals the plan that would be generated: it does not become stale by itself.
    #[test]
    fn intents_are_stable_once_applied(size in 1..100_i64, limit in 0..100_i64) {
        let settings = map("settings", &limit.to_string());
        let mut spec = spec();
        spec["reads"][1]["maxObjects"] = json!(9);
        spec["warnings"] = json!([]);
        let profile = profile(&spec);
        let options = options(&json!({ "size": size }));
        let before = profile.intents(&options, &snapshot(profile.uses(), vec![settings.clone()]).unwrap()).unwrap();
        let mut objects: Vec<Value> = before.items.iter().map(|item| item.desired.clone()).collect();
        objects.push(settings);
        let after = profile.intents(&options, &snapshot(profile.uses(), objects).unwrap()).unwrap();
        let desired = |intents: &Intents| -> Vec<Value> {
            intents.items.iter().map(|item| item.desired.clone()).collect()
        };
        prop_assert_eq!(desired(&before), desired(&after));
        prop_assert_eq!(before.inputs, after.inputs);
        prop_assert!(after.items.iter().all(|item| item.impact == Impact::Low));
    }

    /// No text is more than refused.
    #[test]
    fn any_text_compiles_or_is_refused(text in "[${}'a-z.()\\[\\]0-9 ]{0,40}") {
        let mut spec = spec();
        spec["items"][0]["object"]["data"]["limit"] = json!(text);
        spec["variables"][0]["expression"] = json!(text);
        compiled(&spec);
    }
}
