use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn read(spec: Value) -> (Policy, Vec<Complaint>) {
    Policy::read(&serde_json::from_value(spec).unwrap())
}

#[test]
fn missing_policy_equals_crd_defaults() {
    let (policy, complaints) = read(json!({}));
    assert_eq!(complaints, []);
    assert_eq!(policy, Policy::default());
    assert_eq!(policy.minimal_launch_year, 2007);
    // The values that the CRD's defaults fill in equal the built-in ones.
    let filled = json!({
        "minimalLaunchYear": 2007, "bias": "Newest", "foreignVendors": "Exclude", "threshold": {},
        "nodes": { "unschedulable": "Ignore", "notReady": "Ignore", "tainted": "Ignore" },
    });
    assert_eq!(read(filled).0, policy);
}

#[rstest]
#[case(0, 2)]
#[case(1, 2)]
#[case(2, 2)]
#[case(5, 2)]
#[case(6, 2)]
#[case(8, 2)]
#[case(9, 3)]
#[case(11, 3)]
#[case(12, 4)]
#[case(14, 4)]
#[case(15, 5)]
#[case(17, 5)]
#[case(10_000, 5)]
#[case(u32::MAX, 5)]
fn default_threshold_is_a_third_between_two_and_five(#[case] eligible: u32, #[case] needed: u32) {
    assert_eq!(Policy::default().threshold.needed(eligible).nodes, needed);
}

#[rstest]
#[case(json!({ "support": 1 }), 0, 1)]
#[case(json!({ "support": 7 }), 3, 7)]
#[case(json!({ "support": "50%" }), 3, 2)]
#[case(json!({ "support": "50%" }), 4, 2)]
#[case(json!({ "support": "50%" }), 7, 3)]
#[case(json!({ "support": "50%" }), 1000, 500)]
#[case(json!({ "support": "50%", "maximum": 10 }), 1000, 10)]
#[case(json!({ "support": "1%", "minimum": 1 }), 99, 1)]
#[case(json!({ "support": "1%", "minimum": 1 }), 200, 2)]
#[case(json!({ "support": "100%" }), 12, 12)]
#[case(json!({ "support": "100%" }), u32::MAX, u32::MAX)]
#[case(json!({ "minimum": 4 }), 6, 4)]
#[case(json!({ "minimum": 8 }), 6, 8)]
#[case(json!({ "minimum": 8 }), 300, 8)]
#[case(json!({ "maximum": 3 }), 300, 3)]
#[case(json!({ "maximum": 30 }), 300, 30)]
#[case(json!({ "maximum": 1 }), 300, 1)]
#[case(json!({ "minimum": 1, "maximum": 1 }), 0, 1)]
fn a_threshold_is_a_number_or_a_share_with_limits(
    #[case] threshold: Value,
    #[case] eligible: u32,
    #[case] needed: u32,
) {
    let (policy, complaints) = read(json!({ "threshold": threshold }));
    assert_eq!(complaints, []);
    assert_eq!(policy.threshold.needed(eligible).nodes, needed);
}

#[rstest]
#[case(json!({}), 9, "3, a third of 9 eligible nodes")]
#[case(json!({}), 1, "2, a third of 1 eligible node, but not less than 2")]
#[case(json!({}), 30, "5, a third of 30 eligible nodes, but not more than 5")]
#[case(json!({ "support": 4 }), 30, "4, set by the policy")]
#[case(json!({ "support": "20%" }), 30, "6, 20% of 30 eligible nodes")]
fn threshold_display_explains_its_origin(
    #[case] threshold: Value,
    #[case] eligible: u32,
    #[case] expected: &str,
) {
    let (policy, _) = read(json!({ "threshold": threshold }));
    assert_eq!(policy.threshold.needed(eligible).to_string(), expected);
}

