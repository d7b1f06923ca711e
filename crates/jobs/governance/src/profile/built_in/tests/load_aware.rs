//! The changes that `load-aware-rebalancing` requests, for all versions of the descheduler CRD.

use std::sync::Arc;

use api::advisor::Impact;
use rstest::rstest;
use serde_json::{Value, json};

use super::data;
use crate::intent::{Intent, Intents};
use crate::profile::fixture::{ClusterFixture, drift, options_of, without_impact_and_message};
use crate::profile::kinds::{KUBE_DESCHEDULER, MACHINE_CONFIG};
use crate::profile::{Profile, Refusal};

fn profile() -> Arc<dyn Profile> {
    data("load-aware-rebalancing")
}

const KUBE: &str = "KubeVirtRelieveAndMigrate";
const DEV: &str = "DevKubeVirtRelieveAndMigrate";

fn world() -> ClusterFixture {
    ClusterFixture::new("v1beta1").pool("worker", &["worker"], &[], 3)
}

fn wanted(world: &ClusterFixture, options: &Value) -> Intents {
    world.wanted(&*profile(), &json!({ "loadAware": options }))
}

fn spec(wanted: &Intents) -> &Value {
    &wanted.items.last().unwrap().desired["spec"]
}

fn without_psi() -> Value {
    json!({ "enablePSIMetrics": false })
}

/// `spec` of the CRD of some version.
fn vintage(profiles: &[&str], limits: &[&str], tainter: Option<&str>) -> Value {
    let number = json!({ "type": "integer" });
    let limits: serde_json::Map<_, _> = limits
        .iter()
        .map(|name| ((*name).to_owned(), number.clone()))
        .collect();
    let mut customizations = json!({
        "devEnableEvictionsInBackground": { "type": "boolean" },
        "devDeviationThresholds": { "type": "string", "enum": ["Low", "Medium", "High", "AsymmetricLow"] },
    });
    if let Some(description) = tainter {
        customizations["devEnableSoftTainter"] =
            json!({ "type": "boolean", "description": description });
    }
    json!({ "type": "object", "properties": {
        "managementState": { "type": "string" },
        "deschedulingIntervalSeconds": number,
        "mode": { "type": "string" },
        "profiles": { "type": "array", "items": { "type": "string", "enum": profiles } },
        "profileCustomizations": { "type": "object", "properties": customizations },
        "evictionLimits": { "type": "object", "properties": limits },
    }})
}

#[test]
fn items_match_the_prototype() {
    let wanted = world().wanted(&*profile(), &json!({}));
    let [psi, descheduler] = &wanted.items[..] else {
        panic!("two items: {wanted:?}")
    };
    assert_eq!(
        *psi,
        Intent {
            name: "enable-psi-metrics",
            target: serde_json::from_value(json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "name": "99-worker-psi-karg",
            }))
            .unwrap(),
            desired: json!({
                "apiVersion": "machineconfiguration.openshift.io/v1",
                "kind": "MachineConfig",
                "metadata": {
                    "name": "99-worker-psi-karg",
                    "labels": { "machineconfiguration.openshift.io/role": "worker" },
                },
                "spec": { "kernelArguments": ["psi=1"] },
            }),
            managed: vec!["spec.kernelArguments".into()],
            impact: Impact::High,
            message: "MachineConfig '99-worker-psi-karg' will be configured to enable PSI metrics".into(),
            depends_on: vec![],
        }
    );
    assert_eq!(
        *descheduler,
        Intent {
            name: "enable-load-aware-descheduling",
            target: serde_json::from_value(json!({
                "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
                "name": "cluster", "namespace": "openshift-kube-descheduler-operator",
            }))
            .unwrap(),
            desired: json!({
                "apiVersion": "operator.openshift.io/v1",
                "kind": "KubeDescheduler",
                "metadata": { "name": "cluster", "namespace": "openshift-kube-descheduler-operator" },
                "spec": {
                    "managementState": "Managed",
                    "deschedulingIntervalSeconds": 60,
                    "mode": "Automatic",
                    "profiles": [KUBE],
                    "profileCustomizations": {
                        "devEnableEvictionsInBackground": true,
                        "devEnableSoftTainter": true,
                        "devDeviationThresholds": "AsymmetricLow",
                    },
                    "evictionLimits": { "total": 5, "node": 2 },
                },
            }),
            managed: [
                "spec.managementState",
                "spec.deschedulingIntervalSeconds",
                "spec.mode",
                "spec.profiles",
                "spec.profileCustomizations",
                "spec.evictionLimits",
            ]
            .map(Into::into)
            .into(),
            impact: Impact::Medium,
            message: format!("KubeDescheduler 'cluster' will be configured with profile '{KUBE}'"),
            depends_on: vec!["enable-psi-metrics"],
        }
    );
}

