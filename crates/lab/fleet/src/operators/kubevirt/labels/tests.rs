use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::json;

use super::{by_default, of_cpu, relabelled};
use crate::model::{Cpu, Generation};
use crate::operators::kubevirt::fixtures::config;

fn cpu(generation: &str) -> Cpu {
    Generation::named(generation).expect("known").describe()
}

fn small() -> Cpu {
    Cpu {
        vendor: "Intel".into(),
        model: "Westmere".into(),
        models: vec!["486".into(), "Penryn".into(), "Nehalem".into()],
        known_models: vec!["kvm64".into(), "Haswell".into()],
        features: vec!["aes".into()],
        required_features: vec!["vmx".into()],
        machine_types: vec!["q35".into()],
        tsc_frequency: Some(2_000_000_000),
        tsc_scalable: Some(false),
        ..Cpu::default()
    }
}

#[test]
fn cpu_labels_are_complete() {
    let labels = of_cpu(&small(), "amd64", &config(&json!({})));
    let expected = [
        // 486 and kvm64 are obsolete. Known but unusable models still get migration labels.
        ("cpu-feature.node.kubevirt.io/aes", "true"),
        ("cpu-model-migration.node.kubevirt.io/Haswell", "true"),
        ("cpu-model-migration.node.kubevirt.io/Nehalem", "true"),
        ("cpu-model-migration.node.kubevirt.io/Penryn", "true"),
        ("cpu-model-migration.node.kubevirt.io/Westmere", "true"),
        ("cpu-model.node.kubevirt.io/Nehalem", "true"),
        ("cpu-model.node.kubevirt.io/Penryn", "true"),
        ("cpu-timer.node.kubevirt.io/tsc-frequency", "2000000000"),
        ("cpu-timer.node.kubevirt.io/tsc-scalable", "false"),
        ("cpu-vendor.node.kubevirt.io/Intel", "true"),
        ("host-model-cpu.node.kubevirt.io/Westmere", "true"),
        ("host-model-required-features.node.kubevirt.io/vmx", "true"),
        ("machine-type.node.kubevirt.io/q35", "true"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(labels, expected.into());
}

#[rstest]
#[case("arm64", &["machine-type.node.kubevirt.io/virt"])]
#[case("ppc64le", &[])]
fn other_architectures_have_no_cpu_labels(#[case] arch: &str, #[case] expected: &[&str]) {
    let cpu = Cpu {
        machine_types: Vec::new(),
        ..small()
    };
    let labels = of_cpu(&cpu, arch, &config(&json!({})));
    assert_eq!(labels.keys().collect::<Vec<_>>(), expected);
    let mut all: Vec<String> = by_default(&cpu, arch).into_keys().collect();
    assert_eq!(all.remove(0), "kubevirt.io/schedulable");
    assert_eq!(all, expected);
}

#[test]
fn configured_obsolete_models_are_hidden() {
    let config = config(&json!({ "obsoleteCPUModels": { "Westmere": false, "Penryn": true } }));
    let labels = of_cpu(&small(), "amd64", &config);
    assert_eq!(
        labels
            .get("node-labeller.kubevirt.io/obsolete-host-model")
            .map(String::as_str),
        Some("true")
    );
    assert!(!labels.contains_key("cpu-model.node.kubevirt.io/Penryn"));
    assert!(!labels.contains_key("cpu-model-migration.node.kubevirt.io/Westmere"));
    // A configured list replaces the built-in one.
    assert!(labels.contains_key("cpu-model.node.kubevirt.io/486"));
    assert!(labels.contains_key("host-model-cpu.node.kubevirt.io/Westmere"));
}

#[test]
fn relabelling_keeps_only_the_old_vendor() {
    let nothing = config(&json!({}));
    let mut before = of_cpu(&small(), "amd64", &nothing);
    before.insert("kubernetes.io/arch".into(), "amd64".into());
    before.insert(
        "node-labeller.kubevirt.io/obsolete-host-model".into(),
        "true".into(),
    );
    let after = relabelled(&before, &cpu("milan"), "amd64", &nothing);
    let vendors: BTreeSet<&str> = after
        .keys()
        .filter_map(|key| key.strip_prefix("cpu-vendor.node.kubevirt.io/"))
        .collect();
    // As in KubeVirt, the old vendor label stays.
    assert_eq!(vendors, ["AMD", "Intel"].into());
    assert!(!after.contains_key("host-model-cpu.node.kubevirt.io/Westmere"));
    assert!(after.contains_key("host-model-cpu.node.kubevirt.io/EPYC-Milan"));
    assert!(!after.contains_key("node-labeller.kubevirt.io/obsolete-host-model"));
    assert_eq!(
        after.get("kubernetes.io/arch").map(String::as_str),
        Some("amd64")
    );
}

#[test]
fn all_model_names_are_valid_label_keys() {
    for generation in crate::model::GENERATIONS {
        for (key, value) in by_default(&generation.describe(), generation.arch) {
            assert_eq!(
                machinery::names::is_qualified_name(&key),
                Vec::<String>::new()
            );
            assert_eq!(
                machinery::names::is_valid_label_value(&value),
                Vec::<String>::new()
            );
        }
    }
}
