use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use rstest::rstest;

use super::{DEMO, Fleet, ModelError, complete, expand};

fn demo() -> Vec<Node> {
    expand(&Fleet::demo().expect("the demo is valid"))
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

#[test]
fn demo_fleet_has_the_documented_nodes() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for node in demo() {
        let role = if label(&node, "node-role.kubernetes.io/control-plane").is_some() {
            "control-plane"
        } else {
            "worker"
        };
        let model = node
            .metadata
            .labels
            .iter()
            .flatten()
            .find_map(|(key, _)| key.strip_prefix("host-model-cpu.node.kubevirt.io/"));
        let what = [
            role,
            label(&node, "kubernetes.io/arch").unwrap_or_default(),
            label(&node, "node.kubernetes.io/windows-build").unwrap_or("linux"),
            model.unwrap_or("-"),
        ]
        .join(" ");
        *kinds.entry(what).or_default() += 1;
    }
    let expected = [
        ("control-plane amd64 linux -", 3),
        ("worker amd64 linux Skylake-Server-IBRS", 2),
        ("worker amd64 linux Icelake-Server-noTSX", 2),
        ("worker amd64 linux EPYC-Rome", 1),
        ("worker amd64 linux EPYC-Milan", 1),
        ("worker amd64 linux EPYC-Genoa", 1),
        ("worker arm64 linux -", 2),
        ("worker s390x linux gen16a-base", 1),
        ("worker amd64 10.0.17763 -", 1),
        ("worker amd64 10.0.20348 -", 1),
    ];
    assert_eq!(kinds, expected.map(|(kind, n)| (kind.to_owned(), n)).into());
}

#[test]
fn generations_share_models_and_each_has_its_own() {
    let models = |prefix: &str| -> BTreeSet<String> {
        let nodes = demo();
        let node = nodes
            .iter()
            .find(|node| {
                node.metadata
                    .name
                    .as_deref()
                    .is_some_and(|n| n.starts_with(prefix))
            })
            .expect("a node of the pool");
        let labels = node.metadata.labels.clone().unwrap_or_default();
        labels
            .keys()
            .filter_map(|key| key.strip_prefix("cpu-model.node.kubevirt.io/"))
            .map(str::to_owned)
            .collect()
    };
    let (old, new) = (models("skylake"), models("icelake"));
    assert!(old.intersection(&new).count() > 5);
    assert!(new.contains("Icelake-Server-noTSX") && !old.contains("Icelake-Server-noTSX"));
    assert!(old.contains("Skylake-Server-IBRS") && !new.contains("Skylake-Server-IBRS"));
}

#[test]
fn reserved_resources_are_not_allocatable() {
    let nodes = demo();
    let status = nodes[0].status.clone().expect("a status");
    let has =
        |list: &Option<BTreeMap<_, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
         name: &str| {
            list.as_ref()
                .and_then(|list| list.get(name))
                .map(|quantity| quantity.0.clone())
        };
    assert_eq!(has(&status.capacity, "cpu").as_deref(), Some("4"));
    assert_eq!(has(&status.allocatable, "cpu").as_deref(), Some("3500m"));
    assert_eq!(has(&status.allocatable, "memory").as_deref(), Some("15Gi"));
    assert_eq!(has(&status.allocatable, "pods").as_deref(), Some("110"));
}

#[test]
fn windows_nodes_report_their_build() {
    let nodes = demo();
    let info = |name: &str| {
        let node = nodes
            .iter()
            .find(|node| node.metadata.name.as_deref() == Some(name));
        node.and_then(|node| node.status.clone()?.node_info)
            .expect("node info")
    };
    let old = info("win2019-1");
    assert_eq!(old.operating_system, "windows");
    assert_eq!(old.os_image, "Windows Server 2019 Datacenter");
    assert!(old.kernel_version.starts_with("10.0.17763."));
    assert_eq!(info("ibmz-1").architecture, "s390x");
}