/// B6: the mode as well.
#[test]
fn every_option_is_honoured() {
    let options = json!({
        "deschedulingIntervalSeconds": 120, "mode": "Predictive", "enablePSIMetrics": false,
        "devDeviationThresholds": "High", "evictionLimitTotal": 8, "evictionLimitNode": 3,
    });
    let wanted = wanted(&world(), &options);
    assert_eq!(wanted.items.len(), 1);
    assert!(wanted.items[0].depends_on.is_empty());
    assert!(
        wanted.inputs.is_empty(),
        "nothing is derived: {:?}",
        wanted.inputs
    );
    let spec = spec(&wanted);
    assert_eq!(spec["deschedulingIntervalSeconds"], 120);
    assert_eq!(spec["mode"], "Predictive");
    assert_eq!(
        spec["profileCustomizations"]["devDeviationThresholds"],
        "High"
    );
    assert_eq!(spec["evictionLimits"], json!({ "total": 8, "node": 3 }));
}

#[rstest]
#[case(json!({ "deschedulingIntervalSeconds": 59 }))]
#[case(json!({ "evictionLimitTotal": 1001 }))]
#[case(json!({ "evictionLimitNode": 0 }))]
fn out_of_range_options_are_rejected(#[case] options: Value) {
    let options = options_of(&json!({ "loadAware": options }));
    let refusal = profile().intents(&options, &world().snapshot());
    assert!(matches!(refusal, Err(Refusal::Options(_))), "{refusal:?}");
}

#[rstest]
#[case::v5_10(&["AffinityAndTaints", "LongLifecycle"], &["total"], Some("taints"), json!({ "profiles": ["LongLifecycle"] }), 0)]
#[case::v5_14(&["LongLifecycle", DEV], &["total"], Some("taints"), json!({
    "profiles": [DEV],
    "profileCustomizations": {
        "devEnableEvictionsInBackground": true, "devEnableSoftTainter": true, "devDeviationThresholds": "AsymmetricLow",
    },
    "evictionLimits": { "total": 5 },
}), 1)]
#[case::v5_32(&["LongLifecycle", DEV, KUBE], &["total", "node"], Some("taints"), json!({
    "profiles": [KUBE],
    "profileCustomizations": {
        "devEnableEvictionsInBackground": true, "devEnableSoftTainter": true, "devDeviationThresholds": "AsymmetricLow",
    },
    "evictionLimits": { "total": 5, "node": 2 },
}), 2)]
#[case::tainter_deprecated(&["LongLifecycle", KUBE], &["total", "node"], Some("Deprecated: ignored"), json!({
    "profiles": [KUBE],
    "profileCustomizations": { "devEnableEvictionsInBackground": true, "devDeviationThresholds": "AsymmetricLow" },
    "evictionLimits": { "total": 5, "node": 2 },
}), 2)]
#[case::tainter_gone(&[KUBE], &[], None, json!({
    "profiles": [KUBE],
    "profileCustomizations": { "devEnableEvictionsInBackground": true, "devDeviationThresholds": "AsymmetricLow" },
}), 0)]
fn only_fields_of_the_installed_crd_are_sent(
    #[case] profiles: &[&str],
    #[case] limits: &[&str],
    #[case] tainter: Option<&str>,
    #[case] expected: Value,
    #[case] inputs: usize,
) {
    let world = world().descheduler_schema(&vintage(profiles, limits, tainter));
    let wanted = wanted(&world, &json!({}));
    let mut spec = spec(&wanted).clone();
    for common in ["managementState", "deschedulingIntervalSeconds", "mode"] {
        assert!(spec.as_object_mut().unwrap().remove(common).is_some());
    }
    assert_eq!(spec, expected);
    let managed = &wanted.items[1].managed[3..];
    let fields: Vec<String> = ["profiles", "profileCustomizations", "evictionLimits"]
        .iter()
        .filter(|name| expected.get(**name).is_some())
        .map(|name| format!("spec.{name}"))
        .collect();
    assert_eq!(managed, fields);
    // An input without effect would make plans stale for no reason.
    assert_eq!(wanted.inputs.len(), inputs);
    let profile = expected["profiles"][0].as_str().unwrap();
    assert_eq!(
        wanted.items[1].message,
        format!("KubeDescheduler 'cluster' will be configured with profile '{profile}'")
    );
}

