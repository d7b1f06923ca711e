//! The changes that `virt-higher-density` requests, and their impact.

use std::sync::Arc;

use api::advisor::Impact;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rstest::rstest;
use serde_json::{Value, json};

use super::data;
use crate::intent::Intents;
use crate::profile::fixture::{ClusterFixture, drift, options_of};
use crate::profile::kinds::{MACHINE_CONFIG, MACHINE_CONFIGURATION};
use crate::profile::{Profile, Refusal, impact};

fn profile() -> Arc<dyn Profile> {
    data("virt-higher-density")
}

fn world() -> ClusterFixture {
    ClusterFixture::new("v1beta1")
        .pool("worker", &["worker"], &[], 3)
        .hyper_converged("openshift-cnv", &json!({}))
}

fn wanted(world: &ClusterFixture, options: &Value) -> Intents {
    world.wanted(&*profile(), &json!({ "virtHigherDensity": options }))
}

fn without_swap() -> Value {
    json!({ "enableSwap": false, "memoryToRequestRatio": 120 })
}

#[test]
fn items_match_the_prototype() {
    let wanted = world().wanted(&*profile(), &json!({}));
    let [swap, density] = &wanted.items[..] else {
        panic!("two items: {wanted:?}")
    };
    assert_eq!(swap.name, "enable-kubelet-swap");
    assert_eq!(
        swap.target.to_string(),
        "MachineConfig 90-worker-kubelet-swap"
    );
    assert_eq!(swap.managed, ["spec.config"]);
    assert_eq!(swap.impact, Impact::High);
    assert_eq!(
        swap.message,
        "MachineConfig '90-worker-kubelet-swap' will be configured to enable kubelet swap"
    );
    assert_eq!(density.name, "configure-higher-density");
    assert_eq!(
        density.desired,
        json!({
            "apiVersion": "hco.kubevirt.io/v1beta1",
            "kind": "HyperConverged",
            "metadata": { "name": "kubevirt-hyperconverged", "namespace": "openshift-cnv" },
            "spec": {
                "higherWorkloadDensity": { "memoryOvercommitPercentage": 150 },
                "ksmConfiguration": { "nodeLabelSelector": {} },
            },
        })
    );
    assert_eq!(
        density.managed,
        [
            "spec.higherWorkloadDensity.memoryOvercommitPercentage",
            "spec.ksmConfiguration"
        ]
    );
    assert_eq!(density.impact, Impact::Medium);
    assert_eq!(
        density.message,
        "HyperConverged 'kubevirt-hyperconverged' will be configured with memoryOvercommitPercentage=150 and KSM enabled"
    );
    assert_eq!(density.depends_on, ["enable-kubelet-swap"]);
    assert!(
        wanted.warnings.iter().any(|text| text.contains("CNV_SWAP")),
        "{:?}",
        wanted.warnings
    );
}

#[test]
fn swap_configuration_matches_the_prototype() {
    let wanted = wanted(&world(), &json!({}));
    let config = &wanted.items[0].desired["spec"]["config"];
    assert_eq!(config["ignition"]["version"], "3.2.0");
    let text = |file: usize| {
        let source = config["storage"]["files"][file]["contents"]["source"]
            .as_str()
            .unwrap();
        let data = source
            .strip_prefix("data:text/plain;charset=utf-8;base64,")
            .unwrap();
        String::from_utf8(BASE64_STANDARD.decode(data).unwrap()).unwrap()
    };
    for (file, path, mode) in [
        (0, "/etc/find-swap-partition", 493),
        (1, "/etc/openshift/kubelet.conf.d/90-swap.conf", 420),
    ] {
        let file = &config["storage"]["files"][file];
        assert_eq!(
            (&file["path"], &file["mode"], &file["overwrite"]),
            (&json!(path), &json!(mode), &json!(true))
        );
    }
    assert!(text(0).starts_with("#!/usr/bin/env bash\n") && text(0).contains("set -euo pipefail"));
    assert!(text(0).contains("/dev/disk/by-partlabel/CNV_SWAP"));
    assert!(text(1).contains("swapBehavior: LimitedSwap"));
    let units = config["systemd"]["units"].as_array().unwrap();
    let names: Vec<_> = units
        .iter()
        .map(|unit| unit["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "swap-provision.service",
            "cgroup-system-slice-config.service"
        ]
    );
    let provision = units[0]["contents"].as_str().unwrap();
    assert!(provision.contains("RequiredBy=kubelet-dependencies.target"));
    // A first-run marker would keep swap off after the second boot.
    assert!(!provision.contains("/var/tmp") && !text(0).contains("/var/tmp"));
    assert!(
        units[1]["contents"]
            .as_str()
            .unwrap()
            .contains("MemorySwapMax=0")
    );
}

