use rstest::rstest;
use serde_json::json;

use super::*;

/// A node as `role architecture`; roles are separated by `+`.
fn node(index: usize, text: &str) -> Value {
    let (roles, architecture) = text.split_once(' ').unwrap();
    let labels: serde_json::Map<String, Value> = roles
        .split('+')
        .filter(|role| !role.is_empty())
        .map(|role| match role.split_once('=') {
            Some((name, value)) => (name.to_owned(), json!(value)),
            None => (format!("node-role.kubernetes.io/{role}"), json!("")),
        })
        .collect();
    json!({
        "metadata": { "name": format!("n{index}"), "labels": labels },
        "status": { "nodeInfo": { "architecture": architecture } },
    })
}

fn nodes(texts: &[&str]) -> Vec<Value> {
    let texts = texts.iter().enumerate();
    texts.map(|(index, text)| node(index, text)).collect()
}

fn read(nodes: Vec<Value>) -> Vec<Arc<Node>> {
    let nodes = nodes.into_iter();
    nodes
        .map(|it| Arc::new(serde_json::from_value(it).unwrap()))
        .collect()
}

fn architectures_of(texts: &[&str], placement: Option<&Value>) -> Architectures {
    decide(&ArchitectureInputs {
        nodes: &read(nodes(texts)),
        placement,
        wanted: Override::default(),
    })
}

fn counts(pairs: &[(&str, usize)]) -> Counts {
    let pairs = pairs.iter();
    pairs
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

/// The table of upstream's tests and of the proposal: the control plane, else the majority, else
/// the alphabet.
#[rstest]
#[case(&["worker s390x", "worker arm64", "worker amd64"], Some("amd64"), Why::First)]
#[case(&["control-plane amd64", "worker amd64", "worker arm64", "worker arm64"], Some("amd64"), Why::ControlPlane)]
#[case(&["control-plane s390x", "worker amd64", "worker arm64", "worker arm64"], Some("arm64"), Why::MostNodes)]
#[case(&["control-plane amd64"], None, Why::NoCandidate)]
#[case(&["control-plane s390x", "worker arm64"], Some("arm64"), Why::OnlyOne)]
#[case(&["control-plane arm64", "control-plane amd64", "worker arm64", "worker amd64"], Some("amd64"), Why::ControlPlane)]
#[case(&[], None, Why::NoCandidate)]
fn default_architecture_follows_precedence(
    #[case] texts: &[&str],
    #[case] expected: Option<&str>,
    #[case] why: Why,
) {
    let found = architectures_of(texts, None);
    assert_eq!(found.default.architecture.as_deref(), expected);
    assert_eq!(found.default.why, why);
}

#[rstest]
#[case::workers_by_label(json!({}), &[("amd64", 1), ("arm64", 2)])]
#[case::tolerations_say_nothing(json!({ "tolerations": [{ "operator": "Exists" }] }), &[("amd64", 1), ("arm64", 2)])]
#[case::an_empty_selector_says_nothing(json!({ "nodeSelector": {} }), &[("amd64", 1), ("arm64", 2)])]
#[case::a_selector(json!({ "nodeSelector": { "disk": "fast" } }), &[("amd64", 1), ("s390x", 1)])]
#[case::preferences_say_nothing(
    json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } } }),
    &[("amd64", 1), ("arm64", 2)]
)]
#[case::no_terms_match_nothing(
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } } } }),
    &[]
)]
#[case::both_have_to_hold(
    json!({
        "nodeSelector": { "disk": "fast" },
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n4"] }] },
            { "matchExpressions": [{ "key": "absent", "operator": "Exists" }] },
        ] } } },
    }),
    &[("s390x", 1)]
)]
fn placement_selects_workload_nodes(#[case] placement: Value, #[case] expected: &[(&str, usize)]) {
    let texts = [
        "control-plane amd64",
        "worker+disk=fast amd64",
        "worker arm64",
        "worker arm64",
        "control-plane+disk=fast s390x",
    ];
    let found = architectures_of(&texts, Some(&placement));
    assert_eq!(found.workload, counts(expected));
    assert_eq!(
        found.control_plane,
        counts(&[("amd64", 1), ("s390x", 1)]),
        "the placement of workloads is irrelevant"
    );
}

#[test]
fn invalid_placement_is_reported() {
    let placement = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "Near" }] }],
    } } } });
    let found = architectures_of(&["worker amd64"], Some(&placement));
    assert_eq!(found.workload, Counts::new());
    assert!(found.placement_error.unwrap().contains("Near"));
}