#[rstest]
#[case::open(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }))]
#[case::without_our_profiles(vintage(&["AffinityAndTaints"], &["total", "node"], Some("taints")))]
fn open_schema_counts_as_the_newest(#[case] schema: Value) {
    let wanted = wanted(&world().descheduler_schema(&schema), &json!({}));
    assert_eq!(spec(&wanted)["profiles"], json!([KUBE]));
    assert_eq!(
        spec(&wanted)["evictionLimits"],
        json!({ "total": 5, "node": 2 })
    );
}

#[test]
fn unsupported_threshold_is_omitted_with_a_warning() {
    let world = world().descheduler_schema(&vintage(&[KUBE], &["total"], None));
    let wanted = wanted(
        &world,
        &json!({ "devDeviationThresholds": "AsymmetricHigh" }),
    );
    assert_eq!(
        spec(&wanted)["profileCustomizations"],
        json!({ "devEnableEvictionsInBackground": true })
    );
    let warned = wanted
        .warnings
        .iter()
        .any(|text| text.contains("'AsymmetricHigh', only Low, Medium"));
    assert!(warned, "{:?}", wanted.warnings);
}

#[rstest]
#[case(json!(["LifecycleAndUtilization"]), json!([KUBE]))]
#[case(json!(["SoftTopologyAndDuplicates", "LongLifecycle", "AffinityAndTaints"]), json!(["SoftTopologyAndDuplicates", "AffinityAndTaints", KUBE]))]
#[case(json!([KUBE, "AffinityAndTaints"]), json!(["AffinityAndTaints", KUBE]))]
fn compatible_descheduler_profiles_are_kept(#[case] live: Value, #[case] expected: Value) {
    let world = world().with(
        KUBE_DESCHEDULER,
        &json!({
            "metadata": { "name": "cluster", "namespace": "openshift-kube-descheduler-operator" },
            "spec": { "profiles": live },
        }),
    );
    let first = wanted(&world, &json!({}));
    assert_eq!(spec(&first)["profiles"], expected);
    assert_eq!(first.items[1].impact, Impact::Low, "it exists");
    let second = wanted(&world.applied(&first), &json!({}));
    assert_eq!(
        without_impact_and_message(&first),
        without_impact_and_message(&second)
    );
}