#[test]
fn nodes_report_runtime_handlers() {
    let handlers = |nodes: &[Node], name: &str| -> Vec<String> {
        let mut nodes = nodes.iter();
        let node = nodes.find(|node| node.metadata.name.as_deref() == Some(name));
        let status = node.and_then(|node| node.status.clone());
        let all = status.and_then(|status| status.runtime_handlers);
        let all = all.unwrap_or_default().into_iter();
        all.filter_map(|handler| handler.name).collect()
    };
    let nodes = demo();
    assert_eq!(handlers(&nodes, "arm-1"), ["", "runc"]);
    assert_eq!(
        handlers(&nodes, "win2022-1"),
        [
            "",
            "runhcs-wcow-process",
            "runhcs-wcow-hypervisor-17763",
            "runhcs-wcow-hypervisor-20348"
        ]
    );
    let yaml = "pools: [{name: a, arch: amd64, runtimeHandlers: [runc, kata]}]";
    let nodes = expand(&Fleet::parse(yaml).expect("a fleet"));
    assert_eq!(handlers(&nodes, "a-1"), ["", "runc", "kata"]);
    // A node from another cluster that reports no handlers may support any.
    let mut copied = nodes[0].clone();
    copied.status.get_or_insert_default().runtime_handlers = None;
    complete(&mut copied);
    assert_eq!(handlers(&[copied], "a-1"), [""; 0]);
}

#[rstest]
#[case("pools: [{name: a, arch: x86}]", &["pools[0].arch", "\"x86\"", "\"amd64\""])]
#[case("pools: [{name: a, arch: amd64, os: plan9}]", &["pools[0].os", "\"plan9\"", "\"linux\", \"windows\""])]
#[case("pools: [{name: a, arch: amd64, os: windows}]", &["pools[0].windowsBuild", "10.0.20348"])]
#[case("pools: [{name: a, arch: amd64, windowsBuild: 10.0.1}]", &["pools[0].windowsBuild", "only when `os` is windows"])]
#[case("pools: [{name: a, arch: amd64, os: windows, windowsBuild: ltsc2022}]", &["pools[0].windowsBuild", "\"ltsc2022\"", "major.minor.build"])]
#[case("pools: [{name: a, arch: amd64, runtimeHandlers: [Kata_1]}]", &["pools[0].runtimeHandlers[0]", "\"Kata_1\""])]
#[case("pools: [{name: A_b, arch: amd64}]", &["pools[0].name", "\"A_b\""])]
#[case("pools: [{name: a, arch: amd64}, {name: a, arch: arm64}]", &["pools[1].name", "Duplicate value: \"a\""])]
#[case("pools: [{name: a, arch: amd64}, {name: b, prefix: a, arch: arm64}]", &["pools[1].prefix", "Duplicate value: \"a\""])]
#[case("pools: [{name: a, arch: amd64, capacity: {cpu: many}}]", &["pools[0].capacity[cpu]", "\"many\"", "16Gi"])]
#[case("pools: [{name: a, arch: amd64, capacity: {memory: -1}}]", &["pools[0].capacity[memory]", "must not be negative"])]
#[case("pools: [{name: a, arch: amd64, capacity: {pods: 9000}}]", &["pools[0].capacity[pods]", "must be at most"])]
#[case("pools: [{name: a, arch: amd64, taints: [{key: k, effect: Never}]}]", &["pools[0].taints[0].effect", "\"Never\"", "NoSchedule"])]
#[case("pools: [{name: a, arch: arm64, cpu: {vendor: Cavium, model: ThunderX2 99xx}}]", &["pools[0].cpu.model", "ThunderX2 99xx"])]
#[case("pools: [{name: a, arch: amd64, count: 40000}]", &["pools", "40000", "nodes in all"])]
#[case("pools: [{name: a, arch: amd64, cpu: {generation: pentium9}}]", &["pools[0].cpu.generation", "\"pentium9\"", "\"skylake\""])]
#[case("pools: [{name: a, arch: arm64, cpu: {generation: skylake}}]", &["pools[0].cpu.generation", "generation of amd64", "arm64"])]
#[case("pools: [{name: a, arch: amd64, cpu: {generation: skylake, vendor: Intel}}]", &["pools[0].cpu.generation", "no other field"])]
#[case("pools: [{name: a, arch: amd64, cpu: {vendor: Intel}}]", &["pools[0].cpu.model", "unless `generation` is set"])]
#[case("virtualMachines: [{name: A}]", &["virtualMachines[0].name", "\"A\""])]
#[case("virtualMachines: [{name: a}, {name: a}]", &["virtualMachines[1].name", "Duplicate value: \"a\""])]
#[case("virtualMachines: [{name: a, arch: ppc64le}]", &["virtualMachines[0].arch", "\"ppc64le\"", "\"s390x\""])]
#[case("virtualMachines: [{name: a, runStrategy: Never}]", &["virtualMachines[0].runStrategy", "\"Never\"", "\"Halted\""])]
#[case("virtualMachines: [{name: a, evictionStrategy: Maybe}]", &["virtualMachines[0].evictionStrategy", "\"LiveMigrate\""])]
#[case("virtualMachines: [{name: a, cpuModel: two words}]", &["virtualMachines[0].cpuModel", "\"two words\""])]
#[case("virtualMachines: [{name: a, memory: much}]", &["virtualMachines[0][memory]", "\"much\""])]
fn invalid_fields_are_reported(#[case] text: &str, #[case] parts: &[&str]) {
    let error = Fleet::parse(text).expect_err("not valid");
    assert!(matches!(error, ModelError::Invalid(_)), "{error}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{text:?} does not contain {part:?}");
    }
}