#[test]
fn unsupported_architectures_are_ignored() {
    let found = architectures_of(
        &[
            "worker amd64",
            "worker riscv64",
            "control-plane ppc64le",
            "worker ",
        ],
        None,
    );
    assert_eq!(found.workload, counts(&[("amd64", 1)]));
    assert_eq!(found.ignored, counts(&[("riscv64", 1)]));
    assert_eq!(found.control_plane, Counts::new());
    assert_eq!((found.nodes, found.workers), (4, 2));
}

#[test]
fn windows_node_is_not_a_workload_node() {
    let mut all = nodes(&["worker amd64", "worker arm64"]);
    all[0]["status"]["nodeInfo"]["operatingSystem"] = json!("windows");
    all[1]["status"]["nodeInfo"]["operatingSystem"] = json!("linux");
    let found = decide(&ArchitectureInputs {
        nodes: &read(all),
        placement: None,
        wanted: Override::default(),
    });
    assert_eq!(found.workload, counts(&[("arm64", 1)]));
}

#[test]
fn node_without_node_info_counts_by_its_labels() {
    let mut all = nodes(&[
        "worker+kubernetes.io/arch=arm64 ",
        "worker+kubernetes.io/arch=arm64 ",
    ]);
    all[1]["metadata"]["labels"]["kubernetes.io/os"] = json!("windows");
    let found = decide(&ArchitectureInputs {
        nodes: &read(all),
        placement: None,
        wanted: Override::default(),
    });
    assert_eq!(found.workload, counts(&[("arm64", 1)]));
}

#[test]
fn master_label_counts_as_control_plane() {
    let found = architectures_of(&["master arm64", "worker+control-plane amd64"], None);
    assert_eq!(found.control_plane, counts(&[("amd64", 1), ("arm64", 1)]));
    assert!(!found.is_single_node());
    assert!(architectures_of(&["master+worker arm64"], None).is_single_node());
}

#[test]
fn malformed_nodes_are_ignored() {
    let all = vec![
        json!({}),
        json!({ "status": {} }),
        json!({ "status": { "nodeInfo": {} } }),
    ];
    let found = decide(&ArchitectureInputs {
        nodes: &read(all),
        placement: Some(&json!("anywhere")),
        wanted: Override::default(),
    });
    assert_eq!(found.workload, Counts::new());
}

fn chosen(image: Option<&str>, cluster: Option<&str>, health: &[(&'static str, Health)]) -> Choice {
    choose(&Candidates {
        supported: &BTreeSet::from(["amd64", "arm64", "s390x"]),
        control_plane: &["amd64"],
        nodes: &counts(&[("arm64", 3), ("amd64", 1), ("s390x", 1)]),
        wanted: Override { image, cluster },
        health: &health.iter().copied().collect(),
    })
}

#[rstest]
#[case(Some("s390x"), Some("arm64"), "s390x", Why::ImagePolicy)]
#[case(None, Some("arm64"), "arm64", Why::ClusterPolicy)]
#[case(Some("riscv64"), Some("arm64"), "arm64", Why::ClusterPolicy)]
#[case(None, Some("riscv64"), "amd64", Why::ControlPlane)]
fn supported_policy_default_wins(
    #[case] image: Option<&str>,
    #[case] cluster: Option<&str>,
    #[case] expected: &str,
    #[case] why: Why,
) {
    let choice = chosen(image, cluster, &[]);
    assert_eq!(choice.architecture.as_deref(), Some(expected));
    assert_eq!(choice.why, why);
    let first = image.or(cluster);
    assert_eq!(
        choice.refused.as_deref(),
        first.filter(|name| *name == "riscv64")
    );
}

#[test]
fn failed_image_is_not_the_default() {
    let failed = ("amd64", Health::Failed);
    let choice = chosen(None, None, &[failed, ("s390x", Health::Ready)]);
    assert_eq!(choice.architecture.as_deref(), Some("s390x"));
    assert_eq!(choice.instead_of.as_deref(), Some("amd64"));
    // None is ready: a pending one is preferred.
    let choice = chosen(None, None, &[failed]);
    assert_eq!(choice.architecture.as_deref(), Some("arm64"));
    assert_eq!(choice.why, Why::MostNodes);
    // All failed: the pointer keeps the preferred architecture.
    let all = [failed, ("arm64", Health::Failed), ("s390x", Health::Failed)];
    let choice = chosen(None, None, &all);
    assert_eq!(choice.architecture.as_deref(), Some("amd64"));
    assert_eq!(choice.instead_of, None);
    // Pending is good enough, so that the default does not change while images are being imported.
    let choice = chosen(
        None,
        None,
        &[("amd64", Health::Pending), ("arm64", Health::Ready)],
    );
    assert_eq!(choice.architecture.as_deref(), Some("amd64"));
}