#[rstest]
#[case(9, 9)]
#[case(10, 10)]
#[case(11, 10)]
#[case(12, 11)]
#[case(15, 14)]
#[case(20, 18)]
#[case(25, 22)]
#[case(0, 5)]
#[case(-3, 5)]
#[case(i64::MAX, 1_717_986_919)]
fn limits_are_derived_from_the_hyper_converged(#[case] raw: i64, #[case] derived: i64) {
    let config = json!({ "liveMigrationConfig": { "parallelMigrationsPerCluster": raw } });
    let versions = [
        ("v1beta1", config.clone(), "spec.liveMigrationConfig"),
        (
            "v1",
            json!({ "virtualization": config }),
            "spec.virtualization.liveMigrationConfig",
        ),
    ];
    for (version, spec_of, path) in versions {
        let world = ClusterFixture::new(version).hyper_converged("openshift-cnv", &spec_of);
        let wanted = wanted(&world, &json!({}));
        assert_eq!(
            spec(&wanted)["evictionLimits"],
            json!({ "total": derived, "node": 2 })
        );
        assert_eq!(
            json!(wanted.inputs),
            json!([
                {
                    "name": "evictionLimits.total",
                    "object": {
                        "apiVersion": format!("hco.kubevirt.io/{version}"), "kind": "HyperConverged",
                        "name": "kubevirt-hyperconverged", "namespace": "openshift-cnv",
                    },
                    "path": format!("{path}.parallelMigrationsPerCluster"),
                    "raw": raw,
                    "derived": derived,
                },
                {
                    "name": "evictionLimits.node",
                    "object": {
                        "apiVersion": format!("hco.kubevirt.io/{version}"), "kind": "HyperConverged",
                        "name": "kubevirt-hyperconverged", "namespace": "openshift-cnv",
                    },
                    "path": format!("{path}.parallelOutboundMigrationsPerNode"),
                    "derived": 2,
                },
            ])
        );
    }
}

#[test]
fn explicit_limit_is_not_scaled() {
    let config = json!({ "liveMigrationConfig": {
        "parallelMigrationsPerCluster": 40, "parallelOutboundMigrationsPerNode": 12,
    }});
    let world = world().hyper_converged("kubevirt-hyperconverged", &config);
    let wanted = wanted(&world, &json!({ "evictionLimitTotal": 8 }));
    assert_eq!(
        spec(&wanted)["evictionLimits"],
        json!({ "total": 8, "node": 11 })
    );
    let inputs: Vec<_> = wanted
        .inputs
        .iter()
        .map(|input| input.name.as_str())
        .collect();
    assert_eq!(inputs, ["evictionLimits.node"]);
    // The community version uses another namespace.
    assert_eq!(
        wanted.inputs[0].object.namespace.as_deref(),
        Some("kubevirt-hyperconverged")
    );
}

#[rstest]
#[case::last_wins(&["psi=0", "psi=1"], Impact::Low)]
#[case::last_loses(&["psi=1", "psi=0"], Impact::High)]
#[case::one_entry(&["nosmt psi=1 quiet"], Impact::Low)]
#[case::another_key(&["xpsi=1"], Impact::High)]
#[case::none(&[], Impact::High)]
fn impact_depends_on_the_kernel_arguments_of_the_pool(
    #[case] arguments: &[&str],
    #[case] impact: Impact,
) {
    let world = ClusterFixture::new("v1").pool("worker", &["worker"], arguments, 3);
    let wanted = wanted(&world, &json!({}));
    assert_eq!(wanted.items[0].impact, impact);
    let effective = "PSI metrics already effective in MachineConfigPool 'worker'";
    assert_eq!(wanted.items[0].message == effective, impact == Impact::Low);
}

#[test]
fn without_a_pool_nothing_is_effective() {
    let wanted = wanted(&ClusterFixture::new("v1"), &json!({}));
    assert_eq!(wanted.items[0].impact, Impact::High);
    let warned = wanted
        .warnings
        .iter()
        .any(|text| text.contains("no MachineConfigPool"));
    assert!(warned, "{:?}", wanted.warnings);
}