#[test]
fn field_paths_differ_in_v1() {
    let world = ClusterFixture::new("v1").hyper_converged("kubevirt-hyperconverged", &json!({}));
    let item = wanted(&world, &without_swap()).items.remove(0);
    assert_eq!(item.target.api_version, "hco.kubevirt.io/v1");
    assert_eq!(
        item.target.namespace.as_deref(),
        Some("kubevirt-hyperconverged")
    );
    assert_eq!(
        item.desired["spec"],
        json!({ "virtualization": {
            "higherWorkloadDensity": { "memoryOvercommitPercentage": 120 },
            "ksmConfiguration": { "nodeLabelSelector": {} },
        }})
    );
    assert_eq!(
        item.managed,
        [
            "spec.virtualization.higherWorkloadDensity.memoryOvercommitPercentage",
            "spec.virtualization.ksmConfiguration"
        ]
    );
    assert!(item.depends_on.is_empty());
}

#[test]
fn ksm_is_only_managed_when_enabled() {
    let off = wanted(
        &world(),
        &json!({ "ksmConfiguration": { "enabled": false } }),
    );
    let item = &off.items[1];
    assert!(item.desired["spec"].get("ksmConfiguration").is_none());
    assert_eq!(
        item.managed,
        ["spec.higherWorkloadDensity.memoryOvercommitPercentage"]
    );
    assert!(item.message.ends_with("memoryOvercommitPercentage=150"));
    let selector = json!({ "matchLabels": { "ksm": "yes" } });
    let on = wanted(
        &world(),
        &json!({ "ksmConfiguration": { "nodeLabelSelector": selector } }),
    );
    assert_eq!(
        on.items[1].desired["spec"]["ksmConfiguration"]["nodeLabelSelector"],
        selector
    );
}

#[test]
fn without_swap_no_machine_config_is_required() {
    let wanted = wanted(&world(), &without_swap());
    assert_eq!(wanted.items.len(), 1);
    assert!(wanted.warnings.is_empty(), "{:?}", wanted.warnings);
    let options = options_of(&json!({ "virtHigherDensity": without_swap() }));
    let kinds = |options| -> Vec<&str> {
        profile()
            .prerequisites(options)
            .iter()
            .map(|one| one.of.kind)
            .collect()
    };
    assert_eq!(kinds(&options), ["HyperConverged"]);
    assert_eq!(
        kinds(&options_of(&json!({}))),
        ["MachineConfig", "HyperConverged"]
    );
}

#[test]
fn high_overcommit_requires_swap() {
    let options = options_of(&json!({ "virtHigherDensity": { "enableSwap": false } }));
    let refusal = profile()
        .intents(&options, &world().snapshot())
        .unwrap_err();
    let Refusal::Options(why) = refusal else {
        panic!("{refusal:?}")
    };
    assert!(
        why.contains("memoryToRequestRatio > 120 requires enableSwap=true"),
        "{why}"
    );
}

#[test]
fn missing_hyper_converged_is_a_warning() {
    let warnings = wanted(&ClusterFixture::new("v1"), &without_swap()).warnings;
    assert!(
        warnings.iter().any(|text| text.contains("does not exist")),
        "{warnings:?}"
    );
}

const FILES: [&str; 2] = ["/etc/find-swap-partition", "/etc/openshift/kubelet.conf.d"];
const UNITS: [&str; 2] = [
    "swap-provision.service",
    "cgroup-system-slice-config.service",
];

/// A cluster with these node disruption policies for our files and units.
fn disrupted(world: ClusterFixture, file: &[&str], unit: &[&str]) -> ClusterFixture {
    let actions = |types: &[&str]| -> Vec<Value> {
        types
            .iter()
            .map(|action| json!({ "type": action }))
            .collect()
    };
    let files = FILES.map(|path| json!({ "path": path, "actions": actions(file) }));
    let units = UNITS.map(|name| json!({ "name": name, "actions": actions(unit) }));
    world.with(MACHINE_CONFIGURATION, &json!({
        "metadata": { "name": "cluster" },
        "status": { "nodeDisruptionPolicyStatus": { "clusterPolicies": { "files": files, "units": units } } },
    }))
}

#[rstest]
#[case(&["None"], &["None"], Impact::Low)]
#[case(&["None"], &["DaemonReload", "Restart"], Impact::Medium)]
#[case(&["Reload"], &["None"], Impact::Medium)]
#[case(&["Drain", "Restart"], &["None"], Impact::High)]
#[case(&["None"], &["Reboot"], Impact::High)]
#[case(&["Special"], &["None"], Impact::High)]
#[case(&["Teleport"], &["None"], Impact::High)]
#[case(&[], &["None"], Impact::High)]
fn impact_follows_node_disruption_policies(
    #[case] file: &[&str],
    #[case] unit: &[&str],
    #[case] impact: Impact,
) {
    let world = disrupted(world(), file, unit);
    assert_eq!(wanted(&world, &json!({})).items[0].impact, impact);
}

