use rstest::rstest;
use serde_json::{Value, json};

use super::Config;
use crate::operators::kubevirt::fixtures::config;

#[test]
fn missing_configuration_uses_defaults() {
    for config in [
        Config::of(None),
        config(&json!({})),
        config(&json!({ "cpuModel": "" })),
    ] {
        assert_eq!(config.cpu_model(), "host-model");
        assert_eq!(config.architecture(), "amd64");
        assert_eq!(config.allocation_ratio(), 10);
        assert!(config.node_selectors().is_empty());
    }
    assert_eq!(
        config(&json!({ "cpuModel": "Haswell" })).cpu_model(),
        "Haswell"
    );
}

/// Models without a node label, and models listed as obsolete in the configuration.
#[rstest]
// The built-in list hides labels, but does not count as configured.
#[case(json!({}), "Opteron_G1", true, false)]
#[case(json!({}), "Opteron_G1-v1", true, false)]
#[case(json!({}), "Penryn", false, false)]
// Only the key counts.
#[case(json!({ "obsoleteCPUModels": { "Penryn": true } }), "Penryn", true, true)]
#[case(json!({ "obsoleteCPUModels": { "Penryn": false } }), "Penryn", true, true)]
// A configured list replaces the built-in one, even if it is empty.
#[case(json!({ "obsoleteCPUModels": { "Penryn": true } }), "Opteron_G1", false, false)]
#[case(json!({ "obsoleteCPUModels": {} }), "486", false, false)]
fn only_keys_of_the_obsolete_list_count(
    #[case] configuration: Value,
    #[case] model: &str,
    #[case] hidden: bool,
    #[case] obsolete: bool,
) {
    let config = config(&configuration);
    assert_eq!(config.hides(model), hidden);
    assert_eq!(config.calls_obsolete(model), obsolete);
}

#[test]
fn obsolete_list_is_printed_as_go_does() {
    let config = config(&json!({ "obsoleteCPUModels": { "b": true, "a": false } }));
    assert_eq!(config.obsolete_as_printed(), "map[a:false b:true]");
}