#[test]
fn custom_pools_count_and_empty_ones_do_not() {
    let both = ["worker", "gpu"];
    let on = ClusterFixture::new("v1").pool("worker", &["worker"], &["psi=1"], 3);
    let partly = on.clone().pool("gpu", &both, &[], 1);
    assert_eq!(wanted(&partly, &json!({})).items[0].impact, Impact::High);
    let everywhere = on.clone().pool("gpu", &both, &["psi=1"], 1);
    let item = wanted(&everywhere, &json!({})).items.remove(0);
    assert_eq!(item.impact, Impact::Low);
    assert_eq!(
        item.message,
        "PSI metrics already effective in MachineConfigPools 'gpu', 'worker'"
    );
    let emptied = on
        .pool("gpu", &both, &[], 0)
        .pool("master", &["master"], &[], 3);
    assert_eq!(wanted(&emptied, &json!({})).items[0].impact, Impact::Low);
}

#[test]
fn compact_cluster_gets_a_warning() {
    let compact = ClusterFixture::new("v1")
        .pool("worker", &["worker"], &[], 0)
        .pool("master", &["master"], &[], 3);
    let wanted = wanted(&compact, &json!({}));
    assert_eq!(wanted.items[0].impact, Impact::Low);
    let warned = wanted.warnings.iter().any(|text| {
        // The problem, and the remedy.
        text.contains("taken by no node")
            && text.contains("copy of it yourself under another name with the label machineconfiguration.openshift.io/role=master")
    });
    assert!(warned, "{:?}", wanted.warnings);
}