#[rstest]
#[case(json!({ "minimalLaunchYear": 7 }), "spec.minimalLaunchYear: 7 is not a launch year")]
#[case(json!({ "threshold": { "support": 0 } }), "spec.threshold.support: \"0\" is neither")]
#[case(json!({ "threshold": { "support": "0%" } }), "spec.threshold.support: \"0%\" is neither")]
#[case(json!({ "threshold": { "support": "+5%" } }), "spec.threshold.support: \"+5%\" is neither")]
#[case(json!({ "threshold": { "support": "101%" } }), "spec.threshold.support: \"101%\" is neither")]
#[case(json!({ "threshold": { "support": "half" } }), "spec.threshold.support: \"half\" is neither")]
#[case(json!({ "threshold": { "minimum": -1 } }), "spec.threshold.minimum: -1 is not a number")]
#[case(json!({ "threshold": { "minimum": 6, "maximum": 5 } }), "spec.threshold: minimum 6 is more")]
#[case(json!({ "models": [{ "name": "x", "launchYear": 1 }] }), "spec.models[0].launchYear: 1 is not")]
fn invalid_field_is_reported_and_ignored(#[case] spec: Value, #[case] expected: &str) {
    let (policy, complaints) = read(spec);
    assert_eq!(complaints.len(), 1);
    let message = complaints[0].to_string();
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(policy.minimal_launch_year, 2007);
    assert_eq!(policy.threshold.share, Share::Third);
    assert_eq!(policy.model("x").and_then(|model| model.year), None);
}

#[test]
fn policy_overrides_the_table() {
    let (policy, _) = read(json!({ "models": [
        { "name": "EPYC-Venice", "launchYear": 2026, "vendor": "AMD", "generation": 110 },
        { "name": "Skylake-Server", "launchYear": 2017 },
        { "name": "Skylake-Server-IBRS", "launchYear": 2018 },
    ] }));
    let year = |name: &str| policy.model(name).and_then(|model| model.year);
    assert_eq!(year("EPYC-Venice"), Some(2026));
    assert_eq!(
        year("EPYC-Venice-v2"),
        Some(2026),
        "an override of a family applies to its variants"
    );
    assert_eq!(year("Skylake-Server-v4"), Some(2017));
    assert_eq!(
        year("Skylake-Server-IBRS"),
        Some(2018),
        "a variant comes first"
    );
    assert_eq!(year("Skylake-Client"), Some(2015));
    let venice = policy.model("EPYC-Venice").unwrap();
    assert_eq!(
        (venice.vendor, venice.generation),
        (Some(Vendor::new("AMD")), 110)
    );
    let skylake = policy.model("Skylake-Server-IBRS").unwrap();
    assert_eq!(
        skylake.vendor,
        Some(Vendor::new("Intel")),
        "the rest stays known"
    );
    assert!(skylake.variant.mitigated);
}

#[test]
fn the_obsolete_list_counts_by_its_keys() {
    let built_in = Obsolete::from_configuration(None::<&Vec<String>>);
    assert_eq!(built_in, Obsolete::BuiltIn);
    assert!(built_in.contains("Opteron_G1"));
    assert!(built_in.contains("Conroe-v1"));
    assert!(!built_in.contains("Conroe-v2"));
    assert!(!built_in.contains("Penryn"));

    // `Haswell: false` is a key as well.
    let configured: BTreeMap<String, bool> =
        BTreeMap::from([("Haswell".to_owned(), false), ("Penryn".to_owned(), true)]);
    let listed = Obsolete::from_configuration(Some(configured.keys()));
    assert!(listed.contains("Haswell"));
    assert!(listed.contains("Penryn"));
    assert!(!listed.contains("Haswell-v1"), "listed names match exactly");
    assert!(
        !listed.contains("Opteron_G1"),
        "it replaces the built-in list"
    );

    let nothing = Obsolete::from_configuration(Some(&Vec::new()));
    assert!(
        !nothing.contains("486"),
        "an empty map makes nothing obsolete"
    );
}