#[test]
fn closest_policy_counts_and_default_is_reboot() {
    let with = |files: Value| {
        world().with(MACHINE_CONFIGURATION, &json!({
            "metadata": { "name": "cluster" },
            "status": { "nodeDisruptionPolicyStatus": { "clusterPolicies": {
                "files": files,
                "units": UNITS.map(|name| json!({ "name": name, "actions": [{ "type": "None" }] })),
            }}},
        }))
    };
    let none = json!([{ "type": "None" }]);
    let all = with(json!([{ "path": "/etc", "actions": none }]));
    assert_eq!(wanted(&all, &json!({})).items[0].impact, Impact::Low);
    let closer = with(json!([
        { "path": "/etc", "actions": none },
        { "path": "/etc/openshift/kubelet.conf.d/", "actions": [{ "type": "Reboot" }] },
    ]));
    assert_eq!(wanted(&closer, &json!({})).items[0].impact, Impact::High);
    let namesake = with(json!([
        { "path": "/etc/find", "actions": none },
        { "path": "/etc/openshift", "actions": none },
    ]));
    assert_eq!(wanted(&namesake, &json!({})).items[0].impact, Impact::High);
}

#[test]
fn only_changes_have_an_impact() {
    let first = wanted(&world(), &json!({}));
    let applied = world().applied(&first);
    let again = wanted(&applied, &json!({}));
    assert_eq!(
        again.items.iter().map(|item| item.impact).max(),
        Some(Impact::Low)
    );
    // One unit was edited; files, whose policy is to reboot, are in the desired state.
    let mut edited = first.items[0].desired.clone();
    edited["spec"]["config"]["systemd"]["units"][0]["enabled"] = json!(false);
    let edited = disrupted(
        applied.with(MACHINE_CONFIG, &edited),
        &["Reboot"],
        &["Restart"],
    );
    assert_eq!(wanted(&edited, &json!({})).items[0].impact, Impact::Medium);
}

#[test]
fn deletion_has_the_impact_of_its_rollback() {
    let config = wanted(&world(), &json!({})).items.remove(0);
    let there = |world: ClusterFixture| world.with(MACHINE_CONFIG, &config.desired).snapshot();
    let cost = |snapshot| impact::of_deletion(&config.target, &snapshot);
    assert_eq!(cost(there(world())), Impact::High);
    assert_eq!(
        cost(world().snapshot()),
        Impact::Low,
        "there is nothing to delete"
    );
    assert_eq!(
        cost(there(ClusterFixture::new("v1"))),
        Impact::Low,
        "no pool takes it"
    );
    let empty = ClusterFixture::new("v1").pool("worker", &["worker"], &[], 0);
    assert_eq!(cost(there(empty)), Impact::Low, "no node takes it");
    let density = wanted(&world(), &without_swap()).items.remove(0);
    assert_eq!(
        impact::of_deletion(&density.target, &world().snapshot()),
        Impact::High
    );
}

#[rstest]
#[case("spec.higherWorkloadDensity.memoryOvercommitPercentage", json!(150), Some(json!(200)), Ok(json!({ "memoryToRequestRatio": 200 })))]
#[case("spec.virtualization.higherWorkloadDensity.memoryOvercommitPercentage", json!(150), Some(json!(110)), Ok(json!({ "memoryToRequestRatio": 110 })))]
#[case("spec.higherWorkloadDensity.memoryOvercommitPercentage", json!(150), Some(json!(50)), Err("100"))]
#[case("spec.higherWorkloadDensity.memoryOvercommitPercentage", json!(150), None, Err("was removed"))]
#[case("spec.ksmConfiguration", json!({ "nodeLabelSelector": {} }), None, Ok(json!({ "ksmConfiguration": { "enabled": false } })))]
#[case("spec.ksmConfiguration", json!({ "nodeLabelSelector": {} }), Some(json!({ "nodeLabelSelector": { "matchLabels": { "a": "b" } } })), Ok(json!({ "ksmConfiguration": { "enabled": true, "nodeLabelSelector": { "matchLabels": { "a": "b" } } } })))]
#[case("spec.virtualization.ksmConfiguration.nodeLabelSelector", json!({ "matchLabels": { "a": "c" } }), Some(json!({ "matchLabels": { "a": "b" } })), Ok(json!({ "ksmConfiguration": { "enabled": true, "nodeLabelSelector": { "matchLabels": { "a": "b" } } } })))]
#[case("spec.config", json!({}), None, Err("requires enableSwap=true"))]
#[case("spec.other", json!(1), Some(json!(2)), Err("no option of profile"))]
fn edits_are_adopted_where_an_option_exists(
    #[case] path: &str,
    #[case] applied: Value,
    #[case] live: Option<Value>,
    #[case] expected: Result<Value, &str>,
) {
    let adopted = profile().adopt(&options_of(&json!({})), &drift(path, applied, live));
    match expected {
        Ok(options) => assert_eq!(
            json!(adopted.unwrap()),
            json!({ "virtHigherDensity": options })
        ),
        Err(why) => {
            let message = adopted.unwrap_err();
            assert!(message.contains(why), "{message}");
        }
    }
}