#[test]
fn lost_kernel_arguments_imply_a_reboot() {
    let ours = |arguments: Value| {
        ClusterFixture::new("v1").pool("worker", &["worker"], &["psi=1"], 3).with(MACHINE_CONFIG, &json!({
            "metadata": { "name": "99-worker-psi-karg", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
            "spec": { "kernelArguments": arguments },
        }))
    };
    assert_eq!(
        wanted(&ours(json!(["psi=1", "nosmt"])), &json!({})).items[0].impact,
        Impact::High
    );
    let applied = wanted(&ours(json!(["psi=1"])), &json!({}));
    assert_eq!(applied.items[0].impact, Impact::Low);
    assert!(applied.warnings.is_empty(), "{:?}", applied.warnings);
}

#[rstest]
#[case::of_the_pool("10-gpu", "gpu", "psi=0", Some("'gpu'"))]
#[case::later_by_name("99-worker-zz", "worker", "psi=0", Some("'worker'"))]
#[case::earlier_by_name("50-worker", "worker", "psi=0", None)]
#[case::of_another_pool("99-zz", "infra", "psi=0", None)]
#[case::to_the_same_end("10-gpu", "gpu", "psi=1", None)]
fn machine_config_that_overrides_psi_is_reported(
    #[case] name: &str,
    #[case] role: &str,
    #[case] argument: &str,
    #[case] off_in: Option<&str>,
) {
    let world = world().pool("gpu", &["worker", "gpu"], &[], 1).with(
        MACHINE_CONFIG,
        &json!({
            "metadata": { "name": name, "labels": { "machineconfiguration.openshift.io/role": role } },
            "spec": { "kernelArguments": [argument] },
        }),
    );
    let warnings = wanted(&world, &json!({})).warnings;
    let mut warned = warnings
        .iter()
        .filter(|text| text.contains("turns PSI metrics off"));
    match off_in {
        Some(pool) => assert!(
            warned.any(|text| text.contains(name) && text.contains(pool)),
            "{warnings:?}"
        ),
        None => assert_eq!(warned.next(), None),
    }
}

#[test]
fn missing_psi_is_a_warning() {
    let warned = |world: &ClusterFixture, options: &Value| {
        let warnings = wanted(world, options).warnings;
        warnings
            .iter()
            .any(|text| text.contains("enablePSIMetrics is false"))
    };
    let on = ClusterFixture::new("v1").pool("worker", &["worker"], &["psi=1"], 3);
    assert!(warned(&world(), &without_psi()));
    assert!(!warned(&on, &without_psi()));
    assert!(!warned(&world(), &json!({})));
    let old = world().descheduler_schema(&vintage(&["LongLifecycle"], &[], None));
    assert!(!warned(&old, &without_psi()));
}

#[test]
fn conflicting_thresholds_are_a_warning() {
    let world = world().with(KUBE_DESCHEDULER, &json!({
        "metadata": { "name": "cluster", "namespace": "openshift-kube-descheduler-operator" },
        "spec": { "profiles": [], "profileCustomizations": { "devLowNodeUtilizationThresholds": "Low" } },
    }));
    let warnings = wanted(&world, &json!({})).warnings;
    assert!(
        warnings
            .iter()
            .any(|text| text.contains("devLowNodeUtilizationThresholds")),
        "{warnings:?}"
    );
}

#[test]
fn machine_config_crd_is_only_required_for_psi() {
    let kinds = |options: &Value| -> Vec<&str> {
        let all = profile().prerequisites(&options_of(options));
        all.iter().map(|one| one.of.kind).collect()
    };
    assert_eq!(
        kinds(&json!({})),
        ["KubeDescheduler", "MachineConfig", "HyperConverged"]
    );
    assert_eq!(
        kinds(&json!({ "loadAware": without_psi() })),
        ["KubeDescheduler", "HyperConverged"]
    );
}

#[rstest]
#[case("spec.mode", json!("Automatic"), Some(json!("Predictive")), Ok(json!({ "mode": "Predictive" })))]
#[case("spec.deschedulingIntervalSeconds", json!(60), Some(json!(300)), Ok(json!({ "deschedulingIntervalSeconds": 300 })))]
#[case("spec.deschedulingIntervalSeconds", json!(60), Some(json!(30)), Err("60"))]
#[case("spec.evictionLimits.total", json!(5), Some(json!(7)), Ok(json!({ "evictionLimitTotal": 7 })))]
#[case("spec.evictionLimits", json!({ "total": 5, "node": 2 }), Some(json!({ "total": 5, "node": 4 })), Ok(json!({ "evictionLimitNode": 4 })))]
#[case("spec.evictionLimits", json!({ "total": 5, "node": 2 }), None, Err("no option of profile"))]
#[case("spec.profileCustomizations.devDeviationThresholds", json!("Low"), Some(json!("High")), Ok(json!({ "devDeviationThresholds": "High" })))]
#[case("spec.profileCustomizations", json!({ "devEnableEvictionsInBackground": true }), Some(json!({ "devEnableEvictionsInBackground": false })), Err("devEnableEvictionsInBackground"))]
#[case("spec.profileCustomizations.devDeviationThresholds", json!("Low"), None, Err("was removed"))]
#[case("spec.managementState", json!("Managed"), Some(json!("Unmanaged")), Err("no option of profile"))]
#[case("spec.mode", json!("Automatic"), Some(json!("Automatic")), Err("what was applied"))]
#[case("spec.kernelArguments", json!(["psi=1"]), None, Ok(json!({ "enablePSIMetrics": false })))]
#[case("spec.kernelArguments", json!(["psi=1"]), Some(json!(["psi=0"])), Err("no option of profile"))]
fn edits_are_adopted_where_an_option_exists(
    #[case] path: &str,
    #[case] applied: Value,
    #[case] live: Option<Value>,
    #[case] expected: Result<Value, &str>,
) {
    let adopted = profile().adopt(&options_of(&json!({})), &drift(path, applied, live));
    match expected {
        Ok(options) => assert_eq!(json!(adopted.unwrap()), json!({ "loadAware": options })),
        Err(why) => {
            let message = adopted.unwrap_err();
            assert!(
                message.contains(why) && message.contains("item 'item'"),
                "{message}"
            );
        }
    }
}