#[rstest]
#[case("pools: [{name: a, arch: amd64, colour: red}]", "colour")]
#[case("pols: []", "pols")]
#[case("pools: [{arch: amd64}]", "name")]
#[case("pools: [{name: a, arch: amd64, count: -1}]", "count")]
fn syntax_errors_are_reported(#[case] text: &str, #[case] part: &str) {
    let error = Fleet::parse(text).expect_err("no fleet");
    assert!(matches!(error, ModelError::Syntax(_)), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn fleet_survives_serialization() {
    let fleet = Fleet::parse(DEMO).expect("the demo is valid");
    let written = serde_json::to_string(&fleet).expect("a fleet is JSON");
    // JSON is YAML.
    assert_eq!(Fleet::parse(&written).expect("still valid"), fleet);
}

#[test]
fn virtual_machines_match_the_kubevirt_schema() {
    let text = "virtualMachines: [{name: a, count: 2, cpuModel: EPYC, cores: 2, nodeSelector: {disk: fast}}, {name: b, namespace: c}]";
    let fleet = Fleet::parse(text).expect("valid");
    let all: Vec<serde_json::Value> = fleet
        .virtual_machines
        .iter()
        .flat_map(super::Machine::objects)
        .collect();
    let names: Vec<&str> = all
        .iter()
        .filter_map(|it| it["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["a-1", "a-2", "b"]);
    let spec = &all[0]["spec"]["template"]["spec"];
    assert_eq!(
        spec["domain"]["cpu"],
        serde_json::json!({ "cores": 2, "model": "EPYC" })
    );
    assert_eq!(spec["nodeSelector"]["disk"], "fast");
    assert_eq!(all[2]["metadata"]["namespace"], "c");
    assert_eq!(
        all[2]["spec"]["template"]["spec"]["domain"]["cpu"].get("model"),
        None
    );
}

#[test]
fn fleet_of_size_has_that_many_nodes() {
    for size in [1, 2, 3, 100, 5000] {
        let fleet = Fleet::of_size(size).checked().expect("valid");
        let nodes = expand(&fleet);
        let names: BTreeSet<_> = nodes.iter().map(|node| &node.metadata.name).collect();
        assert_eq!(names.len(), usize::try_from(size).expect("small"));
    }
}
